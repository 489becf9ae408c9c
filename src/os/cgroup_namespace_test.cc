// Tests of cgroup namespaces: where their roots are, and who may make them.
#include "os/cgroup_namespace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "os/cgroup.h"
#include "tests/support/cgroups.h"
#include "tests/support/forked.h"

namespace caisson::os {
namespace {

// The v2 line of /proc/self/cgroup.
std::string unified() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line;
  }
  return "none";
}

class CgroupNamespace : public test::CgroupTest {
 protected:
  void SetUp() override {
    test::CgroupTest::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "only root may make one in its own user namespace";
    path_ = test::writable_cgroup() + "/" + new_cgroup_name();
    ASSERT_EQ(::mkdir(path_.c_str(), 0755), 0);
    cgroup_ = Fd::adopt(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override {
    if (cgroup_) {
      EXPECT_TRUE(remove_cgroup_tree(path_, std::chrono::seconds(5)));
    }
  }
  std::string path_;
  Fd cgroup_;
};

TEST_F(CgroupNamespace, D5_IsRootedWhereItIsAskedFor) {
  const std::string said = test::in_child([&] {
    const auto descriptors = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const auto before = descriptors();
    const auto entered = enter_new_cgroup_namespace(cgroup_);
    if (!entered) return entered.error().text;
    return unified() + " " + std::to_string(descriptors() - before);
  });
  // We are above it, in the namespace as before.
  EXPECT_EQ(said, "0::/.. 0");
}

TEST_F(CgroupNamespace, D5_IsElseRootedWhereOneIs) {
  const std::string procs = path_ + "/cgroup.procs";
  const std::string said = test::in_child([&] {
    if (!test::write_text(procs, "0")) return std::string("joining");
    const std::string before = unified();
    const auto entered = enter_new_cgroup_namespace();
    return entered ? before + " " + unified() : entered.error().text;
  });
  EXPECT_EQ(said, "0::/" + path_.substr(path_.rfind('/') + 1) + " 0::/");
}

TEST_F(CgroupNamespace, WhoMayNotCloneIntoItGetsNone) {
  const std::string said = test::in_child([&] {
    if (::setresuid(54321, 54321, 54321) != 0) return std::string("ids");
    const auto into = enter_new_cgroup_namespace(cgroup_);
    const auto own = enter_new_cgroup_namespace();
    return into.has_value() || own.has_value() ? std::string("made")
                                               : into.error().text + "; " + own.error().text;
  });
  EXPECT_EQ(said, "a process in the cgroup: Permission denied; a cgroup namespace: Operation not permitted");
}

}  // namespace
}  // namespace caisson::os
