// The models as Boost.Describe sees them: the one list of field and enumerator names behind JSON and the
// words.
#pragma once

#include <boost/describe.hpp>
#include <boost/mp11/algorithm.hpp>
#include <optional>
#include <string_view>

#include "caisson/contract/errors.h"
#include "caisson/contract/models.h"
#include "caisson/contract/policy.h"

namespace caisson {

// `unset` is left out: it is no word of the contract.
BOOST_DESCRIBE_ENUM(SandboxDurability, ephemeral, persistent)
BOOST_DESCRIBE_ENUM(SandboxNetwork, none, internal, egress)
BOOST_DESCRIBE_ENUM(SandboxIsolation, none, container, vm)
BOOST_DESCRIBE_ENUM(ExecEnd, exited, signaled, out_of_memory, lost)
BOOST_DESCRIBE_ENUM(SandboxLimit, memory, pids, disk)
BOOST_DESCRIBE_ENUM(ErrorCode, invalid_argument, policy_refused, not_enforceable, session_not_found,
                    session_destroyed, command_not_found, not_executable, bad_format, argument_list_too_long,
                    cwd_missing, timeout, output_limit, stdin_closed, output_busy, path_escapes, path_changed,
                    not_a_regular_file, file_missing, too_large, workspace_conflict, root_unusable,
                    removal_failed, unavailable, bad_setting, internal)

BOOST_DESCRIBE_STRUCT(SandboxSessionSpec, (),
                      (image, workspace_key, durability, env, network, isolation, cpu, memory_mb, ttl_seconds,
                       labels))
BOOST_DESCRIBE_STRUCT(SandboxSessionInfo, (),
                      (id, image, workspace_key, workspace_path, durability, created_at, expires_at, labels))
BOOST_DESCRIBE_STRUCT(SandboxPolicy, (), (egress, isolation, scrub_transcript, durable))

/// The described enumerator's name; empty for a value that has none.
template <class Enum>
std::string_view enum_word(Enum value) noexcept {
  std::string_view word;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<Enum>>([&](auto enumerator) {
    if (enumerator.value == value) word = enumerator.name;
  });
  return word;
}

/// The enumerator of that name, or nothing.
template <class Enum>
std::optional<Enum> enum_of_word(std::string_view word) noexcept {
  std::optional<Enum> value;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<Enum>>([&](auto enumerator) {
    if (word == enumerator.name) value = enumerator.value;
  });
  return value;
}

/// Every name of the enumeration, quoted, for messages: `"none", "internal" or "egress"`.
template <class Enum>
std::string enum_choices() {
  using Enumerators = boost::describe::describe_enumerators<Enum>;
  constexpr std::size_t count = boost::mp11::mp_size<Enumerators>::value;
  std::string text;
  std::size_t index = 0;
  boost::mp11::mp_for_each<Enumerators>([&](auto enumerator) {
    if (index > 0) text += index + 1 == count ? " or " : ", ";
    text.append("\"").append(enumerator.name).append("\"");
    ++index;
  });
  return text;
}

}  // namespace caisson
