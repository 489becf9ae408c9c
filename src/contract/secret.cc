// Secret's memory: one heap block that is wiped before it is given back.
#include "caisson/contract/secret.h"

#include <cstring>
#include <utility>

namespace caisson {

Secret::Secret(std::string_view value)
    : data_(value.empty() ? nullptr : new char[value.size()]), size_(value.size()) {
  if (data_ != nullptr) std::memcpy(data_, value.data(), size_);
}

Secret::Secret(const std::string& value) : Secret(std::string_view(value)) {}

Secret::Secret(const char* value) : Secret(value == nullptr ? std::string_view() : std::string_view(value)) {}

Secret::Secret(Secret&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  // The old value goes with `taken`; a self-move hands the value over and back.
  Secret taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  return *this;
}

Secret::~Secret() {
  wipe(data_, size_);
  delete[] data_;
}

Secret Secret::clone() const { return Secret(std::string_view(data_, size_)); }

bool Secret::has_nul() const noexcept {
  return std::string_view(data_, size_).find('\0') != std::string_view::npos;
}

SecretEnv::SecretEnv(std::initializer_list<std::pair<std::string_view, std::string_view>> variables) {
  for (const auto& [name, value] : variables) emplace(name, value);
}

SecretEnv clone(const SecretEnv& env) {
  SecretEnv copy;
  for (const auto& [name, value] : env) copy.emplace_hint(copy.end(), name, value.clone());
  return copy;
}

void wipe(void* data, std::size_t size) noexcept {
  if (size == 0) return;
  std::memset(data, 0, size);
  // Without this the stores are dead before a delete, and optimisers remove them.
  asm volatile("" : : "r"(data) : "memory");
}

}  // namespace caisson
