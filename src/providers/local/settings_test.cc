// Settings of the local provider (S-91).
#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>

#include "caisson/providers/local.h"
#include "os/fd.h"
#include "os/identity.h"
#include "os/self.h"
#include "providers/local/root_for_test.h"

namespace caisson::local {
namespace {

LocalSettings settings_from(std::map<std::string, std::string, std::less<>> values) {
  return LocalSettings::from(
      [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
        const auto at = values.find(name);
        return at == values.end() ? std::nullopt : std::optional(at->second);
      });
}

TEST(LocalSettingsTest, S91_Defaults) {
  const LocalSettings settings = settings_from({});
  const std::string home = os::home_directory().value();
  EXPECT_EQ(settings.root,
            os::is_root() ? "/var/lib/tai-sandbox-local" : home + "/.local/share/caisson/local");
  EXPECT_EQ(settings.base_path, "/usr/local/bin:/usr/bin:/bin");
  EXPECT_EQ(settings.dispatch.default_ttl_seconds, 3600);
  EXPECT_EQ(settings.dispatch.reap_interval_seconds, 300);
  EXPECT_EQ(settings.dispatch.exec_default_timeout_seconds, 300);
}

TEST(LocalSettingsTest, S91_TakesWhatIsSet) {
  const LocalSettings settings = settings_from({{"SANDBOX_LOCAL_ROOT", "/some/root"},
                                                {"SANDBOX_LOCAL_BASE_PATH", "/opt/bin"},
                                                {"SANDBOX_LOCAL_DEFAULT_TTL_SECONDS", "7"},
                                                {"SANDBOX_LOCAL_REAP_INTERVAL_SECONDS", "8"},
                                                {"SANDBOX_LOCAL_EXEC_DEFAULT_TIMEOUT_SECONDS", "9.5"}});
  EXPECT_EQ(settings.root, "/some/root");
  EXPECT_EQ(settings.base_path, "/opt/bin");
  EXPECT_EQ(settings.dispatch.default_ttl_seconds, 7);
  EXPECT_EQ(settings.dispatch.reap_interval_seconds, 8);
  EXPECT_EQ(settings.dispatch.exec_default_timeout_seconds, 9.5);
}

TEST(LocalSettingsTest, S91_AnOrdinaryUsersRootIsInTheirDataDirectory) {
  const auto root_as_nobody = [](const std::string& data) -> std::string {
    if (!os::is_root()) return settings_from({{"XDG_DATA_HOME", data}}).root;
    test::TemporaryDirectory directory;
    const std::string path = directory / "root";
    const os::Fd out = os::Fd::adopt(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
      try {
        static_cast<void>(os::write_all(out, settings_from({{"XDG_DATA_HOME", data}}).root));
      } catch (const SandboxError& error) {
        static_cast<void>(os::write_all(out, to_string(error.code())));
      }
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return text_of(path);
  };
  EXPECT_EQ(root_as_nobody("/data"), "/data/caisson/local");
  EXPECT_NE(root_as_nobody("data"), "data/caisson/local") << "a relative one is ignored";
}

TEST(LocalSettingsTest, S31_WhatMakesNoSenseIsAStartUpError) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"SANDBOX_LOCAL_ROOT", ""},
           {"SANDBOX_LOCAL_ROOT", "relative/root"},
           {"SANDBOX_LOCAL_ROOT", std::string("/a\0b", 4)},
           {"SANDBOX_LOCAL_BASE_PATH", ""},
           {"SANDBOX_LOCAL_DEFAULT_TTL_SECONDS", "soon"},
           {"SANDBOX_LOCAL_REAP_INTERVAL_SECONDS", "-1"},
           {"SANDBOX_LOCAL_EXEC_DEFAULT_TIMEOUT_SECONDS", "0"}}) {
    const auto error = error_of_call([&] { settings_from({{name, value}}); });
    ASSERT_TRUE(error) << name << "=" << value;
    EXPECT_EQ(error->code(), ErrorCode::bad_setting) << name << "=" << value;
    EXPECT_NE(std::string(error->what()).find(name), std::string::npos) << error->what();
  }
}

}  // namespace
}  // namespace caisson::local
