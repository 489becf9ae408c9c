// Owners of containers killed at any moment (S-29): their boxes end with them, and the next one that opens
// leaves nothing but persistent workspaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "caisson/caisson.h"
#include "os/process.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/time_scale.h"

namespace caisson::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

class ContainerCrashTest : public testing::Test {
 protected:
  struct Rounds {
    os::Process process;
    os::Fd output;
  };
  Rounds start(int seed, int rounds) const {
    Command command(
        {CAISSON_CONTAINER_ROUNDS, directory_ / "root", directory_ / "run", std::to_string(seed),
         std::to_string(rounds)},
        // AddressSanitizer would keep what was freed, and stacks of functions that have returned.
        {"PATH=/usr/bin:/bin", "ASAN_OPTIONS=quarantine_size_mb=1:detect_stack_use_after_return=0"});
    auto pipe = os::make_pipe();
    os::SpawnPlan plan = command.plan();
    plan.descriptors[1] = pipe->write;
    return {os::spawn(plan).value(), std::move(pipe->read)};
  }
  // What is left of sessions, wherever that may be.
  std::vector<std::string> left() const {
    std::vector<std::string> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory_ / "run/sessions", none))
      all.push_back(entry.path());
    for (const auto& entry : fs::directory_iterator(directory_ / "root/ids", none)) {
      if (entry.path().extension() == ".lock") all.push_back(entry.path());
    }
    for (const auto& entry : fs::directory_iterator(directory_ / "root/volumes/.keys", none))
      all.push_back(entry.path());
    return all;
  }
  // Processes of boxes that were made under this root.
  static std::vector<std::string> processes_of(const std::vector<pid_t>& owners) {
    std::vector<std::string> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/proc", none)) {
      std::ifstream file(entry.path() / "cgroup");
      for (std::string line; std::getline(file, line);) {
        for (const pid_t owner : owners) {
          if (line.find("/boxes/" + std::to_string(owner) + "-") != std::string::npos)
            all.push_back(entry.path());
        }
      }
    }
    return all;
  }
  TemporaryDirectory directory_;
};

TEST_F(ContainerCrashTest, S29_OwnersKilledAtAnyMomentLeaveNothing) {
  constexpr int owners = 50;
  constexpr unsigned seed = 20261203;
  std::minstd_rand random(seed);
  std::vector<pid_t> numbers;
  std::size_t seen = 0;
  // Five at a time, on one root.
  for (int batch = 0; batch < owners / 5; ++batch) {
    std::vector<Rounds> running;
    for (int i = 0; i < 5; ++i) {
      running.push_back(start(batch * 5 + i, 100));
      numbers.push_back(running.back().process.pid());
    }
    for (Rounds& each : running) {
      EXPECT_THAT(read_until(each.output, "round "), HasSubstr("round"));
      seen = std::max(seen, processes_of(numbers).size());
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
      static_cast<void>(each.process.signal(SIGKILL));
      each.process.reap();
    }
  }
  EXPECT_TRUE(seen > 0 || writable_cgroup().empty()) << "the control: boxes are found while they live";
  // Without anybody's help.
  EXPECT_TRUE(eventually([&] { return processes_of(numbers).empty(); }, std::chrono::seconds(2)));

  Rounds next = start(1, 1);
  const std::string said = os::read_all(next.output, 1 << 20).value();
  next.process.reap();
  EXPECT_THAT(said, Not(HasSubstr("cannot")));
  EXPECT_THAT(left(), IsEmpty());
  for (const auto& entry : fs::directory_iterator(directory_ / "root/volumes")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == ".keys" || name.starts_with("key-")) << name;
  }
}

TEST_F(ContainerCrashTest, ManyRoundsGrowNothing) {
  Rounds rounds = start(7, 500);
  const std::string said = os::read_all(rounds.output, 1 << 20).value();
  rounds.process.reap();
  const auto grown = values_of(said, "grew");
  ASSERT_EQ(grown.size(), 1U) << said;
  EXPECT_LT(std::stoll(grown[0]), 8 << 20);
  EXPECT_THAT(values_of(said, "made"), ElementsAre("500"));
  EXPECT_THAT(values_of(said, "exit"), IsEmpty());
  EXPECT_THAT(left(), IsEmpty());
}

}  // namespace
}  // namespace caisson::test
