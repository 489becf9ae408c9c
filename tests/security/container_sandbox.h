// A container sandbox over temporary directories, for tests of what holds inside a box.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "caisson/caisson.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {

inline OpenOptions container_options(const std::string& directory,
                                     std::map<std::string, std::string, std::less<>> settings = {}) {
  settings.try_emplace("CAISSON_ROOT", directory + "/root");
  settings.try_emplace("CAISSON_RUNTIME_DIR", directory + "/run");
  settings.try_emplace("CAISSON_INIT", CAISSON_INIT_PROGRAM);
  settings.try_emplace("CAISSON_CONTAINER_POOL_SIZE", "0");
  settings.try_emplace("CAISSON_CONTAINER_WORKSPACE_MB", "16");
  settings.try_emplace("CAISSON_CONTAINER_TMP_MB", "16");
  settings.try_emplace("CAISSON_CONTAINER_UPPER_MB", "16");
  settings.try_emplace("CAISSON_CONTAINER_SHM_MB", "16");
  OpenOptions options;
  options.policy = SandboxPolicy{Network::egress, Isolation::container, false, true};
  options.settings = [settings = std::move(settings)](std::string_view name) -> std::optional<std::string> {
    const auto at = settings.find(name);
    return at == settings.end() ? std::nullopt : std::optional(at->second);
  };
  return options;
}

inline SandboxSessionSpec container_spec(std::string key = "key") {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = std::move(key);
  spec.durability = Durability::ephemeral;
  spec.network = Network::none;
  spec.isolation = Isolation::container;
  spec.ttl_seconds = 600;
  return spec;
}

/// A session with the guest programs in its workspace, through the blocking facade.
class ContainerSandboxTest : public testing::Test {
 protected:
  /// What a command printed, without its last newline; it must succeed.
  static std::string run(blocking::Session& session, Argv argv) {
    const ExecResult result = session.exec(std::move(argv), ExecOptions(std::chrono::seconds(60)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::string text = result.out;
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  std::string run(Argv argv) { return run(session_, std::move(argv)); }
  static void put_guests(blocking::Session& session) {
    for (const char* name : {"guest_reach", "guest_exhaust"}) session.put_file_from(guest(name), name, 0755);
  }

  TemporaryDirectory directory_;
  blocking::Sandbox sandbox_ = blocking::open("container", container_options(directory_.path()));
  blocking::Session session_ = sandbox_.create_session(container_spec());
};

}  // namespace caisson::test
