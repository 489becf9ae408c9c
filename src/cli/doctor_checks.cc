// What doctor looks at.
#include "cli/doctor_checks.h"

#include <filesystem>
#include <iterator>
#include <optional>

#include "caisson/contract/errors.h"
#include "caisson/providers/container.h"
#include "caisson/providers/local.h"
#include "os/host_file.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/rlimits.h"
#include "os/self.h"

namespace caisson::cli {
namespace {

std::string dotted(os::KernelVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

Finding kernel_version() {
  const std::string release = os::kernel_release();
  if (os::parse_kernel_version(release) >= os::oldest_kernel)
    return {"kernel", FindingStatus::ok, "Linux " + release};
  return {"kernel", FindingStatus::problem,
          "Linux " + release + " is older than " + dotted(os::oldest_kernel),
          "run on Linux " + dotted(os::oldest_kernel) + " or newer"};
}

Finding kernel_feature(const os::KernelFeature& feature) {
  std::string name(feature.name);
  if (feature.works) return {std::move(name), FindingStatus::ok, "works"};
  const bool missing = feature.works.error() == os::error_of(ENOSYS);
  const std::string since = dotted(feature.since);
  std::string detail = missing ? "this kernel does not have it (it came with Linux " + since + ")"
                               : "refused: " + feature.works.error().message();
  if (!feature.required) return {std::move(name), FindingStatus::note, detail + "; Caisson does without"};
  return {std::move(name), FindingStatus::problem, std::move(detail),
          "use a kernel that has it (Linux " + since +
              "), or, in a container, a seccomp profile that permits it (docker run --security-opt "
              "seccomp=unconfined)"};
}

// Whether a delegated scope can be asked of systemd by an ordinary user here.
bool systemd_runs() {
  std::error_code ignored;
  return std::filesystem::exists("/run/systemd/system", ignored);
}

}  // namespace

std::string_view to_string(FindingStatus status) noexcept {
  switch (status) {
    case FindingStatus::ok:
      return "ok";
    case FindingStatus::note:
      return "note";
    case FindingStatus::weak:
      return "weak";
    case FindingStatus::problem:
      break;
  }
  return "problem";
}

std::vector<Finding> examine_kernel() {
  std::vector<Finding> findings{kernel_version()};
  for (const os::KernelFeature& feature : os::probe_kernel()) findings.push_back(kernel_feature(feature));
  return findings;
}

Finding examine_tree_kill() {
  try {
    const auto report = local::probe_tree_kill();
    if (report.way == kit::TreeKill::cgroup) {
      return {"tree_kill", FindingStatus::ok, "by a cgroup for each command, cgroup.kill: " + report.detail};
    }
    Finding finding{"tree_kill", FindingStatus::note,
                    "by a subreaper process for each command, for no cgroup can be had: " + report.detail};
    if (!os::is_root() && systemd_runs() && report.detail.find("systemd-run") == std::string::npos) {
      finding.fix =
          "for cgroups, start it in a scope of its own: systemd-run --user --scope -p Delegate=yes COMMAND";
    }
    return finding;
  } catch (const SandboxError& error) {
    return {"tree_kill", FindingStatus::problem, error.what(), "see the reason given"};
  }
}

Finding examine_descriptors() {
  const auto limit = os::original_descriptor_limit();
  // A running command holds about five; so many are few.
  constexpr std::uint64_t few = 1024;
  std::string detail = "at most " + std::to_string(limit.hard) + " (soft limit " +
                       std::to_string(limit.soft) + ", raised when a sandbox opens)";
  if (limit.hard >= few) return {"descriptors", FindingStatus::ok, std::move(detail)};
  return {"descriptors", FindingStatus::note, detail + "; commands wait for each other when they run out",
          "raise the hard limit: ulimit -Hn, or LimitNOFILE= of a systemd unit"};
}

Finding examine_children() {
  if (os::children_are_waitable()) return {"sigchld", FindingStatus::ok, "exit statuses can be read"};
  return {"sigchld", FindingStatus::note, "SIGCHLD is ignored here: exit statuses are lost before Linux 6.15",
          "start it where SIGCHLD has its default action"};
}

std::vector<Finding> examine_policy(const kit::SettingSource& settings, bool root) {
  std::optional<SandboxPolicy> bound;
  try {
    bound = kit::policy_from(settings);
  } catch (const SandboxError& error) {
    return {{"policy", FindingStatus::problem, error.what(), "mend or unset that setting"}};
  }
  const SandboxPolicy& policy = *bound;
  std::vector<Finding> findings;
  findings.push_back({"policy", FindingStatus::ok,
                      "isolation at least " + std::string(to_string(policy.isolation)) +
                          ", network at most " + std::string(to_string(policy.egress)) +
                          ", persistent workspaces " + (policy.durable ? "permitted" : "refused")});
  if (policy.isolation == SandboxIsolation::none) {
    findings.push_back(
        {"policy_isolation", FindingStatus::weak,
         "TAI_MCP_SANDBOX_ISOLATION=none PERMITS COMMANDS ON THIS MACHINE ITSELF, with its files, "
         "network and secrets in reach",
         "unset it where code that you do not trust may come"});
    if (root) {
      findings.push_back({"root", FindingStatus::weak, "COMMANDS OF TIER none WOULD RUN AS ROOT",
                          "run Caisson as an ordinary user"});
    }
    findings.push_back({"tier_none", FindingStatus::ok, "the local provider"});
  } else {
    findings.push_back({"tier_none", FindingStatus::note, "the local provider, refused by the policy",
                        "TAI_MCP_SANDBOX_ISOLATION=none permits it"});
  }
  findings.push_back({"tier_vm", FindingStatus::note, "no provider is built in yet"});
  return findings;
}

Finding examine_local_root(const kit::SettingSource& settings) {
  try {
    const auto local = local::LocalSettings::from(settings);
    const auto writable = os::may_write_directory(local.root);
    if (writable) return {"local_root", FindingStatus::ok, local.root};
    return {"local_root", FindingStatus::problem, local.root + ": " + writable.error().message(),
            "make it a directory that this user may write, or set SANDBOX_LOCAL_ROOT to another"};
  } catch (const SandboxError& error) {
    return {"local_root", FindingStatus::problem, error.what(), "mend or unset that setting"};
  }
}

std::vector<Finding> examine_container(const kit::SettingSource& settings) {
  container::ContainerSettings container;
  try {
    container = container::ContainerSettings::from(settings);
  } catch (const SandboxError& error) {
    return {{"tier_container", FindingStatus::problem, error.what(), "mend or unset that setting"}};
  }
  std::vector<Finding> findings;
  bool works = true;
  for (container::Mechanism& each : container::probe(container)) {
    const FindingStatus broken = each.required ? FindingStatus::problem : FindingStatus::note;
    works = works && (each.works || !each.required);
    findings.push_back({std::move(each.name), each.works ? FindingStatus::ok : broken, std::move(each.detail),
                        std::move(each.fix)});
  }
  if (container.unbounded_disk) {
    findings.push_back(
        {"container_disk", FindingStatus::weak,
         "CAISSON_CONTAINER_UNBOUNDED_DISK=1 LETS SESSIONS FILL THE DISK through persistent workspaces",
         "unset it where code that you do not trust may come"});
  }
  findings.push_back(
      works ? Finding{"tier_container", FindingStatus::ok, "the container provider"}
            : Finding{"tier_container", FindingStatus::problem, "what is said above is missing",
                      "mend that; caisson run --isolation none runs commands on this machine itself"});
  return findings;
}

std::vector<Finding> examine(const kit::SettingSource& settings) {
  std::vector<Finding> findings = examine_kernel();
  findings.push_back(examine_tree_kill());
  findings.push_back(examine_children());
  findings.push_back(examine_descriptors());
  findings.push_back(examine_local_root(settings));
  auto container = examine_container(settings);
  findings.insert(findings.end(), std::make_move_iterator(container.begin()),
                  std::make_move_iterator(container.end()));
  auto policy = examine_policy(settings, os::is_root());
  findings.insert(findings.end(), std::make_move_iterator(policy.begin()),
                  std::make_move_iterator(policy.end()));
  return findings;
}

}  // namespace caisson::cli
