// What a filter answers to each system call, and the program that does (seccomp(2)).
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <map>
#include <vector>

namespace caisson::os {

/// What a filter answers to a call: SECCOMP_RET_ALLOW or its like.
using SeccompAnswer = std::uint32_t;

/// A look at the lower half of one argument, which is all that the kernel takes of an int: a bit set above it
/// slips past no check.
struct ArgumentCheck {
  enum class Test : std::uint8_t {
    equals,      ///< It is one of the values.
    has_bit,     ///< It has one of the bits of one of the values.
    is_none_of,  ///< It is none of the values.
  };
  unsigned argument = 0;  ///< From 0 to 5.
  Test test = Test::equals;
  std::vector<std::uint32_t> values;  ///< From 1 to 254.
  SeccompAnswer answer = 0;           ///< If the test holds.
  bool operator==(const ArgumentCheck&) const = default;
};

struct CallRule {
  SeccompAnswer answer = 0;           ///< When no check holds.
  std::vector<ArgumentCheck> checks;  ///< The first that holds answers.
  bool operator==(const CallRule&) const = default;
};

struct SeccompRules {
  std::uint32_t architecture = 0;           ///< AUDIT_ARCH_...; calls of any other get `otherwise`.
  std::map<std::uint32_t, CallRule> calls;  ///< By their numbers.
  SeccompAnswer otherwise = 0;              ///< To all others, of whatever number.
};

/// The program, for install_seccomp(): a binary search among runs of calls with the same rule. The kernel
/// walks it for each number when it is loaded, so a load costs as much as a way through it is long
/// (docs/decisions/0008).
std::vector<sock_filter> compile_seccomp_rules(const SeccompRules& rules);

}  // namespace caisson::os
