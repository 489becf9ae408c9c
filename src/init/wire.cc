// Memory that held secrets.
#include "init/wire.h"

#include <string.h>

namespace caisson::init {

void wipe(std::string& bytes) noexcept {
  bytes.resize(bytes.capacity());  // Never allocates: it is as long as its memory.
  ::explicit_bzero(bytes.data(), bytes.size());
  bytes.clear();
}

}  // namespace caisson::init
