// Settings of the container provider (S-31, S-101, S-103).
#include "caisson/providers/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "caisson/contract/errors.h"
#include "os/identity.h"
#include "os/self.h"
#include "tests/support/forked.h"

namespace caisson::container {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

ContainerSettings settings_from(std::map<std::string, std::string, std::less<>> values) {
  return ContainerSettings::from(
      [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
        const auto at = values.find(name);
        return at == values.end() ? std::nullopt : std::optional(at->second);
      });
}

TEST(ContainerSettingsTest, S101_Defaults) {
  const ContainerSettings settings = settings_from({});
  if (os::is_root()) {
    EXPECT_EQ(settings.root, "/var/lib/caisson");
    EXPECT_EQ(settings.runtime_directory, "/run/caisson");
  }
  EXPECT_THAT(settings.init_program, StartsWith("/"));
  EXPECT_THAT(settings.init_program, EndsWith("/caisson-init"));
  EXPECT_EQ(settings.uid_base, 524288U);
  EXPECT_EQ(settings.uids_per_box, 1024U);
  EXPECT_EQ(settings.pool_size, 2U);
  EXPECT_FALSE(settings.unbounded_disk);
  EXPECT_TRUE(settings.capabilities);
  EXPECT_EQ(settings.upper_bytes, 1073741824U);
  EXPECT_EQ(settings.workspace_bytes, 1073741824U);
  EXPECT_EQ(settings.tmp_bytes, 268435456U);
  EXPECT_EQ(settings.shm_bytes, 67108864U);
  EXPECT_EQ(settings.pids, 1024U);
  EXPECT_EQ(settings.dispatch.default_ttl_seconds, 3600);
}

TEST(ContainerSettingsTest, S31_TakesWhatIsSet) {
  const ContainerSettings settings = settings_from({{"CAISSON_ROOT", "/some/root"},
                                                    {"CAISSON_RUNTIME_DIR", "/some/run"},
                                                    {"CAISSON_INIT", "/some/init"},
                                                    {"CAISSON_CONTAINER_UID_BASE", "1000000"},
                                                    {"CAISSON_CONTAINER_UIDS_PER_BOX", "256"},
                                                    {"CAISSON_CONTAINER_POOL_SIZE", "0"},
                                                    {"CAISSON_CONTAINER_UNBOUNDED_DISK", "1"},
                                                    {"CAISSON_CONTAINER_CAPABILITIES", "none"},
                                                    {"CAISSON_CONTAINER_UPPER_MB", "2"},
                                                    {"CAISSON_CONTAINER_WORKSPACE_MB", "3"},
                                                    {"CAISSON_CONTAINER_TMP_MB", "4"},
                                                    {"CAISSON_CONTAINER_SHM_MB", "5"},
                                                    {"CAISSON_CONTAINER_PIDS", "6"},
                                                    {"CAISSON_CONTAINER_DEFAULT_TTL_SECONDS", "7"}});
  EXPECT_EQ(settings.root, "/some/root");
  EXPECT_EQ(settings.runtime_directory, "/some/run");
  EXPECT_EQ(settings.init_program, "/some/init");
  EXPECT_EQ(settings.uid_base, 1000000U);
  EXPECT_EQ(settings.uids_per_box, 256U);
  EXPECT_EQ(settings.pool_size, 0U);
  EXPECT_TRUE(settings.unbounded_disk);
  EXPECT_FALSE(settings.capabilities);
  EXPECT_EQ(settings.upper_bytes, 2U << 20U);
  EXPECT_EQ(settings.workspace_bytes, 3U << 20U);
  EXPECT_EQ(settings.tmp_bytes, 4U << 20U);
  EXPECT_EQ(settings.shm_bytes, 5U << 20U);
  EXPECT_EQ(settings.pids, 6U);
  EXPECT_EQ(settings.dispatch.default_ttl_seconds, 7);
}

// The two directories of an ordinary user, a line each.
std::string directories_of_a_user(const std::map<std::string, std::string, std::less<>>& values) {
  return test::in_child([&values] {
    if (os::is_root() && ::setresuid(54321, 54321, 54321) != 0) return std::string("ids");
    try {
      const ContainerSettings settings = settings_from(values);
      return settings.root + "\n" + settings.runtime_directory;
    } catch (const SandboxError& error) {
      return error.field();
    }
  });
}

TEST(ContainerSettingsTest, AnOrdinaryUsersDirectoriesAreTheirOwn) {
  EXPECT_EQ(directories_of_a_user({{"XDG_DATA_HOME", "/data"}, {"XDG_RUNTIME_DIR", "/run/user/1"}}),
            "/data/caisson\n/run/user/1/caisson");
  const std::string user = std::to_string(os::is_root() ? 54321 : ::geteuid());
  EXPECT_EQ(directories_of_a_user({{"XDG_DATA_HOME", "/data"}, {"XDG_RUNTIME_DIR", "run"}}),
            "/data/caisson\n/tmp/caisson-" + user)
      << "a relative one is ignored";
  EXPECT_EQ(directories_of_a_user({{"XDG_DATA_HOME", "/data"}, {"TMPDIR", "/other"}}),
            "/data/caisson\n/other/caisson-" + user);
  if (!os::is_root()) return;
  EXPECT_EQ(directories_of_a_user({}), "CAISSON_ROOT") << "nobody's home: this user has none";
}

TEST(ContainerSettingsTest, S31_WhatMakesNoSenseIsAStartUpError) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"CAISSON_ROOT", ""},
                                                        {"CAISSON_ROOT", "relative"},
                                                        {"CAISSON_RUNTIME_DIR", "relative"},
                                                        {"CAISSON_RUNTIME_DIR", std::string("/a\0b", 4)},
                                                        {"CAISSON_INIT", "caisson-init"},
                                                        {"CAISSON_CONTAINER_UID_BASE", "0"},
                                                        {"CAISSON_CONTAINER_UID_BASE", "4294967295"},
                                                        {"CAISSON_CONTAINER_UIDS_PER_BOX", "1"},
                                                        {"CAISSON_CONTAINER_POOL_SIZE", "-1"},
                                                        {"CAISSON_CONTAINER_UNBOUNDED_DISK", "perhaps"},
                                                        {"CAISSON_CONTAINER_CAPABILITIES", "all"},
                                                        {"CAISSON_CONTAINER_UPPER_MB", "0"},
                                                        {"CAISSON_CONTAINER_WORKSPACE_MB", "1G"},
                                                        {"CAISSON_CONTAINER_TMP_MB", "1.5"},
                                                        {"CAISSON_CONTAINER_SHM_MB", "99999999999"},
                                                        {"CAISSON_CONTAINER_PIDS", "0"},
                                                        {"CAISSON_CONTAINER_REAP_INTERVAL_SECONDS", "-1"}}) {
    try {
      settings_from({{name, value}});
      ADD_FAILURE() << name << "=" << value << " was taken";
    } catch (const SandboxError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_setting) << name << "=" << value;
      EXPECT_EQ(error.field(), name);
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
  }
}

}  // namespace
}  // namespace caisson::container
