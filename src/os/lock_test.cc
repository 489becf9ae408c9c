// Lock files (S-25, S-29).
#include "os/lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "os/beneath.h"
#include "os/files.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

class LockTest : public testing::Test {
 protected:
  std::optional<Fd> lock(LockKind kind) const { return try_lock(at_, "x.lock", kind).value(); }

  test::TemporaryDirectory directory_;
  const Fd at_ = open_directory(directory_.path()).value();
};

TEST_F(LockTest, SharedLocksGoTogetherAndExclusiveOnesAlone) {
  std::optional<Fd> one = lock(LockKind::shared);
  std::optional<Fd> two = lock(LockKind::shared);
  ASSERT_TRUE(one);
  ASSERT_TRUE(two);
  EXPECT_FALSE(lock(LockKind::exclusive));
  one.reset();
  EXPECT_FALSE(lock(LockKind::exclusive));
  two.reset();
  const std::optional<Fd> alone = lock(LockKind::exclusive);
  ASSERT_TRUE(alone);
  EXPECT_FALSE(lock(LockKind::shared));
  EXPECT_FALSE(lock(LockKind::exclusive));
}

TEST_F(LockTest, S29_DiesWithItsHolder) {
  const Pipe ready = make_pipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = try_lock(at_, "x.lock", LockKind::exclusive);
    static_cast<void>(::write(ready.write.number(), held && *held ? "y" : "n", 1));
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready.read.number(), &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(lock(LockKind::exclusive)) << "the control: it is held";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(lock(LockKind::exclusive));
}

TEST_F(LockTest, NeverTakesAFileThatWasUnlinked) {
  const std::optional<Fd> old = lock(LockKind::exclusive);
  ASSERT_TRUE(old);
  ASSERT_TRUE(unlink_at(at_, "x.lock"));
  EXPECT_TRUE(lock(LockKind::exclusive)) << "the file of that name is another one";
}

// Each holder removes the file before it lets go, as the last user of a workspace does: two must never hold
// at once.
TEST_F(LockTest, ExcludesEvenWhileHoldersUnlink) {
  std::atomic<int> inside = 0;
  std::atomic<bool> together = false;
  std::atomic<int> turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (turns < 200) {
        const auto held = try_lock(at_, "x.lock", LockKind::exclusive);
        if (!held || !*held) continue;
        ++turns;
        // Long enough for another to come in on a file that had lost its name when it was locked.
        for (int look = 0; look < 20; ++look) {
          if (++inside > 1) together = true;
          std::this_thread::yield();
          --inside;
        }
        static_cast<void>(unlink_at(at_, "x.lock"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(together);
}

TEST_F(LockTest, FollowsNoLink) {
  ASSERT_EQ(::symlinkat("elsewhere", at_.number(), "x.lock"), 0);
  EXPECT_EQ(try_lock(at_, "x.lock", LockKind::exclusive).error().value(), ELOOP);
  EXPECT_NE(::faccessat(at_.number(), "elsewhere", F_OK, 0), 0);
}

}  // namespace
}  // namespace caisson::os
