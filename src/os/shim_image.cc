// The shim program's bytes, put into read-only data by the assembler.
#include "os/shim_image.h"

#include "os/shim_path.h"

asm(".pushsection .rodata\n"
    ".balign 16\n"
    "caisson_shim_image_begin:\n"
    ".incbin \"" CAISSON_SHIM_PATH
    "\"\n"
    "caisson_shim_image_end:\n"
    ".popsection\n"
    ".hidden caisson_shim_image_begin\n"
    ".hidden caisson_shim_image_end\n"
    ".globl caisson_shim_image_begin\n"
    ".globl caisson_shim_image_end\n");

extern "C" {
extern const char caisson_shim_image_begin[] __attribute__((visibility("hidden")));
extern const char caisson_shim_image_end[] __attribute__((visibility("hidden")));
}

namespace caisson::os {

std::string_view shim_image() noexcept {
  return {caisson_shim_image_begin,
          static_cast<std::size_t>(caisson_shim_image_end - caisson_shim_image_begin)};
}

}  // namespace caisson::os
