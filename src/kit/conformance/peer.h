// Peer: the provider under test in another process, on the same root.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <string>

#include "kit/conformance/context.h"

namespace caisson::kit::conformance {

/// A process that runs serve(). Dropping it ends its input and waits for its end, which it at last brings
/// about by SIGKILL. Used on the check's event loop; one request at a time.
class Peer {
 public:
  /// Returns when it has opened the provider; NotRun where the profile has no such program. `environment` is
  /// laid over this process's own.
  static Awaitable<std::shared_ptr<Peer>> start(Context context,
                                                std::map<std::string, std::string> environment = {});
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Ends its input, and so the provider, and waits for the process.
  Awaitable<void> end();
  /// SIGKILL; returns when it is dead.
  Awaitable<void> kill();

  // The requests that checks make, each expected to be done.
  /// The new session's id.
  Awaitable<std::string> create(SandboxSessionSpec spec);
  /// The stdout of a shell that exits with 0.
  Awaitable<std::string> output_of(std::string id, std::string script);
  /// Starts a command and returns when it has printed `until`.
  Awaitable<void> start_command(std::string id, std::string script, std::string until);
  Awaitable<void> end_session(std::string how, std::string id);
  Awaitable<void> release_all();
  /// The code of a create that is refused, or "none".
  Awaitable<std::string> refusal_of_create(SandboxSessionSpec spec);

 private:
  struct State;
  explicit Peer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  /// The answer to a request, see serve.cc. Failure when there is none.
  static Awaitable<boost::json::object> exchange(std::shared_ptr<State> state, boost::json::object request);
  /// As above, and Failure for an answer that is an error.
  static Awaitable<boost::json::object> done(std::shared_ptr<State> state, boost::json::object request);
  static Awaitable<std::string> created(std::shared_ptr<State> state, boost::json::object request);
  static Awaitable<std::string> run(std::shared_ptr<State> state, boost::json::object request);
  static Awaitable<void> finish(std::shared_ptr<State> state, boost::json::object request);
  static Awaitable<void> release_listed(std::shared_ptr<State> state);
  static Awaitable<std::string> refusal(std::shared_ptr<State> state, boost::json::object request);
  static Awaitable<void> reaped(std::shared_ptr<State> state, bool forcibly);
  static Awaitable<std::string> next_line(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace caisson::kit::conformance
