// UserRights: init's system calls with the box user's rights, for a while.
#pragma once

#include "init/box.h"

namespace caisson::init {

/// What init can do by itself, whoever it is: start commands as the box's user and signal them; where no
/// cgroup holds them together, mark them and see whose is whose (TreeMark).
os::CapabilityMask own_capability_needs(const Box& box) noexcept;

/// While it lives, the calling thread has the file system ids, groups and, for user 0, the capabilities of
/// the box's user (credentials(7), setfsuid(2)): what it opens, makes and enters is what that user could. It
/// goes on with what it needs to start commands, which gives no right over files.
class UserRights {
 public:
  /// EPERM: the thread may not.
  static os::Result<UserRights> take(const Box& box) noexcept;
  UserRights(UserRights&& other) noexcept;
  UserRights& operator=(UserRights&&) = delete;
  ~UserRights();

 private:
  explicit UserRights(const Box& box) noexcept : box_(&box) {}
  const Box* box_;
};

}  // namespace caisson::init
