// Secret: an environment value that cannot leak by accident.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace caisson {

/// A secret string. It is moved, never copied by accident (`clone()` is the copy on purpose); it cannot be
/// printed, formatted, compared or serialised (those do not compile); its bytes are wiped when it is
/// released. The memory it was constructed from stays the caller's to wipe.
class Secret {
 public:
  Secret() noexcept = default;
  /// Implicit, so that `env["TOKEN"] = value` reads naturally; there is no way back but reveal(). Null is
  /// empty.
  Secret(std::string_view value);    // NOLINT(google-explicit-constructor)
  Secret(const std::string& value);  // NOLINT(google-explicit-constructor)
  Secret(const char* value);         // NOLINT(google-explicit-constructor)
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  Secret clone() const;
  /// Whether the value contains a NUL byte, which no environment can hold.
  bool has_nul() const noexcept;
  /// The value. Called where the value leaves Caisson and nowhere else: the spawn, the init encoder, the
  /// client encoder. The view lives as long as this object and is not changed.
  std::string_view reveal() const noexcept { return {data_, size_}; }

  bool operator==(const Secret&) const = delete;
  friend std::ostream& operator<<(std::ostream&, const Secret&) = delete;

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Environment variables by name: a std::map of Secrets that can be written as `{{"TOKEN", value}}` (a map's
/// own braced list copies its elements, which Secrets refuse). Moved, like its values; `clone` is the copy on
/// purpose.
class SecretEnv : public std::map<std::string, Secret> {
 public:
  SecretEnv() = default;
  /// As a map's: of two values for one name the first stays.
  SecretEnv(std::initializer_list<std::pair<std::string_view, std::string_view>> variables);
  SecretEnv(SecretEnv&&) noexcept = default;
  SecretEnv& operator=(SecretEnv&&) noexcept = default;
  SecretEnv(const SecretEnv&) = delete;
  SecretEnv& operator=(const SecretEnv&) = delete;
  ~SecretEnv() = default;
};
SecretEnv clone(const SecretEnv& env);

/// Overwrites memory in a way that the compiler may not remove.
void wipe(void* data, std::size_t size) noexcept;

}  // namespace caisson
