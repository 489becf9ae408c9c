// From the options of `run` to what is asked of the sandbox.
#pragma once

#include <string>
#include <string_view>

#include "caisson/contract/models.h"
#include "caisson/kit/settings.h"
#include "cli/options.h"

namespace caisson::cli {

/// A file to bring in or to take out.
struct Transfer {
  std::string local;  ///< A path of the host.
  std::string path;   ///< A path of the session.
};

/// LOCAL[:PATH], split at the last colon. PATH defaults to LOCAL's own name in the workspace; one that ends
/// in a slash is the directory to put it in. Throws UsageError.
Transfer parse_put(const std::string& text);
/// PATH[:LOCAL], likewise; LOCAL may be an existing directory.
Transfer parse_get(const std::string& text);

/// The variables of --env-file, over which --env comes. `caller` gives the caller's own values. Throws
/// UsageError, never naming a value.
SecretEnv read_env(const RunOptions& options, const kit::SettingSource& caller);
/// The lines of an env file: NAME=VALUE, the value being the rest of the line as it is (a carriage return at
/// its end apart); blank lines and those whose first character is # are skipped.
void parse_env_file(std::string_view text, SecretEnv& into);

SandboxSessionSpec make_spec(const RunOptions& options, const kit::DispatchSettings& dispatch);
/// Without tty; `run` knows the terminal's size.
ExecOptions make_exec_options(const RunOptions& options, const kit::DispatchSettings& dispatch);

}  // namespace caisson::cli
