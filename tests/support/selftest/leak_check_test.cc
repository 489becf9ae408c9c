// Sees the leak check fail a program that leaks, naming what, and pass one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/support/cgroups.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code;
  std::string output;
};

// Runs one test of caisson_leaky, which lies beside this program.
Outcome run_leaky(const std::string& test, const std::string& environment = "") {
  const TemporaryDirectory directory;  // For what the program leaves in its own.
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/caisson_leaky";
  const std::string command = "TMPDIR='" + directory.path() + "' ASAN_OPTIONS=detect_leaks=0 " + environment +
                              " '" + program + "' --gtest_filter='" + test + "' 2>&1";
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

TEST(LeakCheck, PassesATestThatLeavesNothing) {
  const Outcome run = run_leaky("Leaky.Nothing");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("[  PASSED  ] 1 test"));
}

TEST(LeakCheck, NamesADescriptor) {
  const Outcome run = run_leaky("Leaky.Descriptor");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("the test left behind:\n  descriptor [0-9]+ -> /dev/null"));
}

TEST(LeakCheck, AllowsADescriptorThatIsOpenedForGoodOnce) {
  EXPECT_EQ(run_leaky("Leaky.DescriptorOpenedForGood").exit_code, 0);
  const Outcome run = run_leaky("Leaky.DescriptorOpenedForGoodTwice");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("-> /dev/urandom"));
}

TEST(LeakCheck, NamesAThread) {
  const Outcome run = run_leaky("Leaky.Thread");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("thread [0-9]+ \\(caisson_leaky\\)"));
}

TEST(LeakCheck, NamesAChild) {
  const Outcome run = run_leaky("Leaky.Child");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("child process [0-9]+ \\(caisson_leaky\\)"));
}

TEST(LeakCheck, NamesAChildThatNobodyReaped) {
  const Outcome run = run_leaky("Leaky.Zombie");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("child process [0-9]+ \\(caisson_leaky\\)"));
}

TEST(LeakCheck, NamesAnOrphanAtWorkInATemporaryDirectory) {
  const Outcome run = run_leaky("Leaky.StrayProcess");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output,
              ContainsRegex("process [0-9]+ \\(caisson_leaky\\) at work in a temporary directory"));
}

TEST(LeakCheck, NamesATemporaryFile) {
  const Outcome run = run_leaky("Leaky.TemporaryFile");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("temporary file .*/caisson-test-[0-9]+/left"));
}

// The first mounted cgroup hierarchy in which this process may make a cgroup.
TEST(LeakCheck, NamesACgroup) {
  const std::string mount = writable_cgroup();
  if (mount.empty()) GTEST_SKIP() << "no cgroup can be made here";
  const std::string own = mount + "/" + std::to_string(::getpid()) + "-leak-check";
  std::filesystem::create_directory(own);
  const Outcome run = run_leaky("Leaky.Cgroup", "LEAKY_CGROUP='" + own + "'");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("cgroup " + own + "/[0-9]+-left"));
  for (const auto& entry : std::filesystem::directory_iterator(own)) {
    if (entry.is_directory()) {
      ::rmdir(entry.path().c_str());
    }
  }
  EXPECT_EQ(::rmdir(own.c_str()), 0);
}

TEST(LeakCheck, NamesAMount) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "an ordinary user cannot mount";
  }
  const Outcome run = run_leaky("Leaky.Mount");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("tmpfs mount at /mnt"));
}

TEST(LeakCheck, NamesANetworkInterface) {
  const Outcome run = run_leaky("LeakyNamespace.Interface");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("network interface veth0"));
}

TEST(LeakCheck, NamesWhatASuiteLeaves) {
  const Outcome run = run_leaky("LeakySuite.*");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, ContainsRegex("the test suite left behind:\n  descriptor [0-9]+ -> /dev/null"));
  EXPECT_THAT(run.output, Not(HasSubstr("the test left behind")));
}

TEST(LeakCheck, NamesEachThingOnce) {
  const Outcome run = run_leaky("Leaky.Descriptor");
  EXPECT_THAT(run.output, Not(HasSubstr("the test suite left behind")));
}

}  // namespace
}  // namespace caisson::test
