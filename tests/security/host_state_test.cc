// A command finds the same clean state whatever the host program is like (S-44), and its end is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "caisson/kit/host.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class HostStateTest : public testing::TestWithParam<kit::TreeKill> {
 protected:
  // Runs the host program in `state`, to its end; what it printed.
  std::string run_in(const std::string& state, std::vector<std::string> command) {
    std::vector<std::string> argv{CAISSON_HOST_PROGRAM, state, root_.path(),
                                  std::string(to_string(GetParam()))};
    argv.insert(argv.end(), command.begin(), command.end());
    Command host(argv, {"SECRET_OF_THE_HOST=1", "HOME=/root", "LANG=C"});
    os::SpawnPlan plan = host.plan();
    auto pipe = os::make_pipe().value();
    plan.descriptors[1] = pipe.write;
    auto process = os::spawn(plan);
    if (!process) return "not started";
    pipe.write.reset();
    const std::string output = os::read_all(pipe.read, 1 << 20).value();
    process->reap();
    return output;
  }
  TemporaryDirectory root_;
};

TEST_P(HostStateTest, S41S44ACommandFindsACleanState) {
  for (const char* state :
       {"plain", "holds_descriptors", "blocks_signals", "has_closed_stdin", "has_a_large_heap", "limited"}) {
    SCOPED_TRACE(state);
    const std::string output = run_in(state, {guest("guest_state"), "word"});
    SCOPED_TRACE(output);
    EXPECT_THAT(values_of(output, "variable"), ElementsAre("PATH=/usr/local/bin:/usr/bin:/bin"));
    EXPECT_THAT(values_of(output, "descriptor"), UnorderedElementsAre("0", "1", "2"));
    EXPECT_THAT(values_of(output, "blocked"), ElementsAre("0"));
    EXPECT_THAT(values_of(output, "ignored"), ElementsAre("0"));
    EXPECT_THAT(values_of(output, "caught"), ElementsAre("0"));
    EXPECT_THAT(values_of(output, "session"), ElementsAre("own"));
    EXPECT_THAT(values_of(output, "terminal"), ElementsAre("no"));
    EXPECT_THAT(values_of(output, "umask"), ElementsAre("022"));
    EXPECT_THAT(values_of(output, "subreaper"), ElementsAre("0"));
    if (std::string_view(state) == "limited") {
      EXPECT_THAT(values_of(output, "descriptor_limit"), ElementsAre("1024"))
          << "the caller's original limit";
    }
    EXPECT_THAT(output, HasSubstr("ended exited 0"));
  }
}

TEST_P(HostStateTest, S48WhoeverReapsTheEndIsKnownOrSaidToBeLost) {
  for (const char* state : {"ignores_sigchld", "keeps_no_children"}) {
    SCOPED_TRACE(state);
    const std::string output = run_in(state, {"sh", "-c", "echo hello; exit 5"});
    EXPECT_THAT(output, HasSubstr("hello\n"));
    // PIDFD_GET_INFO tells it from Linux 6.15 on; a shim's child is nobody else's to reap.
    EXPECT_THAT(output, testing::AnyOf(HasSubstr("ended exited 5"), HasSubstr("ended lost 255")));
  }
}

// Beside it, `plain` above shows that the same program works where they are there.
TEST_P(HostStateTest, AKernelWithoutACallWeNeedIsRefusedByTheNameOfTheCall) {
  for (const std::string call : {"openat2", "clone3", "pidfd", "close_range"}) {
    const std::string output = run_in("lacks_" + call, {"true"});
    EXPECT_THAT(output, testing::StartsWith("error Linux "));
    EXPECT_THAT(output, HasSubstr("does not give us " + call + " (Function not implemented)"));
  }
}

TEST_P(HostStateTest, S44TwoThousandExecsAtOnceUnderALimitThatCanBeRaised) {
  EXPECT_THAT(run_in("crowd_raised", {}), HasSubstr("succeeded 2000"));
}

TEST_P(HostStateTest, S44TwoThousandExecsAtOnceUnderALimitThatIsShort) {
  EXPECT_THAT(run_in("crowd_short", {}), HasSubstr("succeeded 2000"));
}

INSTANTIATE_TEST_SUITE_P(BothWays, HostStateTest, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
