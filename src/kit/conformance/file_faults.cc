// Faults of file transfer and of paths.
#include "caisson/contract/text.h"
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<std::string> got_as_text(SessionPtr session, std::string path) {
  const std::string data = co_await session->get_file(std::move(path));
  co_return to_text(data);
}

Awaitable<void> put_elsewhere(SessionPtr session, std::string path, std::string data, FileMode mode) {
  co_await session->put_file("elsewhere/" + path, std::move(data), mode);
}

Awaitable<void> parents_must_exist(SessionPtr session, std::string path, std::string data, FileMode mode) {
  if (path.find('/') != std::string::npos) throw SandboxError(ErrorCode::file_missing, "no such directory");
  co_await session->put_file(std::move(path), std::move(data), mode);
}

Awaitable<void> private_mode(SessionPtr session, std::string path, std::string data, FileMode mode) {
  co_await session->put_file(std::move(path), std::move(data), mode.value_or(0600));
}

Awaitable<void> mode_ignored(SessionPtr session, std::string path, std::string data, FileMode) {
  co_await session->put_file(std::move(path), std::move(data));
}

Awaitable<void> always_0644(SessionPtr session, std::string path, std::string data, FileMode mode) {
  co_await session->put_file(std::move(path), std::move(data), mode.value_or(0644));
}

Awaitable<WriterPtr> temporary_beside(SessionPtr session, std::string path, FileMode mode) {
  co_await session->put_file(path + ".tmp", "");
  co_return co_await session->open_writer(path, mode);
}

/// Shows every piece at once.
class EagerWriter final : public SandboxFileWriter {
 public:
  EagerWriter(SessionPtr session, std::string path) : session_(std::move(session)), path_(std::move(path)) {}
  Awaitable<void> write(std::string data) override {
    data_ += data;
    return session_->put_file(path_, data_);
  }
  Awaitable<void> commit() override { return session_->put_file(path_, data_); }

 private:
  SessionPtr session_;
  std::string path_;
  std::string data_;
};

Awaitable<WriterPtr> written_at_once(SessionPtr session, std::string path, FileMode) {
  co_return std::make_shared<EagerWriter>(std::move(session), std::move(path));
}

/// Looks the file up anew for each piece.
class ForgetfulReader final : public SandboxFileReader {
 public:
  ForgetfulReader(SessionPtr session, std::string path, std::uint64_t size)
      : session_(std::move(session)), path_(std::move(path)), size_(size) {}
  Awaitable<std::string> read(std::size_t max_bytes) override {
    const std::size_t offset = offset_;
    offset_ += max_bytes;
    return piece(session_, path_, offset, max_bytes);
  }
  std::uint64_t size() const noexcept override { return size_; }

 private:
  static Awaitable<std::string> piece(SessionPtr session, std::string path, std::size_t offset,
                                      std::size_t size) {
    const std::string data = co_await session->get_file(std::move(path));
    co_return data.substr(std::min(offset, data.size()), size);
  }
  SessionPtr session_;
  std::string path_;
  std::uint64_t size_;
  std::size_t offset_ = 0;
};

Awaitable<ReaderPtr> opened_for_each_read(SessionPtr session, std::string path) {
  const std::string data = co_await session->get_file(path);
  co_return std::make_shared<ForgetfulReader>(std::move(session), std::move(path), data.size());
}

void relative_path_told(BenchPtr, SandboxSessionInfo& info) { info.workspace_path = "."; }

Awaitable<SessionPtr> made_with_a_file(BenchPtr bench, SandboxSessionSpec spec) {
  SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
  co_await session->put_file(".session", session->id());
  co_return session;
}

Awaitable<SessionPtr> one_a_key(BenchPtr bench, SandboxSessionSpec spec) {
  const std::string key = spec.workspace_key;
  if (!bench->twins.contains(key)) {
    SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
    bench->twins[key] = std::move(session);
  }
  co_return bench->twins[key];
}

Awaitable<void> absolute_refused(SessionPtr session, std::string path, std::string data, FileMode mode) {
  if (path.starts_with('/'))
    throw SandboxError(ErrorCode::path_escapes, "the path escapes the sandbox workspace");
  co_await session->put_file(std::move(path), std::move(data), mode);
}

Awaitable<void> symlinks_replaced(SessionPtr session, std::string path, std::string data, FileMode mode) {
  Argv argv{"rm", "-f", path};
  ExecOptions options(std::chrono::seconds(10));
  co_await session->exec(std::move(argv), std::move(options));
  co_await session->put_file(std::move(path), std::move(data), mode);
}

constexpr Fault table[] = {
    {"files.round_trip", "bytes are taken for text", {.get_file = got_as_text}},
    {"files.exec_sees_put", "files are put where commands do not look", {.put_file = put_elsewhere}},
    {"files.makes_parents", "parents must be there", {.put_file = parents_must_exist}},
    {"files.default_mode", "new files are 0600", {.put_file = private_mode}},
    {"files.given_mode", "a given mode is ignored", {.put_file = mode_ignored}},
    {"files.keeps_mode", "a replaced file loses its mode", {.put_file = always_0644}},
    {"files.replaces_atomically", "files are overwritten in place", {.put_file = put_in_place}},
    {"files.leaves_no_trace", "a temporary file stays beside", {.open_writer = temporary_beside}},
    {"files.uncommitted_writer", "what is written shows before the commit", {.open_writer = written_at_once}},
    {"files.reads_in_pieces", "the file is opened for each read", {.open_reader = opened_for_each_read}},
    {"files.miss", "a missing file is an empty one", {.get_file = any_failure_is_empty}},
    {"files.only_regular", "what is no regular file is an empty one", {.get_file = any_failure_is_empty}},
    {"workspace.path", "workspace_path is relative", {.info = relative_path_told}},
    {"workspace.begins_empty", "a workspace begins with a file", {.create = made_with_a_file}},
    {"workspace.ephemeral_apart", "sessions with one key share all", {.create = one_a_key}},
    {"workspace.durabilities_apart", "sessions with one key share all", {.create = one_a_key}},
    {"files.absolute_inside", "absolute paths are refused", {.put_file = absolute_refused}},
    {"files.symlink_inside", "put_file replaces symlinks", {.put_file = symlinks_replaced}},
    {"files.escape_by_dotdot", "a path that climbs out is answered", {.get_file = any_failure_is_empty}},
    {"files.escape_by_absolute_path", "an absolute path out is answered", {.get_file = any_failure_is_empty}},
    {"files.escape_by_prefix",
     "a path behind the workspace's own is answered",
     {.get_file = any_failure_is_empty}},
    {"files.escape_by_symlink",
     "a symlink of a directory out is answered",
     {.get_file = any_failure_is_empty}},
    {"files.escape_by_final_symlink",
     "a symlink of a file out is answered",
     {.get_file = any_failure_is_empty}},
};

}  // namespace

std::span<const Fault> file_faults() { return table; }

}  // namespace caisson::kit::conformance
