// Scenarios: the lives of sessions that are cut short here, or meet with errors.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "caisson/caisson.h"
#include "os/fault_point.h"

namespace caisson::test {

/// Where a scenario plays, and who hears of it.
struct Stage {
  std::string root;
  std::string lifeline;  ///< A FIFO that somebody reads; every process of a session holds it open.
  kit::TreeKill way = kit::TreeKill::cgroup;
  /// Hears "begin STEP" and "done STEP".
  std::function<void(const std::string& news)> say = [](const std::string&) {};
  /// Hears why a step failed, which is then tried once more. Without it a failure is the scenario's.
  std::function<void(const std::string& step, const SandboxError& error)> failed = {};
  /// Runs with the sandbox still open, at the end.
  std::function<void(blocking::Sandbox&)> finish = [](blocking::Sandbox&) {};
};

/// "keep", "doomed", "scratch", "shared": a session is filled and grown, then released, destroyed, reaped, or
/// destroyed while another shares its workspace. "life": all four, the first from beginning to end.
/// "mounted": files are put on a file system that is mounted within the workspace.
/// "failed_create": creates that fail in their last step (own_faults), and clean up behind themselves.
/// "wreck": sessions of every kind in mid-life, one of them wished away; meant to be killed there.
/// "stopped_shim": a command that has stopped its shim; meant to be killed there.
/// "recovery": opens the root, as it may be, and closes it.
void play(const Stage& stage, std::string_view scenario);

/// The faults that a scenario cannot do without.
std::vector<os::Fault> own_faults(std::string_view scenario);

/// What a file of a workspace holds, from its first byte to its last.
std::string whole(std::string_view word);

OpenOptions crash_options(const Stage& stage, std::shared_ptr<kit::Clock> clock = {});
SandboxSessionSpec crash_spec(std::string key, Durability durability, int ttl_seconds = 100000);
/// A command that makes a tree of processes, setsid and double fork included, and stays with it or leaves it.
Argv tree_command(const Stage& stage, bool stay);

}  // namespace caisson::test
