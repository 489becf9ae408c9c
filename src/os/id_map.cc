// Id maps by /proc and by the programs that have the privilege for it.
#include "os/id_map.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string>
#include <thread>

#include "os/capabilities.h"
#include "os/run_program.h"

namespace caisson::os {
namespace {

// Where the programs are; the caller's PATH is not asked, for they are run with privilege.
constexpr std::string_view program_path = "/usr/bin:/bin:/usr/local/bin";

bool parse_number(std::string_view text, std::uint32_t& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The text up to a separator, which is taken off with it.
std::string_view take(std::string_view& text, char separator) noexcept {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

bool may_map_anything() noexcept {
  constexpr CapabilityMask needed = capability(CAP_SETUID) | capability(CAP_SETGID);
  const auto own = own_capabilities();
  return own && (own->effective & needed) == needed;
}

bool is_only(const std::vector<IdMapping>& map, std::uint32_t own) noexcept {
  return map.size() == 1 && map.front().count == 1 && map.front().outside == own;
}

// A child's files in /proc are root's until it has executed a program, where its parent is one that may not
// be dumped (proc(5)): spawn returns a moment before that is settled.
Fd open_own(const std::string& path) noexcept {
  constexpr int tries = 100;
  for (int i = 1;; ++i) {
    Fd file = Fd::adopt(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file || errno != EACCES || i == tries) return file;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// One write(2), as the kernel wants it.
Result<void> write_file(const std::string& path, std::string_view text) noexcept {
  const Fd file = open_own(path);
  if (!file) return last_error();
  const auto count = write_some(file, text.data(), text.size());
  if (!count) return count.error();
  return {};
}

ExplainedResult<void> write_by_proc(const std::string& process, const IdMaps& maps, bool deny_setgroups) {
  const auto text_of = [](const std::vector<IdMapping>& map) {
    std::string text;
    for (const auto& [inside, outside, count] : map) {
      text += std::to_string(inside) + ' ' + std::to_string(outside) + ' ' + std::to_string(count) + '\n';
    }
    return text;
  };
  const auto write = [&](const char* name, const std::string& text) -> ExplainedResult<void> {
    const auto done = write_file(process + "/" + name, text);
    if (!done) return explained(done.error(), std::string("writing the ") + name + " of a user namespace");
    return {};
  };
  auto done = write("uid_map", text_of(maps.users));
  if (done && deny_setgroups) done = write("setgroups", "deny");
  if (done) done = write("gid_map", text_of(maps.groups));
  return done;
}

ExplainedResult<void> write_by_program(const char* name, pid_t pid, const std::vector<IdMapping>& map) {
  std::vector<std::string> words{name, std::to_string(pid)};
  for (const auto& [inside, outside, count] : map) {
    for (const std::uint32_t number : {inside, outside, count}) words.push_back(std::to_string(number));
  }
  auto done = run_program({"mapping ids", "uidmap", program_path, std::move(words)});
  // It fails for nothing but ids that are not the caller's.
  if (!done && done.error().number == EIO) return ExplainedError{EPERM, done.error().text};
  return done;
}

// The ranges of the lines whose user is `wanted`.
template <class Wanted>
std::vector<IdRange> ranges_where(std::string_view text, Wanted wanted) {
  std::vector<IdRange> ranges;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    const std::string_view who = take(line, ':');
    IdRange range{};
    if (!wanted(who) || !parse_number(take(line, ':'), range.first) || !parse_number(line, range.count))
      continue;
    // The last id, 2^32 - 1, is nobody's.
    if (range.count == 0 || std::uint64_t{range.first} + range.count > 0xffffffffU) continue;
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

std::vector<IdRange> parse_subordinate_ids(std::string_view text, std::string_view user_name, uid_t user) {
  return ranges_where(text, [&](std::string_view who) {
    std::uint32_t number = 0;
    return (!user_name.empty() && who == user_name) || (parse_number(who, number) && number == user);
  });
}

std::vector<IdRange> parse_subordinate_ids(std::string_view text) {
  return ranges_where(text, [](std::string_view) { return true; });
}

IdMaps single_id_maps(uid_t user, gid_t group) noexcept {
  return {{{user, ::geteuid(), 1}}, {{group, ::getegid(), 1}}};
}

ExplainedResult<void> write_id_maps(const Process& child, const IdMaps& maps) {
  const std::string process = "/proc/" + std::to_string(child.pid());
  if (may_map_anything()) return write_by_proc(process, maps, false);
  if (is_only(maps.users, ::geteuid()) && is_only(maps.groups, ::getegid())) {
    return write_by_proc(process, maps, true);
  }
  auto done = write_by_program("newuidmap", child.pid(), maps.users);
  if (done) done = write_by_program("newgidmap", child.pid(), maps.groups);
  return done;
}

}  // namespace caisson::os
