// BoxCgroups: the cgroups of boxes, in which their processes are killed, capped and accounted for (D-4).
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caisson/contract/awaitable.h"
#include "caisson/contract/models.h"
#include "caisson/kit/workers.h"
#include "init/messages.h"
#include "os/cgroup.h"
#include "os/cgroup_controllers.h"

namespace caisson::container {

/// Where the cgroups of one box are. All is chosen before any of it is made.
struct BoxCgroupPaths {
  std::string unified;          ///< Its directory in the v2 hierarchy.
  std::vector<std::string> v1;  ///< Those in v1 hierarchies, as far as it has caps there.

  bool operator==(const BoxCgroupPaths&) const = default;
};

/// Who init is outside its box.
struct InitOwner {
  uid_t user = 0;
  gid_t group = 0;
};

struct BoxCgroupState;

/// The cgroups of one exec. Thread-safe but for moves and kill().
class BoxLeaf {
 public:
  BoxLeaf(BoxLeaf&&) noexcept;
  BoxLeaf& operator=(BoxLeaf&&) noexcept;
  ~BoxLeaf();

  /// Has the command start in them: for a request whose streams are in `descriptors` already. Throws
  /// kit::DescriptorsExhausted.
  void add_to(init::StartExec& request, std::vector<os::Fd>& descriptors) const;

  const std::string& path() const noexcept;  ///< Of the v2 cgroup.
  /// SIGKILL to every process in it, at one stroke. Needs no descriptor; never blocks. Nothing can be started
  /// in it again.
  os::Result<void> kill() noexcept;
  /// Whether a live process is in it. ENODEV: it was removed.
  os::Result<bool> populated() const noexcept;
  /// How many of its processes the kernel has killed for want of memory since it was acquired. Whole once the
  /// exec's leader was reaped. 0 where memory has no cap.
  std::uint64_t oom_kills() const noexcept;
  /// Which caps were run into since it was acquired: memory by this exec, pids by any of its box.
  std::vector<SandboxLimit> limits_hit() const;

 private:
  friend struct BoxCgroupState;
  friend class BoxCgroup;
  struct Parts;
  explicit BoxLeaf(std::unique_ptr<Parts> parts) noexcept;
  void begin() noexcept;
  bool reusable() const noexcept;
  std::unique_ptr<Parts> parts_;
};

/// The cgroups of one box: the whole, init's own place in it, and a leaf for each exec.
///
///     <unified>/            init's ids own cgroup.procs, as of each exec's
///     <unified>/init        init alone
///     <unified>/execs       the caps, where v2 has the controllers
///     <unified>/execs/<n>   an exec
///     <v1>/                 init; each hierarchy that has a cap
///     <v1>/execs            the caps, and the execs
///     <v1>/execs/<n>        an exec, in the hierarchy of memory
///
/// The box as a whole may use a little more than its execs together, which init has for itself: no exec's
/// memory is its end, nor is it slowed by them, and yet it is bounded.
///
/// Thread-safe. Its calls block for less than a millisecond unless they say otherwise.
class BoxCgroup {
 public:
  /// remove(), if that was not called, unless in a fork of the process that made it.
  ~BoxCgroup();
  BoxCgroup(const BoxCgroup&) = delete;
  BoxCgroup& operator=(const BoxCgroup&) = delete;

  const BoxCgroupPaths& paths() const noexcept;
  /// The directory to spawn init into.
  os::FdRef init_leaf() const noexcept;
  /// Has init take its place, for a plan whose mounts are in `descriptors` already. Throws SandboxError.
  void add_to(init::BoxPlan& plan, std::vector<os::Fd>& descriptors) const;
  /// To be called once BuildBox was answered, before the first leaf: sets the caps where v2 has the
  /// controllers, which takes some ms, and has leaves made ahead. Throws SandboxError.
  void complete();
  /// Whether complete() has caps to set: a matter for a worker then.
  bool blocks_to_complete() const noexcept;

  /// A leaf that is ready, if there is one. Never blocks.
  std::optional<BoxLeaf> ready_leaf();
  /// A new one. Throws SandboxError, kit::DescriptorsExhausted when descriptors have run out.
  BoxLeaf make_leaf();
  /// A ready one, else one that a worker makes.
  static Awaitable<BoxLeaf> acquire_leaf(std::shared_ptr<BoxCgroup> self);
  /// Once its exec is over. Kept for another if it is clean, else removed off the caller's path, with
  /// whatever is still in it. Never blocks.
  void give_back(BoxLeaf leaf) noexcept;
  /// Like give_back, for one that a command could not be started in.
  void discard(BoxLeaf leaf) noexcept;

  /// SIGKILL to every process of the box, init too. Needs no descriptor; never blocks.
  os::Result<void> kill() noexcept;
  /// Whether a live process is in it.
  os::Result<bool> populated() const noexcept;
  /// Kills and removes all of it; blocking, at most about `patience`. To be called again when it failed.
  os::ExplainedResult<void> remove(std::chrono::milliseconds patience = std::chrono::seconds(2)) noexcept;

 private:
  friend class BoxCgroups;
  BoxCgroup(std::shared_ptr<BoxCgroupState> state, kit::Workers& workers) noexcept;
  void tidy_soon() noexcept;

  std::shared_ptr<BoxCgroupState> state_;
  kit::Workers* workers_;
};

/// What of cgroups this machine has for boxes. Thread-safe.
class BoxCgroups {
 public:
  /// Finds out by doing; blocking, some ms. `workers` makes and removes leaves, and outlives every BoxCgroup.
  /// The error says why there can be no cgroups, and what would help: boxes have no caps then, and their
  /// inits end the trees of execs.
  static boost::system::result<std::unique_ptr<BoxCgroups>, std::string> open(kit::Workers& workers);
  /// The same at a place that is known, and with the v1 hierarchies that are given.
  static std::unique_ptr<BoxCgroups> open_at(os::CgroupPlace place,
                                             const std::vector<os::CgroupV1Hierarchy>& hierarchies,
                                             kit::Workers& workers);

  /// Why caps by this controller cannot be kept here, and what would help (S-16); empty: they can.
  const std::string& obstacle(os::CgroupController controller) const noexcept;
  /// For doctor: where, and by what each cap is kept.
  std::string description() const;

  /// Where the cgroups of the box `name` (os::new_cgroup_name(), or the like with a session's id) will be. An
  /// ordinary user who is not let into v1 hierarchies has none there.
  BoxCgroupPaths paths(const std::string& name) const;
  /// Makes them, for an init that is `owner` outside. Throws SandboxError: unavailable with what failed, and
  /// not_enforceable for caps that have an obstacle; kit::DescriptorsExhausted.
  std::shared_ptr<BoxCgroup> make(const std::string& name, const os::CgroupCaps& caps, InitOwner owner);

 private:
  struct V1Place {
    std::string directory;  // Of Caisson's cgroups in it.
    std::vector<os::CgroupController> controllers;
  };
  BoxCgroups(os::CgroupPlace place, kit::Workers& workers);
  void look_for(os::CgroupController controller, const std::vector<os::CgroupV1Hierarchy>& hierarchies);
  os::ExplainedResult<void> try_unified(os::CgroupController controller) const;

  os::CgroupPlace place_;
  std::string boxes_;  // The directory of all boxes.
  kit::Workers* workers_;
  bool mounts_;                                // Whether a box can be given a mount of its cgroup.
  std::vector<os::CgroupController> unified_;  // Those that v2 has for us.
  std::vector<V1Place> v1_;                    // The hierarchies by which there are caps.
  std::array<std::string, os::all_cgroup_controllers.size()> obstacles_;
};

}  // namespace caisson::container
