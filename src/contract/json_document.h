// A strictly parsed JSON text whose memory is wiped when it goes: a spec's env values are in it.
#pragma once

#include <boost/json/memory_resource.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace caisson::wire {

/// The deepest nesting of arrays and objects that is read.
inline constexpr std::size_t deepest_json = 16;

/// Throws SandboxError (invalid_argument) with `path` as its field.
[[noreturn]] void complain(const std::string& path, const std::string& message);

/// The path of a member: "labels" and "team" give "labels.team". A key is cut at a "=": behind it, in a
/// "NAME=value" taken for the name of a variable, stands a secret.
std::string join_path(const std::string& parent, std::string_view key);

/// The heap, each block wiped before it is given back.
class WipingMemory final : public boost::json::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const boost::json::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

/// One JSON text (RFC 8259), parsed. Throws SandboxError (invalid_argument) when it is malformed, nested
/// deeper than deepest_json, or repeats a key in an object. The text itself stays the caller's to wipe.
class Document {
 public:
  explicit Document(std::string_view text);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document() = default;

  const boost::json::value& root() const noexcept { return root_; }

 private:
  WipingMemory memory_;
  boost::json::value root_;
};

}  // namespace caisson::wire
