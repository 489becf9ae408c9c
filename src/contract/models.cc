// The models' words, copies on purpose, and the setters of ExecOptions.
#include "caisson/contract/models.h"

#include <utility>

#include "contract/described.h"

namespace caisson {
namespace {

std::string_view word_or(std::string_view word, std::string_view otherwise) noexcept {
  return word.empty() ? otherwise : word;
}

}  // namespace

std::string_view to_string(SandboxDurability value) noexcept { return word_or(enum_word(value), "unset"); }
std::string_view to_string(SandboxNetwork value) noexcept { return word_or(enum_word(value), "unknown"); }
std::string_view to_string(SandboxIsolation value) noexcept { return word_or(enum_word(value), "unknown"); }
std::string_view to_string(ExecEnd value) noexcept { return word_or(enum_word(value), "unknown"); }
std::string_view to_string(SandboxLimit value) noexcept { return word_or(enum_word(value), "unknown"); }
std::string_view to_string(SandboxStream value) noexcept {
  return value == SandboxStream::out ? "stdout" : "stderr";
}

std::optional<SandboxDurability> parse_durability(std::string_view text) noexcept {
  return enum_of_word<SandboxDurability>(text);
}
std::optional<SandboxNetwork> parse_network(std::string_view text) noexcept {
  return enum_of_word<SandboxNetwork>(text);
}
std::optional<SandboxIsolation> parse_isolation(std::string_view text) noexcept {
  return enum_of_word<SandboxIsolation>(text);
}

SandboxSessionSpec SandboxSessionSpec::clone() const {
  return {.image = image,
          .workspace_key = workspace_key,
          .durability = durability,
          .env = caisson::clone(env),
          .network = network,
          .isolation = isolation,
          .cpu = cpu,
          .memory_mb = memory_mb,
          .ttl_seconds = ttl_seconds,
          .labels = labels};
}

Argv::Argv(std::initializer_list<std::string_view> words) : words_(words.begin(), words.end()) {}
Argv::Argv(std::vector<std::string> words) noexcept : words_(std::move(words)) {}

ExecOptions::ExecOptions(std::chrono::duration<double> timeout) noexcept : timeout_(timeout) {}

ExecOptions& ExecOptions::cwd(std::string path) & {
  cwd_ = std::move(path);
  return *this;
}
ExecOptions&& ExecOptions::cwd(std::string path) && { return std::move(cwd(std::move(path))); }

ExecOptions& ExecOptions::env(std::string name, Secret value) & {
  env_.insert_or_assign(std::move(name), std::move(value));
  return *this;
}
ExecOptions&& ExecOptions::env(std::string name, Secret value) && {
  return std::move(env(std::move(name), std::move(value)));
}

ExecOptions& ExecOptions::env(SecretEnv variables) & {
  env_ = std::move(variables);
  return *this;
}
ExecOptions&& ExecOptions::env(SecretEnv variables) && { return std::move(env(std::move(variables))); }

ExecOptions& ExecOptions::input(std::string bytes) & {
  input_ = std::move(bytes);
  return *this;
}
ExecOptions&& ExecOptions::input(std::string bytes) && { return std::move(input(std::move(bytes))); }

ExecOptions& ExecOptions::output_cap(std::uint64_t bytes) & {
  output_cap_ = bytes;
  return *this;
}
ExecOptions&& ExecOptions::output_cap(std::uint64_t bytes) && { return std::move(output_cap(bytes)); }

ExecOptions& ExecOptions::allow_truncation(bool allow) & {
  allow_truncation_ = allow;
  return *this;
}
ExecOptions&& ExecOptions::allow_truncation(bool allow) && { return std::move(allow_truncation(allow)); }

ExecOptions& ExecOptions::tty(TtySize size) & {
  tty_ = size;
  return *this;
}
ExecOptions&& ExecOptions::tty(TtySize size) && { return std::move(tty(size)); }

ExecOptions ExecOptions::clone() const {
  ExecOptions copy(timeout_);
  copy.cwd_ = cwd_;
  copy.env_ = caisson::clone(env_);
  copy.input_ = input_;
  copy.output_cap_ = output_cap_;
  copy.allow_truncation_ = allow_truncation_;
  copy.tty_ = tty_;
  return copy;
}

}  // namespace caisson
