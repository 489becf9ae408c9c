// System calls with no libc around them: no errno, no cancellation points, no interceptors. For code that
// runs on borrowed thread-local storage.
#pragma once

#include <cstdint>

namespace caisson::os {

#if !defined(__x86_64__)
#error \
    "raw_syscall.h knows x86_64 only: add this architecture's system call instruction here and in clone_child.cc"
#endif

// Marks a function that runs in a CLONE_VM child: nothing may be compiled into it that keeps state elsewhere.
#if defined(__clang__)
#define CAISSON_CHILD_CODE                                                                                \
  __attribute__((no_sanitize("address", "thread", "undefined", "memory", "coverage"), no_stack_protector, \
                 no_instrument_function, no_profile_instrument_function))
#else
#define CAISSON_CHILD_CODE                                                                \
  __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"), \
                 no_stack_protector, no_instrument_function, no_profile_instrument_function))
#endif

/// The kernel's answer: a negative errno on failure.
CAISSON_CHILD_CODE inline long raw_syscall(long number, std::uint64_t a = 0, std::uint64_t b = 0,
                                           std::uint64_t c = 0, std::uint64_t d = 0,
                                           std::uint64_t e = 0) noexcept {
  long result;
  register std::uint64_t fourth asm("r10") = d;
  register std::uint64_t fifth asm("r8") = e;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
}

/// For arguments that are descriptors or small numbers, and for pointers.
CAISSON_CHILD_CODE inline std::uint64_t raw(int value) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}
CAISSON_CHILD_CODE inline std::uint64_t raw(const void* value) noexcept {
  return reinterpret_cast<std::uintptr_t>(value);
}

}  // namespace caisson::os
