// Tests of pseudo-terminals.
#include "os/tty.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "os/mount.h"

namespace caisson::os {
namespace {

winsize size_of(FdRef terminal) {
  winsize size{};
  EXPECT_EQ(::ioctl(terminal.number, TIOCGWINSZ, &size), 0);
  return size;
}

TEST(Tty, S64_HasTheSizeAskedForAndCanBeResized) {
  auto pty = open_pty(91, 17);
  ASSERT_TRUE(pty) << pty.error().message();
  EXPECT_TRUE(::isatty(pty->terminal.number()));
  EXPECT_EQ(size_of(pty->terminal).ws_col, 91);
  EXPECT_EQ(size_of(pty->terminal).ws_row, 17);
  ASSERT_TRUE(set_tty_size(pty->master, 132, 43));
  EXPECT_EQ(size_of(pty->terminal).ws_col, 132);
  EXPECT_EQ(size_of(pty->terminal).ws_row, 43);
}

TEST(Tty, EndsAreConnectedAndCloseOnExec) {
  auto pty = open_pty(80, 24);
  ASSERT_TRUE(pty);
  EXPECT_EQ(::fcntl(pty->master.number(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(pty->terminal.number(), F_GETFD), FD_CLOEXEC);
  ASSERT_TRUE(write_all(pty->terminal, "hi"));
  char text[2];
  EXPECT_EQ(read_some(pty->master, text, sizeof text).value(), 2u);
  EXPECT_EQ(std::string(text, 2), "hi");
}

TEST(Tty, IsOfTheGivenDevpts) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount outside a user namespace";
  const auto devpts = new_devpts(std::nullopt);
  ASSERT_TRUE(devpts) << devpts.error().text;
  auto pty = open_pty(*devpts, 80, 24);
  ASSERT_TRUE(pty) << pty.error().message();
  struct stat own{};
  struct stat terminal{};
  ASSERT_EQ(::fstat(devpts->number(), &own), 0);
  ASSERT_EQ(::fstat(pty->terminal.number(), &terminal), 0);
  EXPECT_EQ(terminal.st_dev, own.st_dev);
  ASSERT_TRUE(write_all(pty->terminal, "hi"));
  char text[2];
  EXPECT_EQ(read_some(pty->master, text, sizeof text).value(), 2u);
  EXPECT_EQ(open_pty({}, 80, 24).error(), error_of(EBADF));
}

TEST(Tty, SetSizeOfSomethingElseFails) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  EXPECT_EQ(set_tty_size(pipe->read, 1, 1).error(), error_of(ENOTTY));
}

}  // namespace
}  // namespace caisson::os
