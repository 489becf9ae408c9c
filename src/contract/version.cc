// The version of the linked library.
#include "caisson/version.h"

namespace caisson {

const char* version() noexcept { return CAISSON_VERSION_STRING; }

}  // namespace caisson
