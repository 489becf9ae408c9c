// Context: a provider of the check's own, opened over a fresh root and ended off the event loop.
#include "kit/conformance/context.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "caisson/kit/workers.h"

namespace caisson::kit::conformance {
namespace {

constexpr std::int64_t long_ttl_seconds = 3600;

}  // namespace

struct Context::State {
  ConformanceProfile profile;
  boost::asio::any_io_executor executor;
  std::string directory;
  std::chrono::duration<double> patience;
  std::string canary;
  std::shared_ptr<Sandbox> sandbox = nullptr;
  int roots = 0;
  // For the provider's opening and ending, which may block while the loop must go on.
  Workers workers{1};

  State(const ConformanceProfile& a_profile, boost::asio::any_io_executor an_executor,
        std::string a_directory, std::chrono::duration<double> a_patience)
      : profile(a_profile),
        executor(std::move(an_executor)),
        directory(std::move(a_directory)),
        patience(a_patience),
        canary("canary of " + directory) {}

  std::shared_ptr<Sandbox> open(const std::string& name) const {
    const std::string root = directory + "/" + name;
    std::filesystem::create_directory(root);
    OpenContext context{executor, root, permissive_policy()};
    std::shared_ptr<Sandbox> opened = profile.open(context);
    if (!opened) throw Failure("the profile's open returned no provider");
    return opened;
  }
};

SandboxPolicy permissive_policy() {
  return {.egress = SandboxNetwork::egress,
          .isolation = SandboxIsolation::none,
          .scrub_transcript = false,
          .durable = true};
}

Context::Context(const ConformanceProfile& profile, boost::asio::any_io_executor executor,
                 std::string directory, std::chrono::duration<double> patience)
    : state_(std::make_shared<State>(profile, std::move(executor), std::move(directory), patience)) {
  std::filesystem::create_directory(outside());
  std::ofstream(outside() + "/canary") << state_->canary;
}

const ConformanceProfile& Context::profile() const noexcept { return state_->profile; }

boost::asio::any_io_executor Context::executor() const { return state_->executor; }

Sandbox& Context::sandbox() const { return *state_->sandbox; }

std::chrono::duration<double> Context::limit() const noexcept { return state_->patience / 3; }

std::chrono::duration<double> Context::patience() const noexcept { return state_->patience; }

std::string Context::outside() const { return state_->directory + "/outside"; }

std::string Context::canary() const { return state_->canary; }

std::string Context::canary_now() const {
  std::ostringstream text;
  text << std::ifstream(outside() + "/canary").rdbuf();
  return text.str();
}

SandboxSessionSpec Context::spec(std::string key) const {
  SandboxSessionSpec spec = state_->profile.spec();
  spec.workspace_key = std::move(key);
  spec.durability = SandboxDurability::ephemeral;
  spec.ttl_seconds = long_ttl_seconds;
  spec.env.clear();
  spec.labels.clear();
  return spec;
}

SandboxSessionSpec Context::persistent_spec(std::string key) const {
  if (!state_->profile.persistent) throw NotRun("the profile says that it has no persistent workspaces");
  SandboxSessionSpec persistent = spec(std::move(key));
  persistent.durability = SandboxDurability::persistent;
  return persistent;
}

Awaitable<SessionPtr> Context::session() const { return create_in(state_, spec()); }

Awaitable<SessionPtr> Context::create(SandboxSessionSpec spec) const {
  return create_in(state_, std::move(spec));
}

Awaitable<void> Context::elapse(std::chrono::milliseconds time) const { return let_pass(state_, time); }

std::string Context::root() const { return state_->directory + "/root"; }

void Context::open() const {
  state_->sandbox = state_->open("root");
  state_->sandbox->bind_policy(permissive_policy());
}

void Context::close() const { state_->sandbox.reset(); }

Awaitable<void> Context::reopen() const {
  auto again = [context = *this] {
    context.close();
    context.open();
  };
  return off_loop(state_, again);
}

Awaitable<void> Context::blocking(std::function<void()> call) const {
  return off_loop(state_, std::move(call));
}

Awaitable<std::shared_ptr<Sandbox>> Context::open_unbound() const { return open_another(state_); }

Awaitable<void> Context::drop(std::shared_ptr<Sandbox> sandbox) const {
  // Behind a pointer of its own, so that the last reference goes on the worker whatever is copied on the way
  // there.
  auto held = std::make_shared<std::shared_ptr<Sandbox>>(std::move(sandbox));
  return off_loop(state_, [held] { held->reset(); });
}

Awaitable<void> Context::off_loop(std::shared_ptr<State> state, std::function<void()> call) {
  co_await state->workers.run(std::move(call));
}

Awaitable<SessionPtr> Context::create_in(std::shared_ptr<State> state, SandboxSessionSpec spec) {
  auto session = co_await state->sandbox->create_session(std::move(spec));
  expect(session != nullptr, "create_session returned no session");
  co_return session;
}

Awaitable<void> Context::let_pass(std::shared_ptr<State> state, std::chrono::milliseconds time) {
  if (state->profile.advance) {
    state->profile.advance(time);
    co_return;
  }
  boost::asio::steady_timer timer(state->executor);
  timer.expires_after(time);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

Awaitable<std::shared_ptr<Sandbox>> Context::open_another(std::shared_ptr<State> state) {
  auto opened = std::make_shared<std::shared_ptr<Sandbox>>();
  const std::string name = "root" + std::to_string(++state->roots);
  std::function<void()> call = [state, opened, name] { *opened = state->open(name); };
  co_await off_loop(state, std::move(call));
  co_return std::move(*opened);
}

}  // namespace caisson::kit::conformance
