// Running a program of the machine's to its end, for what no system call does.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "os/explained.h"
#include "os/fd.h"
#include "os/id_map.h"

namespace caisson::os {

struct ProgramRun {
  std::string step;     ///< What it is for: "mapping ids"; errors begin with it.
  std::string package;  ///< Debian's name of what to install where the program is missing.
  std::string_view
      directories;  ///< Where it may be, as in PATH. The caller's own is not asked: it may be another user's.
  std::vector<std::string> argv;
  FdRef input = {};      ///< Its descriptor 0, for it to read or write; nothing to read when not given.
  FdRef directory = {};  ///< Its working directory, when given.
  /// When given, it runs in a user namespace with these maps and has every capability there, which are those
  /// of root over files of mapped ids. The caller's own ids must be mapped too, for it has them still. Takes
  /// some ms more, and no `input`.
  const IdMaps* ids = nullptr;
  std::chrono::milliseconds patience = std::chrono::seconds(60);  ///< One that takes longer is killed.
};
/// Starts it without an environment, and waits for its end. Errors: ENOENT, saying what to install, where
/// there is none; EIO for one that fails, with what it says (the first 4 KiB of its output); ETIMEDOUT; else
/// that of the call which failed.
ExplainedResult<void> run_program(const ProgramRun& run);

}  // namespace caisson::os
