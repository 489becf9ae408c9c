// Reading open files piece by piece.
#include "kit/open_file.h"

#include <algorithm>
#include <cerrno>

#include "caisson/kit/provider.h"
#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::kit {
namespace {

// A read never allocates more than this beyond what the file holds.
constexpr std::uint64_t read_ahead = 64 << 10;

Awaitable<std::string> read_some(std::shared_ptr<const FileThreads> threads, std::shared_ptr<OpenFile> file,
                                 std::size_t max_bytes) {
  if (max_bytes == 0) {
    throw SandboxError(ErrorCode::invalid_argument, "a read of 0 bytes; ask for at least one", "max_bytes");
  }
  auto call = [file, max_bytes] { return file->read(max_bytes); };
  const auto workers = threads->workers();
  co_return co_await workers->run(std::move(call));
}

class Reader final : public SandboxFileReader {
 public:
  Reader(std::shared_ptr<const FileThreads> threads, std::shared_ptr<OpenFile> file)
      : threads_(std::move(threads)), file_(std::move(file)) {}
  ~Reader() override {
    // It may be the last that holds a large file, which the file system takes a while to free.
    auto drop = [file = std::move(file_)]() mutable { file.reset(); };
    threads_->drop(std::move(drop));
  }

  Awaitable<std::string> read(std::size_t max_bytes) override {
    return read_some(threads_, file_, max_bytes);
  }
  std::uint64_t size() const noexcept override { return file_->size(); }

 private:
  std::shared_ptr<const FileThreads> threads_;
  std::shared_ptr<OpenFile> file_;
};

}  // namespace

std::shared_ptr<Workers> FileThreads::workers() const {
  auto there = workers_.lock();
  if (!there || ended_) {
    throw SandboxError(ErrorCode::session_destroyed,
                       "the session of this file was destroyed; create a new one");
  }
  return there;
}

void check_path(FileOperation doing, const std::string& path) {
  if (path.empty()) fail_file(doing, path, os::error_of(EINVAL));
}

void check_target(const std::string& path, FileMode mode) {
  check_path(FileOperation::write, path);
  if (mode && (*mode & ~07777U) != 0) {
    throw SandboxError(ErrorCode::invalid_argument, "a file mode has permission bits only, 07777 at most",
                       "mode");
  }
}

std::string OpenFile::read(std::size_t max_bytes) {
  const std::lock_guard lock(mutex_);
  checked(FileOperation::read, path_, os::fault_point("get.read"));
  const os::FileStatus is = checked(FileOperation::read, path_, os::status(file_));
  const auto end = static_cast<std::uint64_t>(is.st_size);
  const std::uint64_t likely = end > offset_ ? end - offset_ : read_ahead;
  std::string data(std::min<std::uint64_t>(max_bytes, likely), '\0');
  std::size_t filled = 0;
  while (filled < data.size()) {
    const std::size_t count = checked(
        FileOperation::read, path_, os::read_at(file_, data.data() + filled, data.size() - filled, offset_));
    if (count == 0) break;
    filled += count;
    offset_ += count;
  }
  data.resize(filled);
  return data;
}

std::string OpenFile::read_all(std::uint64_t cap) {
  std::string data;
  for (;;) {
    std::string piece = read(static_cast<std::size_t>(cap - data.size() + 1));
    if (piece.empty()) return data;
    append_within_cap(data, std::move(piece), cap);
  }
}

std::unique_ptr<SandboxFileReader> make_reader(std::shared_ptr<const FileThreads> threads,
                                               std::shared_ptr<OpenFile> file) {
  return std::make_unique<Reader>(std::move(threads), std::move(file));
}

}  // namespace caisson::kit
