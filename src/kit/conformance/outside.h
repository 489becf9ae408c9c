// Paths that lead out of the workspace.
#pragma once

#include <string>

#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {

/// Expects that transfers neither read nor write outside the workspace by `directory`, a path that leads to
/// the suite's directory there.
Awaitable<void> no_way_out(Context context, SessionPtr session, std::string directory);
/// Expects the suite's directory to be as it was.
void expect_outside_untouched(const Context& context);

}  // namespace caisson::kit::conformance
