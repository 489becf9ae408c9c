// The caller's own terminal and standard streams.
#include "os/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "os/tty.h"

namespace caisson::os {
namespace {

tcflag_t local_modes(FdRef fd) {
  termios mode{};
  EXPECT_EQ(::tcgetattr(fd.number, &mode), 0);
  return mode.c_lflag;
}

TEST(Console, TellsTerminalsPipesAndFilesApart) {
  auto pty = open_pty(80, 24).value();
  auto pipe = make_pipe().value();
  const Fd file = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(is_terminal(pty.terminal));
  EXPECT_FALSE(is_terminal(pipe.read));
  EXPECT_FALSE(is_terminal(file));
  EXPECT_TRUE(is_pipe(pipe.read));
  EXPECT_FALSE(is_pipe(pty.terminal));
  EXPECT_FALSE(is_pipe(file));
}

TEST(Console, TerminalSizeIsThePtys) {
  auto pty = open_pty(132, 43).value();
  auto size = terminal_size(pty.terminal).value();
  EXPECT_EQ(size.columns, 132);
  EXPECT_EQ(size.rows, 43);
  auto pipe = make_pipe().value();
  EXPECT_EQ(terminal_size(pipe.read).error(), error_of(ENOTTY));
}

TEST(Console, RawTerminalIsPutBack) {
  auto pty = open_pty(80, 24).value();
  const tcflag_t before = local_modes(pty.terminal);
  ASSERT_NE(before & ICANON, 0U);
  {
    auto raw = RawTerminal::enter(pty.terminal).value();
    EXPECT_EQ(local_modes(pty.terminal) & (ICANON | ECHO | ISIG), 0U);
    RawTerminal moved(std::move(raw));
    EXPECT_EQ(local_modes(pty.terminal) & ICANON, 0U);
  }
  EXPECT_EQ(local_modes(pty.terminal), before);
}

TEST(Console, RawTerminalIsReappliedAfterAShellResetIt) {
  auto pty = open_pty(80, 24).value();
  auto raw = RawTerminal::enter(pty.terminal).value();
  termios cooked{};
  ASSERT_EQ(::tcgetattr(pty.terminal.number(), &cooked), 0);
  cooked.c_lflag |= ICANON;
  ASSERT_EQ(::tcsetattr(pty.terminal.number(), TCSANOW, &cooked), 0);
  raw.reapply();
  EXPECT_EQ(local_modes(pty.terminal) & ICANON, 0U);
  raw.restore();
  EXPECT_NE(local_modes(pty.terminal) & ICANON, 0U);
  raw.reapply();
  EXPECT_NE(local_modes(pty.terminal) & ICANON, 0U) << "what was put back stays put back";
}

TEST(Console, WaitReadableTellsDataFromStop) {
  auto input = make_pipe().value();
  auto stop = make_pipe().value();
  ASSERT_TRUE(write_all(input.write, "x"));
  EXPECT_TRUE(wait_readable(input.read, stop.read).value());
  char byte = 0;
  ASSERT_EQ(read_some(input.read, &byte, 1).value(), 1U);
  stop.write.reset();
  EXPECT_FALSE(wait_readable(input.read, stop.read).value());
}

TEST(Console, WaitReadableSeesTheEndOfAPipeAndAFile) {
  auto input = make_pipe().value();
  auto stop = make_pipe().value();
  input.write.reset();
  EXPECT_TRUE(wait_readable(input.read, stop.read).value());
  const Fd file = Fd::adopt(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(wait_readable(file, stop.read).value());
}

TEST(Console, WaitReadableLeavesTheDescriptorBlocking) {
  auto input = make_pipe().value();
  auto stop = make_pipe().value();
  input.write.reset();
  const int before = ::fcntl(input.read.number(), F_GETFL);
  ASSERT_TRUE(wait_readable(input.read, stop.read).value());
  EXPECT_EQ(::fcntl(input.read.number(), F_GETFL), before);
}

}  // namespace
}  // namespace caisson::os
