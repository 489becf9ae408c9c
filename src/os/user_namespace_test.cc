// Tests of user namespaces that nobody lives in, and of the mounts whose owners they map.
#include "os/user_namespace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "os/beneath.h"
#include "os/files.h"
#include "os/mount.h"
#include "os/namespaces.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using test::in_child;
using testing::HasSubstr;

IdMaps same_for_both(std::vector<IdMapping> map) { return {map, map}; }

class UserNamespace : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps any id";
  }
  test::TemporaryDirectory temporary_;
};

TEST_F(UserNamespace, IsANewOneAndItsProcessIsGone) {
  const auto made = make_user_namespace(same_for_both({{0, 100000, 65536}}));
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(::fcntl(made->number(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(status(*made)->st_ino, status(*open_own_namespace(CLONE_NEWUSER))->st_ino);
  // The leak check sees that no child is left.
}

TEST_F(UserNamespace, BadMapIsAnErrorAndNoProcessIsLeft) {
  const auto made = make_user_namespace(same_for_both({{0, 1, 0}}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().number, EINVAL);
  EXPECT_THAT(made.error().text, HasSubstr("uid_map"));
}

TEST_F(UserNamespace, AnybodyMakesOneOfASingleId) {
  EXPECT_EQ(in_child([] {
              if (::setresgid(54321, 54321, 54321) != 0 || ::setresuid(54321, 54321, 54321) != 0)
                return std::string("ids");
              const auto made = make_user_namespace(single_id_maps(0, 0));
              return made ? std::string("fine") : made.error().text;
            }),
            "fine");
}

// D-5: what host root owns is box root's inside, though its id outside is another.
TEST_F(UserNamespace, D5_MappedMountShowsOwnersAsTheNamespaceCallsThem) {
  const std::string from = temporary_ / "from";
  const std::string at = temporary_ / "at";
  fs::create_directories(from);
  fs::create_directories(at);
  ASSERT_EQ(::chown(from.c_str(), 1000, 1000), 0);
  ASSERT_EQ(::chmod(from.c_str(), 0755), 0);
  // On disk 1000, outside 100000.
  const auto mapping = make_user_namespace(same_for_both({{1000, 100000, 1}}));
  ASSERT_TRUE(mapping) << mapping.error().text;
  auto mount = clone_tree(from, false);
  ASSERT_TRUE(mount) << mount.error().text;
  const auto mapped = map_ids(*mount, *mapping, false);
  if (!mapped && mapped.error().number == EINVAL) GTEST_SKIP() << "the file system of temporary files cannot";
  ASSERT_TRUE(mapped) << mapped.error().text;
  ASSERT_TRUE(attach(*mount, {}, at));
  struct stat is{};
  EXPECT_EQ(::stat(from.c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, 1000U);
  EXPECT_EQ(::stat(at.c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, 100000U);
  // A file that the outside id makes is 1000's on disk; one of an id without a place on disk cannot be made.
  ASSERT_EQ(::chmod(from.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(temporary_.path().c_str(), 0755), 0);
  const auto create_as = [&](uid_t user) {
    return in_child([&] {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
          ::setresuid(user, user, user) != 0) {
        return std::string("ids");
      }
      const std::string file = at + "/by" + std::to_string(user);
      const Fd made = Fd::adopt(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
      return std::string(made ? "fine" : std::strerror(errno));
    });
  };
  EXPECT_EQ(create_as(100000), "fine");
  EXPECT_EQ(create_as(54321), std::strerror(EOVERFLOW));
  EXPECT_EQ(::stat((from + "/by100000").c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, 1000U);
  // What is attached keeps its owners.
  EXPECT_FALSE(map_ids(open_directory(at).value(), *mapping, false));
  EXPECT_TRUE(detach(at));
}

TEST_F(UserNamespace, MappingNeedsANamespace) {
  auto mount = clone_tree(temporary_.path(), false);
  ASSERT_TRUE(mount) << mount.error().text;
  EXPECT_EQ(map_ids(*mount, {}, false).error().number, EBADF);
  const Fd null = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto wrong = map_ids(*mount, null, false);
  EXPECT_EQ(wrong.error().number, EINVAL);
  EXPECT_THAT(wrong.error().text, HasSubstr("mapping a mount's owners"));
}

}  // namespace
}  // namespace caisson::os
