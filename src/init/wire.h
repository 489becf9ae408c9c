// Writer and Reader: values as little-endian bytes, written and read by one description of each struct.
//
// A struct goes over the wire as `describe(archive, value)` says, a template that both of them run: what is
// written and what is read cannot drift apart, and one list of rules holds for both. Every value has exactly
// one form, so that bytes which were read are what would be written.
#pragma once

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace caisson::init {

template <class T>
concept Integer = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;
/// Enumerators that count from 0, in a byte.
template <class T>
concept ByteEnum = std::is_enum_v<T> && std::same_as<std::underlying_type_t<T>, std::uint8_t>;

/// For a `describe` that takes a const struct to write and another to read.
template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

/// What the two have in common: the first failure, which stays.
class Archive {
 public:
  /// A rule of what is described; `error` (an errno) is what breaking it means to the one who encodes.
  void require(bool holds, int error = EINVAL) noexcept {
    if (!holds && error_ == 0) error_ = error;
  }
  bool failed() const noexcept { return error_ != 0; }
  /// The errno of the first failure; 0: none.
  int error() const noexcept { return error_; }

 private:
  int error_ = 0;
};

/// Appends values to a string, or only counts their bytes.
class Writer : public Archive {
 public:
  Writer() noexcept = default;
  /// `out` is borrowed.
  explicit Writer(std::string& out) noexcept : out_(&out) {}

  /// Bytes written so far, kept or not.
  std::size_t size() const noexcept { return size_; }

  template <Integer T>
  void number(T value) {
    char bytes[sizeof(T)];
    auto rest = static_cast<std::uint64_t>(value);
    for (char& byte : bytes) {
      byte = static_cast<char>(rest & 0xffU);
      rest >>= 8U;
    }
    put({bytes, sizeof bytes});
  }
  void boolean(bool value) { number(static_cast<std::uint8_t>(value)); }
  template <ByteEnum T>
  void choice(T value, T last) {
    require(value <= last);
    number(static_cast<std::uint8_t>(value));
  }
  /// At most `most` bytes of any kind; more are `error`.
  void bytes(std::string_view value, std::size_t most, int error = EINVAL) {
    if (!count(value.size(), most, error)) return;
    put(value);
  }
  /// At most `most` items, each as `each(archive, item)` says.
  template <class T, class Each>
  void list(const std::vector<T>& items, std::size_t most, Each each, int error = EINVAL) {
    if (!count(items.size(), most, error)) return;
    for (const T& item : items) each(*this, item);
  }
  template <class T, class Each>
  void optional(const std::optional<T>& value, Each each) {
    boolean(value.has_value());
    if (value) each(*this, *value);
  }
  /// The alternative's index in a byte, then the alternative.
  template <class... Alternatives, class Each>
  void variant(const std::variant<Alternatives...>& value, Each each) {
    number(static_cast<std::uint8_t>(value.index()));
    std::visit([&](const auto& alternative) { each(*this, alternative); }, value);
  }

 private:
  bool count(std::size_t items, std::size_t most, int error) {
    require(items <= most && items <= UINT32_MAX, error);
    if (!failed()) number(static_cast<std::uint32_t>(items));
    return !failed();
  }
  void put(std::string_view bytes) {
    size_ += bytes.size();
    if (out_ != nullptr) out_->append(bytes);
  }

  std::string* out_ = nullptr;
  std::size_t size_ = 0;
};

/// Takes values off the front of bytes that somebody else made up. After the first failure every value is
/// left as it was and nothing more is read. What it allocates is in proportion to the bytes that are there,
/// not to what they announce.
class Reader : public Archive {
 public:
  /// `bytes` is borrowed.
  explicit Reader(std::string_view bytes) noexcept : rest_(bytes) {}

  std::size_t remaining() const noexcept { return rest_.size(); }
  /// Fails when something is left over.
  void finish() noexcept { require(rest_.empty(), EBADMSG); }

  template <Integer T>
  void number(T& value) noexcept {
    const std::string_view bytes = take(sizeof(T));
    if (failed()) return;
    std::uint64_t whole = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) whole = whole << 8U | static_cast<unsigned char>(bytes[i]);
    value = static_cast<T>(whole);
  }
  /// 0 or 1, and no other byte.
  void boolean(bool& value) noexcept {
    std::uint8_t byte = 0;
    number(byte);
    require(byte <= 1, EBADMSG);
    if (!failed()) value = byte == 1;
  }
  template <ByteEnum T>
  void choice(T& value, T last) noexcept {
    std::uint8_t byte = 0;
    number(byte);
    require(byte <= static_cast<std::uint8_t>(last), EBADMSG);
    if (!failed()) value = static_cast<T>(byte);
  }
  void bytes(std::string& value, std::size_t most, int error = EINVAL) {
    const std::string_view taken = take(count(most, error));
    if (!failed()) value.assign(taken);
  }
  template <class T, class Each>
  void list(std::vector<T>& items, std::size_t most, Each each, int error = EINVAL) {
    const std::size_t number = count(most, error);
    // All items but enumerators take 4 bytes or more, so that this is enough for any list that is whole. To
    // move strings that grow out of their vector would leave copies of what they hold.
    if (!failed()) items.reserve(std::min(number, rest_.size() / 4));
    for (std::size_t i = 0; i < number && !failed(); ++i) each(*this, items.emplace_back());
  }
  template <class T, class Each>
  void optional(std::optional<T>& value, Each each) {
    bool present = false;
    boolean(present);
    if (present) each(*this, value.emplace());
  }
  template <class... Alternatives, class Each>
  void variant(std::variant<Alternatives...>& value, Each each) {
    std::uint8_t index = 0;
    number(index);
    require(index < sizeof...(Alternatives), EBADMSG);
    if (failed()) return;
    [&]<std::size_t... indices>(std::index_sequence<indices...>) {
      ((index == indices ? each(*this, value.template emplace<indices>()) : void()), ...);
    }(std::index_sequence_for<Alternatives...>());
  }

 private:
  std::string_view take(std::size_t size) noexcept {
    require(size <= rest_.size(), EBADMSG);
    if (failed()) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  /// 0 after a failure.
  std::size_t count(std::size_t most, int error) noexcept {
    std::uint32_t items = 0;
    number(items);
    require(items <= most, error);
    return failed() ? 0 : items;
  }

  std::string_view rest_;
};

/// Overwrites what `bytes` holds, its spare capacity included, and empties it. Frames carry environments,
/// whose values are secrets (S-6).
void wipe(std::string& bytes) noexcept;

}  // namespace caisson::init
