// Commands of a box whose init ends their trees, or fails to.
#include "providers/container/box_exec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/container/lying_init_test.h"
#include "tests/support/eventually.h"

namespace caisson::container {
namespace {

class KilledTreeTest : public LyingInitTest {
 protected:
  // Why the box has ended after a command of it was killed, of whose tree init says that something is left;
  // and that nothing is, when `ends`.
  std::string end_of_box(bool ends) {
    FakeInit fake([&](FakeInit& init) {
      greet(init);
      init.say(init.expect<init::StartExec>().number, init::Started{5, 2, false});
      init.say(init.expect<init::KillExec>().number, init::Done());
      init.say(0, init::Exited{5, true, 9, false, true});
      init.say(init.expect<init::AckExit>().number, init::Done());
      if (ends) init.say(0, init::TreeEmpty{5});
      init.drain();
    });
    const auto box = connect(fake);
    kit::StartedExec started = bed_.start(box, shell("true"));
    started.tree->kill();
    if (ends) {
      EXPECT_TRUE(test::eventually([&] { return started.tree->empty(); }));
      // Longer than a tree is waited for.
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    } else {
      EXPECT_TRUE(test::eventually([&] { return box->process()->ended(); }));
    }
    return box->process()->end_cause();
  }
};

TEST_F(KilledTreeTest, S46_ATreeThatInitDoesNotEndCostsTheBoxItsLife) {
  EXPECT_EQ(end_of_box(true), "") << "the control";
  EXPECT_THAT(end_of_box(false), testing::HasSubstr("do not end"));
}

}  // namespace
}  // namespace caisson::container
