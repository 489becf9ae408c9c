// For tests: what a heap block held when it was given back.
#pragma once

#include <string_view>

namespace caisson::testing {

/// Watches the block that begins at `memory`'s first byte, until it is given back or another is watched.
void watch_release(std::string_view memory);
/// How often the watched block was given back: 0 or 1.
int watched_releases();
/// Whether every watched byte was zero then.
bool was_zero_at_release();

}  // namespace caisson::testing
