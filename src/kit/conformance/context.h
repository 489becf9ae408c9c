// Context: what a check works with: a provider of its own, and the suite's habits.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "caisson/kit/conformance.h"
#include "kit/conformance/expect.h"

namespace caisson::kit::conformance {

using SessionPtr = std::shared_ptr<SandboxSession>;
using HandlePtr = std::shared_ptr<SandboxExecHandle>;

inline constexpr std::string_view canary_variable = "CAISSON_CONFORMANCE_CANARY";

/// The permissive policy every provider of the suite is bound to.
SandboxPolicy permissive_policy();

/// A cheap handle that checks take by value. Used on the check's event loop alone.
class Context {
 public:
  /// `directory` exists and is this check's alone.
  Context(const ConformanceProfile& profile, boost::asio::any_io_executor executor, std::string directory,
          std::chrono::duration<double> patience);

  const ConformanceProfile& profile() const noexcept;
  boost::asio::any_io_executor executor() const;
  /// The provider under test, opened before the check begins.
  Sandbox& sandbox() const;
  /// How long whatever should be quick may take, and the timeout of execs that are not expected to reach it.
  std::chrono::duration<double> limit() const noexcept;
  std::chrono::duration<double> patience() const noexcept;

  /// An acceptable ephemeral spec with a ttl that no check outlasts.
  SandboxSessionSpec spec(std::string key = "conformance") const;
  /// The same, persistent; NotRun where the provider has no persistent workspaces.
  SandboxSessionSpec persistent_spec(std::string key = "conformance") const;
  Awaitable<SessionPtr> session() const;
  Awaitable<SessionPtr> create(SandboxSessionSpec spec) const;

  /// Lets that much of the provider's time pass.
  Awaitable<void> elapse(std::chrono::milliseconds time) const;

  /// A directory of the host outside every session's workspace, where the suite keeps a file `canary`.
  std::string outside() const;
  /// What stands in it, and what stands in it now.
  std::string canary() const;
  std::string canary_now() const;

  /// Blocking, off the loop: opens the provider under test, policy bound.
  void open() const;
  /// Ends the provider.
  void close() const;
  /// Ends the provider and opens another on the same root. The check keeps no session of the old one.
  Awaitable<void> reopen() const;
  /// Runs what blocks off the loop.
  Awaitable<void> blocking(std::function<void()> call) const;
  /// The root of the provider under test.
  std::string root() const;
  /// Another provider on a root of its own, no policy bound.
  Awaitable<std::shared_ptr<Sandbox>> open_unbound() const;
  /// Drops such a provider where that may block.
  Awaitable<void> drop(std::shared_ptr<Sandbox> sandbox) const;

 private:
  struct State;
  static Awaitable<void> off_loop(std::shared_ptr<State> state, std::function<void()> call);
  static Awaitable<SessionPtr> create_in(std::shared_ptr<State> state, SandboxSessionSpec spec);
  static Awaitable<void> let_pass(std::shared_ptr<State> state, std::chrono::milliseconds time);
  static Awaitable<std::shared_ptr<Sandbox>> open_another(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace caisson::kit::conformance
