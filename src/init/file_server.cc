// Files by openat2(2) beneath the workspace, or beneath the box's root, as the box's user.
#include "init/file_server.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "init/user_rights.h"
#include "os/beneath.h"
#include "os/clock.h"
#include "os/files.h"

namespace caisson::init {
namespace {

constexpr mode_t permissions = 07777;
constexpr mode_t new_file_mode = 0644;

// Where a path may lead: an absolute one anywhere in the box, a relative one beneath where it starts.
os::Result<os::Beneath> place_of(const std::string& path, const std::string& start) {
  const std::string directory = path.starts_with('/') ? "/" : start;
  auto opened = os::open_directory(directory);
  if (!opened) return opened.error();
  return os::Beneath(std::move(*opened), directory);
}

// 0 for a regular file, else what to answer.
int refusal(mode_t mode) noexcept {
  if (S_ISREG(mode)) return 0;
  return S_ISDIR(mode) ? EISDIR : ENXIO;
}

std::string hidden_name() { return ".caisson-" + os::random_hex_id(); }

}  // namespace

BoxResult<FileServer::OpenedFile> FileServer::open(const OpenFile& request) {
  const auto fail = [&](const os::Error& error) { return failure(Step::open, error, request.path); };
  const auto rights = UserRights::take(*box_);
  if (!rights) return fail(rights.error());
  const auto place = place_of(request.path, request.directory.empty() ? box_->workspace : request.directory);
  if (!place) return fail(place.error());
  auto file = place->open(request.path, O_RDONLY);
  if (!file) return fail(file.error());
  const auto is = os::status(*file);
  if (!is) return fail(is.error());
  if (const int number = refusal(is->st_mode); number != 0) return fail(os::error_of(number));
  const Opened opened{static_cast<std::uint64_t>(is->st_size), is->st_mode & permissions};
  return OpenedFile{opened, std::move(*file)};
}

BoxResult<FileServer::Put> FileServer::prepare(const BeginPut& request) {
  const auto fail = [&](const os::Error& error) { return failure(Step::create, error, request.path); };
  const auto rights = UserRights::take(*box_);
  if (!rights) return fail(rights.error());
  const auto beneath = place_of(request.path, box_->workspace);
  if (!beneath) return fail(beneath.error());
  auto place = beneath->place_for(request.path);
  if (!place) return fail(place.error());
  const auto present = os::status_at(place->directory, place->name);
  if (!present && present.error() != os::error_of(ENOENT)) return fail(present.error());
  mode_t mode = new_file_mode;
  if (present) {
    if (const int number = refusal(present->st_mode); number != 0) return fail(os::error_of(number));
    mode = present->st_mode & permissions;
  }
  Put put{std::move(place->directory), std::move(place->name), {}, {}, request.mode.value_or(mode)};
  auto file = os::make_unnamed_file(put.directory, 0600);
  if (!file && file.error() == os::error_of(EOPNOTSUPP)) {
    put.temporary = hidden_name();
    file = os::open_at(put.directory, put.temporary, O_CREAT | O_EXCL | O_RDWR, 0600);
  }
  if (!file) return fail(file.error());
  put.file = std::move(*file);
  return put;
}

BoxResult<FileServer::OpenedPut> FileServer::begin(const BeginPut& request) {
  auto put = prepare(request);
  if (!put) return put.error();
  auto copy = os::duplicate(put->file);
  const std::uint64_t id = next_++;
  puts_.emplace(id, std::move(*put));
  if (!copy) {
    static_cast<void>(abort({id}));
    return failure(Step::create, copy.error(), request.path);
  }
  return OpenedPut{{id}, std::move(*copy)};
}

BoxResult<void> FileServer::commit(const CommitPut& request) {
  const auto found = puts_.find(request.put);
  if (found == puts_.end()) return failure(Step::protocol, 0, "no such put");
  Put put = std::move(found->second);
  puts_.erase(found);
  const auto rights = UserRights::take(*box_);
  if (!rights) return failure(Step::commit, rights.error(), put.name);
  auto done = os::set_mode(put.file, put.mode);
  if (done && put.temporary.empty()) {
    // Only under a name of its own can it take the place of another in one step.
    put.temporary = hidden_name();
    done = os::link_unnamed_file(put.file, put.directory, put.temporary);
  }
  if (done) done = os::rename_at(put.directory, put.temporary, put.directory, put.name);
  if (done) return {};
  static_cast<void>(os::unlink_at(put.directory, put.temporary));
  return failure(Step::commit, done.error(), put.name);
}

BoxResult<void> FileServer::abort(const AbortPut& request) {
  const auto found = puts_.find(request.put);
  if (found == puts_.end()) return failure(Step::protocol, 0, "no such put");
  const Put put = std::move(found->second);
  puts_.erase(found);
  if (put.temporary.empty()) return {};
  const auto rights = UserRights::take(*box_);
  auto done = rights ? os::unlink_at(put.directory, put.temporary) : rights.error();
  if (!done) return failure(Step::create, done.error(), put.temporary);
  return {};
}

void FileServer::abort_all() noexcept {
  while (!puts_.empty()) static_cast<void>(abort({puts_.begin()->first}));
}

}  // namespace caisson::init
