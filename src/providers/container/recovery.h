// Recovery: what dead owners left (S-29).
#pragma once

#include <string>
#include <vector>

#include "caisson/kit/log.h"
#include "providers/container/storage.h"

namespace caisson::container {

/// Ends and removes the sessions of the runtime directory whose owners are gone: their processes, cgroups,
/// state and ids. Of the root it closes the persistent workspaces that nobody uses, removes those that were
/// wished gone, and frees ids; the others stay. Disturbs no live session, of whatever process and runtime
/// directory. One line for each thing handled, which is also logged; what cannot be handled is logged and
/// left for the next time. Blocking: it waits at most two seconds for the processes of a session.
///
/// No record is believed: of what it names, only that is touched which is named after the session itself, or
/// after a process that is no more.
std::vector<std::string> recover(const Storage& storage, const kit::Log& log);

}  // namespace caisson::container
