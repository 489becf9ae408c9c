// Points fail, kill and are counted as they are armed.
#include "os/fault_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

namespace caisson::os {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(FaultPoint, NothingStrikesUntilItIsArmed) {
  EXPECT_TRUE(fault_point("test.one"));
  kill_point("test.two");
  EXPECT_THAT(disarm_faults(), IsEmpty()) << "and nothing is counted";
}

TEST(FaultPoint, AnErrorStrikesAtItsPassagesAlone) {
  Fault fault{"test.one", ENOSPC};
  fault.first = 2;
  fault.last = 3;
  arm_faults({fault});
  EXPECT_TRUE(fault_point("test.one"));
  EXPECT_TRUE(fault_point("test.other")) << "each point counts for itself";
  EXPECT_EQ(fault_point("test.one").error(), error_of(ENOSPC));
  EXPECT_EQ(fault_point("test.one").error(), error_of(ENOSPC));
  EXPECT_TRUE(fault_point("test.one"));
  EXPECT_THAT(disarm_faults(), ElementsAre(Pair("test.one", 4), Pair("test.other", 1)));
  EXPECT_TRUE(fault_point("test.one"));
}

TEST(FaultPoint, SeveralFaultsAreArmedAtOnce) {
  arm_faults({Fault{"test.one", EIO}, Fault{"test.two", EMFILE}});
  EXPECT_EQ(fault_point("test.one").error(), error_of(EIO));
  EXPECT_EQ(fault_point("test.two").error(), error_of(EMFILE));
  disarm_faults();
}

TEST(FaultPoint, TheProcessDiesWhereItIsToDie) {
  const auto die_at_second_passage = [] {
    Fault fault{"test.one"};
    fault.first = fault.last = 2;
    arm_faults({fault});
    kill_point("test.one");
    kill_point("test.one");
  };
  EXPECT_EXIT(die_at_second_passage(), testing::KilledBySignal(SIGKILL), "");
  const auto pass_once = [&] {
    arm_faults({Fault{"test.other"}});
    kill_point("test.one");
    ::_exit(0);
  };
  EXPECT_EXIT(pass_once(), testing::ExitedWithCode(0), "") << "the control";
}

}  // namespace
}  // namespace caisson::os
