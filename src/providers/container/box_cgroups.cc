// What of cgroups this machine has for boxes: looked for, tried, and said in words.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "caisson/contract/errors.h"
#include "os/self.h"
#include "providers/container/box_cgroup.h"
#include "providers/container/box_cgroup_state.h"

namespace caisson::container {

namespace {

using os::CgroupController;

// Caps that any machine can keep.
const os::CgroupCaps tried_caps{1.0, std::uint64_t{64} << 20U, 64};

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string called(CgroupController controller) {
  return std::string("the ") + os::name_of(controller) + " controller";
}

bool has(const std::vector<CgroupController>& controllers, CgroupController controller) noexcept {
  return std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
}

// A cgroup for the length of a trial.
class Trial {
 public:
  Trial(const std::string& place, int parents)
      : path_(place + "/" + os::new_cgroup_name()), parents_(parents) {
    const auto made = os::make_cgroup(path_, parents);
    if (!made) failure_ = os::explained(made.error(), "making the cgroup " + path_);
  }
  ~Trial() {
    std::string path = path_;
    for (int above = 0; above <= parents_; ++above, path = parent_of(path)) {
      static_cast<void>(os::remove_empty_cgroup(path));
    }
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const os::ExplainedResult<void>& made() const noexcept { return failure_; }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int parents_;
  os::ExplainedResult<void> failure_;
};

os::ExplainedResult<void> try_v1(const std::string& place, CgroupController controller) {
  const Trial trial(place, 1);
  if (!trial.made()) return trial.made();
  return os::set_cgroup_caps(trial.path(), os::CgroupVersion::v1, {controller}, tried_caps);
}

std::string in_v1_but(CgroupController controller, const std::string& mount,
                      const os::ExplainedError& error) {
  std::string text = called(controller) + " is in the cgroup v1 hierarchy at " + mount + ": " + error.text;
  if (!os::is_root()) {
    text += "; only root may change that: run as root, or boot with systemd.unified_cgroup_hierarchy=1";
  }
  return text;
}

std::string in_v2_but(CgroupController controller, const std::string& place,
                      const os::ExplainedError& error) {
  std::string text = called(controller) + " cannot be had beneath " + place + ": " + error.text;
  if (error.number == EBUSY) {
    text +=
        "; processes are in that cgroup itself: start Caisson in one of its own in it (systemd: "
        "DelegateSubgroup=; the program caisson does so itself where it is the only one there)";
  }
  return text;
}

std::string nowhere(CgroupController controller, const std::string& place) {
  std::string text = called(controller) + " is neither in the v2 cgroup " + place +
                     " nor in a v1 hierarchy that is mounted here";
  text += os::is_root()
              ? "; see /proc/cgroups, cgroup_disable= on the kernel's command line, and the "
                "Controllers= of the cgroups above"
              : "; systemd-run --user --scope -p Delegate=yes COMMAND runs a command where it may be";
  return text;
}

void check_name(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw std::logic_error("not the name of a cgroup");
  }
}

}  // namespace

boost::system::result<std::unique_ptr<BoxCgroups>, std::string> BoxCgroups::open(kit::Workers& workers) {
  auto place = os::find_cgroup_place();
  if (!place) return {boost::system::in_place_error, place.error()};
  return open_at(std::move(*place), os::own_cgroup_v1_hierarchies(), workers);
}

std::unique_ptr<BoxCgroups> BoxCgroups::open_at(os::CgroupPlace place,
                                                const std::vector<os::CgroupV1Hierarchy>& hierarchies,
                                                kit::Workers& workers) {
  std::unique_ptr<BoxCgroups> cgroups(new BoxCgroups(std::move(place), workers));
  for (const CgroupController controller : os::all_cgroup_controllers) {
    cgroups->look_for(controller, hierarchies);
  }
  return cgroups;
}

BoxCgroups::BoxCgroups(os::CgroupPlace place, kit::Workers& workers)
    : place_(std::move(place)), boxes_(place_.directory + "/boxes"), workers_(&workers) {
  const Trial trial(boxes_, 2);
  mounts_ = os::is_root() && trial.made() && os::clone_tree(trial.path(), false);
}

void BoxCgroups::look_for(CgroupController controller,
                          const std::vector<os::CgroupV1Hierarchy>& hierarchies) {
  std::string& obstacle = obstacles_.at(static_cast<std::size_t>(controller));
  const std::string above = parent_of(place_.directory);
  const auto available = os::available_controllers(above);
  if (available && has(*available, controller)) {
    const auto works = try_unified(controller);
    if (works) unified_.push_back(controller);
    if (!works) obstacle = in_v2_but(controller, above, works.error());
    return;
  }
  const auto found = std::find_if(hierarchies.begin(), hierarchies.end(),
                                  [controller](const auto& each) { return each.has(controller); });
  if (found == hierarchies.end()) {
    obstacle = nowhere(controller, above);
    return;
  }
  const std::string place = os::cgroup_v1_place(*found);
  const auto works = try_v1(place, controller);
  if (!works) {
    obstacle = in_v1_but(controller, found->position.mount, works.error());
    return;
  }
  const auto known =
      std::find_if(v1_.begin(), v1_.end(), [&place](const V1Place& each) { return each.directory == place; });
  if (known != v1_.end()) {
    known->controllers.push_back(controller);
  } else {
    v1_.push_back({place, {controller}});
  }
}

os::ExplainedResult<void> BoxCgroups::try_unified(CgroupController controller) const {
  const Trial trial(boxes_, 2);
  if (!trial.made()) return trial.made();
  for (const std::string& above : {parent_of(place_.directory), place_.directory, boxes_}) {
    const auto enabled = os::enable_controllers(above, {controller});
    if (!enabled) return enabled;
  }
  return os::set_cgroup_caps(trial.path(), os::CgroupVersion::v2, {controller}, tried_caps);
}

const std::string& BoxCgroups::obstacle(CgroupController controller) const noexcept {
  return obstacles_.at(static_cast<std::size_t>(controller));
}

std::string BoxCgroups::description() const {
  std::string text = "cgroups in " + boxes_ + " (" + place_.how + ")";
  text += mounts_ ? ", which execs are born in" : ", which execs join";
  for (const CgroupController controller : os::all_cgroup_controllers) {
    text += std::string("; ") + os::name_of(controller) + ": ";
    const auto v1 = std::find_if(v1_.begin(), v1_.end(), [controller](const V1Place& each) {
      return has(each.controllers, controller);
    });
    if (has(unified_, controller)) {
      text += "there";
    } else if (v1 != v1_.end()) {
      text += "in " + v1->directory;
    } else {
      text += "none, " + obstacle(controller);
    }
  }
  return text;
}

BoxCgroupPaths BoxCgroups::paths(const std::string& name) const {
  check_name(name);
  BoxCgroupPaths paths{boxes_ + "/" + name, {}};
  for (const V1Place& place : v1_) paths.v1.push_back(place.directory + "/" + name);
  return paths;
}

std::shared_ptr<BoxCgroup> BoxCgroups::make(const std::string& name, const os::CgroupCaps& caps,
                                            InitOwner owner) {
  const auto is_capped = [&caps](CgroupController controller) { return os::has_cap(caps, controller); };
  for (const CgroupController controller : os::all_cgroup_controllers) {
    if (!is_capped(controller) || obstacle(controller).empty()) continue;
    throw SandboxError(ErrorCode::not_enforceable, std::string("provider cannot enforce: a cap of ") +
                                                       os::name_of(controller) + ": " + obstacle(controller));
  }
  auto state = std::make_shared<BoxCgroupState>(paths(name), caps, owner, mounts_);
  std::copy_if(unified_.begin(), unified_.end(), std::back_inserter(state->unified), is_capped);
  state->unified_above = {parent_of(place_.directory), place_.directory, boxes_};
  std::shared_ptr<BoxCgroup> cgroup(new BoxCgroup(state, *workers_));
  auto made = state->make_unified();
  for (const V1Place& place : v1_) {
    const bool serves = std::any_of(place.controllers.begin(), place.controllers.end(), is_capped);
    if (made && serves) made = state->make_v1(place.directory + "/" + name, place.controllers);
  }
  if (!made) fail_cgroup(made.error());
  return cgroup;
}

}  // namespace caisson::container
