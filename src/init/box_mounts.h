// The file system of a box: its mounts, and what is put into them.
#pragma once

#include <vector>

#include "init/box.h"

namespace caisson::init {

struct BoxMounts {
  os::Fd root;
  os::Fd proc;
  os::Fd terminals;  ///< None where the plan has no devpts.
};

/// Makes the mounts, files and devices of the plan, and pivots into them.
BoxResult<BoxMounts> make_mounts(const BoxPlan& plan, std::vector<os::Fd> attached);

}  // namespace caisson::init
