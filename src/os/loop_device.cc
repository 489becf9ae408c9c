// Binding files to loop devices, and finding those that are.
#include "os/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>

#include "os/beneath.h"
#include "os/files.h"

namespace caisson::os {
namespace {

// Others may take the device that was free a moment ago.
constexpr int most_tries = 64;
constexpr std::size_t longest_attribute = 4096;

bool is_loop_name(const std::string& name) noexcept {
  return name.size() > 4 && name.starts_with("loop") &&
         name.find_first_not_of("0123456789", 4) == std::string::npos;
}

Result<LoopDevice> open_device(const std::string& path, int flags) {
  Fd device = Fd::adopt(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
  if (!device) return last_error();
  const auto is = status(device);
  if (!is) return is.error();
  if (!S_ISBLK(is->st_mode)) return error_of(ENOTBLK);
  return LoopDevice{std::move(device), path, is->st_rdev};
}

// The file that a device is bound to as the kernel has it in sysfs; nothing for one that is free.
std::optional<std::string> backing_file(FdRef devices, const std::string& name) {
  auto path = read_file_at(devices, name + "/loop/backing_file", longest_attribute);
  if (!path) return std::nullopt;
  while (path->ends_with('\n')) path->pop_back();
  return std::move(*path);
}

std::string number_of(FdRef devices, const std::string& name) {
  auto number = read_file_at(devices, name + "/dev", longest_attribute);
  return number ? number->substr(0, number->find('\n')) : std::string();
}

// The last part of the path of what is open.
std::string name_of(FdRef file) {
  const auto descriptors = open_directory("/proc/self/fd");
  const auto path = descriptors ? read_link_at(*descriptors, std::to_string(file.number))
                                : Result<std::string>(descriptors.error());
  return path ? path->substr(path->rfind('/') + 1) : std::string();
}

}  // namespace

ExplainedResult<std::optional<LoopDevice>> find_loop_device(FdRef file) {
  const std::string step = "looking for a loop device";
  const auto wanted = status(file);
  const std::string own_name = name_of(file);
  const auto devices = open_directory("/sys/block");
  if (!wanted || !devices) return explained(wanted ? devices.error() : wanted.error(), step);
  const auto names = names_in(*devices);
  if (!names) return explained(names.error(), step);
  for (const std::string& name : *names) {
    if (!is_loop_name(name)) continue;
    const auto backing = backing_file(*devices, name);
    if (!backing) continue;
    auto device = open_device("/dev/" + name, O_RDONLY);
    const bool is_it = device && number_of(*devices, name) == std::to_string(major(device->number)) + ":" +
                                                                  std::to_string(minor(device->number));
    if (!is_it) {
      // Unbound by now, or beyond the reach of this process; then its path has to tell.
      if (!backing_file(*devices, name) || backing->substr(backing->rfind('/') + 1) != own_name) continue;
      return explained(EBUSY, step, name + " may be bound to that file, and cannot be opened in /dev");
    }
    loop_info64 info{};
    if (::ioctl(device->device.number(), LOOP_GET_STATUS64, &info) != 0) continue;  // Unbound by now.
    if (info.lo_device != wanted->st_dev || info.lo_inode != wanted->st_ino) continue;
    if (info.lo_offset != 0 || info.lo_sizelimit != 0 || (info.lo_flags & LO_FLAGS_READ_ONLY) != 0)
      return explained(EBUSY, step, name + " shows the file in part or read-only; detach it (losetup -d)");
    return std::optional<LoopDevice>(std::move(*device));
  }
  return std::optional<LoopDevice>();
}

ExplainedResult<LoopDevice> make_loop_device(FdRef file, const std::string& name) {
  const std::string step = "making a loop device";
  const Fd control = Fd::adopt(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return explained(last_error(), "opening /dev/loop-control");
  loop_config config{};
  config.fd = static_cast<unsigned>(file.number);
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  std::strncpy(reinterpret_cast<char*>(config.info.lo_file_name), name.c_str(), LO_NAME_SIZE - 1);
  for (int tries = 0; tries < most_tries; ++tries) {
    const int number = ::ioctl(control.number(), LOOP_CTL_GET_FREE);
    if (number < 0) return explained(last_error(), step);
    const std::string path = "/dev/loop" + std::to_string(number);
    auto device = open_device(path, O_RDWR);
    if (!device) return explained(device.error(), "opening " + path);
    if (::ioctl(device->device.number(), LOOP_CONFIGURE, &config) == 0) return std::move(*device);
    if (errno != EBUSY) return explained(last_error(), "binding " + path);
  }
  return explained(EBUSY, step);
}

}  // namespace caisson::os
