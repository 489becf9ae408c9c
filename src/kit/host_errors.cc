// Messages of commands that could not be started.
#include "kit/host_errors.h"

#include <cerrno>

#include "caisson/kit/provider.h"
#include "contract/quote.h"

namespace caisson::kit {
namespace {

const char* name_of(os::SpawnStep step) noexcept {
  switch (step) {
    case os::SpawnStep::clone:
      return "making a process";
    case os::SpawnStep::session:
      return "making it a session of its own";
    case os::SpawnStep::terminal:
      return "giving it its terminal";
    case os::SpawnStep::directory:
      return "entering its working directory";
    case os::SpawnStep::descriptors:
      return "giving it its descriptors";
    case os::SpawnStep::limits:
      return "setting its limits";
    case os::SpawnStep::credentials:
      return "giving it its user and its privileges";
    case os::SpawnStep::exec:
      return "running it";
    case os::SpawnStep::cgroup:
      return "making it join its cgroup";
    case os::SpawnStep::shim:
      return "starting the shim that watches over it";
  }
  return "starting it";
}

[[noreturn]] void fail_exec(int number, const std::string& name, bool interpreter_missing) {
  const std::string command = "command " + quote(name);
  switch (number) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      if (interpreter_missing) {
        throw SandboxError(ErrorCode::bad_format,
                           command +
                               " exists, but what its first line or its header names to run it "
                               "does not; install that or correct the line");
      }
      throw SandboxError(
          ErrorCode::command_not_found,
          command + (name.find('/') == std::string::npos
                         ? " was not found in any directory of its PATH; install it or give its path"
                         : " was not found; a relative path starts at the working directory"));
    case EACCES:
    case EPERM:
      throw SandboxError(ErrorCode::not_executable,
                         command +
                             " was found but may not be executed; it must be a file with execute permission "
                             "(chmod +x), on a file system that allows it");
    case ETXTBSY:
      throw SandboxError(ErrorCode::not_executable,
                         command + " was found but somebody has it open for writing; close it first");
    case ENOEXEC:
    case ELIBBAD:
    case EINVAL:
    case EISDIR:
      throw SandboxError(ErrorCode::bad_format,
                         command +
                             " is no program that this machine can run; a script needs a first line such as "
                             "#!/bin/sh");
    case E2BIG:
      throw SandboxError(
          ErrorCode::argument_list_too_long,
          "the arguments and environment of " + command +
              " are longer than the kernel takes (execve(2)); pass large data by a file or stdin");
    default:
      throw SandboxError(ErrorCode::internal,
                         command + " could not be run: " + os::error_of(number).message());
  }
}

}  // namespace

bool is_exhaustion(int number) noexcept { return number == EMFILE || number == ENFILE || number == EAGAIN; }

void fail_start(const os::SpawnFailure& failure, const std::string& name, const std::string& cwd,
                bool interpreter_missing) {
  if (is_exhaustion(failure.number)) throw DescriptorsExhausted();
  if (failure.step == os::SpawnStep::directory) fail_cwd(os::error_of(failure.number), cwd);
  if (failure.step == os::SpawnStep::exec) fail_exec(failure.number, name, interpreter_missing);
  throw SandboxError(ErrorCode::internal, "command " + quote(name) +
                                              " could not be started: " + name_of(failure.step) + ": " +
                                              os::error_of(failure.number).message());
}

void fail_cwd(const os::Error& error, const std::string& cwd) {
  const std::string directory = "working directory " + quote(cwd);
  switch (error.value()) {
    case EMFILE:
    case ENFILE:
      throw DescriptorsExhausted();
    case EXDEV:
      throw SandboxError(ErrorCode::path_escapes, directory + " escapes the sandbox workspace", "cwd");
    case EAGAIN:
      throw SandboxError(
          ErrorCode::path_changed,
          directory + " kept changing while it was looked up; try again when nothing renames it", "cwd");
    case ENOENT:
    case ENOTDIR:
      throw SandboxError(
          ErrorCode::cwd_missing,
          directory + " cannot be used: " + error.message() + "; make it first, or name another", "cwd");
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
      throw SandboxError(ErrorCode::invalid_argument,
                         directory + " cannot be entered: " + error.message() + "; name another", "cwd");
    default:
      throw SandboxError(ErrorCode::internal, directory + " cannot be entered: " + error.message());
  }
}

void fail_preparation(const os::Error& error, const std::string& what, const std::string& name) {
  if (is_exhaustion(error.value())) throw DescriptorsExhausted();
  throw SandboxError(ErrorCode::internal,
                     "command " + quote(name) + " could not be started: " + what + ": " + error.message());
}

}  // namespace caisson::kit
