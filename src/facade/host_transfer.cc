// The host's side of a file transfer.
#include "facade/host_transfer.h"

#include <utility>

#include "contract/quote.h"

namespace caisson::facade {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path, os::Error error) {
  const bool missing = error == os::error_of(ENOENT);
  const bool directory = error == os::error_of(EISDIR);
  const ErrorCode code = missing     ? ErrorCode::file_missing
                         : directory ? ErrorCode::not_a_regular_file
                                     : ErrorCode::internal;
  throw SandboxError(code, std::string("cannot ") + what + " this machine's file " + quote(path) + ": " +
                               (directory ? "it is a directory" : error.message()));
}

std::string without_nul(std::string path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw SandboxError(ErrorCode::invalid_argument, "a host path must not be empty or hold NUL", "host_path");
  }
  return path;
}

os::OpenedFile open_source(const std::string& path) {
  auto opened = os::open_for_reading(path);
  if (!opened) fail("read", path, opened.error());
  if (opened->kind == os::FileKind::directory) fail("read", path, os::error_of(EISDIR));
  return std::move(*opened);
}

os::FileReplacement open_target(const std::string& path) {
  auto opened = os::FileReplacement::begin(path);
  if (!opened) fail("write", path, opened.error());
  return std::move(*opened);
}

}  // namespace

HostSource::HostSource(std::string path) : path_(without_nul(std::move(path))), file_(open_source(path_)) {}

std::string HostSource::read() {
  std::string piece(transfer_piece, '\0');
  const auto size = os::read_some(file_.fd, piece.data(), piece.size());
  if (!size) fail("read", path_, size.error());
  piece.resize(*size);
  return piece;
}

FileMode HostSource::mode() const noexcept {
  if (file_.kind != os::FileKind::regular) return std::nullopt;
  return file_.mode & 0777U;
}

HostTarget::HostTarget(std::string path) : path_(without_nul(std::move(path))), file_(open_target(path_)) {}

void HostTarget::write(std::string_view piece) {
  if (const auto written = file_.write(piece); !written) fail("write", path_, written.error());
}

void HostTarget::commit() {
  if (const auto committed = file_.commit(); !committed) fail("write", path_, committed.error());
}

}  // namespace caisson::facade
