// The box user's rights, by the ids and capabilities that file system calls are judged by.
#include "init/user_rights.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace caisson::init {
namespace {

// Raw: libc would change the groups of every thread.
bool set_groups(std::size_t count, const std::uint32_t* groups) noexcept {
  return ::syscall(SYS_setgroups, count, groups) == 0;
}

// The permitted capabilities are init's needs and what a command may keep: the latter are in effect only on
// behalf of user 0.
bool put_into_effect(os::CapabilityMask wanted) noexcept {
  auto sets = os::own_capabilities();
  if (!sets) return false;
  sets->effective = sets->permitted & wanted;
  return os::set_capabilities(*sets).has_value();
}

// setfsuid(2) and setfsgid(2) tell of no failure: asked again for what cannot be, they say what is.
bool set_file_ids(uid_t user, gid_t group) noexcept {
  constexpr auto none = static_cast<uid_t>(-1);
  ::setfsgid(group);
  ::setfsuid(user);
  return static_cast<uid_t>(::setfsuid(none)) == user && static_cast<gid_t>(::setfsgid(none)) == group;
}

}  // namespace

os::CapabilityMask own_capability_needs(const Box& box) noexcept {
  const os::CapabilityMask always =
      os::capability(CAP_SETUID) | os::capability(CAP_SETGID) | os::capability(CAP_KILL);
  return box.cgroups ? always : always | os::capability(CAP_SYS_ADMIN) | os::capability(CAP_SYS_PTRACE);
}

os::Result<UserRights> UserRights::take(const Box& box) noexcept {
  UserRights rights(box);
  const bool grouped = !box.groups_settable || set_groups(box.user.groups.size(), box.user.groups.data());
  // The ids first: a change between 0 and another takes capabilities out of effect, or puts them in.
  if (!grouped || !set_file_ids(box.user.uid, box.user.gid)) return os::error_of(EPERM);
  if (!put_into_effect(own_capability_needs(box) | (box.user.uid == 0 ? box.capabilities : 0))) {
    return os::error_of(EPERM);
  }
  return rights;
}

UserRights::UserRights(UserRights&& other) noexcept : box_(std::exchange(other.box_, nullptr)) {}

UserRights::~UserRights() {
  // What fails here leaves less than init had.
  if (box_ == nullptr) return;
  set_file_ids(box_->ids.uid, box_->ids.gid);
  put_into_effect(own_capability_needs(*box_));
  if (box_->groups_settable) set_groups(0, nullptr);
}

}  // namespace caisson::init
