// The plan of a box: what its image, its workspace and the settings make of it (S-101, S-103, D-8).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "caisson/contract/errors.h"
#include "caisson/providers/container.h"
#include "init/box_plan.h"
#include "os/fd.h"
#include "providers/container/uid_slots.h"

namespace caisson::container {

/// Why no box can be planned.
struct PlanFailure {
  ErrorCode code = ErrorCode::unavailable;
  std::string message;
  std::string field;  ///< "image": the spec asks for what cannot be; empty: the machine lacks something.
};
template <class T>
using PlanResult = boost::system::result<T, PlanFailure>;
/// Throws SandboxSpecRejectedError for a failure that names a field, else SandboxError.
[[noreturn]] void throw_exception_from_error(const PlanFailure& failure, const boost::source_location&);

/// The name of the image that is this machine itself.
inline constexpr std::string_view host_image = "host";

/// An image that is there: this machine's own programs, or a directory's.
struct Image {
  os::Fd directory;  ///< O_PATH; none: the image is `host`.
  std::string path;  ///< The directory's, symlinks resolved.
};

/// The image of that name: `host`, or an absolute path of a directory, for a box with these ids. Rejected:
/// other names, what is no directory, the host's own root, a directory that shares files with the provider's
/// own, and one whose owner is none of the box's ids (as root: ids below the slot's size, which an idmapped
/// mount shows as the box's). Blocking.
PlanResult<Image> find_image(const std::string& name, const ContainerSettings& settings, const UidSlot& slot);

struct BoxShape {
  std::string hostname;
  UidSlot slot;
  std::string volume;        ///< Path of a persistent workspace of the slot's ids; empty: it is ephemeral.
  bool pids_capped = false;  ///< A cgroup caps the number of processes, else RLIMIT_NPROC does.
};

/// A plan, and the detached mounts that ride along with it.
struct PlannedBox {
  init::BoxPlan plan;
  std::vector<os::Fd> attached;
};

inline constexpr const char* box_workspace = "/workspace";

/// What a box of that image and shape is built from. `box_user_namespace`: the box's own, in which a
/// directory's ids are mapped as root. Blocking: it reads files of the host and makes detached mounts.
PlanResult<PlannedBox> plan_box(const ContainerSettings& settings, const Image& image, const BoxShape& shape,
                                os::FdRef box_user_namespace);

/// Changes when what plan_box() copies of this machine for image `host` does. Blocking, some microseconds.
std::string host_image_version();

/// The user of a passwd(5) text whose id is 0; root with home /root where there is none.
init::BoxUser root_of(std::string_view passwd);

}  // namespace caisson::container
