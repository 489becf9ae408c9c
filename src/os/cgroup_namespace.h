// Cgroup namespaces: what a process sees of the cgroups it is in (cgroup_namespaces(7)).
#pragma once

#include "os/explained.h"
#include "os/fd.h"

namespace caisson::os {

/// Enters a new cgroup namespace, whose root is the v2 cgroup `cgroup`, a directory opened with O_PATH or for
/// reading, and in each v1 hierarchy the caller's own cgroup. Without `cgroup` the root is the caller's own
/// in v2 too.
///
/// A namespace is rooted where its maker is, and to go there would take some ms: so a child is born there,
/// makes it and ends. That takes the right to clone into `cgroup` (it must have no controllers enabled for
/// what is beneath it), CAP_SYS_ADMIN in the caller's user namespace, which owns the new one, and /proc. For
/// a process of one thread.
ExplainedResult<void> enter_new_cgroup_namespace(FdRef cgroup = {});

}  // namespace caisson::os
