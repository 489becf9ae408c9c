// Fuzzes the JSON of a session spec: whatever the text, a valid spec comes back or a
// SandboxSpecRejectedError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "caisson/contract/errors.h"
#include "caisson/contract/json.h"
#include "caisson/contract/text.h"
#include "caisson/contract/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto spec = caisson::from_json<caisson::SandboxSessionSpec>(text);
    caisson::validate(spec);
  } catch (const caisson::SandboxSpecRejectedError& error) {
    // A complaint is text that can be shown, and as short for a long input as for a short one.
    if (error.code() != caisson::ErrorCode::invalid_argument) std::abort();
    if (!caisson::is_utf8(error.what()) || !caisson::is_utf8(error.field())) std::abort();
    if (std::string_view(error.what()).size() > 4096) std::abort();
  }
  return 0;
}
