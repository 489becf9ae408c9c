// Building a box from its plan, within the namespaces that init was cloned into.
#pragma once

#include <vector>

#include "init/box.h"

namespace caisson::init {

/// Builds the box around the calling process and becomes what the plan says: its root, its ids, its limited
/// capabilities, undumpable. The process must be alone in new user, mount, PID, network, IPC and UTS
/// namespaces where user and group 0 are mapped, hold all capabilities there, and have one thread; its cgroup
/// namespace is made here, for at the clone it would have been rooted at its parent's. `descriptors`: what
/// rode along with the plan. After a failure the process is neither in the old place nor in the new, and can
/// only end.
BoxResult<Box> build_box(BoxPlan plan, std::vector<os::Fd> descriptors);

}  // namespace caisson::init
