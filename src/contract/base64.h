// Base64 (RFC 4648, section 4, padded) of bytes that JSON text cannot hold.
#pragma once

#include <string>
#include <string_view>

namespace caisson {

std::string base64(std::string_view bytes);

}  // namespace caisson
