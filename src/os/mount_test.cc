// Tests of mounts: each attribute and limit beside what happens without it, and what the kernel says.
#include "os/mount.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/beneath.h"
#include "os/files.h"
#include "os/probe.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using test::in_child;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr std::uint64_t mebibyte = 1 << 20;

// What a write of a small file there answers, as text.
std::string writing(const std::string& path) {
  const Fd file = Fd::adopt(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
  if (!file) return std::strerror(errno);
  const auto wrote = write_all(file, "text");
  return wrote ? "fine" : wrote.error().message();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class T>
std::string outcome_of(const ExplainedResult<T>& result) {
  return result ? "fine" : result.error().text;
}

unsigned long flags_at(const std::string& path) {
  struct statvfs is{};
  ::statvfs(path.c_str(), &is);
  return is.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);
}

// A directory to mount on, with what is mounted there gone at the end.
class Mount : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root may mount outside a user namespace";
  }
  void TearDown() override {
    for (const std::string& path : mounted_) ::umount2(path.c_str(), MNT_DETACH);
  }
  std::string directory(const std::string& name) {
    fs::create_directories(temporary_ / name);
    return temporary_ / name;
  }
  // At a directory made for it.
  std::string put(FdRef mount, const std::string& name) {
    const std::string path = directory(name);
    const auto done = attach(mount, {}, path);
    EXPECT_TRUE(done) << done.error().text;
    mounted_.insert(mounted_.begin(), path);
    return path;
  }
  std::string tmpfs(const std::string& name) { return put(new_tmpfs(mebibyte, 64, 0755).value(), name); }
  test::TemporaryDirectory temporary_;
  std::vector<std::string> mounted_;
};

TEST_F(Mount, TmpfsHasItsSizeItsInodesAndItsMode) {
  auto mount = new_tmpfs(64 << 10, 4, 01777);
  ASSERT_TRUE(mount) << mount.error().text;
  EXPECT_EQ(::fcntl(mount->number(), F_GETFD), FD_CLOEXEC);
  const std::string path = put(*mount, "t");
  EXPECT_EQ(flags_at(path), ST_NOSUID | ST_NODEV);
  struct stat is{};
  ::stat(path.c_str(), &is);
  EXPECT_EQ(is.st_mode, mode_t{S_IFDIR | 01777});
  const Fd file = Fd::adopt(::open((path + "/big").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  EXPECT_TRUE(write_all(file, std::string(32 << 10, 'x')));
  EXPECT_EQ(write_all(file, std::string(64 << 10, 'x')).error(), error_of(ENOSPC));
  ASSERT_EQ(::ftruncate(file.number(), 0), 0);
  // The root and this file are two of the four.
  EXPECT_EQ(writing(path + "/three"), "fine");
  EXPECT_EQ(writing(path + "/four"), "fine");
  EXPECT_EQ(writing(path + "/five"), std::strerror(ENOSPC));
}

TEST_F(Mount, TmpfsWithoutALimitIsRefused) {
  EXPECT_EQ(new_tmpfs(0, 1, 0755).error().number, EINVAL);
  EXPECT_EQ(new_tmpfs(1, 0, 0755).error().number, EINVAL);
}

TEST_F(Mount, DetachedMountIsGoneWithItsDescriptor) {
  std::string named;
  {
    auto mount = new_tmpfs(mebibyte, 64, 0755);
    ASSERT_TRUE(mount);
    const Fd file = Fd::adopt(::openat(mount->number(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    EXPECT_TRUE(file);
  }
  EXPECT_TRUE(detach(tmpfs("t")));
  EXPECT_EQ(detach(temporary_ / "t").error().number, EINVAL);
}

TEST_F(Mount, CloneIsOfTheDirectoryAloneOrOfTheTree) {
  const std::string from = tmpfs("from");
  fs::create_directories(from + "/sub/deep");
  put(new_tmpfs(mebibyte, 64, 0755).value(), "from/sub/deep");
  std::ofstream(from + "/sub/deep/inner") << "inner";
  std::ofstream(from + "/sub/outer") << "outer";
  auto alone = clone_tree(from + "/sub", false);
  auto tree = clone_tree(from + "/sub", true);
  ASSERT_TRUE(alone) << alone.error().text;
  ASSERT_TRUE(tree) << tree.error().text;
  EXPECT_EQ(::fcntl(tree->number(), F_GETFD), FD_CLOEXEC);
  const std::string at_alone = put(*alone, "alone");
  const std::string at_tree = put(*tree, "tree");
  EXPECT_EQ(text_of(at_alone + "/outer"), "outer");
  EXPECT_EQ(text_of(at_alone + "/deep/inner"), "");
  EXPECT_EQ(text_of(at_tree + "/deep/inner"), "inner");
  // A file is a tree of its own.
  auto file = clone_tree(from + "/sub/outer", false);
  ASSERT_TRUE(file) << file.error().text;
  std::ofstream(temporary_ / "file") << "beneath";
  ASSERT_TRUE(attach(*file, {}, temporary_ / "file"));
  EXPECT_EQ(text_of(temporary_ / "file"), "outer");
  ASSERT_TRUE(detach(temporary_ / "file"));
  const auto missing = clone_tree(from + "/missing", true);
  EXPECT_EQ(missing.error().number, ENOENT);
  EXPECT_THAT(missing.error().text, HasSubstr(from + "/missing: No such file"));
}

TEST_F(Mount, AttributesAreSetOnOneMountOrOnAllBeneath) {
  const std::string from = tmpfs("from");
  put(new_tmpfs(mebibyte, 64, 0755).value(), "from/sub");
  std::ofstream(from + "/program") << "#!/bin/sh\n";
  ::chmod((from + "/program").c_str(), 0755);
  auto alone = clone_tree(from, true);
  auto tree = clone_tree(from, true);
  const MountAttributes all{.read_only = true, .nosuid = true, .nodev = true, .noexec = true};
  ASSERT_TRUE(set_attributes(*alone, all, false));
  ASSERT_TRUE(set_attributes(*tree, all, true));
  const std::string at_alone = put(*alone, "alone");
  const std::string at_tree = put(*tree, "tree");
  EXPECT_EQ(writing(from + "/f"), "fine");
  EXPECT_EQ(writing(at_alone + "/f"), std::strerror(EROFS));
  EXPECT_EQ(writing(at_alone + "/sub/f"), "fine");
  EXPECT_EQ(writing(at_tree + "/sub/f"), std::strerror(EROFS));
  EXPECT_EQ(flags_at(at_tree + "/sub"), ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);
  EXPECT_EQ(::access((from + "/program").c_str(), X_OK), 0);
  EXPECT_NE(::access((at_tree + "/program").c_str(), X_OK), 0);
  // An attached one changes by a descriptor of its root.
  const Fd root = open_directory(from).value();
  ASSERT_TRUE(set_attributes(root, {.read_only = true}, false));
  EXPECT_EQ(writing(from + "/f"), std::strerror(EROFS));
  // A directory that is no mount's root has none.
  const Fd plain = open_directory(temporary_.path()).value();
  EXPECT_EQ(set_attributes(plain, {.read_only = true}, false).error().number, EINVAL);
}

TEST_F(Mount, PrivateMountsKeepWhatIsMountedInThem) {
  const std::string from = tmpfs("from");
  fs::create_directories(from + "/sub");
  ASSERT_EQ(::mount(nullptr, from.c_str(), nullptr, MS_SHARED, nullptr), 0);
  auto peer = clone_tree(from, false);
  auto apart = clone_tree(from, false);
  ASSERT_TRUE(set_attributes(*apart, {.private_propagation = true}, false));
  const std::string at_peer = put(*peer, "peer");
  const std::string at_apart = put(*apart, "apart");
  const std::string inner = put(new_tmpfs(mebibyte, 64, 0755).value(), "from/sub");
  std::ofstream(inner + "/f") << "seen";
  EXPECT_EQ(text_of(at_peer + "/sub/f"), "seen");
  EXPECT_EQ(text_of(at_apart + "/sub/f"), "");
  ASSERT_TRUE(detach(inner));
}

TEST_F(Mount, PlaceIsFoundWithinTheRoot) {
  const std::string root = tmpfs("root");
  fs::create_directories(root + "/etc/ssl");
  ::symlink("/etc", (root + "/link").c_str());
  ::symlink("../../../../etc", (root + "/up").c_str());
  ::symlink("etc", (root + "/last").c_str());
  const Fd directory = open_directory(root).value();
  for (const std::string path : {"link/ssl", "up/ssl", "/etc/ssl"}) {
    auto mount = new_tmpfs(mebibyte, 64, 0755);
    ASSERT_EQ(outcome_of(attach(*mount, directory, path)), "fine") << path;
    ASSERT_TRUE(detach(root + "/etc/ssl")) << path;
  }
  auto mount = new_tmpfs(mebibyte, 64, 0755);
  const auto refused = attach(*mount, directory, "last");
  EXPECT_EQ(refused.error().number, ELOOP);
  EXPECT_THAT(refused.error().text, HasSubstr("mounting at last"));
  EXPECT_EQ(attach(*mount, directory, "missing").error().number, ENOENT);
  // The descriptor itself.
  ASSERT_TRUE(attach(*mount, open_directory(root + "/etc").value(), ""));
  EXPECT_FALSE(fs::exists(root + "/etc/ssl"));
  ASSERT_TRUE(detach(root + "/etc"));
  EXPECT_TRUE(fs::exists(root + "/etc/ssl"));
}

// --- file systems of the kernel
// -----------------------------------------------------------------------------------

TEST_F(Mount, ProcIsOfTheCallersPidNamespace) {
  const std::string path = directory("proc");
  const std::string self = in_child(
      [&] {
        auto mount = new_proc();
        if (!mount) return mount.error().text;
        if (auto done = attach(*mount, {}, path); !done) return done.error().text;
        return fs::read_symlink(path + "/self").string() + " " + std::to_string(flags_at(path));
      },
      CLONE_NEWPID | CLONE_NEWNS);
  EXPECT_EQ(self, "1 " + std::to_string(ST_NOSUID | ST_NODEV | ST_NOEXEC));
}

// D-5: what a box inside a container without `systempaths=unconfined` meets, in the kernel's words.
TEST_F(Mount, ProcIsRefusedWhereTheOneInSightIsCovered) {
  const auto try_it = [](bool cover) {
    return in_child(
        [cover] {
          if (cover && ::mount("tmpfs", "/proc/sys", "tmpfs", 0, nullptr) != 0)
            return std::string("no cover");
          return in_child([] { return outcome_of(new_proc()); }, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);
        },
        CLONE_NEWNS);
  };
  EXPECT_EQ(try_it(false), "fine");
  EXPECT_THAT(try_it(true), HasSubstr("creating proc: "));
}

TEST_F(Mount, SysfsIsReadOnly) {
  const std::string path = put(new_sysfs().value(), "sys");
  EXPECT_TRUE(fs::exists(path + "/kernel"));
  EXPECT_EQ(flags_at(path), ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);
}

TEST_F(Mount, DevptsHasItsOwnTerminals) {
  auto mount = new_devpts(gid_t{5});
  ASSERT_TRUE(mount) << mount.error().text;
  const std::string path = put(*mount, "pts");
  EXPECT_EQ(flags_at(path), ST_NOSUID | ST_NOEXEC);
  EXPECT_FALSE(fs::exists(path + "/0"));
  const Fd master = Fd::adopt(::open((path + "/ptmx").c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(master);
  struct stat is{};
  ASSERT_EQ(::stat((path + "/0").c_str(), &is), 0);
  EXPECT_EQ(is.st_gid, 5U);
  EXPECT_EQ(is.st_mode, mode_t{S_IFCHR | 0620});
  ASSERT_EQ(::stat((path + "/ptmx").c_str(), &is), 0);
  EXPECT_EQ(is.st_mode, mode_t{S_IFCHR | 0666});
}

TEST_F(Mount, FailureHasTheKernelsWords) {
  const auto mount = new_devpts(static_cast<gid_t>(-1));
  EXPECT_EQ(mount.error().number, EINVAL);
  EXPECT_THAT(mount.error().text, HasSubstr("creating devpts with gid=4294967295: "));
  // Older devpts says nothing.
  if (parse_kernel_version(kernel_release()) < KernelVersion{6, 15}) return;
  EXPECT_THAT(mount.error().text, HasSubstr(": devpts: Invalid gid '4294967295'"));
  EXPECT_THAT(mount.error().text, Not(HasSubstr("\n")));
}

// --- overlays
// -----------------------------------------------------------------------------------------------------

class Overlay : public Mount {
 protected:
  void SetUp() override {
    Mount::SetUp();
    if (IsSkipped()) return;
    base_ = tmpfs("base");
    for (const char* name : {"/a/dir", "/b/dir", "/u", "/w"}) fs::create_directories(base_ + name);
    std::ofstream(base_ + "/a/dir/f") << "from a";
    std::ofstream(base_ + "/b/dir/f") << "from b";
    std::ofstream(base_ + "/b/dir/only") << "only b";
  }
  std::string base_;
};

TEST_F(Overlay, FirstLowerIsOnTopAndTheUpperTakesWrites) {
  const std::string lowers[] = {base_ + "/a", base_ + "/b"};
  auto mount = new_overlay({.lowers = lowers, .upper = base_ + "/u", .work = base_ + "/w"});
  ASSERT_TRUE(mount) << mount.error().text;
  const std::string path = put(*mount, "merged");
  EXPECT_EQ(text_of(path + "/dir/f"), "from a");
  EXPECT_EQ(text_of(path + "/dir/only"), "only b");
  EXPECT_EQ(writing(path + "/dir/new"), "fine");
  EXPECT_TRUE(fs::exists(base_ + "/u/dir/new"));
  EXPECT_FALSE(fs::exists(base_ + "/a/dir/new"));
  auto read_only = new_overlay({.lowers = lowers});
  ASSERT_TRUE(read_only) << read_only.error().text;
  EXPECT_EQ(writing(put(*read_only, "read_only") + "/dir/new"), std::strerror(EROFS));
}

TEST_F(Overlay, ManyLayersFitByShortNames) {
  const std::string letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::vector<std::string> lowers;
  const std::string few = tmpfs("few");
  ASSERT_EQ(in_child([&] {
              if (::chdir(few.c_str()) != 0) return std::string("chdir");
              for (char letter : letters.substr(0, 60)) {
                lowers.emplace_back(1, letter);
                fs::create_directories(lowers.back());
              }
              auto mount = new_overlay({.lowers = lowers});
              return outcome_of(mount);
            }),
            "fine");
}

TEST_F(Overlay, LongListOfLayersTakesANewKernel) {
  std::vector<std::string> lowers;
  for (int i = 0; i < 10; ++i) {
    lowers.push_back(base_ + "/" + std::string(40, static_cast<char>('a' + i)));
    fs::create_directories(lowers.back());
  }
  const auto mount = new_overlay({.lowers = lowers});
  if (parse_kernel_version(kernel_release()) < KernelVersion{6, 8}) {
    EXPECT_FALSE(mount);
  } else {
    EXPECT_EQ(outcome_of(mount), "fine");
  }
}

TEST_F(Overlay, FailureNamesWhatItWas) {
  const std::string lowers[] = {base_ + "/missing"};
  const auto missing = new_overlay({.lowers = lowers, .upper = base_ + "/u", .work = base_ + "/w"});
  EXPECT_EQ(missing.error().number, ENOENT);
  EXPECT_THAT(missing.error().text, HasSubstr("creating overlay"));
  const std::string fine[] = {base_ + "/a"};
  const auto no_upper = new_overlay({.lowers = fine, .upper = base_ + "/nowhere", .work = base_ + "/w"});
  EXPECT_EQ(no_upper.error().number, ENOENT);
  for (const char* name : {"/x:y", "/x,y", "/x\\y"}) {
    const std::string odd[] = {base_ + name};
    fs::create_directories(odd[0]);
    EXPECT_EQ(new_overlay({.lowers = odd}).error().number, EINVAL) << name;
  }
  const std::string too_long[] = {"/" + std::string(300, 'x')};
  EXPECT_EQ(new_overlay({.lowers = too_long}).error().number, ENAMETOOLONG);
}

// D-5: in a user namespace a lower directory can only be removed where the overlay keeps its marks in user.*.
TEST_F(Overlay, UserNamespaceNeedsUserXattrs) {
  if (parse_kernel_version(kernel_release()) < KernelVersion{6, 6}) {
    GTEST_SKIP() << "a tmpfs has user xattrs from Linux 6.6";
  }
  const std::string merged = directory("merged");
  const auto remove_a_directory = [&](bool userxattr) {
    return in_child(
        [&] {
          const std::string lowers[] = {base_ + "/a"};
          auto mount = new_overlay(
              {.lowers = lowers, .upper = base_ + "/u", .work = base_ + "/w", .userxattr = userxattr});
          if (!mount) return mount.error().text;
          if (auto done = attach(*mount, {}, merged); !done) return done.error().text;
          ::unlink((merged + "/dir/f").c_str());
          // Made again, a directory must hide the one below.
          if (::rmdir((merged + "/dir").c_str()) != 0) return std::string("rmdir: ") + std::strerror(errno);
          if (::mkdir((merged + "/dir").c_str(), 0755) != 0)
            return std::string("mkdir: ") + std::strerror(errno);
          return std::string("fine");
        },
        CLONE_NEWUSER | CLONE_NEWNS);
  };
  EXPECT_THAT(remove_a_directory(false), HasSubstr(std::strerror(EIO)));
  EXPECT_EQ(remove_a_directory(true), "fine");
}

// --- the root
// -----------------------------------------------------------------------------------------------------

TEST_F(Mount, PivotLeavesNothingOfTheOldRoot) {
  const std::string place = directory("place");
  const std::string seen = in_child(
      [&] {
        auto root = new_tmpfs(mebibyte, 64, 0755);
        if (!root) return root.error().text;
        if (auto done = attach(*root, {}, place); !done) return done.error().text;
        fs::create_directories(place + "/proc");
        if (auto done = attach(new_proc().value(), *root, "proc"); !done) return done.error().text;
        std::string text = fs::exists("/etc/passwd") ? "before " : "nothing before ";
        if (auto done = pivot_into(*root); !done) return done.error().text;
        text += fs::exists("/etc/passwd") ? "after " : "gone ";
        text += fs::current_path().string();
        std::ifstream mounts("/proc/self/mountinfo");
        for (std::string line; std::getline(mounts, line);) {
          std::istringstream fields(line);
          std::string field;
          for (int i = 0; i < 5; ++i) fields >> field;
          text += " " + field;
        }
        for (const auto& entry : fs::directory_iterator("/..")) text += " " + entry.path().string();
        return text;
      },
      CLONE_NEWNS);
  EXPECT_EQ(seen, "before gone / / /proc /../proc");
  // Ours is as it was.
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

TEST_F(Mount, PivotIntoAPlainDirectoryIsAnError) {
  const std::string place = directory("place");
  const std::string said = in_child(
      [&] {
        const auto done = pivot_into(open_directory(place).value());
        return done ? std::string("fine") : done.error().text;
      },
      CLONE_NEWNS);
  EXPECT_THAT(said, HasSubstr("changing the root: Device or resource busy"));
}

}  // namespace
}  // namespace caisson::os
