// The cgroups of a box, made by hand, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "init/box_plan.h"
#include "os/cgroup.h"
#include "os/mount.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"

namespace caisson::init {

/// `<mount>/<name>` with `init` and `execs/<leaf>` in it, whose cgroup.procs belong to init.
class CgroupTree {
 public:
  explicit CgroupTree(uid_t init)
      : name_(os::new_cgroup_name()), path_(test::writable_cgroup() + "/" + name_) {
    add(path_, init);
    add(path_ + "/init", 0);
    add(path_ + "/execs", 0);
    add(path_ + "/execs/leaf", init);
    init_ = os::Fd::adopt(::open((path_ + "/init").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  ~CgroupTree() { EXPECT_TRUE(os::remove_cgroup_tree(path_, std::chrono::seconds(5))); }
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  /// One more, whose cgroup.procs belongs to `owner`.
  static void add(const std::string& path, uid_t owner) {
    EXPECT_EQ(::mkdir(path.c_str(), 0755), 0) << path;
    EXPECT_EQ(::chown((path + "/cgroup.procs").c_str(), owner, owner), 0) << path;
  }
  const std::string& name() const noexcept { return name_; }
  const std::string& path() const noexcept { return path_; }
  os::FdRef init_leaf() const noexcept { return init_; }
  os::Fd mount() const { return os::clone_tree(path_, false).value(); }

 private:
  std::string name_;
  std::string path_;
  os::Fd init_;
};

/// A cgroup of a v1 hierarchy.
class V1Cgroup {
 public:
  /// Where there is no hierarchy of the controller, none is made.
  explicit V1Cgroup(const std::string& controller)
      : path_("/sys/fs/cgroup/" + controller + "/" + os::new_cgroup_name()) {
    if (::mkdir(path_.c_str(), 0755) != 0) path_.clear();
  }
  V1Cgroup(const V1Cgroup& parent, const std::string& name) : path_(parent.path_ + "/" + name) {
    EXPECT_EQ(::mkdir(path_.c_str(), 0755), 0) << path_;
  }
  ~V1Cgroup() {
    if (path_.empty()) return;
    EXPECT_TRUE(test::eventually([this] { return ::rmdir(path_.c_str()) == 0; })) << path_;
  }
  V1Cgroup(const V1Cgroup&) = delete;
  V1Cgroup& operator=(const V1Cgroup&) = delete;

  const std::string& path() const noexcept { return path_; }
  os::Fd tasks() const { return os::Fd::adopt(::open((path_ + "/tasks").c_str(), O_WRONLY | O_CLOEXEC)); }

 private:
  std::string path_;
};

}  // namespace caisson::init
