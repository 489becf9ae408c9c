// The suite's side of a provider in another process.
#include "kit/conformance/peer.h"

#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "kit/conformance/expect.h"
#include "os/spawn.h"

namespace caisson::kit::conformance {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds end_patience(10);

/// Owns the arrays of a SpawnPlan.
struct Command {
  std::vector<std::string> words;
  std::vector<std::string> variables;
  std::vector<std::string> candidates;
  std::vector<const char*> argv;
  std::vector<const char*> envp;
  std::vector<const char*> paths;

  Command(std::vector<std::string> the_words, std::map<std::string, std::string> overlay)
      : words(std::move(the_words)) {
    std::string path = "/usr/local/bin:/usr/bin:/bin";
    for (char** at = environ; *at != nullptr; ++at) {
      const std::string variable = *at;
      const std::string name = variable.substr(0, variable.find('='));
      if (name == "PATH") path = variable.substr(5);
      if (!overlay.contains(name)) variables.push_back(variable);
    }
    for (const auto& [name, value] : overlay) variables.push_back(name + "=" + value);
    candidates = os::exec_candidates(words.front(), path);
    point(words, argv);
    point(variables, envp);
    point(candidates, paths);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

 private:
  static void point(const std::vector<std::string>& strings, std::vector<const char*>& pointers) {
    for (const std::string& string : strings) pointers.push_back(string.c_str());
    pointers.push_back(nullptr);
  }
};

json::object create_request(const SandboxSessionSpec& spec) {
  return {{"call", "create"},
          {"key", spec.workspace_key},
          {"durability", to_string(spec.durability)},
          {"ttl_seconds", spec.ttl_seconds}};
}

}  // namespace

struct Peer::State {
  explicit State(Context a_context) : context(std::move(a_context)), answers(context.executor()) {}

  void start(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment) {
    os::Pipe in = os::make_pipe().value();
    os::Pipe out = os::make_pipe().value();
    Command command(words, environment);
    os::SpawnPlan plan;
    plan.candidates = std::span<const char* const>(command.paths.data(), command.candidates.size());
    plan.argv = command.argv.data();
    plan.envp = command.envp.data();
    plan.descriptors[0] = in.read;
    plan.descriptors[1] = out.write;
    plan.descriptors[2] = os::FdRef{STDERR_FILENO};
    // This thread is the check's own and ends with it.
    plan.parent_death_signal = SIGKILL;
    process = os::spawn(plan).value();
    requests = std::move(in.write);
    answers.assign(std::move(out.read).release());
  }

  Context context;
  boost::asio::posix::stream_descriptor answers;
  os::Fd requests;
  os::Process process;
  std::string buffered;
};

Awaitable<std::shared_ptr<Peer>> Peer::start(Context context,
                                             std::map<std::string, std::string> environment) {
  if (!context.profile().peer) throw NotRun("the profile names no program for a second process");
  auto state = std::make_shared<State>(context);
  std::shared_ptr<Peer> peer(new Peer(state));
  std::function<void()> start = [state, environment, words = context.profile().peer(context.root())] {
    state->start(words, environment);
  };
  co_await context.blocking(std::move(start));
  json::object opened;
  opened["call"] = "open";
  co_await done(state, std::move(opened));
  co_return peer;
}

Peer::~Peer() {
  if (!state_->process) return;
  // At the end of its input it gives back what it holds, which a killed one would leave to the next that
  // opens.
  state_->requests.reset();
  const auto late = std::chrono::steady_clock::now() + end_patience;
  while (std::chrono::steady_clock::now() < late) {
    if (state_->process.try_reap()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static_cast<void>(state_->process.signal(SIGKILL));
  // At once, but for what the kernel does not let die.
  state_->process.reap();
}

Awaitable<std::string> Peer::next_line(std::shared_ptr<State> state) {
  co_await boost::asio::async_read_until(state->answers, boost::asio::dynamic_buffer(state->buffered), '\n',
                                         boost::asio::use_awaitable);
  const std::size_t end = state->buffered.find('\n');
  std::string line = state->buffered.substr(0, end);
  state->buffered.erase(0, end + 1);
  co_return line;
}

Awaitable<json::object> Peer::exchange(std::shared_ptr<State> state, json::object request) {
  const std::string text = json::serialize(request);
  // Where it fails the process is gone, and gives no answer.
  static_cast<void>(os::write_all(state->requests, text + "\n"));
  std::string answer;
  try {
    answer = co_await next_line(state);
  } catch (const boost::system::system_error& error) {
    if (error.code() == boost::asio::error::operation_aborted) throw;
    throw Failure("the second process gave no answer to " + text);
  }
  boost::system::error_code error;
  json::value parsed = json::parse(answer, error);
  if (error || !parsed.is_object()) throw Failure("the second process answered " + show(answer));
  co_return std::move(parsed.as_object());
}

Awaitable<json::object> Peer::done(std::shared_ptr<State> state, json::object request) {
  const std::string text = json::serialize(request);
  json::object answer = co_await exchange(std::move(state), std::move(request));
  if (answer.contains("error"))
    throw Failure("the second process, asked " + text + ": " + json::serialize(answer));
  co_return answer;
}

Awaitable<std::string> Peer::created(std::shared_ptr<State> state, json::object request) {
  const json::object answer = co_await done(std::move(state), std::move(request));
  co_return std::string(answer.at("id").as_string());
}

Awaitable<std::string> Peer::run(std::shared_ptr<State> state, json::object request) {
  const json::object answer = co_await done(std::move(state), std::move(request));
  expect_equal("exit_code in the second process", answer.at("exit_code").as_int64(), 0);
  co_return std::string(answer.at("out").as_string());
}

Awaitable<void> Peer::finish(std::shared_ptr<State> state, json::object request) {
  co_await done(std::move(state), std::move(request));
}

Awaitable<std::string> Peer::refusal(std::shared_ptr<State> state, json::object request) {
  const json::object answer = co_await exchange(std::move(state), std::move(request));
  const json::value* error = answer.if_contains("error");
  if (error == nullptr) co_return "none";
  co_return std::string(error->as_object().at("code").as_string());
}

Awaitable<void> Peer::release_listed(std::shared_ptr<State> state) {
  json::object request;
  request["call"] = "list";
  const json::object answer = co_await done(state, std::move(request));
  for (const json::value& id : answer.at("ids").as_array()) {
    json::object release{{"call", "release"}, {"id", id}};
    co_await done(state, std::move(release));
  }
}

Awaitable<void> Peer::reaped(std::shared_ptr<State> state, bool forcibly) {
  state->requests.reset();
  if (forcibly) static_cast<void>(state->process.signal(SIGKILL));
  // Whoever holds the other end of its answers is gone then.
  try {
    for (;;) co_await next_line(state);
  } catch (const boost::system::system_error& error) {
    if (error.code() == boost::asio::error::operation_aborted) throw;
  }
  std::function<void()> wait = [state] { state->process.reap(); };
  co_await state->context.blocking(std::move(wait));
  state->process = os::Process();
}

Awaitable<void> Peer::end() { return reaped(state_, false); }
Awaitable<void> Peer::kill() { return reaped(state_, true); }

Awaitable<std::string> Peer::create(SandboxSessionSpec spec) { return created(state_, create_request(spec)); }

Awaitable<std::string> Peer::refusal_of_create(SandboxSessionSpec spec) {
  return refusal(state_, create_request(spec));
}

Awaitable<std::string> Peer::output_of(std::string id, std::string script) {
  json::object request{{"call", "exec"}, {"id", id}, {"script", script}};
  return run(state_, std::move(request));
}

Awaitable<void> Peer::start_command(std::string id, std::string script, std::string until) {
  json::object request{{"call", "start"}, {"id", id}, {"script", script}, {"until", until}};
  return finish(state_, std::move(request));
}

Awaitable<void> Peer::release_all() { return release_listed(state_); }

Awaitable<void> Peer::end_session(std::string how, std::string id) {
  json::object request{{"call", how}, {"id", id}};
  return finish(state_, std::move(request));
}

}  // namespace caisson::kit::conformance
