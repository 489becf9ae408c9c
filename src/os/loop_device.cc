// Loop devices found and made, and mkfs.ext4 run.
#include "os/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "os/beneath.h"
#include "os/files.h"
#include "os/spawn.h"

namespace caisson::os {
namespace {

constexpr int mkfs_patience_ms = 60'000;
// How often another process may take the free device before this one configures it.
constexpr int most_tries = 64;
constexpr std::size_t longest_text = 8192;
constexpr const char* system_path = "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin";

// --- mkfs ---

struct Ran {
  Reaped end;
  bool in_time;
  std::string words;
};

ExplainedResult<Ran> run_mkfs(const std::vector<const char*>& argv, FdRef file) {
  const std::string step = std::string("running ") + argv.front();
  auto words = make_pipe();
  const auto input = open_empty_input();
  if (!words || !input) return explained(words ? input.error() : words.error(), step);
  const std::vector<std::string> paths = exec_candidates(argv.front(), system_path);
  std::vector<const char*> candidates;
  for (const std::string& path : paths) candidates.push_back(path.c_str());
  const char* const environment[] = {"LC_ALL=C", "PATH=/usr/sbin:/sbin:/usr/bin:/bin", nullptr};
  SpawnPlan plan;
  plan.candidates = candidates;
  plan.argv = argv.data();
  plan.envp = environment;
  plan.descriptors[0] = *input;
  plan.descriptors[1] = words->write;
  plan.descriptors[2] = words->write;
  plan.extra = file;
  // It is of no use to anybody else.
  plan.parent_death_signal = SIGKILL;
  const auto process = spawn(plan);
  words->write.reset();
  if (!process) return explained(process.error().number, step);
  pollfd end = {process->pidfd().number, POLLIN, 0};
  int ended = -1;
  do {
    ended = ::poll(&end, 1, mkfs_patience_ms);
  } while (ended < 0 && errno == EINTR);
  if (ended <= 0) static_cast<void>(process->signal(SIGKILL));
  Reaped reaped = process->reap();
  auto text = read_all(words->read, longest_text);
  return Ran{reaped, ended > 0, text ? std::move(*text) : std::string()};
}

// --- Loop devices ---

struct Sought {
  std::string name;  // The last component of the path that it has now.
  dev_t device;
  ino_t inode;
};

Result<Sought> sought(FdRef file) {
  const auto is = status(file);
  if (!is) return is.error();
  const auto descriptors = open_directory("/proc/self/fd");
  if (!descriptors) return descriptors.error();
  auto path = read_link_at(*descriptors, std::to_string(file.number));
  if (!path) return path.error();
  return Sought{path->substr(path->rfind('/') + 1), is->st_dev, is->st_ino};
}

// Whether the device may have that file. Told by the path of its file, so that those of others are not even
// opened: as long as one is open, its owner cannot let go of it.
bool may_have(const std::string& device, const std::string& name) {
  const auto directory = open_directory("/sys/block/" + device + "/loop");
  const auto path = directory ? read_file_at(*directory, "backing_file", longest_text)
                              : Result<std::string>(directory.error());
  if (!path) return false;  // It has none, or had one until now.
  const std::string_view line = std::string_view(*path).substr(0, path->find('\n'));
  return line.substr(line.rfind('/') + 1) == name;
}

// Nothing where it has no file (any more).
Result<std::optional<loop_info64>> info_of(FdRef device) {
  loop_info64 info = {};
  if (::ioctl(device.number, LOOP_GET_STATUS64, &info) == 0) return std::optional(info);
  if (errno == ENXIO) return std::optional<loop_info64>();
  return last_error();
}

ExplainedResult<LoopDevice> open_device(const std::string& name) {
  const std::string path = "/dev/" + name;
  const std::string step = "opening " + path;
  auto device = clear_of_standard_streams(Fd::adopt(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
  if (!device) return explained(device.error(), step);
  const auto is = status(*device);
  if (!is) return explained(is.error(), step);
  if (!S_ISBLK(is->st_mode)) return explained(ENOTBLK, step);
  return LoopDevice{std::move(*device), path, is->st_rdev};
}

ExplainedResult<Fd> open_control() {
  auto control = clear_of_standard_streams(Fd::adopt(::open("/dev/loop-control", O_RDWR | O_CLOEXEC)));
  if (!control) return explained(control.error(), "opening /dev/loop-control");
  return std::move(*control);
}

}  // namespace

ExplainedResult<void> make_ext4(FdRef file, uid_t user, gid_t group) {
  const std::string options =
      "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=" + std::to_string(user) + ":" +
      std::to_string(group);
  // An inode for each 8 KiB, twice as many as usual: workspaces are full of small files.
  const std::vector<const char*> argv = {"mkfs.ext4",
                                         "-q",
                                         "-F",
                                         "-m",
                                         "0",
                                         "-b",
                                         "4096",
                                         "-I",
                                         "256",
                                         "-i",
                                         "8192",
                                         "-E",
                                         options.c_str(),
                                         "/proc/self/fd/3",
                                         nullptr};
  const auto ran = run_mkfs(argv, file);
  if (!ran) return ran.error();
  if (!ran->in_time) return explained(ETIMEDOUT, "running mkfs.ext4");
  const auto& status = ran->end.status;
  // One whose status is lost to the host program is judged by what it made.
  if (status && (status->signaled || status->code != 0))
    return explained(EIO, "mkfs.ext4 failed", ran->words);
  return {};
}

ExplainedResult<std::optional<LoopDevice>> find_loop_device(FdRef file) {
  const std::string step = "looking for a file's loop device";
  const auto wanted = sought(file);
  if (!wanted) return explained(wanted.error(), step);
  const auto devices = open_directory("/sys/block");
  const auto names = devices ? names_in(*devices) : Result<std::vector<std::string>>(devices.error());
  if (!names) return explained(names.error(), step + " in /sys/block");
  for (const std::string& name : *names) {
    if (!name.starts_with("loop") || !may_have(name, wanted->name)) continue;
    auto device = open_device(name);
    if (!device && device.error().number == ENXIO) continue;
    if (!device) return device.error();
    const auto info = info_of(device->device);
    if (!info) return explained(info.error(), step + " at " + device->path);
    if (*info && (*info)->lo_device == wanted->device && (*info)->lo_inode == wanted->inode)
      return std::optional(std::move(*device));
  }
  return std::optional<LoopDevice>();
}

ExplainedResult<LoopDevice> attach_loop_device(FdRef file) {
  auto there = find_loop_device(file);
  if (!there) return there.error();
  if (*there) return std::move(**there);
  const auto control = open_control();
  if (!control) return control.error();
  for (int tries = 0; tries < most_tries; ++tries) {
    const int number = ::ioctl(control->number(), LOOP_CTL_GET_FREE);
    if (number < 0) return explained(errno, "finding a free loop device");
    auto device = open_device("loop" + std::to_string(number));
    if (!device) return device.error();
    loop_config config = {};
    config.fd = static_cast<std::uint32_t>(file.number);
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (::ioctl(device->device.number(), LOOP_CONFIGURE, &config) == 0) return std::move(*device);
    if (errno != EBUSY) return explained(errno, "configuring " + device->path);
  }
  return explained(EBUSY, "finding a free loop device");
}

ExplainedResult<void> probe_loop_devices() {
  const auto control = open_control();
  if (!control) return control.error();
  return {};
}

}  // namespace caisson::os
