// InitLink: the connection behind an InitClient, which outlives it for as long as something is under way.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <list>
#include <map>

#include "kit/event.h"
#include "kit/strand.h"
#include "providers/container/init_client.h"

namespace caisson::container {

/// One request on its way to its answer.
struct InitCall {
  explicit InitCall(const kit::Strand& strand) : answered(strand) {}

  std::uint64_t number = 0;
  init::MessageType type = init::MessageType::ping;
  bool tty = false;  ///< Of a StartExec.
  std::chrono::nanoseconds patience{0};
  std::shared_ptr<InitExec> exec;  ///< Of a StartExec, with its pipe made ahead.
  std::optional<InitResult<InitAnswer>> outcome;
  kit::Event answered;
  std::unique_ptr<kit::Alarm> alarm;
  bool wanted = true;  ///< Somebody waits for it.
};

/// Bytes to send, wiped when they go: they may hold an environment (S-6).
struct InitFrame {
  InitFrame(std::string frame, std::vector<os::Fd> riding, std::uint64_t request) noexcept
      : bytes(std::move(frame)), descriptors(std::move(riding)), number(request) {}
  ~InitFrame();
  InitFrame(const InitFrame&) = delete;
  InitFrame& operator=(const InitFrame&) = delete;

  std::string bytes;
  std::size_t sent = 0;
  std::vector<os::Fd> descriptors;
  std::uint64_t number;
};

init::MessageType type_of(const init::Request& request) noexcept;
os::Result<std::string> encode(std::uint64_t number, const init::Request& request);

/// Its members are used on its strand alone, but for those that say otherwise.
class InitLink : public std::enable_shared_from_this<InitLink> {
 public:
  InitLink(const boost::asio::any_io_executor& executor, os::Fd socket, InitClientOptions options);
  ~InitLink();

  const kit::Strand& strand() const noexcept { return strand_; }  ///< Any thread.

  void open();
  /// Ends the connection and everything that waits; again it does nothing. `by_owner`: nobody is told.
  void end(const std::string& why, bool by_owner);

  /// An exec that is to be started. Any thread.
  static std::shared_ptr<InitExec> new_exec(os::Pipe pipe);
  /// A number for the next request. Any thread.
  std::uint64_t next_number() noexcept { return next_.fetch_add(1); }
  static Awaitable<InitResult<InitAnswer>> converse(std::shared_ptr<InitLink> self,
                                                    std::shared_ptr<InitCall> call,
                                                    std::shared_ptr<InitFrame> frame);
  void tell(const init::Request& request);

 private:
  void begin(const std::shared_ptr<InitCall>& call, std::shared_ptr<InitFrame> frame);
  void on_deadline(const std::shared_ptr<InitCall>& call);
  void finish(InitCall& call, InitResult<InitAnswer> outcome);
  void abandon(const std::shared_ptr<InitCall>& call);
  void send();
  void await_readable();
  void receive();
  bool take(std::string_view bytes);
  bool dispatch(const init::Frame& frame, std::vector<os::Fd> descriptors);
  bool hear(const init::Reply& event);
  bool answer(std::uint64_t number, init::Reply reply, std::vector<os::Fd> descriptors);
  void tidy_up_after(const init::Reply& reply);
  bool violate(const std::string& what);

  const kit::Strand strand_;
  const InitClientOptions options_;
  std::atomic<std::uint64_t> next_ = 1;

  boost::asio::posix::stream_descriptor socket_;
  bool awaiting_writable_ = false;
  std::optional<std::string> ended_;  // Why.
  std::list<std::shared_ptr<InitFrame>> outgoing_;
  std::map<std::uint64_t, std::shared_ptr<InitCall>> calls_;  // Not answered yet, wanted or not.
  std::size_t unwanted_ = 0;                                  // Of those.
  std::map<std::uint64_t, std::shared_ptr<InitExec>> execs_;  // Until their trees are empty.

  std::vector<char> buffer_;
  init::FrameDecoder decoder_{init::Peer::init};
  std::deque<os::Fd> arrived_;  // Of frames that are not whole yet.
};

}  // namespace caisson::container
