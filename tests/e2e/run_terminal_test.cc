// caisson run -t: a terminal for the command, and the caller's own put back.
#include <gmock/gmock.h>
#include <signal.h>
#include <termios.h>

#include "os/tty.h"
#include "tests/e2e/program.h"
#include "tests/support/eventually.h"

namespace caisson::test {
namespace {

using testing::HasSubstr;

class RunTerminalTest : public CaissonTest {
 protected:
  // On a terminal of our own, as a shell would start it.
  Program start_on_terminal(Words options, Words command) {
    Program::Streams streams;
    streams.in = pty_.terminal;
    streams.out = pty_.terminal;
    streams.err = pty_.terminal;
    streams.terminal = true;
    return start_with(std::move(options), std::move(command), streams);
  }
  std::string read_until(std::string_view word) {
    std::string seen;
    char byte = 0;
    while (seen.find(word) == std::string::npos) {
      const auto size = os::read_some(pty_.master, &byte, 1);
      if (!size || *size == 0) break;
      seen += byte;
    }
    return seen;
  }
  bool raw() const {
    termios mode{};
    EXPECT_EQ(::tcgetattr(pty_.terminal.number(), &mode), 0);
    return (mode.c_lflag & (ICANON | ECHO | ISIG)) == 0;
  }
  void type(std::string_view text) { ASSERT_TRUE(os::write_all(pty_.master, text)); }

  os::PseudoTerminal pty_ = os::open_pty(100, 30).value();
};

// S-64
TEST_F(RunTerminalTest, S64_CommandGetsATerminalOfTheCallersSize) {
  Program program = start_on_terminal({"-t"}, {"sh", "-c", "tty; stty size; echo done"});
  const std::string seen = read_until("done");
  EXPECT_THAT(seen, HasSubstr("/dev/pts/"));
  EXPECT_THAT(seen, HasSubstr("30 100"));
  EXPECT_EQ(program.wait().code, 0);
  EXPECT_EQ(run({"-t"}, {"stty", "size"}).out, "24 80\r\n") << "without a terminal here";
}

TEST_F(RunTerminalTest, S64_CommandHearsOfANewSize) {
  Program program = start_on_terminal(
      {"-t"}, {"sh", "-c", "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"});
  read_until("ready");
  ASSERT_TRUE(os::set_tty_size(pty_.master, 120, 40));
  EXPECT_THAT(read_until("40 120"), HasSubstr("40 120"));
  EXPECT_EQ(program.wait().code, 0);
}

TEST_F(RunTerminalTest, TypingReachesTheCommandAndTheCallersTerminalIsRawMeanwhile) {
  ASSERT_FALSE(raw());
  Program program = start_on_terminal({"-it"}, {"sh", "-c", "echo ready; read word; echo got $word; exit 5"});
  read_until("ready");
  EXPECT_TRUE(raw());
  type("hello\r");
  EXPECT_THAT(read_until("got hello"), HasSubstr("got hello"));
  EXPECT_EQ(program.wait().code, 5);
  EXPECT_FALSE(raw());
}

TEST_F(RunTerminalTest, TypedInterruptGoesToTheCommand) {
  Program program =
      start_on_terminal({"-it"}, {"sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; sleep 60"});
  read_until("ready");
  type("\x03");
  EXPECT_THAT(read_until("caught"), HasSubstr("caught"));
  EXPECT_EQ(program.wait().code, 9);
}

TEST_F(RunTerminalTest, TerminalIsPutBackWhenASignalEndsIt) {
  Program program = start_on_terminal({"-it"}, {"sh", "-c", "echo ready; sleep 60"});
  read_until("ready");
  EXPECT_TRUE(raw());
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
  EXPECT_FALSE(raw());
}

TEST_F(RunTerminalTest, TerminalIsPutBackAfterATimeoutAndAFailure) {
  Program timeout = start_on_terminal({"-it", "--timeout", "0.5"}, {"sleep", "60"});
  EXPECT_EQ(timeout.wait().code, 124);
  EXPECT_FALSE(raw());
  Program missing = start_on_terminal({"-it"}, {"no-such-command-here"});
  EXPECT_EQ(missing.wait().code, 127);
  EXPECT_FALSE(raw());
}

TEST_F(RunTerminalTest, RawModeComesBackAfterAStop) {
  Program program = start_on_terminal({"-it"}, {"sh", "-c", "echo ready; read word; echo got $word"});
  read_until("ready");
  termios mode{};
  ASSERT_EQ(::tcgetattr(pty_.terminal.number(), &mode), 0);
  mode.c_lflag |= ICANON | ECHO | ISIG;
  ASSERT_EQ(::tcsetattr(pty_.terminal.number(), TCSANOW, &mode), 0);
  ASSERT_FALSE(raw());
  program.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return raw(); }));
  type("x\r");
  EXPECT_THAT(read_until("got x"), HasSubstr("got x"));
  EXPECT_EQ(program.wait().code, 0);
}

TEST_F(RunTerminalTest, WithoutInteractiveTheTerminalIsLeftAlone) {
  Program program = start_on_terminal({"-t"}, {"sh", "-c", "echo ready; cat; echo end"});
  EXPECT_THAT(read_until("end"), HasSubstr("ready"));
  EXPECT_FALSE(raw());
  EXPECT_EQ(program.wait().code, 0);
}

TEST_F(RunTerminalTest, DoctorIsColouredOnATerminalUnlessNoColorSaysNo) {
  env_["TERM"] = "xterm";
  Program::Streams streams;
  streams.in = streams.out = streams.err = pty_.terminal;
  const auto doctor_output = [&] {
    Program program = start_program({CAISSON_PROGRAM, "doctor"}, streams);
    const std::string seen = read_until("tier_vm");
    program.wait();
    return seen + read_until("\n");
  };
  EXPECT_THAT(doctor_output(), HasSubstr("\x1b["));
  env_["NO_COLOR"] = "1";
  EXPECT_THAT(doctor_output(), testing::Not(HasSubstr("\x1b[")));
}

}  // namespace
}  // namespace caisson::test
