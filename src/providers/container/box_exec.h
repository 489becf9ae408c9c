// Commands of a box: started by its init, watched and killed from outside (S-40 to S-48).
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "caisson/kit/provider.h"
#include "providers/container/box_process.h"

namespace caisson::container {

/// What starting a command takes of its box.
struct BoxCommands {
  std::shared_ptr<BoxProcess> process;  ///< Built.
  uid_t host_user = 0;  ///< The box user's ids outside, to whom a command's pipes belong (D-5).
  gid_t host_group = 0;
};

/// As kit::SessionBox::start(). Nothing that init answers is believed beyond its form; what it passes for a
/// terminal is looked at.
Awaitable<kit::StartedExec> start_in_box(BoxCommands box, std::shared_ptr<const kit::ExecPlan> plan,
                                         boost::asio::any_io_executor executor);

/// A command and whatever it starts: in its cgroups, or, in a box that has none, as init tells. Once the box
/// has ended nothing is left of it.
class BoxExecTree final : public kit::ExecTree {
 public:
  /// `leaf`: the cgroups that it was started in, if the box has some.
  BoxExecTree(std::shared_ptr<BoxProcess> box, std::shared_ptr<InitExec> exec, std::optional<BoxLeaf> leaf,
              const boost::asio::any_io_executor& executor);
  ~BoxExecTree() override;

  /// Begins to watch the leader; may throw boost::system::system_error.
  void watch();
  boost::asio::posix::stream_descriptor& leader() override { return leader_; }
  std::optional<ExecEnded> try_reap() override;
  void signal(int number) noexcept override;
  void kill() noexcept override;
  bool empty() noexcept override;
  void retire() noexcept override;

 private:
  void reap_locked();
  bool empty_locked() noexcept;
  void kill_locked() noexcept;

  const std::shared_ptr<BoxProcess> box_;
  const std::shared_ptr<InitExec> exec_;
  std::mutex mutex_;
  std::optional<BoxLeaf> leaf_;
  std::optional<ExecEnded> ended_;
  bool empty_ = false;  // For good: nobody is left to start another.
  bool killed_ = false;
  boost::asio::posix::stream_descriptor leader_;  // Of exec_'s descriptor, which stays exec_'s.
};

}  // namespace caisson::container
