// Caps and counters of cgroups: the files of both versions.
#include "os/cgroup_controllers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "os/cgroup_files.h"
#include "os/files.h"

namespace caisson::os {

namespace {

// Times of the processor share, in microseconds (cgroup-v2, sched-bwc): the usual period, and what the kernel
// takes at most for a period and at least for a quota.
constexpr double usual_period = 100'000;
constexpr double longest_period = 1'000'000;
constexpr double shortest_quota = 1'000;
// More than any machine has is as good as no cap, and no more than the kernel takes.
constexpr double most_processors = 100'000;

constexpr std::size_t most_text = 65536;

ExplainedResult<void> write_value(const std::string& directory, const char* name, const std::string& value) {
  const std::string path = directory + "/" + name;
  const Fd file = Fd::adopt(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return explained(last_error(), "opening " + path);
  // In one write: the kernel takes each for a value of its own.
  const auto written = write_some(file, value.data(), value.size());
  if (!written) return explained(written.error(), "writing " + value + " to " + path);
  return {};
}

bool has_file(const std::string& directory, const char* name) noexcept {
  return ::access((directory + "/" + name).c_str(), F_OK) == 0;
}

ExplainedResult<std::string> read_value(const std::string& directory, const char* name) {
  const std::string path = directory + "/" + name;
  const Fd file = Fd::adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return explained(last_error(), "opening " + path);
  auto text = read_all(file, most_text);
  if (!text) return explained(text.error(), "reading " + path);
  return std::move(*text);
}

bool has_word(std::string_view text, std::string_view word) noexcept {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (text.substr(0, end) == word) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

struct ProcessorShare {
  std::string quota;
  std::string period;
};

ExplainedResult<ProcessorShare> share_of(double processors) {
  const double most = std::min(processors, most_processors);
  double period = usual_period;
  if (most * period < shortest_quota) period = longest_period;
  if (most * period < shortest_quota) {
    return explained(EINVAL, "a share of the processor", "the least that the kernel gives is 0.001");
  }
  return ProcessorShare{std::to_string(std::llround(most * period)), std::to_string(std::llround(period))};
}

ExplainedResult<void> cap_processors(const std::string& directory, CgroupVersion version, double processors) {
  const auto share = share_of(processors);
  if (!share) return share.error();
  const char* const file = version == CgroupVersion::v2 ? "cpu.max" : "cpu.cfs_quota_us";
  if (!has_file(directory, file)) {
    return explained(ENOENT, directory + "/" + file, "the kernel is built without CONFIG_CFS_BANDWIDTH");
  }
  if (version == CgroupVersion::v2) return write_value(directory, file, share->quota + " " + share->period);
  const auto period = write_value(directory, "cpu.cfs_period_us", share->period);
  if (!period) return period.error();
  return write_value(directory, file, share->quota);
}

// /proc/swaps has a line for each area, below its heading.
bool has_swap() {
  const auto swaps = read_value("/proc", "swaps");
  return !swaps || std::count(swaps->begin(), swaps->end(), '\n') > 1;
}

ExplainedResult<void> cap_memory(const std::string& directory, CgroupVersion version, std::uint64_t bytes) {
  const std::string most = std::to_string(bytes);
  const bool unified = version == CgroupVersion::v2;
  const auto set = write_value(directory, unified ? "memory.max" : "memory.limit_in_bytes", most);
  if (!set) return set.error();
  // Of both versions the files of swap are missing where it is not accounted.
  if (unified) {
    if (has_file(directory, "memory.swap.max")) return write_value(directory, "memory.swap.max", "0");
    if (!has_swap()) return {};
    return explained(ENOENT, directory + "/memory.swap.max",
                     "swap is on and not accounted: boot with swapaccount=1, or turn it off (swapoff -a)");
  }
  if (has_file(directory, "memory.memsw.limit_in_bytes")) {
    return write_value(directory, "memory.memsw.limit_in_bytes", most);
  }
  return write_value(directory, "memory.swappiness", "0");
}

bool is_among(const std::vector<CgroupController>& controllers, CgroupController controller) noexcept {
  return std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
}

}  // namespace

const char* name_of(CgroupController controller) noexcept {
  switch (controller) {
    case CgroupController::cpu:
      return "cpu";
    case CgroupController::memory:
      return "memory";
    case CgroupController::pids:
      return "pids";
  }
  return "";
}

bool CgroupV1Hierarchy::has(CgroupController controller) const noexcept {
  return is_among(controllers, controller);
}

std::string cgroup_v1_place(const CgroupV1Hierarchy& hierarchy) {
  const auto& [mount, own] = hierarchy.position;
  return (own.starts_with(mount + shared_name + "/") ? own : mount) + shared_name;
}

bool has_cap(const CgroupCaps& caps, CgroupController controller) noexcept {
  switch (controller) {
    case CgroupController::cpu:
      return caps.cpu.has_value();
    case CgroupController::memory:
      return caps.memory.has_value();
    case CgroupController::pids:
      return caps.pids.has_value();
  }
  return false;
}

ExplainedResult<void> set_cgroup_caps(const std::string& directory, CgroupVersion version,
                                      const std::vector<CgroupController>& controllers,
                                      const CgroupCaps& caps) {
  if (caps.cpu && is_among(controllers, CgroupController::cpu)) {
    const auto set = cap_processors(directory, version, *caps.cpu);
    if (!set) return set.error();
  }
  if (caps.memory && is_among(controllers, CgroupController::memory)) {
    const auto set = cap_memory(directory, version, *caps.memory);
    if (!set) return set.error();
  }
  if (caps.pids && is_among(controllers, CgroupController::pids)) {
    return write_value(directory, "pids.max", std::to_string(*caps.pids));
  }
  return {};
}

ExplainedResult<std::vector<CgroupController>> available_controllers(const std::string& directory) {
  const auto text = read_value(directory, "cgroup.controllers");
  if (!text) return text.error();
  std::vector<CgroupController> available;
  for (const CgroupController controller : all_cgroup_controllers) {
    if (has_word(*text, name_of(controller))) available.push_back(controller);
  }
  return available;
}

ExplainedResult<void> enable_controllers(const std::string& directory,
                                         const std::vector<CgroupController>& controllers) {
  constexpr char file[] = "cgroup.subtree_control";
  const auto enabled = read_value(directory, file);
  if (!enabled) return enabled.error();
  std::string missing;
  for (const CgroupController controller : controllers) {
    if (has_word(*enabled, name_of(controller))) continue;
    missing += (missing.empty() ? "+" : " +") + std::string(name_of(controller));
  }
  if (missing.empty()) return {};
  // With a process in it, the kernel refuses memory, but takes cpu and pids: and from then on nothing can be
  // started in any cgroup beneath it (cgroups(7), "domain invalid"). The root alone, which has no type, is
  // exempt.
  const auto inside = read_value(directory, "cgroup.procs");
  if (has_file(directory, "cgroup.type") && inside && !inside->empty()) {
    return explained(EBUSY, "writing " + missing + " to " + directory + "/" + file);
  }
  return write_value(directory, file, missing);
}

Result<std::uint64_t> read_counter(FdRef file, std::string_view key) noexcept {
  std::array<char, 4096> buffer;
  const auto size = read_at(file, buffer.data(), buffer.size(), 0);
  if (!size) return size.error();
  std::string_view text(buffer.data(), *size);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    std::uint64_t value = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + key.size() + 1, end, value);
    if (error == std::errc() && stop == end) return value;
    break;
  }
  return error_of(EBADMSG);
}

}  // namespace caisson::os
