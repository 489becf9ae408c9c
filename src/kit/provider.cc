// Out-of-line parts of the provider's interfaces.
#include "caisson/kit/provider.h"

#include <algorithm>

namespace caisson::kit {

ExecTree::~ExecTree() = default;
SessionBox::~SessionBox() = default;

Awaitable<void> SessionBox::put_file(std::string path, std::string data, FileMode mode) {
  auto writer = co_await open_writer(std::move(path), mode);
  co_await writer->write(std::move(data));
  co_await writer->commit();
}

Awaitable<std::string> SessionBox::get_file(std::string path, std::uint64_t cap) {
  auto reader = co_await open_reader(std::move(path));
  std::string data;
  for (;;) {
    // The size at the opening is a hint: the file may grow while it is read. One byte more tells whether it
    // has.
    const std::uint64_t expected = std::max<std::uint64_t>(reader->size(), data.size()) - data.size() + 1;
    std::string piece =
        co_await reader->read(static_cast<std::size_t>(std::min(expected, cap - data.size() + 1)));
    if (piece.empty()) break;
    append_within_cap(data, std::move(piece), cap);
  }
  co_return data;
}

void append_within_cap(std::string& data, std::string piece, std::uint64_t cap) {
  if (data.empty()) {
    data = std::move(piece);
  } else {
    data += piece;
  }
  if (data.size() <= cap) return;
  throw SandboxError(ErrorCode::too_large,
                     "the file is larger than an in-memory transfer takes, " + std::to_string(cap) +
                         " bytes; stream it with open_reader",
                     "path");
}

DescriptorsExhausted::DescriptorsExhausted()
    : SandboxError(
          ErrorCode::unavailable,
          "the descriptors or processes that this program may have are used up; raise the limits (ulimit -n, "
          "ulimit -u) or run fewer commands at once") {}
DescriptorsExhausted::~DescriptorsExhausted() = default;

}  // namespace caisson::kit
