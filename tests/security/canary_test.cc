// S-6: a canary in the environment is found nowhere but in the command's own environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "caisson/contract/json.h"
#include "tests/security/local_sandbox.h"
#include "tests/support/guests.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// In parts, so that this program's own file and memory do not count as a find; and this process's own, since
// the test of the other way may run beside it.
std::string canary(const char* which) { return "CANARY-" + std::to_string(::getpid()) + "-" + which; }

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(1 << 20, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

class CanaryTest : public testing::TestWithParam<kit::TreeKill> {
 protected:
  void look_at(const std::string& text) { seen_ += text + "\n"; }
  // Every file of the root, and the command line and environment of every process but `exempt`.
  void look_around(const std::string& exempt) {
    for (const auto& entry : fs::recursive_directory_iterator(root_.path())) {
      look_at(entry.path().string());
      if (entry.is_regular_file()) look_at(slurp(entry.path()));
    }
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      look_at(slurp(entry.path() / "cmdline"));
      if (name != exempt) look_at(slurp(entry.path() / "environ"));
    }
  }
  TemporaryDirectory root_;
  std::string seen_;
};

TEST_P(CanaryTest, S6FoundNowhereButInTheCommandsOwnEnvironment) {
  std::mutex mutex;
  std::string logged;
  auto options = local_options(root_.path(), GetParam());
  options.log = [&](kit::LogLevel, const std::string& line) {
    const std::lock_guard lock(mutex);
    logged += line + "\n";
  };
  {
    auto sandbox = blocking::open("local", options);
    auto spec = local_spec();
    spec.env["SPEC_SECRET"] = canary("spec");
    auto session = sandbox.create_session(std::move(spec));
    auto call = [] { return ExecOptions(20s).env("CALL_SECRET", canary("call")); };

    // The control: the command itself has both, in its environment.
    const auto result = session.exec({"sh", "-c", "echo $SPEC_SECRET $CALL_SECRET"}, call());
    EXPECT_EQ(result.out, canary("spec") + " " + canary("call") + "\n");

    auto running = session.exec_start({"sh", "-c", "echo $$; read line"}, call());
    const auto first = running.output().next();
    std::string pid = std::get<SandboxStreamChunk>(first.value()).data;
    pid.pop_back();
    EXPECT_THAT(slurp("/proc/" + pid + "/environ"), testing::HasSubstr(canary("call")));
    look_around(pid);
    look_at(boost::json::serialize(to_json(session.info())));

    // Errors of every kind.
    const auto attempt = [&](auto&& act) {
      try {
        act();
        ADD_FAILURE() << "it did not fail";
      } catch (const SandboxError& error) {
        look_at(error.what());
        look_at(boost::json::serialize(to_json(error)));
      }
    };
    attempt([&] { session.exec({"no-such"}, call()); });
    attempt([&] { session.exec({"true"}, call().cwd("missing")); });
    attempt([&] { session.exec({"sleep", "9"}, ExecOptions(50ms).env("CALL_SECRET", canary("call"))); });
    attempt([&] { session.exec({"true"}, call().env("BAD=NAME", canary("call"))); });
    attempt([&] { session.exec({"true"}, call().env("NUL", canary("call") + std::string("\0x", 2))); });
    attempt([&] {
      session.exec({"sh", "-c", "yes"}, ExecOptions(100ms).output_cap(1).env("X", canary("call")));
    });
    attempt([&] {
      auto refused = local_spec();
      refused.env["SPEC_SECRET"] = canary("spec");
      refused.cpu = 1;
      sandbox.create_session(std::move(refused));
    });
    running.kill();
    look_around("");
  }
  look_around("");
  look_at(logged);
  EXPECT_EQ(seen_.find(canary("spec")), std::string::npos);
  EXPECT_EQ(seen_.find(canary("call")), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(BothWays, CanaryTest, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
