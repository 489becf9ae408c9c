// Recovery: what owners that died left behind (S-29).
#pragma once

#include <string>
#include <vector>

#include "caisson/kit/log.h"
#include "providers/container/layout.h"
#include "providers/container/uid_slots.h"

namespace caisson::container {

/// Removes what sessions of dead owners left in the runtime directory, and the persistent workspaces that
/// were wished gone; boxes end by themselves with their owners. One descriptor for each thing handled; what
/// cannot be handled now is logged and left for the next. Blocking: it waits at most two seconds for the
/// processes of each.
std::vector<std::string> recover(const Layout& layout, UidSlots& slots, const kit::Log& log);

}  // namespace caisson::container
