// Box: what init keeps of a box that is built, for the commands and files that are asked for later.
#pragma once

#include <string>
#include <vector>

#include "init/box_plan.h"
#include "init/messages.h"
#include "os/capabilities.h"
#include "os/fd.h"

namespace caisson::init {

/// A value, or what to tell the host.
template <class T>
using BoxResult = boost::system::result<T, Failed>;

[[noreturn]] inline void throw_exception_from_error(const Failed& failed, const boost::source_location&) {
  throw boost::system::system_error(os::error_of(static_cast<int>(failed.number)), failed.detail);
}

/// The failure of a step. `detail` is cut to what a message may hold.
inline Failed failure(Step step, int number, std::string detail) {
  if (detail.size() > max_detail) detail.resize(max_detail);
  return {step, static_cast<std::uint32_t>(number), std::move(detail)};
}
inline Failed failure(Step step, const os::Error& error, std::string detail) {
  return failure(step, error.value(), std::move(detail));
}

struct Box {
  BoxUser user;
  Ids ids;                      ///< init's own.
  bool groups_settable = true;  ///< Not in a user namespace of a single id (setgroups(2)).
  os::CapabilityMask capabilities = 0;
  std::vector<Rlimit> rlimits;
  std::string seccomp;
  std::vector<std::string> environment;
  std::string workspace;
  os::Fd root;       ///< O_PATH.
  os::Fd proc;       ///< O_PATH: the box's own, whatever is mounted over it later.
  os::Fd terminals;  ///< O_PATH: the devpts; none: there are no ttys.
  os::Fd cgroups;    ///< O_PATH: those of commands, in a mount with nothing above; none: there are none.
};

}  // namespace caisson::init
