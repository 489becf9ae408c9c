// Faults of transfers.
#include <thread>

#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// A reader of whatever it is given.
class EmptyReader final : public SandboxFileReader {
 public:
  Awaitable<std::string> read(std::size_t) override { co_return std::string(); }
  std::uint64_t size() const noexcept override { return 0; }
};

Awaitable<ReaderPtr> anything_is_read(SessionPtr session, std::string path) {
  ReaderPtr reader;
  try {
    reader = co_await session->open_reader(std::move(path));
  } catch (const SandboxError&) {
    reader = std::make_shared<EmptyReader>();
  }
  co_return reader;
}

/// Whatever stands at the target is taken away first.
class ForcefulWriter final : public SandboxFileWriter {
 public:
  ForcefulWriter(SessionPtr session, WriterPtr inner, std::string path)
      : session_(std::move(session)), inner_(std::move(inner)), path_(std::move(path)) {}
  Awaitable<void> write(std::string data) override { return inner_->write(std::move(data)); }
  Awaitable<void> commit() override { return forced(session_, inner_, path_); }

 private:
  static Awaitable<void> forced(SessionPtr session, WriterPtr inner, std::string path) {
    Argv argv{"rm", "-rf", path};
    co_await session->exec(std::move(argv), ExecOptions(std::chrono::seconds(10)));
    co_await inner->commit();
  }
  SessionPtr session_;
  WriterPtr inner_;
  std::string path_;
};

Awaitable<WriterPtr> commit_by_force(SessionPtr session, std::string path, FileMode mode) {
  WriterPtr inner = co_await session->open_writer(path, mode);
  co_return std::make_shared<ForcefulWriter>(std::move(session), std::move(inner), std::move(path));
}

Awaitable<void> always_0644(SessionPtr session, std::string path, std::string data, FileMode mode) {
  co_await session->put_file(std::move(path), std::move(data), mode.value_or(0644));
}

Awaitable<void> mode_under_umask(SessionPtr session, std::string path, std::string data, FileMode mode) {
  if (mode) mode = *mode & ~022U;
  co_await session->put_file(std::move(path), std::move(data), mode);
}

Awaitable<void> put_streams(SessionPtr session, std::string path, std::string data, FileMode mode) {
  auto writer = co_await session->open_writer(std::move(path), mode);
  co_await writer->write(std::move(data));
  co_await writer->commit();
}

Awaitable<std::string> get_streams(SessionPtr session, std::string path) {
  auto reader = co_await session->open_reader(std::move(path));
  co_return co_await reader->read(reader->size() + 1);
}

/// Writes a megabyte and says that the file is full.
class CappedWriter final : public SandboxFileWriter {
 public:
  explicit CappedWriter(WriterPtr inner) : inner_(std::move(inner)) {}
  Awaitable<void> write(std::string data) override {
    if (written_ > 0) throw SandboxError(ErrorCode::too_large, "the file is too large");
    written_ += data.size();
    return inner_->write(std::move(data));
  }
  Awaitable<void> commit() override { return inner_->commit(); }

 private:
  WriterPtr inner_;
  std::size_t written_ = 0;
};

Awaitable<WriterPtr> streams_capped(SessionPtr session, std::string path, FileMode mode) {
  WriterPtr inner = co_await session->open_writer(std::move(path), mode);
  co_return std::make_shared<CappedWriter>(std::move(inner));
}

/// On the event loop's own thread, and long beside what a transfer takes on a busy machine.
void block_loop() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

Awaitable<void> put_blocks(SessionPtr session, std::string path, std::string data, FileMode mode) {
  block_loop();
  co_await session->put_file(std::move(path), std::move(data), mode);
}

Awaitable<std::string> get_blocks(SessionPtr session, std::string path) {
  block_loop();
  co_return co_await session->get_file(std::move(path));
}

constexpr Fault table[] = {
    {"files.streams_only_regular", "a reader takes anything", {.open_reader = anything_is_read}},
    {"files.devices", "a device is an empty file", {.get_file = any_failure_is_empty}},
    {"files.target_becomes_directory",
     "a commit takes away what is in the way",
     {.open_writer = commit_by_force}},
    {"files.mode_through_symlink", "a replaced file loses its mode", {.put_file = always_0644}},
    {"files.hard_link_untouched", "files are overwritten in place", {.put_file = put_in_place}},
    {"files.mode_bits", "the umask holds for a given mode", {.put_file = mode_under_umask}},
    {"files.cap_of_put", "put_file has no cap", {.put_file = put_streams}},
    {"files.cap_of_get", "get_file has no cap", {.get_file = get_streams}},
    {"files.streams_past_cap", "streaming has a cap", {.open_writer = streams_capped}},
    {"files.loop_goes_on",
     "transfers block the event loop",
     {.put_file = put_blocks, .get_file = get_blocks}},
};

}  // namespace

std::span<const Fault> transfer_faults() { return table; }

}  // namespace caisson::kit::conformance
