// Tests of Fd, pipes and descriptor I/O.
#include "os/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "os/rlimits.h"

namespace caisson::os {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(Fd, ClosesWhatItOwnsOnce) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const int number = pipe->read.number();
  {
    const Fd moved = std::move(pipe->read);
    EXPECT_FALSE(pipe->read);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, ReleaseGivesUpOwnership) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const int number = std::move(pipe->read).release();
  pipe->read.reset();
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(Pipe, IsCloseOnExecAndCarriesBytes) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  EXPECT_EQ(::fcntl(pipe->read.number(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(pipe->write.number(), F_GETFD), FD_CLOEXEC);
  ASSERT_TRUE(write_all(pipe->write, "hello"));
  EXPECT_EQ(readable_bytes(pipe->read).value(), 5u);
  pipe->write.reset();
  EXPECT_EQ(read_all(pipe->read, 5).value(), "hello");
}

TEST(Pipe, ReadAllRefusesMoreThanItsLimit) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  ASSERT_TRUE(write_all(pipe->write, "hello"));
  pipe->write.reset();
  EXPECT_EQ(read_all(pipe->read, 4).error(), error_of(EFBIG));
}

[[noreturn]] void make_a_pipe_with_closed_streams() {
  for (int number = 0; number < 3; ++number) ::close(number);
  auto pipe = make_pipe();
  const bool clear =
      pipe && pipe->read.number() > 2 && pipe->write.number() > 2 && !is_open(0) && !is_open(1);
  _exit(clear ? 0 : 1);
}

// S-44: a host program with closed standard streams must not find its prints in a sandbox's pipe.
TEST(PipeDeathTest, S44_NeverTakesTheStandardNumbers) {
  EXPECT_EXIT(make_a_pipe_with_closed_streams(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void make_pipes_until_refused() {
  const struct rlimit limit{400, 400};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
  std::vector<Pipe> pipes;
  for (;;) {
    auto pipe = make_pipe();
    if (!pipe && pipe.error() != error_of(EMFILE)) _exit(3);
    if (!pipe) break;
    pipes.push_back(std::move(*pipe));
  }
  if (pipes.size() < 100) _exit(4);
  // The host program's own descriptors still come.
  for (std::uint64_t i = 0; i < descriptor_reserve - 1; ++i) {
    if (::dup(pipes.front().read.number()) < 0) _exit(5);
  }
  _exit(0);
}

// S-44: descriptors run out for execs before they do for the host program.
TEST(PipeDeathTest, S44_LeavesAReserveToTheHostProgram) {
  EXPECT_EXIT(make_pipes_until_refused(), testing::ExitedWithCode(0), "");
}

TEST(EmptyInput, S43_ReadsAsTheEndAtOnce) {
  auto input = open_empty_input();
  ASSERT_TRUE(input);
  char byte;
  EXPECT_EQ(read_some(*input, &byte, 1).value(), 0u);
  EXPECT_EQ(::fcntl(input->number(), F_GETFD), FD_CLOEXEC);
}

TEST(Duplicate, SharesTheDescription) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  auto copy = duplicate(pipe->write);
  ASSERT_TRUE(copy);
  EXPECT_EQ(::fcntl(copy->number(), F_GETFD), FD_CLOEXEC);
  ASSERT_TRUE(write_all(*copy, "x"));
  EXPECT_EQ(readable_bytes(pipe->read).value(), 1u);
}

TEST(Write, ReaderGoneIsEpipeWithoutSigpipe) {
  struct sigaction before{};
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  ASSERT_EQ(::sigaction(SIGPIPE, &by_default, &before), 0);
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  pipe->read.reset();
  // SIGPIPE would end this test program here, or at the end of a block that leaves it pending.
  EXPECT_EQ(write_some(pipe->write, "x", 1).error(), error_of(EPIPE));
  EXPECT_EQ(write_all(pipe->write, "x").error(), error_of(EPIPE));
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  ::sigaction(SIGPIPE, &before, nullptr);
}

TEST(Write, ReaderThatGoesInTheMiddleOfAWriteRaisesNoSigpipe) {
  struct sigaction by_default{};
  struct sigaction before{};
  by_default.sa_handler = SIG_DFL;
  ASSERT_EQ(::sigaction(SIGPIPE, &by_default, &before), 0);
  auto pipe = make_pipe().value();
  const std::string data((1U << 16) + 4096,
                         'x');  // More than fits, so that the write waits with a part written.
  std::thread reader([&] {
    while (readable_bytes(pipe.read).value() < 1U << 16) std::this_thread::yield();
    pipe.read.reset();
  });
  EXPECT_EQ(write_all(pipe.write, data).error(), error_of(EPIPE));
  reader.join();
  ::sigaction(SIGPIPE, &before, nullptr);
}

TEST(Write, ASigpipePendingBeforeStaysPending) {
  sigset_t sigpipe;
  sigset_t before;
  sigemptyset(&sigpipe);
  sigaddset(&sigpipe, SIGPIPE);
  struct sigaction old_action{};
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  ASSERT_EQ(::sigaction(SIGPIPE, &by_default, &old_action), 0);
  ::pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
  ::pthread_kill(::pthread_self(), SIGPIPE);
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  pipe->read.reset();
  EXPECT_EQ(write_some(pipe->write, "x", 1).error(), error_of(EPIPE));
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  int number = 0;
  sigwait(&sigpipe, &number);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::sigaction(SIGPIPE, &old_action, nullptr);
}

}  // namespace
}  // namespace caisson::os
