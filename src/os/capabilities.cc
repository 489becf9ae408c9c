// Capabilities by capget(2), capset(2) and prctl(2).
#include "os/capabilities.h"

#include <array>

#include "os/capability_calls.h"

namespace caisson::os {
namespace {

constexpr std::array<std::string_view, 41> names{
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
};
static_assert(names[CAP_SYS_ADMIN] == "CAP_SYS_ADMIN" && names[CAP_CHECKPOINT_RESTORE] == names.back());

Result<void> done_if(long result) noexcept {
  if (result < 0) return error_of(static_cast<int>(-result));
  return {};
}

// The capabilities that a prctl(2) with these first arguments says 1 to.
Result<CapabilityMask> asked_one_by_one(int option, bool ambient) noexcept {
  CapabilityMask mask = 0;
  for (int number = 0; number < 64; ++number) {
    const long held = ambient ? raw_syscall(SYS_prctl, raw(option), PR_CAP_AMBIENT_IS_SET, raw(number))
                              : raw_syscall(SYS_prctl, raw(option), raw(number));
    if (held == -EINVAL && number > 0) break;  // The kernel knows no more of them.
    if (held < 0) return error_of(static_cast<int>(-held));
    if (held == 1) mask |= capability(number);
  }
  return mask;
}

}  // namespace

Result<Capabilities> own_capabilities() noexcept {
  KernelCapabilities sets{};
  if (const auto done = done_if(read_capabilities(&sets)); !done) return done.error();
  const auto& [low, high] = sets.half;
  return Capabilities{joined(low.permitted, high.permitted), joined(low.effective, high.effective),
                      joined(low.inheritable, high.inheritable)};
}

Result<void> set_capabilities(const Capabilities& sets) noexcept {
  KernelCapabilities halves{};
  for (int i = 0; i < 2; ++i) {
    halves.half[i].permitted = static_cast<std::uint32_t>(sets.permitted >> (32 * i));
    halves.half[i].effective = static_cast<std::uint32_t>(sets.effective >> (32 * i));
    halves.half[i].inheritable = static_cast<std::uint32_t>(sets.inheritable >> (32 * i));
  }
  return done_if(write_capabilities(&halves));
}

Result<CapabilityMask> ambient_capabilities() noexcept { return asked_one_by_one(PR_CAP_AMBIENT, true); }

Result<CapabilityMask> bounding_capabilities() noexcept { return asked_one_by_one(PR_CAPBSET_READ, false); }

Result<void> raise_ambient_capabilities() noexcept { return done_if(raise_permitted_to_ambient()); }

Result<void> clear_ambient_capabilities() noexcept { return done_if(clear_ambient_set()); }

Result<void> limit_bounding_capabilities(CapabilityMask mask) noexcept {
  return done_if(drop_from_bounding_set(mask));
}

Result<void> limit_capabilities(CapabilityMask mask) noexcept { return done_if(drop_capabilities(mask)); }

std::string capability_name(int number) {
  const auto index = static_cast<std::size_t>(number);
  if (index < names.size()) return std::string(names[index]);
  return "capability " + std::to_string(number);
}

std::string capability_names(CapabilityMask mask) {
  std::string text;
  for (int number = 0; number < 64; ++number) {
    if ((mask & capability(number)) == 0) continue;
    if (!text.empty()) text += ", ";
    text += capability_name(number);
  }
  return text.empty() ? "none" : text;
}

}  // namespace caisson::os
