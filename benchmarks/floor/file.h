// The floor of a file transfer.
#pragma once

#include <string>

namespace caisson::bench::floor {

/// Writes `data` to a new file, renames it to `path`, and reads that back into `into`, which is as large.
/// Throws std::system_error.
void write_rename_read(const std::string& path, const std::string& data, std::string& into);

}  // namespace caisson::bench::floor
