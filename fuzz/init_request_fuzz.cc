// What a host process says to caisson-init: see init_fuzz.h.
#include "init_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  init_fuzz::check(bytes, caisson::init::Peer::host, caisson::init::MessageType::hello,
                   caisson::init::decode_request);
  return 0;
}
