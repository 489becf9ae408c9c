// Opening what the boxes of one provider share.
#include "providers/container/container_core.h"

#include <utility>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "os/host_file.h"

namespace caisson::container {
namespace {

os::Fd open_init(const std::string& path) {
  auto file = os::open_for_reading(path);
  if (file && file->kind == os::FileKind::regular) return std::move(file->fd);
  throw SandboxError(ErrorCode::unavailable,
                     "the program of a box's first process, " + quote(path, 300) + ", cannot be opened: " +
                         (file ? std::string("it is no regular file") : file.error().message()) +
                         "; install caisson-init, or set CAISSON_INIT to its path");
}

}  // namespace

ContainerCore::ContainerCore(ContainerSettings settings, std::shared_ptr<kit::Clock> clock, kit::Log log,
                             UseCgroups use_cgroups)
    : settings_((kit::prepare_host_program(log), std::move(settings))),
      clock_(std::move(clock)),
      log_(std::move(log)),
      init_program_(open_init(settings_.init_program)),
      threads_(nullptr) {
  if (use_cgroups == UseCgroups::no) {
    no_cgroups_ = "boxes are not to have any";
    return;
  }
  auto cgroups = BoxCgroups::open(threads_.spawners());
  if (cgroups) {
    cgroups_ = std::move(*cgroups);
    return;
  }
  no_cgroups_ = cgroups.error();
  kit::log_to(
      log_, kit::LogLevel::info,
      "no cgroup can be had for boxes: " + no_cgroups_ + "; the init of each ends its commands instead");
}

const std::string& ContainerCore::cap_obstacle(os::CgroupController controller) const noexcept {
  return cgroups_ ? cgroups_->obstacle(controller) : no_cgroups_;
}

}  // namespace caisson::container
