// A box whose init is a test's.
#pragma once

#include <gtest/gtest.h>

#include "os/spawn.h"
#include "providers/container/box_bed_test.h"
#include "providers/container/fake_init_test.h"

namespace caisson::container {

class LyingInitTest : public testing::Test {
 protected:
  // The process stands for init's: it is what dies.
  std::shared_ptr<ContainerBox> connect(FakeInit& fake) {
    test::Command command({"sleep", "1000"});
    const os::Fd null = os::open_empty_input().value();
    os::SpawnPlan plan = command.plan();
    for (os::FdRef& descriptor : plan.descriptors) descriptor = null;
    auto process = os::spawn(plan);
    EXPECT_TRUE(process);
    auto box = BoxProcess::adopt(bed_.core(), std::move(*process), fake.take_host_end());
    PlannedBox planned = plan_box(bed_.settings, Image(), {"box", first_slot, {}, false}, {}).value();
    bed_.get(BoxProcess::build(box, bed_.context.get_executor(), std::move(planned)));
    return std::make_shared<ContainerBox>(std::move(box), first_slot);
  }
  static void greet(FakeInit& init) {
    init.say(init.expect<init::Hello>().number, init::HelloReply());
    init.say(init.expect<init::BuildBox>().number, init::Done());
  }
  BoxBed bed_;
};

}  // namespace caisson::container
