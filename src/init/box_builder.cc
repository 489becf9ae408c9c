// Building a box: what is done in which order, the ids and the capabilities. box_mounts.cc does the mounts.
#include "init/box_builder.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include "init/box_mounts.h"
#include "init/user_rights.h"
#include "os/cgroup_namespace.h"
#include "os/loopback.h"

namespace caisson::init {
namespace {

BoxResult<void> done_if(int result, Step step, const char* detail) {
  if (result != 0) return failure(step, os::last_error(), detail);
  return {};
}

BoxResult<void> set_names(const BoxPlan& plan) {
  auto named = done_if(::sethostname(plan.hostname.data(), plan.hostname.size()), Step::hostname, "");
  if (!named) return named;
  if (const auto up = os::bring_loopback_up(); !up) return failure(Step::network, up.error(), "lo");
  return {};
}

// Joins the cgroups, and makes what is above them invisible. Where the cgroup is given, the directory of
// those of commands comes back.
BoxResult<os::Fd> enter_cgroups(os::FdRef cgroup, const std::vector<os::Fd>& joined) {
  for (const os::Fd& tasks : joined) {
    const auto done = os::write_all(tasks, "0");
    if (!done) return failure(Step::cgroup, done.error(), "joining");
  }
  const auto entered = os::enter_new_cgroup_namespace(cgroup);
  if (!entered) return failure(Step::cgroup, entered.error().number, entered.error().text);
  if (cgroup.number < 0) return os::Fd();
  os::Fd execs =
      os::Fd::adopt(::openat(cgroup.number, exec_cgroups, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!execs) return failure(Step::cgroup, os::last_error(), exec_cgroups);
  return execs;
}

// The descriptors that rode along with a plan.
struct Along {
  std::vector<os::Fd> attached;
  os::Fd cgroup;
  std::vector<os::Fd> joined;
};

Along part(const BoxPlan& plan, std::vector<os::Fd> descriptors) {
  Along along;
  auto next = std::make_move_iterator(descriptors.begin());
  along.attached.assign(next, next + plan.attached());
  next += plan.attached();
  if (plan.cgroup) along.cgroup = *next++;
  along.joined.assign(next, std::make_move_iterator(descriptors.end()));
  return along;
}

// Commands set their limits themselves, as they start: here is only seen that they can.
BoxResult<void> check_limits(const std::vector<Rlimit>& limits) {
  for (const Rlimit& limit : limits) {
    struct rlimit64 present{};
    const auto resource = static_cast<__rlimit_resource_t>(limit.resource);
    if (::getrlimit64(resource, &present) != 0 || limit.hard > present.rlim_max) {
      return failure(Step::limits, EPERM, "resource " + std::to_string(limit.resource));
    }
  }
  return {};
}

// A clone into a user namespace leaves the ids outside, which are none in it: files could not be made.
BoxResult<void> become_root() {
  auto done = done_if(::setresgid(0, 0, 0), Step::ids, "setresgid 0");
  if (done) done = done_if(::setresuid(0, 0, 0), Step::ids, "setresuid 0");
  return done;
}

// Whether groups can be set here; an error where the user needs some that cannot.
BoxResult<bool> leave_groups(const BoxUser& user) {
  // All of them once, for who has no id here can be in no group.
  if (::setgroups(user.groups.size(), user.groups.data()) == 0 && ::setgroups(0, nullptr) == 0) return true;
  if (errno != EPERM || !user.groups.empty()) return failure(Step::ids, os::last_error(), "setgroups");
  return false;
}

BoxResult<void> become(const Box& box) {
  // A change of user 0 to another is to leave the permitted capabilities.
  auto done = done_if(::prctl(PR_SET_KEEPCAPS, 1), Step::ids, "keepcaps");
  if (done) done = done_if(::setresgid(box.ids.gid, box.ids.gid, box.ids.gid), Step::ids, "setresgid");
  if (done) done = done_if(::setresuid(box.ids.uid, box.ids.uid, box.ids.uid), Step::ids, "setresuid");
  if (done) done = done_if(::prctl(PR_SET_KEEPCAPS, 0), Step::ids, "keepcaps");
  if (!done) return done;
  // That made us dumpable as the system likes it (fs.suid_dumpable).
  return done_if(::prctl(PR_SET_DUMPABLE, 0), Step::ids, "dumpable");
}

BoxResult<void> limit_capabilities(const Box& box) {
  const os::CapabilityMask own = own_capability_needs(box);
  const os::CapabilityMask commands = box.capabilities;
  auto sets = os::own_capabilities();
  if (!sets) return failure(Step::capabilities, sets.error(), "");
  // Inheritable or ambient ones would reach commands of any user.
  const os::CapabilityMask kept = sets->permitted & (own | commands);
  // The bounding set takes CAP_SETPCAP, which the change of ids took out of effect.
  sets->effective = sets->permitted;
  auto done = os::set_capabilities(*sets);
  if (done) done = os::limit_bounding_capabilities(commands);
  if (done) done = os::clear_ambient_capabilities();
  if (done) done = os::set_capabilities({kept, kept & own, 0});
  if (!done) return failure(Step::capabilities, done.error(), "");
  return {};
}

}  // namespace

BoxResult<Box> build_box(BoxPlan plan, std::vector<os::Fd> descriptors) {
  Along along = part(plan, std::move(descriptors));
  ::umask(0);  // Modes are the plan's.
  const auto settable = leave_groups(plan.user);
  if (!settable) return settable.error();
  if (const auto done = become_root(); !done) return done.error();
  if (const auto named = set_names(plan); !named) return named.error();
  auto cgroups = enter_cgroups(along.cgroup, along.joined);
  if (!cgroups) return cgroups.error();
  if (const auto limited = check_limits(plan.rlimits); !limited) return limited.error();
  auto mounts = make_mounts(plan, std::move(along.attached));
  if (!mounts) return mounts.error();
  Box box;
  box.user = std::move(plan.user);
  box.ids = plan.ids;
  box.groups_settable = *settable;
  box.capabilities = plan.capabilities;
  box.rlimits = std::move(plan.rlimits);
  box.seccomp = std::move(plan.seccomp);
  box.environment = std::move(plan.environment);
  box.workspace = std::move(plan.workspace);
  box.root = std::move(mounts->root);
  box.proc = std::move(mounts->proc);
  box.terminals = std::move(mounts->terminals);
  box.cgroups = std::move(*cgroups);
  if (const auto done = become(box); !done) return done.error();
  if (const auto done = limit_capabilities(box); !done) return done.error();
  return box;
}

}  // namespace caisson::init
