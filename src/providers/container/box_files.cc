// Reading and replacing files of a box.
#include "providers/container/box_files.h"

#include <sys/stat.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "kit/file_errors.h"
#include "os/files.h"
#include "os/quota.h"

namespace caisson::container {
namespace {

using kit::FileOperation;

[[noreturn]] void fail(FileOperation doing, const std::string& path, const InitFailure& failure,
                       const BoxProcess& box) {
  // What comes from the box is a claim, and no worse than a wrong message.
  if (failure.fault == InitFault::refused && failure.number != 0) {
    kit::fail_file(doing, path, os::error_of(failure.number));
  }
  if (failure.fault == InitFault::unsent) kit::fail_file(doing, path, os::error_of(failure.number));
  const std::string cause = box.end_cause();
  if (failure.fault == InitFault::refused) {
    throw SandboxError(ErrorCode::internal, "file " + kit::shown_path(path) + ": " + describe(failure));
  }
  throw SandboxError(ErrorCode::unavailable, "file " + kit::shown_path(path) +
                                                 " cannot be reached: the session's box has ended: " +
                                                 (cause.empty() ? describe(failure) : cause) +
                                                 "; destroy the session and create a new one");
}

// Its size.
std::uint64_t require_regular(FileOperation doing, const std::string& path, os::FdRef file) {
  const os::FileStatus is = kit::checked(doing, path, os::status(file));
  if (S_ISDIR(is.st_mode)) kit::fail_file(doing, path, os::error_of(EISDIR));
  if (!S_ISREG(is.st_mode)) kit::fail_file(doing, path, os::error_of(ENXIO));
  // Its calls would do for this process what they do for nobody in the box, or never return.
  const bool made_up = kit::checked(doing, path, os::is_made_up_by_kernel(file));
  if (made_up) kit::fail_file(doing, path, os::error_of(ENXIO));
  return static_cast<std::uint64_t>(is.st_size);
}

Awaitable<std::unique_ptr<SandboxFileReader>> open_to_read(std::shared_ptr<BoxProcess> process,
                                                           std::shared_ptr<const kit::FileThreads> threads,
                                                           std::string path) {
  kit::check_path(FileOperation::read, path);
  static_cast<void>(threads->workers());
  init::OpenFile open;
  open.path = path;
  init::Request request = std::move(open);
  auto answer = co_await BoxProcess::ask(process, std::move(request), std::vector<os::Fd>());
  if (!answer) fail(FileOperation::read, path, answer.error(), *process);
  os::Fd file = std::move(answer->descriptors.front());
  const std::uint64_t size = require_regular(FileOperation::read, path, file);
  auto opened = std::make_shared<kit::OpenFile>(std::move(file), std::move(path), size);
  co_return kit::make_reader(std::move(threads), std::move(opened));
}

// A file of the box on its way. Used on worker threads, by one call at a time.
class NewFile {
 public:
  NewFile(std::string path, os::Fd file, std::uint64_t put)
      : path_(std::move(path)), file_(std::move(file)), put_(put) {}

  const std::string& path() const noexcept { return path_; }
  std::uint64_t put() const noexcept { return put_; }
  os::FdRef descriptor() const noexcept { return file_; }

  void write(const std::string& data) {
    const std::lock_guard lock(mutex_);
    require_open();
    const os::HeldToQuotas held;
    const auto done = os::write_all(file_, data);
    if (done) return;
    // What is there now has a hole in it: never to be committed.
    broken_ = done.error();
    kit::fail_file(FileOperation::write, path_, broken_);
  }
  /// No write comes after it. The descriptor goes, for a program that is open for writing cannot be run.
  void close() {
    const std::lock_guard lock(mutex_);
    require_open();
    file_.reset();
  }
  /// init has answered a commit, and knows nothing of the put any more.
  void settle() noexcept { settled_ = true; }
  bool settled() const noexcept { return settled_; }

 private:
  void require_open() const {
    if (broken_) kit::fail_file(FileOperation::write, path_, broken_);
    if (file_) return;
    throw SandboxError(ErrorCode::invalid_argument,
                       "cannot write " + kit::shown_path(path_) + ": it was already committed");
  }

  mutable std::mutex mutex_;
  const std::string path_;
  os::Fd file_;
  const std::uint64_t put_;
  os::Error broken_;
  std::atomic<bool> settled_ = false;
};

Awaitable<void> write_all(std::shared_ptr<const kit::FileThreads> threads, std::shared_ptr<NewFile> file,
                          std::string data) {
  auto call = [file, bytes = std::move(data)] { file->write(bytes); };
  const auto workers = threads->workers();
  co_await workers->run(std::move(call));
}

Awaitable<void> commit(std::shared_ptr<BoxProcess> process, std::shared_ptr<const kit::FileThreads> threads,
                       std::shared_ptr<NewFile> file) {
  static_cast<void>(threads->workers());
  file->close();
  init::Request request = init::CommitPut{file->put()};
  const auto answer = co_await BoxProcess::ask(process, std::move(request), std::vector<os::Fd>());
  if (answer || answer.error().fault == InitFault::refused) file->settle();
  if (!answer) fail(FileOperation::write, file->path(), answer.error(), *process);
}

class Writer final : public SandboxFileWriter {
 public:
  Writer(std::shared_ptr<BoxProcess> process, std::shared_ptr<const kit::FileThreads> threads,
         std::shared_ptr<NewFile> file)
      : process_(std::move(process)), threads_(std::move(threads)), file_(std::move(file)) {}
  ~Writer() override {
    // A commit that was given up may not have been sent; where it was, there is nothing to abort.
    if (!file_->settled()) process_->tell(init::AbortPut{file_->put()});
    // Freeing a large file takes the file system a while.
    auto drop = [file = std::move(file_)]() mutable { file.reset(); };
    threads_->drop(std::move(drop));
  }

  Awaitable<void> write(std::string data) override { return write_all(threads_, file_, std::move(data)); }
  Awaitable<void> commit() override { return container::commit(process_, threads_, file_); }

 private:
  std::shared_ptr<BoxProcess> process_;
  std::shared_ptr<const kit::FileThreads> threads_;
  std::shared_ptr<NewFile> file_;
};

Awaitable<std::unique_ptr<SandboxFileWriter>> open_to_write(std::shared_ptr<BoxProcess> process,
                                                            std::shared_ptr<const kit::FileThreads> threads,
                                                            std::string path, FileMode mode) {
  kit::check_target(path, mode);
  static_cast<void>(threads->workers());
  init::BeginPut begin;
  begin.path = path;
  if (mode) begin.mode = *mode;
  init::Request request = std::move(begin);
  auto answer = co_await BoxProcess::ask(process, std::move(request), std::vector<os::Fd>());
  if (!answer) fail(FileOperation::write, path, answer.error(), *process);
  const std::uint64_t put = std::get<init::PutOpened>(answer->reply).put;
  os::Fd descriptor = std::move(answer->descriptors.front());
  auto file = std::make_shared<NewFile>(path, std::move(descriptor), put);
  auto writer = std::make_unique<Writer>(process, threads, file);
  require_regular(FileOperation::write, path, file->descriptor());
  co_return writer;
}

}  // namespace

BoxFiles::BoxFiles(std::shared_ptr<BoxProcess> process)
    : process_(std::move(process)),
      // The threads are the core's, and live with it.
      threads_(std::make_shared<kit::FileThreads>(
          std::shared_ptr<kit::Workers>(process_->core(), &process_->core()->files()))) {}

BoxFiles::~BoxFiles() { threads_->end(); }

Awaitable<std::unique_ptr<SandboxFileReader>> BoxFiles::open_reader(std::string path) {
  return open_to_read(process_, threads_, std::move(path));
}

Awaitable<std::unique_ptr<SandboxFileWriter>> BoxFiles::open_writer(std::string path, FileMode mode) {
  return open_to_write(process_, threads_, std::move(path), mode);
}

}  // namespace caisson::container
