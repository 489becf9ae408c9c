// Starting one command of a box.
#pragma once

#include <vector>

#include "init/box.h"
#include "os/process.h"

namespace caisson::init {

struct Command {
  os::Process process;
  os::Fd terminal;  ///< The master of its tty, if it has one.
  /// The other ends of its pipes, where they are to be kept: what is no pipe has none.
  os::Fd input, output, error;
};

/// Starts a command as the box's user, with what the request and the box say, and under the box's limits and
/// filter. `keep`: the other ends of its pipes come too.
BoxResult<Command> start_command(const Box& box, const StartExec& request, std::vector<os::Fd> descriptors,
                                 bool keep);

/// What a command's environment is: HOME, then each list in turn; later wins. The caller wipes it.
std::vector<std::string> merged_environment(const std::string& home, const std::vector<std::string>& base,
                                            const std::vector<std::string>& more);

/// Wipes every string, and forgets them.
void wipe_all(std::vector<std::string>& strings) noexcept;

}  // namespace caisson::init
