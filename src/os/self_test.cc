// What this process is and was given.
#include "os/self.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace caisson::os {
namespace {

TEST(Self, OwnPidChangesInAFork) {
  const pid_t parent = own_pid();
  EXPECT_EQ(parent, ::getpid());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(own_pid() == parent ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Self, OwnUserAndGroupAreTheEffectiveOnes) {
  EXPECT_EQ(own_user(), ::geteuid());
  EXPECT_EQ(own_group(), ::getegid());
  EXPECT_EQ(is_root(), own_user() == 0);
}

TEST(Self, SeesIgnoredSignals) {
  EXPECT_FALSE(signal_is_ignored(SIGUSR2));
  const auto before = ::signal(SIGUSR2, SIG_IGN);
  EXPECT_TRUE(signal_is_ignored(SIGUSR2));
  ::signal(SIGUSR2, before);
}

TEST(Self, FillsOnlyTheStandardDescriptorsThatAreClosed) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(0);
    ::close(2);
    fill_standard_descriptors();
    char byte = 0;
    const bool empty = ::read(0, &byte, 1) == 0;
    const bool takes = ::write(2, "x", 1) == 1;
    ::_exit(empty && takes ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Self, OwnObjectIsThisProgramWhereTheLoaderTells) {
  const std::string path = own_object_path();
  EXPECT_TRUE(path.empty() || path.ends_with("/caisson_os_test")) << path;
}

}  // namespace
}  // namespace caisson::os
