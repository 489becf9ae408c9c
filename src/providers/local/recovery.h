// Recovery: what dead owners left on a root (S-29, S-92).
#pragma once

#include <string>
#include <vector>

#include "caisson/kit/log.h"
#include "providers/local/layout.h"

namespace caisson::local {

/// Ends and removes the sessions whose owners are gone: their processes, scratch and records; persistent
/// workspaces stay, but where a wish to remove one waits. Disturbs no live session, of whatever process. One
/// line for each thing handled, which is also logged; what cannot be removed is logged and left for the next
/// time. Blocking.
std::vector<std::string> recover(const Layout& layout, const kit::Log& log);

}  // namespace caisson::local
