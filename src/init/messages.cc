// What each message looks like as bytes, and the rules that it must keep.
#include "init/messages.h"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

#include "init/wire.h"

namespace caisson::init {

namespace {

constexpr std::uint32_t max_mode = 07777;
constexpr std::uint32_t max_errno = 4095;  // MAX_ERRNO: no system call returns a larger one.
constexpr std::uint32_t unchanged_id = 0xffffffff;
// As execve(2) counts a string beside its bytes: its NUL and its pointer.
constexpr std::size_t string_cost = 1 + 8;
constexpr std::size_t max_strings = max_arguments / string_cost;

bool has_nul(std::string_view text) noexcept { return text.find('\0') != std::string_view::npos; }

bool has_parent_component(std::string_view path) noexcept {
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    if (component == "..") return true;
    path.remove_prefix(std::min(path.size(), component.size() + 1));
  }
  return false;
}

// Of an entry of a directory, or empty.
bool is_name(std::string_view name) noexcept {
  return name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

bool is_variable(std::string_view entry) noexcept {
  const auto sign = entry.find('=');
  return sign != std::string_view::npos && sign > 0;
}

std::size_t cost_of(const std::vector<std::string>& strings) noexcept {
  std::size_t cost = 0;
  for (const std::string& string : strings) cost += string.size() + string_cost;
  return cost;
}

void text(auto& archive, auto& value, std::size_t most, int error = EINVAL) {
  archive.bytes(value, most, error);
  archive.require(!has_nul(value));
}

void optional_path(auto& archive, auto& path) { text(archive, path, max_path, ENAMETOOLONG); }
void path(auto& archive, auto& path) {
  optional_path(archive, path);
  archive.require(!path.empty());
}
void absolute_path(auto& archive, auto& path) {
  optional_path(archive, path);
  archive.require(path.starts_with('/'));
}
void path_in_box(auto& archive, auto& path) {
  absolute_path(archive, path);
  archive.require(!has_parent_component(path));
}

void paths_in_box(auto& archive, auto& paths) {
  archive.list(paths, max_entries, [](auto& each, auto& path) { path_in_box(each, path); });
}

void arguments(auto& archive, auto& strings) {
  archive.list(
      strings, max_strings, [](auto& each, auto& string) { text(each, string, max_arguments, E2BIG); },
      E2BIG);
}
void variables(auto& archive, auto& entries) {
  arguments(archive, entries);
  archive.require(std::all_of(entries.begin(), entries.end(), is_variable));
}

void mode(auto& archive, auto& mode) {
  archive.number(mode);
  archive.require(mode <= max_mode);
}
void id(auto& archive, auto& id) {
  archive.number(id);
  archive.require(id != unchanged_id);
}
void signal(auto& archive, auto& number) {
  archive.number(number);
  archive.require(number >= 1 && number <= max_signal);
}

void joined(auto& archive, auto& count) {
  archive.number(count);
  archive.require(count <= max_joined);
}

void pid(auto& archive, auto& number) {
  archive.number(number);
  archive.require(number >= 1 && number <= INT32_MAX);
}

void describe(auto& archive, Is<MountFlags> auto& flags) {
  archive.boolean(flags.read_only);
  archive.boolean(flags.nosuid);
  archive.boolean(flags.nodev);
  archive.boolean(flags.noexec);
}

void describe(auto& archive, Is<Tmpfs> auto& mount) {
  path_in_box(archive, mount.target);
  archive.number(mount.size);
  archive.number(mount.inodes);
  mode(archive, mount.mode);
  describe(archive, mount.flags);
}

void describe(auto& archive, Is<Bind> auto& mount) {
  absolute_path(archive, mount.source);
  path_in_box(archive, mount.target);
  archive.boolean(mount.recursive);
  describe(archive, mount.flags);
}

void describe(auto& archive, Is<Proc> auto& mount) { path_in_box(archive, mount.target); }

void describe(auto& archive, Is<Devpts> auto& mount) { path_in_box(archive, mount.target); }

void describe(auto& archive, Is<Attached> auto& mount) {
  archive.number(mount.descriptor);
  path_in_box(archive, mount.target);
}

void describe(auto& archive, Is<Overlay> auto& mount) {
  path_in_box(archive, mount.target);
  archive.list(mount.lower, max_lower, [](auto& each, auto& lower) { absolute_path(each, lower); });
  optional_path(archive, mount.upper);
  optional_path(archive, mount.work);
  archive.require(!mount.lower.empty() && mount.upper.empty() == mount.work.empty());
  archive.require(mount.upper.empty() || (mount.upper.starts_with('/') && mount.work.starts_with('/')));
}

void describe(auto& archive, Is<File> auto& file) {
  path_in_box(archive, file.path);
  mode(archive, file.mode);
  archive.bytes(file.contents, max_body, EMSGSIZE);
}

void describe(auto& archive, Is<Symlink> auto& link) {
  path(archive, link.target);
  path_in_box(archive, link.path);
}

void describe(auto& archive, Is<Directory> auto& directory) {
  path_in_box(archive, directory.path);
  mode(archive, directory.mode);
  id(archive, directory.uid);
  id(archive, directory.gid);
}

void describe(auto& archive, Is<BoxUser> auto& user) {
  id(archive, user.uid);
  id(archive, user.gid);
  archive.list(user.groups, max_groups, [](auto& each, auto& group) { id(each, group); });
  path_in_box(archive, user.home);
  text(archive, user.name, max_name);
}

void describe(auto& archive, Is<Ids> auto& ids) {
  id(archive, ids.uid);
  id(archive, ids.gid);
}

void describe(auto& archive, Is<Rlimit> auto& limit) {
  archive.number(limit.resource);
  archive.number(limit.soft);
  archive.number(limit.hard);
  archive.require(limit.resource < max_rlimits && limit.soft <= limit.hard);
}

void describe(auto& archive, Is<ExecState> auto& exec) {
  archive.number(exec.exec);
  pid(archive, exec.pid);
  archive.boolean(exec.ended);
}

// The items of a list, the alternatives of a variant, as structs.
constexpr auto described = [](auto& archive, auto& item) { describe(archive, item); };

// Whether each detached mount is attached exactly once.
bool attaches_each_once(const BoxPlan& plan) noexcept {
  const std::uint8_t count = plan.attached();
  if (count > max_descriptors) return false;
  std::uint32_t attached = 0;
  for (const Mount& mount : plan.mounts) {
    const auto* detached = std::get_if<Attached>(&mount);
    if (detached == nullptr) continue;
    if (detached->descriptor >= count) return false;
    attached |= 1U << detached->descriptor;
  }
  return attached == (1U << count) - 1;
}

bool names_each_once(std::vector<Device> devices) {
  std::sort(devices.begin(), devices.end());
  return std::adjacent_find(devices.begin(), devices.end()) == devices.end();
}

void describe(auto& archive, Is<BoxPlan> auto& plan) {
  text(archive, plan.hostname, max_hostname);
  archive.require(!plan.hostname.empty());
  archive.list(plan.mounts, max_mounts, [](auto& each, auto& mount) { each.variant(mount, described); });
  archive.list(plan.directories, max_entries, described);
  archive.list(plan.files, max_entries, described);
  archive.list(plan.symlinks, max_entries, described);
  archive.list(plan.devices, max_devices, [](auto& each, auto& device) { each.choice(device, last_device); });
  paths_in_box(archive, plan.masked);
  paths_in_box(archive, plan.read_only);
  path_in_box(archive, plan.workspace);
  describe(archive, plan.user);
  describe(archive, plan.ids);
  archive.number(plan.capabilities);
  archive.list(plan.rlimits, max_rlimits, described);
  archive.bytes(plan.seccomp, max_seccomp);
  archive.require(!plan.seccomp.empty() && plan.seccomp.size() % 8 == 0);
  variables(archive, plan.environment);
  archive.require(cost_of(plan.environment) <= max_arguments, E2BIG);
  archive.boolean(plan.cgroup);
  joined(archive, plan.joined);
  archive.require(attaches_each_once(plan) && names_each_once(plan.devices));
  archive.require(plan.descriptors() <= max_descriptors);
}

void describe(auto& archive, Is<TtySize> auto& size) {
  archive.number(size.columns);
  archive.number(size.rows);
}

void describe(auto& archive, Is<Hello> auto& message) { archive.number(message.version); }

void describe(auto& archive, Is<BuildBox> auto& message) { describe(archive, message.plan); }

void describe(auto& archive, Is<StartExec> auto& message) {
  arguments(archive, message.argv);
  archive.require(!message.argv.empty());
  variables(archive, message.env);
  archive.require(cost_of(message.argv) + cost_of(message.env) <= max_arguments, E2BIG);
  optional_path(archive, message.cwd);
  archive.optional(message.tty, [](auto& each, auto& size) { describe(each, size); });
  archive.boolean(message.input);
  archive.number(message.descriptor_limit_soft);
  text(archive, message.cgroup, max_name);
  archive.require(is_name(message.cgroup));
  joined(archive, message.joined);
}

void describe(auto& archive, Is<SignalExec> auto& message) {
  archive.number(message.exec);
  signal(archive, message.signal);
}

void describe(auto& archive, Is<KillExec> auto& message) { archive.number(message.exec); }

void describe(auto& archive, Is<AckExit> auto& message) { archive.number(message.exec); }

void describe(auto& archive, Is<ResizeTty> auto& message) {
  archive.number(message.exec);
  describe(archive, message.size);
}

void describe(auto& archive, Is<OpenFile> auto& message) {
  path(archive, message.path);
  optional_path(archive, message.directory);
  archive.require(message.directory.empty() || message.directory.starts_with('/'));
}

void describe(auto& archive, Is<BeginPut> auto& message) {
  path(archive, message.path);
  archive.optional(message.mode, [](auto& each, auto& bits) { mode(each, bits); });
}

void describe(auto& archive, Is<CommitPut> auto& message) { archive.number(message.put); }

void describe(auto& archive, Is<AbortPut> auto& message) { archive.number(message.put); }

void describe(auto& archive, Is<HelloReply> auto& message) { archive.number(message.version); }

void describe(auto& archive, Is<Failed> auto& message) {
  archive.choice(message.step, last_step);
  archive.number(message.number);
  archive.require(message.number <= max_errno);
  archive.bytes(message.detail, max_detail);
}

void describe(auto& archive, Is<Started> auto& message) {
  archive.number(message.exec);
  pid(archive, message.pid);
  archive.boolean(message.tty);
}

void describe(auto& archive, Is<Exited> auto& message) {
  archive.number(message.exec);
  archive.boolean(message.signaled);
  archive.number(message.code);
  archive.require(message.signaled ? message.code >= 1 && message.code <= max_signal : message.code <= 255);
  archive.boolean(message.core);
  archive.require(message.signaled || !message.core);
  archive.boolean(message.left);
}

void describe(auto& archive, Is<TreeEmpty> auto& message) { archive.number(message.exec); }

void describe(auto& archive, Is<TakeStreams> auto& message) { archive.number(message.exec); }

void describe(auto& archive, Is<CloseInput> auto& message) { archive.number(message.exec); }

void describe(auto& archive, Is<ExecList> auto& message) {
  archive.list(message.execs, max_execs, described);
}

void describe(auto& archive, Is<Streams> auto& message) {
  archive.boolean(message.terminal);
  archive.boolean(message.input);
  archive.boolean(message.output);
  archive.boolean(message.error);
  archive.require(!message.terminal || (!message.input && !message.output && !message.error));
}

void describe(auto& archive, Is<Opened> auto& message) {
  archive.number(message.size);
  mode(archive, message.mode);
}

void describe(auto& archive, Is<PutOpened> auto& message) { archive.number(message.put); }

template <class T>
concept Empty = std::is_empty_v<T>;
void describe(auto& /*archive*/, const Empty auto& /*message*/) {}

std::uint8_t descriptors_of(const auto& message) noexcept {
  if constexpr (requires { message.descriptors(); }) return message.descriptors();
  return 0;
}

template <class Variant, std::size_t index = 0>
os::Result<Variant> decode(const Frame& frame) {
  if constexpr (index == std::variant_size_v<Variant>) {
    return os::error_of(EBADMSG);
  } else {
    using Message = std::variant_alternative_t<index, Variant>;
    if (frame.type != Message::type) return decode<Variant, index + 1>(frame);
    Variant variant(std::in_place_index<index>);
    auto& message = std::get<index>(variant);
    Reader reader(frame.body);
    describe(reader, message);
    reader.finish();
    reader.require(descriptors_of(message) == frame.descriptors);
    if (reader.failed()) return os::error_of(EBADMSG);
    return variant;
  }
}

}  // namespace

std::uint8_t BoxPlan::descriptors() const noexcept {
  return static_cast<std::uint8_t>(attached() + (cgroup ? 1 : 0) + joined);
}

std::uint8_t BoxPlan::attached() const noexcept {
  const auto count = std::count_if(mounts.begin(), mounts.end(), [](const Mount& mount) {
    return std::holds_alternative<Attached>(mount);
  });
  return static_cast<std::uint8_t>(count);
}

template <class Message>
os::Result<std::string> encode(std::uint64_t request, const Message& message) {
  // Counted first: a body that grew as it is written would leave copies of itself behind.
  Writer counter;
  describe(counter, message);
  if (counter.failed()) return os::error_of(counter.error());
  Frame frame{Message::type, request, descriptors_of(message), {}};
  frame.body.reserve(counter.size());
  Writer writer(frame.body);
  describe(writer, message);
  auto bytes = encode(frame);
  wipe(frame.body);
  return bytes;
}

os::Result<Request> decode_request(const Frame& frame) { return decode<Request>(frame); }

os::Result<Reply> decode_reply(const Frame& frame) { return decode<Reply>(frame); }

template os::Result<std::string> encode(std::uint64_t request, const Hello& message);
template os::Result<std::string> encode(std::uint64_t request, const BuildBox& message);
template os::Result<std::string> encode(std::uint64_t request, const StartExec& message);
template os::Result<std::string> encode(std::uint64_t request, const SignalExec& message);
template os::Result<std::string> encode(std::uint64_t request, const KillExec& message);
template os::Result<std::string> encode(std::uint64_t request, const AckExit& message);
template os::Result<std::string> encode(std::uint64_t request, const ResizeTty& message);
template os::Result<std::string> encode(std::uint64_t request, const OpenFile& message);
template os::Result<std::string> encode(std::uint64_t request, const BeginPut& message);
template os::Result<std::string> encode(std::uint64_t request, const CommitPut& message);
template os::Result<std::string> encode(std::uint64_t request, const AbortPut& message);
template os::Result<std::string> encode(std::uint64_t request, const Ping& message);
template os::Result<std::string> encode(std::uint64_t request, const ListExecs& message);
template os::Result<std::string> encode(std::uint64_t request, const TakeStreams& message);
template os::Result<std::string> encode(std::uint64_t request, const CloseInput& message);
template os::Result<std::string> encode(std::uint64_t request, const HelloReply& message);
template os::Result<std::string> encode(std::uint64_t request, const Done& message);
template os::Result<std::string> encode(std::uint64_t request, const Failed& message);
template os::Result<std::string> encode(std::uint64_t request, const Started& message);
template os::Result<std::string> encode(std::uint64_t request, const Exited& message);
template os::Result<std::string> encode(std::uint64_t request, const TreeEmpty& message);
template os::Result<std::string> encode(std::uint64_t request, const Opened& message);
template os::Result<std::string> encode(std::uint64_t request, const PutOpened& message);
template os::Result<std::string> encode(std::uint64_t request, const ExecList& message);
template os::Result<std::string> encode(std::uint64_t request, const Streams& message);

}  // namespace caisson::init
