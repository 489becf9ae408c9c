// What caisson-init, which a box may have taken over, says to the host (S-102): see init_fuzz.h.
#include "init_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  init_fuzz::check(bytes, caisson::init::Peer::init, caisson::init::MessageType::hello_reply,
                   caisson::init::decode_reply);
  return 0;
}
