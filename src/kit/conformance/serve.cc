// The other process's side: a provider that does what is asked of it, one JSON object a line.
//
// Requests have a `call`: "open" (answered once the provider is), "create" (key, durability, ttl_seconds;
// gives id, workspace_path), "exec" (id, script; gives exit_code, out), "start" (id, script, until: returns
// when the command has printed that, and leaves it running), "destroy" and "release" (id), "list" (gives
// ids). An answer with `error` (code, message) says that the provider refused.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <thread>

#include "kit/conformance/context.h"
#include "kit/conformance/shell.h"
#include "os/fd.h"

namespace caisson::kit::conformance {
namespace {

namespace json = boost::json;

constexpr os::FdRef standard_input{0};
constexpr os::FdRef standard_output{1};

/// Long beside whatever a check does, which has its own patience and then kills this process.
constexpr std::chrono::minutes exec_timeout(10);

struct Served {
  const ConformanceProfile* profile;
  std::shared_ptr<Sandbox> sandbox;
  std::vector<HandlePtr> handles;
};

std::string word(const json::object& request, std::string_view name) {
  return std::string(request.at(name).as_string());
}

Awaitable<json::object> create(Served* served, json::object request) {
  SandboxSessionSpec spec = served->profile->spec();
  spec.workspace_key = word(request, "key");
  spec.durability = *parse_durability(word(request, "durability"));
  spec.ttl_seconds = request.at("ttl_seconds").as_int64();
  const SessionPtr session = co_await served->sandbox->create_session(std::move(spec));
  json::object answer{{"id", session->id()}, {"workspace_path", session->workspace_path()}};
  co_return answer;
}

Awaitable<json::object> exec(Served* served, json::object request) {
  const SessionPtr session = co_await served->sandbox->get_session(word(request, "id"));
  Argv argv = shell(word(request, "script"));
  const ExecResult result = co_await session->exec(std::move(argv), ExecOptions(exec_timeout));
  json::object answer{{"exit_code", result.exit_code}, {"out", result.out}};
  co_return answer;
}

Awaitable<json::object> start(Served* served, json::object request) {
  const SessionPtr session = co_await served->sandbox->get_session(word(request, "id"));
  HandlePtr handle = co_await start_shell_for(exec_timeout, session, word(request, "script"));
  co_await read_until(handle, word(request, "until"));
  served->handles.push_back(std::move(handle));
  co_return json::object();
}

Awaitable<json::object> end_session(Served* served, json::object request) {
  const SessionPtr session = co_await served->sandbox->get_session(word(request, "id"));
  if (word(request, "call") == "destroy") {
    co_await session->destroy();
  } else {
    co_await session->release();
  }
  co_return json::object();
}

Awaitable<json::object> list(Served* served) {
  json::array ids;
  const std::vector<SandboxSessionInfo> listed = co_await served->sandbox->list_sessions();
  for (const SandboxSessionInfo& info : listed) ids.emplace_back(info.id);
  json::object answer;
  answer["ids"] = std::move(ids);
  co_return answer;
}

Awaitable<json::object> nothing() { co_return json::object(); }

Awaitable<json::object> call(Served* served, json::object request) {
  const std::string name = word(request, "call");
  if (name == "open") return nothing();
  if (name == "create") return create(served, std::move(request));
  if (name == "exec") return exec(served, std::move(request));
  if (name == "start") return start(served, std::move(request));
  if (name == "destroy" || name == "release") return end_session(served, std::move(request));
  if (name == "list") return list(served);
  throw SandboxError(ErrorCode::invalid_argument, "no such call: " + name, "call");
}

json::object error_answer(std::string_view code, const char* message) {
  json::object error{{"code", code}, {"message", message}};
  json::object answer;
  answer["error"] = std::move(error);
  return answer;
}

/// Whatever a request comes to, as an answer.
json::object answer_to(Served& served, boost::asio::io_context& loop, const std::string& line) {
  try {
    json::value request = json::parse(line);
    auto work = call(&served, std::move(request.as_object()));
    return boost::asio::co_spawn(loop, std::move(work), boost::asio::use_future).get();
  } catch (const SandboxError& error) {
    return error_answer(to_string(error.code()), error.what());
  } catch (const std::exception& error) {
    return error_answer("unexpected", error.what());
  }
}

/// Lines of a blocking descriptor.
class Lines {
 public:
  /// False at the end of the input.
  bool next(std::string& line) {
    std::size_t end = 0;
    while ((end = buffered_.find('\n')) == std::string::npos) {
      char piece[4096];
      const auto got = os::read_some(standard_input, piece, sizeof piece);
      if (!got || *got == 0) return false;
      buffered_.append(piece, *got);
    }
    line = buffered_.substr(0, end);
    buffered_.erase(0, end + 1);
    return true;
  }

 private:
  std::string buffered_;
};

}  // namespace

int serve(const ConformanceProfile& profile, const std::string& root) {
  boost::asio::io_context loop(1);
  auto guard = boost::asio::make_work_guard(loop);
  std::thread thread([&loop] { loop.run(); });
  Served served{&profile, nullptr, {}};
  std::string failure;
  try {
    const OpenContext context{loop.get_executor(), root, permissive_policy()};
    served.sandbox = profile.open(context);
    served.sandbox->bind_policy(permissive_policy());
  } catch (const std::exception& error) {
    failure = error.what();
  }
  Lines lines;
  bool answered = true;
  for (std::string line; answered && lines.next(line);) {
    const json::object answer =
        failure.empty() ? answer_to(served, loop, line) : error_answer("not_opened", failure.c_str());
    answered = os::write_all(standard_output, json::serialize(answer) + "\n").has_value();
  }
  served.handles.clear();
  served.sandbox.reset();
  guard.reset();
  loop.stop();
  thread.join();
  return failure.empty() ? 0 : 1;
}

}  // namespace caisson::kit::conformance
