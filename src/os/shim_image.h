// The shim program, as it is carried in this library.
#pragma once

#include <string_view>

namespace caisson::os {

/// The whole ELF file.
std::string_view shim_image() noexcept;

}  // namespace caisson::os
