// HostFiles: typed errors, and the reader and the writer behind them.
#include "kit/host_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "caisson/kit/provider.h"
#include "kit/open_file.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::kit {

// What readers and writers need of the HostFiles that made them, and keep beyond its end.
struct HostFiles::Shared : FileThreads {
  Shared(const std::shared_ptr<Workers>& file_workers, std::shared_ptr<const os::Beneath> beneath,
         std::string temporaries)
      : FileThreads(file_workers),
        workspace(std::move(beneath)),
        temporary_directory(std::move(temporaries)) {}

  const std::shared_ptr<const os::Beneath> workspace;
  const std::string temporary_directory;
};

namespace {

using os::error_of;

// How often a write is placed anew because somebody exchanged its target or its directory meanwhile.
constexpr int most_placings = 16;
// Looked at before it is opened, for opening a FIFO or a device is felt by others; and again afterwards, for
// it may have been exchanged. O_NONBLOCK, which Beneath adds, keeps even that from blocking.
os::Fd open_regular(const os::Beneath& workspace, const std::string& path, os::FileStatus& is) {
  checked(FileOperation::read, path, os::fault_point("get.open"));
  const os::Fd look = checked(FileOperation::read, path, workspace.open(path, O_PATH));
  is = checked(FileOperation::read, path, os::status(look));
  if (S_ISDIR(is.st_mode)) fail_file(FileOperation::read, path, error_of(EISDIR));
  if (!S_ISREG(is.st_mode)) fail_file(FileOperation::read, path, error_of(ENXIO));
  os::Fd file = checked(FileOperation::read, path, workspace.open(path, O_RDONLY));
  is = checked(FileOperation::read, path, os::status(file));
  if (!S_ISREG(is.st_mode)) fail_file(FileOperation::read, path, error_of(ENXIO));
  return file;
}

std::shared_ptr<OpenFile> open_file(const os::Beneath& workspace, const std::string& path) {
  os::FileStatus is = {};
  os::Fd file = open_regular(workspace, path, is);
  return std::make_shared<OpenFile>(std::move(file), path, static_cast<std::uint64_t>(is.st_size));
}

// A file on its way into the workspace: a temporary outside it until it is committed. Used on worker threads,
// by one call at a time.
class WriteState {
 public:
  WriteState(std::shared_ptr<const os::Beneath> workspace, const std::string& temporary_directory,
             std::string path, FileMode mode)
      : workspace_(std::move(workspace)), path_(std::move(path)), mode_(mode) {
    checked(FileOperation::write, path_, os::fault_point("put.place"));
    place_ = checked(FileOperation::write, path_, workspace_->place_for(path_));
    // For the early error; the mode is looked at again when it counts.
    static_cast<void>(mode_at_target());
    temporaries_ =
        checked(FileOperation::write, path_, os::ensure_directory_at({AT_FDCWD}, temporary_directory, 0700));
    name_ = os::random_hex_id();
    checked(FileOperation::write, path_, os::fault_point("put.temporary"));
    file_ = checked(FileOperation::write, path_,
                    os::open_at(temporaries_, name_, O_RDWR | O_CREAT | O_EXCL, 0600));
  }
  ~WriteState() {
    if (!committed_ && file_) static_cast<void>(os::unlink_at(temporaries_, name_));
  }
  WriteState(const WriteState&) = delete;
  WriteState& operator=(const WriteState&) = delete;

  void write(const std::string& data) {
    const std::lock_guard lock(mutex_);
    check_open();
    os::Result<void> done = os::fault_point("put.write");
    if (done) done = os::write_all(file_, data);
    if (done) return;
    // What is there now has a hole in it: never to be committed.
    broken_ = done.error();
    fail_file(FileOperation::write, path_, broken_);
  }

  void commit() {
    const std::lock_guard lock(mutex_);
    check_open();
    checked(FileOperation::write, path_, os::fault_point("put.commit"));
    for (int placings = 0; placings < most_placings; ++placings) {
      // Found anew: the directory of an earlier look may have been moved out of the workspace since.
      place_ = checked(FileOperation::write, path_, workspace_->place_for(path_));
      if (replace_target()) {
        committed_ = true;
        // At once, for a program that is open for writing cannot be run.
        file_.reset();
        return;
      }
    }
    fail_file(FileOperation::write, path_, error_of(EAGAIN));
  }

 private:
  void check_open() const {
    if (committed_) {
      throw SandboxError(ErrorCode::invalid_argument,
                         "cannot write " + shown_path(path_) + ": it was already committed");
    }
    if (broken_) fail_file(FileOperation::write, path_, broken_);
  }

  // The permissions the file gets; nothing when the target is a symlink, put there since the place was found.
  std::optional<mode_t> mode_at_target() const {
    const os::Result<os::FileStatus> target = os::status_at(place_->directory, place_->name);
    if (!target && target.error() != error_of(ENOENT)) fail_file(FileOperation::write, path_, target.error());
    if (target && S_ISLNK(target->st_mode)) return std::nullopt;
    if (target && S_ISDIR(target->st_mode)) fail_file(FileOperation::write, path_, error_of(EISDIR));
    if (target && !S_ISREG(target->st_mode)) fail_file(FileOperation::write, path_, error_of(ENXIO));
    if (mode_) return mode_;
    // As any write does, this takes the set-id bits away.
    return target ? target->st_mode & 0777 : 0644;
  }

  // False when the place is no longer what it was.
  bool replace_target() {
    const std::optional<mode_t> mode = mode_at_target();
    if (!mode) return false;
    checked(FileOperation::write, path_, os::set_mode(file_, *mode));
    os::Result<void> moved = os::fault_point("put.rename");
    if (moved) moved = os::rename_at(temporaries_, name_, place_->directory, place_->name);
    os::kill_point("put.renamed");
    if (!moved && moved.error() == error_of(EXDEV)) {
      moved = replace_on_other_mount(*mode);
      if (moved) static_cast<void>(os::unlink_at(temporaries_, name_));
    }
    if (moved) return true;
    if (moved.error() == error_of(ENOENT)) return false;
    fail_file(FileOperation::write, path_, moved.error());
  }

  // A rename does not cross mounts: the bytes are copied into the target's directory.
  os::Result<void> replace_on_other_mount(mode_t mode) const {
    const std::string hidden = ".caisson-" + name_;
    os::Result<os::Fd> copy = os::make_unnamed_file(place_->directory, 0600);
    const bool named = !copy && copy.error() == error_of(EOPNOTSUPP);
    if (named) copy = os::open_at(place_->directory, hidden, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!copy) return copy.error();
    os::Result<void> done = os::fault_point("put.copy");
    if (done) done = os::copy_contents(file_, *copy);
    if (done) done = os::set_mode(*copy, mode);
    if (done && !named) {
      done = os::link_unnamed_file(*copy, place_->directory, place_->name);
      if (done || done.error() != error_of(EEXIST)) return done;
      done = os::link_unnamed_file(*copy, place_->directory, hidden);
    }
    if (done) done = os::fault_point("put.hidden");
    if (done) done = os::rename_at(place_->directory, hidden, place_->directory, place_->name);
    if (!done) static_cast<void>(os::unlink_at(place_->directory, hidden));
    return done;
  }

  std::mutex mutex_;
  std::shared_ptr<const os::Beneath> workspace_;
  std::string path_;
  FileMode mode_;
  std::optional<os::Beneath::Place> place_;
  os::Fd temporaries_;
  std::string name_;
  os::Fd file_;
  os::Error broken_;
  bool committed_ = false;
};

}  // namespace

class HostFiles::Writer final : public SandboxFileWriter {
 public:
  Writer(std::shared_ptr<Shared> shared, std::shared_ptr<WriteState> state)
      : shared_(std::move(shared)), state_(std::move(state)) {}
  ~Writer() override {
    // Freeing a large file takes the file system a while.
    auto drop = [state = std::move(state_)]() mutable { state.reset(); };
    shared_->drop(std::move(drop));
  }

  Awaitable<void> write(std::string data) override { return write_all(shared_, state_, std::move(data)); }
  Awaitable<void> commit() override { return commit_all(shared_, state_); }

  static Awaitable<std::unique_ptr<SandboxFileWriter>> open(std::shared_ptr<Shared> shared, std::string path,
                                                            FileMode mode) {
    check_target(path, mode);
    auto call = [shared, path, mode] {
      return std::make_shared<WriteState>(shared->workspace, shared->temporary_directory, path, mode);
    };
    const auto workers = shared->workers();
    std::shared_ptr<WriteState> state = co_await workers->run(std::move(call));
    co_return std::make_unique<Writer>(std::move(shared), std::move(state));
  }

 private:
  static Awaitable<void> write_all(std::shared_ptr<Shared> shared, std::shared_ptr<WriteState> state,
                                   std::string data) {
    auto call = [state, bytes = std::move(data)] { state->write(bytes); };
    const auto workers = shared->workers();
    co_await workers->run(std::move(call));
  }
  static Awaitable<void> commit_all(std::shared_ptr<Shared> shared, std::shared_ptr<WriteState> state) {
    auto call = [state] { state->commit(); };
    const auto workers = shared->workers();
    co_await workers->run(std::move(call));
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<WriteState> state_;
};

HostFiles::HostFiles(const std::shared_ptr<Workers>& file_workers,
                     std::shared_ptr<const os::Beneath> workspace, std::string temporary_directory)
    : shared_(std::make_shared<Shared>(file_workers, std::move(workspace), std::move(temporary_directory))) {}

HostFiles::~HostFiles() { shared_->end(); }

Awaitable<std::unique_ptr<SandboxFileReader>> HostFiles::open_reader(std::string path) {
  return open_to_read(shared_, std::move(path));
}

Awaitable<std::unique_ptr<SandboxFileReader>> HostFiles::open_to_read(std::shared_ptr<Shared> shared,
                                                                      std::string path) {
  check_path(FileOperation::read, path);
  auto call = [shared, path] { return open_file(*shared->workspace, path); };
  const auto workers = shared->workers();
  std::shared_ptr<OpenFile> file = co_await workers->run(std::move(call));
  co_return make_reader(std::move(shared), std::move(file));
}

Awaitable<void> HostFiles::put(std::string path, std::string data, FileMode mode) {
  return put_whole(shared_, std::move(path), std::move(data), mode);
}

Awaitable<std::string> HostFiles::get(std::string path, std::uint64_t cap) {
  return get_whole(shared_, std::move(path), cap);
}

Awaitable<void> HostFiles::put_whole(std::shared_ptr<Shared> shared, std::string path, std::string data,
                                     FileMode mode) {
  check_target(path, mode);
  auto call = [shared, path = std::move(path), bytes = std::move(data), mode] {
    WriteState state(shared->workspace, shared->temporary_directory, path, mode);
    state.write(bytes);
    state.commit();
  };
  const auto workers = shared->workers();
  co_await workers->run(std::move(call));
}

Awaitable<std::string> HostFiles::get_whole(std::shared_ptr<Shared> shared, std::string path,
                                            std::uint64_t cap) {
  check_path(FileOperation::read, path);
  auto call = [shared, path = std::move(path), cap] {
    return open_file(*shared->workspace, path)->read_all(cap);
  };
  const auto workers = shared->workers();
  co_return co_await workers->run(std::move(call));
}

Awaitable<std::unique_ptr<SandboxFileWriter>> HostFiles::open_writer(std::string path, FileMode mode) {
  return Writer::open(shared_, std::move(path), mode);
}

os::Result<os::Fd> resolve_cwd(const os::Beneath& workspace, const std::string& cwd) {
  if (cwd.empty()) return os::duplicate(workspace.directory());
  if (cwd.front() == '/') return os::open_directory(cwd);
  return workspace.open(cwd, O_PATH | O_DIRECTORY);
}

}  // namespace caisson::kit
