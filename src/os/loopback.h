// The loopback interface of a network namespace.
#pragma once

#include "os/result.h"

namespace caisson::os {

/// Brings `lo` of the present network namespace up (netdevice(7)), which gives it 127.0.0.1 and ::1; in a new
/// namespace it is down. EPERM without CAP_NET_ADMIN in the user namespace that owns it, unless it is up
/// already.
Result<void> bring_loopback_up() noexcept;

}  // namespace caisson::os
