// Tests of building boxes, in forks that are in namespaces of their own.
#include "init/box_builder.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <sstream>

#include "init/cgroup_tree_test.h"
#include "init/in_box_test.h"
#include "init/user_rights.h"
#include "os/beneath.h"
#include "os/files.h"
#include "os/mount.h"
#include "tests/support/cgroups.h"
#include "tests/support/temporary_directory.h"

namespace caisson::init {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

// How a write of a file there ends.
std::string writing(const std::string& path) {
  const os::Fd file = os::Fd::adopt(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  return file && ::write(file.number(), "x", 1) == 1 ? "fine" : std::strerror(errno);
}

std::string names_in(const char* path) {
  const auto directory = os::open_directory(path);
  const auto names = directory ? os::names_in(*directory) : directory.error();
  if (!names) return names.error().message();
  const std::set<std::string> sorted(names->begin(), names->end());
  std::string text;
  for (const std::string& name : sorted) text += name + ' ';
  return text;
}

class BoxBuilder : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
  }
  BoxPlan plan_ = host_plan();
};

TEST_F(BoxBuilder, D8_RootIsThePlansAlone) {
  EXPECT_EQ(in_box(plan_, [](const Box&) { return names_in("/"); }),
            "bin dev etc lib lib64 proc root run sbin tmp usr var workspace ");
  EXPECT_EQ(in_box(plan_, [](const Box&) { return names_in("/dev"); }),
            "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ");
  EXPECT_THAT(in_box(plan_, [](const Box&) { return text_of("/etc/passwd"); }), StartsWith("root:x:0:0"));
  // ".." from the root is the root.
  EXPECT_THAT(in_box(plan_, [](const Box&) { return names_in("/../../.."); }), StartsWith("bin dev etc"));
}

TEST_F(BoxBuilder, S101_WritesGoWhereThePlanLetsThem) {
  const auto outcomes = [](const Box&) {
    std::string text;
    for (const char* path : {"/tmp/x", "/workspace/x", "/dev/shm/x", "/dev/null", "/dev/full", "/x", "/usr/x",
                             "/dev/x", "/etc/passwd"}) {
      text += writing(path) + "; ";
    }
    struct statvfs is{};
    ::statvfs("/proc/sys", &is);
    return text + ((is.f_flag & ST_RDONLY) != 0 ? "closed" : "open");
  };
  // As init, whose uid here is 0, but which has no right over what is not its own.
  EXPECT_EQ(in_box(plan_, outcomes),
            "fine; fine; fine; fine; No space left on device; Read-only file system; Read-only file system; "
            "Read-only file system; Read-only file system; closed");
  // The control: without what makes them read-only.
  plan_.mounts[0] = Tmpfs{"/", 4 << 20, 1024, 0755, {}};
  plan_.mounts[3] = Tmpfs{"/dev", 65536, 64, 0755, {}};
  plan_.read_only.clear();
  EXPECT_EQ(in_box(plan_, outcomes),
            "fine; fine; fine; fine; No space left on device; fine; Read-only file system; fine; fine; open");
}

TEST_F(BoxBuilder, S101_MaskedFilesAndDirectoriesAreEmpty) {
  const auto look = [](const Box&) {
    return std::to_string(text_of("/proc/keys").size()) + " " +
           std::to_string(text_of("/proc/uptime").size() > 0) + " " + names_in("/proc/sys/vm").substr(0, 5);
  };
  plan_.masked.emplace_back("/proc/sys/vm");
  EXPECT_EQ(in_box(plan_, look), "0 1 ");
  plan_.masked.clear();
  EXPECT_THAT(in_box(plan_, look), HasSubstr(" 1 admin"));
}

TEST_F(BoxBuilder, MountsHaveTheirFlagsAndSizes) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box&) {
                     struct statvfs is{};
                     ::statvfs("/usr", &is);
                     const bool usr = (is.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV)) ==
                                      (ST_RDONLY | ST_NOSUID | ST_NODEV);
                     ::statvfs("/tmp", &is);
                     const bool tmp =
                         (is.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)) == (ST_NOSUID | ST_NODEV);
                     ::statvfs("/dev", &is);
                     const bool dev = (is.f_flag & ST_NOEXEC) != 0;
                     ::statvfs("/workspace", &is);
                     return std::to_string(usr) + std::to_string(tmp) + std::to_string(dev) + " " +
                            std::to_string(is.f_blocks * is.f_frsize);
                   }),
            "111 4194304");
  // A size of 0 is half of the memory.
  plan_.mounts.emplace_back(Tmpfs{"/workspace"});
  EXPECT_EQ(in_box(plan_,
                   [](const Box&) {
                     struct statvfs is{};
                     ::statvfs("/workspace", &is);
                     return std::string(is.f_blocks * is.f_frsize > 1 << 24 ? "large" : "small");
                   }),
            "large");
}

TEST_F(BoxBuilder, S101_NamesAndNamespacesAreItsOwn) {
  const std::string outside = fs::read_symlink("/proc/self/ns/cgroup");
  const std::string inside = in_box(plan_, [](const Box&) {
    utsname names{};
    ::uname(&names);
    ::prctl(PR_SET_DUMPABLE, 1);  // For the links.
    return std::string(names.nodename) + " " + fs::read_symlink("/proc/self/ns/cgroup").string() + " " +
           std::to_string(::getpid()) + " " + text_of("/proc/1/comm");
  });
  EXPECT_THAT(inside, StartsWith("box cgroup:["));
  EXPECT_THAT(inside, HasSubstr("] 1 caisson_init"));
  EXPECT_THAT(inside, testing::Not(HasSubstr(outside)));
}

std::string capabilities_of_this() {
  const auto sets = os::own_capabilities().value();
  std::ostringstream text;
  text << ::getuid() << " " << ::getgid() << " " << ::getgroups(0, nullptr) << "; "
       << os::capability_names(sets.permitted) << "; " << os::capability_names(sets.effective) << "; "
       << os::capability_names(sets.inheritable) << "; "
       << os::capability_names(os::ambient_capabilities().value()) << "; "
       << os::capability_names(os::bounding_capabilities().value()) << "; " << ::prctl(PR_GET_DUMPABLE);
  return text.str();
}

TEST_F(BoxBuilder, D5_InitKeepsOnlyWhatItNeedsAndIsNotDumpable) {
  plan_.ids = {65535, 65534};
  plan_.user = {1000, 1001, {7, 8}, "/workspace", "user"};
  plan_.capabilities = os::capability(CAP_CHOWN);
  EXPECT_EQ(in_box(plan_, [](const Box&) { return capabilities_of_this(); }),
            "65535 65534 0; CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_PTRACE, CAP_SYS_ADMIN; "
            "CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_PTRACE, CAP_SYS_ADMIN; none; none; CAP_CHOWN; 0")
      << "it marks trees itself";
  if (test::writable_cgroup().empty()) return;
  const CgroupTree tree(100000 + plan_.ids.uid);
  plan_.cgroup = true;
  std::vector<os::Fd> along;
  along.push_back(tree.mount());
  const os::Fd procs =
      os::Fd::adopt(::open((tree.path() + "/init/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  const auto body = [&] {
    if (!os::write_all(procs, "0")) return std::string("joining");
    auto box = build_box(plan_, std::move(along));
    return box ? capabilities_of_this() : in_words(box.error());
  };
  EXPECT_EQ(
      test::in_child(body, all_namespaces, "0 100000 65536"),
      "65535 65534 0; CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID; CAP_KILL, CAP_SETGID, CAP_SETUID; none; "
      "none; CAP_CHOWN; 0")
      << "cgroups hold them together";
}

TEST_F(BoxBuilder, S70_UserRightsAreTheUsers) {
  plan_.ids = {65535, 65535};
  plan_.user = {1000, 1001, {7, 8}, "/workspace", "user"};
  plan_.directories = {
      {"/workspace", 0700, 1000, 1001}, {"/run/others", 0700, 3, 3}, {"/run/group", 0770, 3, 8}};
  const auto look = [](const Box& box) {
    std::string text = writing("/workspace/a") + "; ";
    {
      const auto rights = UserRights::take(box);
      if (!rights) return rights.error().message();
      text +=
          writing("/workspace/a") + "; " + writing("/run/others/a") + "; " + writing("/run/group/a") + "; ";
    }
    struct stat is{};
    text += writing("/workspace/b") + "; ";
    const auto rights = UserRights::take(box);
    ::stat("/workspace/a", &is);
    return text + std::to_string(is.st_uid) + ":" + std::to_string(is.st_gid);
  };
  EXPECT_EQ(in_box(plan_, look),
            "Permission denied; fine; Permission denied; fine; Permission denied; 1000:1001");
  // Root of the box passes over permissions as far as its commands may.
  plan_.user = {0, 0, {}, "/root", "root"};
  plan_.capabilities = os::capability(CAP_DAC_OVERRIDE);
  EXPECT_EQ(in_box(plan_, look), "Permission denied; fine; fine; fine; Permission denied; 0:0");
  plan_.capabilities = 0;
  EXPECT_EQ(
      in_box(plan_, look),
      "Permission denied; Permission denied; Permission denied; Permission denied; Permission denied; 0:0");
}

TEST_F(BoxBuilder, SingleIdServes_S103) {
  plan_.directories.clear();
  EXPECT_EQ(in_box(
                plan_,
                [](const Box& box) {
                  const auto rights = UserRights::take(box);
                  return rights ? writing("/workspace/x") : rights.error().message();
                },
                "0 100000 1"),
            "fine");
}

TEST_F(BoxBuilder, OverlayOfLayersThatTheBoxNeverSees) {
  test::TemporaryDirectory temporary;
  fs::create_directories(temporary / "image/etc");
  fs::create_directories(temporary / "image/gone");
  std::ofstream(temporary / "image/etc/os") << "layer";
  std::ofstream(temporary / "image/etc/passwd") << "the layer's";
  plan_.mounts[0] = Bind{temporary / "image", "/layers/0", false, {true, true, true, false}};
  plan_.mounts.insert(plan_.mounts.begin() + 1, {Tmpfs{"/rw", 1 << 20, 256, 0755, {}},
                                                 Overlay{"/", {"/layers/0"}, "/rw/up", "/rw/work"}});
  EXPECT_EQ(in_box(
                plan_,
                [](const Box&) {
                  return text_of("/etc/os") + " " + text_of("/etc/passwd").substr(0, 4) + " " +
                         writing("/etc/new") + " " + names_in("/");
                },
                "0 0 65536"),
            "layer root fine bin dev etc gone lib lib64 proc root run sbin tmp usr var workspace ");
  EXPECT_EQ(text_of(temporary / "image/etc/passwd"), "the layer's");
  EXPECT_FALSE(fs::exists(temporary / "image/etc/new"));
}

TEST_F(BoxBuilder, DetachedMountIsAttached) {
  test::TemporaryDirectory temporary;
  std::ofstream(temporary / "f") << "from outside";
  std::vector<os::Fd> attached;
  attached.push_back(os::clone_tree(temporary.path(), false).value());
  plan_.mounts.emplace_back(Attached{0, "/workspace/data"});
  EXPECT_EQ(
      in_box(
          plan_, [](const Box&) { return text_of("/workspace/data/f"); }, "0 0 65536", std::move(attached)),
      "from outside");
}

TEST_F(BoxBuilder, AFailingStepIsNamed) {
  const auto none = [](const Box&) { return std::string("built"); };
  const auto step = [](Step which, int number, const std::string& detail) {
    return in_words(failure(which, number, detail));
  };
  BoxPlan plan = plan_;
  plan.mounts.emplace_back(Bind{"/no/such", "/x", false, {}});
  EXPECT_THAT(in_box(plan, none), StartsWith(step(Step::mount, ENOENT, "/x: ")));
  plan = plan_;
  plan.mounts.erase(plan.mounts.begin());
  EXPECT_THAT(in_box(plan, none), StartsWith(step(Step::mount, EINVAL, "")));
  plan = plan_;
  plan.mounts.erase(plan.mounts.begin() + 2);
  EXPECT_THAT(in_box(plan, none), StartsWith(step(Step::proc, EINVAL, "")));
  plan = plan_;
  plan.files.push_back({"/usr/no", 0644, ""});
  EXPECT_EQ(in_box(plan, none), step(Step::etc, EROFS, "/usr/no"));
  plan = plan_;
  plan.rlimits = {{7 /* RLIMIT_NOFILE */, 1, UINT64_MAX}};
  EXPECT_EQ(in_box(plan, none), step(Step::limits, EPERM, "resource 7"));
  plan = plan_;
  plan.user.groups = {5};
  EXPECT_EQ(in_box(plan, none, "0 100000 1"), step(Step::ids, EINVAL, "setgroups"));
  plan = plan_;
  plan.ids = {70000, 0};
  EXPECT_EQ(in_box(plan, none), step(Step::ids, EINVAL, "setresuid"));
  EXPECT_EQ(in_box(plan_, none), "built");
}

}  // namespace
}  // namespace caisson::init
