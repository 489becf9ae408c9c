// A user namespace that nobody lives in: the mapping for idmapped mounts (mount.h).
#pragma once

#include "os/id_map.h"

namespace caisson::os {

/// A descriptor of a new user namespace with these maps. Takes half a millisecond, and some more where the
/// maps are written by programs (write_id_maps): keep it for as long as the map serves. A process that holds
/// it open meanwhile is reaped before this returns.
ExplainedResult<Fd> make_user_namespace(const IdMaps& maps);

}  // namespace caisson::os
