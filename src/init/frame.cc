// Frames to bytes, and bytes in any split to frames.
#include "init/frame.h"

#include <algorithm>
#include <utility>

#include "init/wire.h"

namespace caisson::init {

namespace {

constexpr std::uint32_t magic = 0x696e6943;  // "Cini"

struct Header {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t type = 0;
  std::uint64_t request = 0;
  std::uint32_t length = 0;
  std::uint8_t descriptors = 0;
};

void describe(auto& archive, Is<Header> auto& header) {
  archive.number(header.magic);
  archive.number(header.version);
  archive.number(header.type);
  archive.number(header.request);
  archive.number(header.length);
  archive.number(header.descriptors);
}

}  // namespace

bool is_known(MessageType type, Peer sender) noexcept {
  return sender == Peer::host ? type >= MessageType::hello && type <= MessageType::close_input
                              : type >= MessageType::hello_reply && type <= MessageType::streams;
}

os::Result<std::string> encode(const Frame& frame) {
  if (frame.body.size() > max_body) return os::error_of(EMSGSIZE);
  if (frame.descriptors > max_descriptors) return os::error_of(EINVAL);
  const Header header{magic,
                      protocol_version,
                      static_cast<std::uint16_t>(frame.type),
                      frame.request,
                      static_cast<std::uint32_t>(frame.body.size()),
                      frame.descriptors};
  std::string bytes;
  bytes.reserve(frame_header_size + frame.body.size());
  Writer writer(bytes);
  describe(writer, header);
  bytes += frame.body;
  return bytes;
}

FrameDecoder::~FrameDecoder() { wipe(frame_.body); }

std::optional<Frame> FrameDecoder::next(std::string_view& bytes) {
  if (failure_) return std::nullopt;
  if (header_bytes_ < header_.size()) {
    const std::size_t taken = bytes.copy(header_.data() + header_bytes_, header_.size() - header_bytes_);
    bytes.remove_prefix(taken);
    header_bytes_ += taken;
    if (header_bytes_ < header_.size()) return std::nullopt;
    failure_ = read_header();
    if (failure_) return std::nullopt;
  }
  const std::string_view part = bytes.substr(0, length_ - frame_.body.size());
  bytes.remove_prefix(part.size());
  append(part);
  if (frame_.body.size() < length_) return std::nullopt;
  header_bytes_ = 0;
  std::optional<Frame> whole(std::move(frame_));
  wipe(frame_.body);  // A short body was copied, not moved.
  return whole;
}

std::optional<FrameError> FrameDecoder::read_header() noexcept {
  Header header;
  Reader reader({header_.data(), header_.size()});
  describe(reader, header);
  if (header.magic != magic) return FrameError::magic;
  if (header.version != protocol_version) return FrameError::version;
  const auto type = static_cast<MessageType>(header.type);
  if (!is_known(type, sender_)) return FrameError::type;
  if (header.length > max_body) return FrameError::length;
  if (header.descriptors > max_descriptors) return FrameError::descriptors;
  frame_.type = type;
  frame_.request = header.request;
  frame_.descriptors = header.descriptors;
  length_ = header.length;
  return std::nullopt;
}

void FrameDecoder::append(std::string_view bytes) {
  std::string& body = frame_.body;
  const std::size_t size = body.size() + bytes.size();
  if (size > body.capacity()) {
    // By hand, for std::string would leave what it grew out of unwiped.
    std::string larger;
    larger.reserve(std::min(length_, std::max(size, 2 * body.capacity())));
    larger = body;
    wipe(body);
    body.swap(larger);
  }
  body += bytes;
}

}  // namespace caisson::init
