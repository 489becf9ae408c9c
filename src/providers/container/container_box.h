// ContainerBox: one session's box, as the kit uses it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "caisson/kit/provider.h"
#include "providers/container/box_exec.h"
#include "providers/container/box_files.h"

namespace caisson::container {

/// Commands and files of a built box. Dropping it kills the box.
class ContainerBox final : public kit::SessionBox {
 public:
  /// `slot`: the box's ids. Its user is root in the box.
  ContainerBox(std::shared_ptr<BoxProcess> process, const UidSlot& slot);
  ~ContainerBox() override;

  const std::string& workspace_path() const noexcept override { return workspace_path_; }
  void end_processes() noexcept override;
  Awaitable<kit::StartedExec> start(std::shared_ptr<const kit::ExecPlan> plan,
                                    boost::asio::any_io_executor executor) override;
  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) override;
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode) override;

  const std::shared_ptr<BoxProcess>& process() const noexcept { return commands_.process; }

 private:
  const std::string workspace_path_ = box_workspace;
  const BoxCommands commands_;
  BoxFiles files_;
};

struct BoxRequest {
  std::string image;                    ///< As the spec has it.
  BoxShape shape;                       ///< Whether processes are capped by a cgroup is found out here.
  std::string cgroup_name;              ///< As BoxCgroups::make() takes it; where there are cgroups.
  std::optional<double> cpu;            ///< Caps that the caller asked for.
  std::optional<std::uint64_t> memory;  ///< Bytes.
};

/// What is wanted, found out on the worker that makes it: it may block, and throw.
using PrepareBox = std::function<BoxRequest()>;

/// A new box, built. Its connection's work is done on `executor`. Throws SandboxSpecRejectedError for an
/// image that cannot be, unavailable where the machine lacks something, kit::DescriptorsExhausted, and what
/// `prepare` throws; nothing of a box that failed is left.
Awaitable<std::shared_ptr<ContainerBox>> make_box(std::shared_ptr<ContainerCore> core, PrepareBox prepare,
                                                  boost::asio::any_io_executor executor);

}  // namespace caisson::container
