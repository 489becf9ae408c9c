// Errors of workspace files.
#include "kit/file_errors.h"

#include <algorithm>

#include "caisson/contract/errors.h"
#include "caisson/contract/text.h"

namespace caisson::kit {
namespace {

struct Meaning {
  ErrorCode code;
  std::string why;
  const char* field = "";
};

Meaning meaning_of(FileOperation doing, const std::string& path, const os::Error& error) {
  const bool reading = doing == FileOperation::read;
  switch (error.value()) {
    case EXDEV:
      return {ErrorCode::path_escapes, "the path escapes the sandbox workspace; name one beneath it"};
    case EAGAIN:
      return {ErrorCode::path_changed, "the directories on the path kept changing meanwhile; try again"};
    case ENOENT:
      return {ErrorCode::file_missing, reading
                                           ? "a miss, there is no such file in the workspace"
                                           : "a miss, the path goes through a symbolic link to nothing, or "
                                             "the workspace itself is gone"};
    case ENOTDIR:
      if (reading)
        return {ErrorCode::file_missing, "a miss, the path goes through something that is no directory"};
      return {ErrorCode::invalid_argument, "the path goes through something that is no directory", "path"};
    case EISDIR:
      return {ErrorCode::not_a_regular_file, "it is a directory, not a regular file"};
    case ENXIO:
      return {ErrorCode::not_a_regular_file, "it is not a regular file"};
    case EINVAL:
      return {ErrorCode::invalid_argument,
              path.empty() ? "the path is empty; name a file in the workspace"
                           : "the path holds a NUL byte, or one that the file system cannot store",
              "path"};
    case ENAMETOOLONG:
      return {ErrorCode::invalid_argument, "the path is too long (255 bytes a name, 4,095 in all)", "path"};
    case ELOOP:
      return {ErrorCode::invalid_argument, "the path goes through too many symbolic links", "path"};
    case EFBIG:
      return {ErrorCode::too_large, "larger than the file system or the process's file size limit takes"};
    case ENOSPC:
      return {ErrorCode::internal,
              "no space is left on the file system of the workspace; free some and try again"};
    case EDQUOT:
      return {ErrorCode::internal,
              "the disk quota of the workspace is used up; free some of it and try again"};
    case EROFS:
      return {ErrorCode::internal,
              "the file system there is read-only; write elsewhere, or mount it writable"};
    case EACCES:
    case EPERM:
      return {ErrorCode::internal, "permission denied (" + error.message() +
                                       "); change the permissions there, or use another path"};
    case EMFILE:
    case ENFILE:
      return {ErrorCode::internal,
              "no file descriptor is left (" + error.message() + "); raise the limit or close some"};
    default:
      return {ErrorCode::internal, error.message()};
  }
}

}  // namespace

void fail_file(FileOperation doing, const std::string& path, const os::Error& error) {
  const Meaning meaning = meaning_of(doing, path, error);
  throw SandboxError(meaning.code,
                     (doing == FileOperation::read ? "cannot read " : "cannot write ") + shown_path(path) +
                         ": " + meaning.why,
                     meaning.field);
}

std::string shown_path(const std::string& path) {
  constexpr std::size_t most = 200;
  std::string text = to_text(path.size() <= most ? path : path.substr(0, most));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      '?');
  return "'" + text + (path.size() <= most ? "'" : "...'");
}

}  // namespace caisson::kit
