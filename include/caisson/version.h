// The version of the headers. `CAISSON_VERSION` orders: 10000 * major + 100 * minor + patch.
#pragma once

#define CAISSON_VERSION_MAJOR 0
#define CAISSON_VERSION_MINOR 1
#define CAISSON_VERSION_PATCH 0
#define CAISSON_VERSION (CAISSON_VERSION_MAJOR * 10000 + CAISSON_VERSION_MINOR * 100 + CAISSON_VERSION_PATCH)
#define CAISSON_VERSION_STRING "0.1.0"

namespace caisson {

/// The version of the library that is linked, which may differ from the headers'.
const char* version() noexcept;

}  // namespace caisson
