// InitClient: speaks to the init of one box over its socket (S-102).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "caisson/contract/awaitable.h"
#include "caisson/kit/clock.h"
#include "init/messages.h"
#include "os/fd.h"

namespace caisson::container {

/// Why a request was not answered as it was meant to be.
enum class InitFault : std::uint8_t {
  unsent,   ///< It cannot be put into bytes, or wants for descriptors: `number` says why.
  refused,  ///< init answered Failed: `step`, `number` and `detail` are its words.
  silent,   ///< No answer by the deadline; the connection goes on.
  lost,     ///< The connection has ended: `detail` says why.
};

struct InitFailure {
  InitFault fault = InitFault::lost;
  init::Step step = init::Step::protocol;
  int number = 0;  ///< errno, or 0. From a refusal it is a claim of init's.
  std::string detail;
};
/// For people, with what came from init shortened and made printable.
std::string describe(const InitFailure& failure);

template <class T>
using InitResult = boost::system::result<T, InitFailure>;
[[noreturn]] void throw_exception_from_error(const InitFailure& failure, const boost::source_location&);

/// One exec that init has started, as far as init has told. Thread-safe.
class InitExec {
 public:
  struct State {
    std::optional<init::Exited> exited;
    bool empty = false;  ///< init says that nothing of its tree is left.
    std::string lost;    ///< Not empty: nothing more will be heard of it, and why.
  };

  std::uint64_t id() const noexcept { return id_; }
  std::uint32_t pid() const noexcept { return pid_; }  ///< In the box.
  State state() const;
  /// Polls readable from the moment that `exited` or `lost` is set.
  os::FdRef ended() const noexcept { return ended_; }

 private:
  friend class InitLink;
  explicit InitExec(os::Pipe pipe) noexcept
      : ended_(std::move(pipe.read)), not_ended_(std::move(pipe.write)) {}
  void exit(const init::Exited& exited);
  void set_empty();
  void lose(const std::string& why);

  std::uint64_t id_ = 0;   // Set before anybody else has it.
  std::uint32_t pid_ = 0;  // Likewise.
  const os::Fd ended_;
  mutable std::mutex mutex_;
  os::Fd not_ended_;
  State state_;
};

/// What answered a request: a reply of the type that messages.h names for it, and what came along.
struct InitAnswer {
  init::Reply reply;
  std::vector<os::Fd> descriptors;  ///< As many as the reply says. Of what kind they are is not known.
  std::shared_ptr<InitExec> exec;   ///< With Started.
};

struct InitClientOptions {
  std::shared_ptr<kit::Clock> clock = kit::system_clock();  ///< Deadlines are kept on it.
  /// Called once, on the client's strand, when the connection ends otherwise than by the client's own
  /// destruction: a box whose init cannot be spoken to is the owner's to kill.
  std::function<void(const std::string& why)> on_end = {};
};

/// The host's end of a connection to an init. Requests may be made from any thread and many at a time; each
/// is answered, refused, or fails by its own deadline. Nothing that init says is believed beyond its form: an
/// answer to what nobody asked, of another type, or with descriptors that were not announced ends the
/// connection; an event of an exec that is not known is passed over.
///
/// Whoever stops waiting (cancelled, or at his deadline) leaves nothing behind in the box: an exec that
/// starts all the same is killed, a file that is opened is closed, a put that begins is aborted. Exits are
/// acknowledged as they come.
///
/// Destroying it ends the connection, and so every call under way (`lost`).
class InitClient {
 public:
  /// `socket` is one end of a connected Unix stream socket. All work is done on a strand of `executor`.
  InitClient(const boost::asio::any_io_executor& executor, os::Fd socket, InitClientOptions options);
  ~InitClient();
  InitClient(const InitClient&) = delete;
  InitClient& operator=(const InitClient&) = delete;

  /// Sends `request`, with the descriptors that it says ride along, and waits for its answer, at most
  /// `patience`. What the request held is wiped. Throws operation_aborted when cancelled; never for a
  /// failure.
  Awaitable<InitResult<InitAnswer>> call(init::Request request, std::vector<os::Fd> descriptors,
                                         std::chrono::nanoseconds patience);
  /// Sends a request that needs no descriptors, and waits for nothing.
  void tell(init::Request request);

 private:
  std::shared_ptr<class InitLink> link_;
};

}  // namespace caisson::container
