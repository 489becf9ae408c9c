// Boost.JSON's event parser under a handler that refuses repeated keys and keeps all text in wiped memory.
#include "contract/json_document.h"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <set>
#include <vector>

#include "caisson/contract/errors.h"
#include "caisson/contract/secret.h"
#include "contract/quote.h"

namespace caisson::wire {
namespace {

namespace bj = boost::json;

/// Builds the value, and knows which keys each open object has had. The signatures are basic_parser's.
class Builder {
 public:
  static constexpr std::size_t max_object_size = bj::object::max_size();
  static constexpr std::size_t max_array_size = bj::array::max_size();
  static constexpr std::size_t max_key_size = bj::string::max_size();
  static constexpr std::size_t max_string_size = bj::string::max_size();

  explicit Builder(bj::memory_resource* memory) : stack_(bj::storage_ptr(memory)) {
    stack_.reset(bj::storage_ptr(memory));
  }

  bj::value release() { return stack_.release(); }

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_object_begin(bj::error_code&) {
    open_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t size, bj::error_code&) {
    open_.pop_back();
    stack_.push_object(size);
    return true;
  }
  bool on_array_begin(bj::error_code&) { return true; }
  bool on_array_end(std::size_t size, bj::error_code&) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(bj::string_view part, std::size_t, bj::error_code&) {
    key_.append(part.data(), part.size());
    stack_.push_chars(part);
    return true;
  }
  bool on_key(bj::string_view part, std::size_t, bj::error_code&) {
    key_.append(part.data(), part.size());
    stack_.push_key(part);
    OpenObject& object = open_.back();
    object.key = key_;
    if (!object.keys.insert(std::move(key_)).second) {
      const std::string at = path();
      complain(at, at + " is given twice: keep one");
    }
    key_.clear();
    return true;
  }
  bool on_string_part(bj::string_view part, std::size_t, bj::error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(bj::string_view part, std::size_t, bj::error_code&) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(bj::string_view, bj::error_code&) { return true; }
  bool on_int64(std::int64_t number, bj::string_view, bj::error_code&) {
    stack_.push_int64(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, bj::string_view, bj::error_code&) {
    stack_.push_uint64(number);
    return true;
  }
  bool on_double(double number, bj::string_view, bj::error_code&) {
    stack_.push_double(number);
    return true;
  }
  bool on_bool(bool truth, bj::error_code&) {
    stack_.push_bool(truth);
    return true;
  }
  bool on_null(bj::error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }

 private:
  struct OpenObject {
    std::set<std::string, std::less<>> keys;
    std::string key;  ///< Whose value is being read.
  };

  std::string path() const {
    std::string joined;
    for (const OpenObject& object : open_) joined = join_path(joined, object.key);
    return joined;
  }

  bj::value_stack stack_;
  std::vector<OpenObject> open_;
  std::string key_;
};

bj::value parse(std::string_view text, bj::memory_resource* memory) {
  bj::parse_options options;
  options.max_depth = deepest_json;
  bj::basic_parser<Builder> parser(options, memory);
  bj::error_code error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && used < text.size()) error = bj::error::extra_data;
  if (error) complain("", "not valid JSON at byte " + std::to_string(used) + ": " + error.message());
  return parser.handler().release();
}

/// The parser unescapes strings in a buffer on its stack; this overwrites what it left there.
/// AddressSanitizer would put the area on the heap.
[[gnu::noinline, gnu::no_sanitize_address]] void wipe_stack_below() {
  std::array<char, 32768> area;
  wipe(area.data(), area.size());
}

}  // namespace

void complain(const std::string& path, const std::string& message) {
  throw SandboxError(ErrorCode::invalid_argument, message, path);
}

std::string join_path(const std::string& parent, std::string_view key) {
  key = key.substr(0, key.find('='));
  return parent.empty() ? escape(key) : parent + "." + escape(key);
}

// Boost.JSON asks for a key with another alignment than it gives it back with, so each block has the default
// one.
void* WipingMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__) throw std::bad_alloc();
  return new std::byte[bytes];
}

void WipingMemory::do_deallocate(void* block, std::size_t bytes, std::size_t) {
  wipe(block, bytes);
  delete[] static_cast<std::byte*>(block);
}

Document::Document(std::string_view text) : root_(bj::storage_ptr(&memory_)) {
  struct WipeStack {
    ~WipeStack() { wipe_stack_below(); }
  } wipe_stack;
  // Same storage on both sides, so this moves.
  root_ = parse(text, &memory_);
}

}  // namespace caisson::wire
