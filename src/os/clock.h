// The system's clocks and identity of this boot, read raw.
#pragma once

#include <chrono>
#include <string>

namespace caisson::os {

/// CLOCK_BOOTTIME (clock_gettime(2)): counts through suspend, unmoved by steps of the wall clock.
std::chrono::nanoseconds boottime() noexcept;
/// /proc/sys/kernel/random/boot_id, 36 characters; empty where it cannot be read.
const std::string& boot_id();
/// 16 random bytes as 32 lowercase hex digits (getrandom(2)).
std::string random_hex_id();

}  // namespace caisson::os
