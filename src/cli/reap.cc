// caisson reap: what dead processes left behind.
#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "cli/one_shot.h"
#include "cli/report.h"
#include "cli/verbs.h"
#include "facade/providers.h"

namespace caisson::cli {
namespace {

// How a provider's log begins what it recovered; what it must leave is a warning.
constexpr std::string_view recovered_mark = "recovered: ";

boost::json::array as_json(const std::vector<std::string>& lines) {
  return boost::json::array(lines.begin(), lines.end());
}

}  // namespace

int reap(const ReapOptions& options) {
  boost::asio::io_context context(1);
  // A provider recovers what dead owners left when it opens, and logs each thing that it handled (S-29).
  std::mutex mutex;
  std::vector<std::string> recovered;
  bool warned = false;
  const auto log = [&](kit::LogLevel level, const std::string& message) {
    const std::lock_guard lock(mutex);
    if (level != kit::LogLevel::info) {
      complain(std::string(to_string(level)) + ": " + message);
      warned = true;
    } else if (message.starts_with(recovered_mark)) {
      recovered.push_back(message.substr(recovered_mark.size()));
    }
  };
  int exit_code = 0;
  // Sessions past their time are their owners' to end, who alone know them.
  for (const std::string_view provider : {"local", "container"}) {
    OpenOptions open;
    // No session is created here: the strictest policy, so that a setting of the operator's is neither needed
    // nor warned of.
    open.policy = SandboxPolicy{SandboxNetwork::none, SandboxIsolation::vm, true, false};
    open.log = log;
    open.settings = &one_shot_setting;
    try {
      facade::open_provider(context.get_executor(), provider, std::move(open)).reset();
    } catch (const SandboxError& error) {
      // What cannot be had here has left nothing here.
      if (error.code() == ErrorCode::unavailable) continue;
      complain("the " + std::string(provider) + " provider: " + error.what());
      exit_code = exit_some_failed;
    }
  }
  const std::lock_guard lock(mutex);
  if (options.json) {
    print_json({{"recovered", as_json(recovered)}});
    return warned ? exit_some_failed : exit_code;
  }
  std::string text;
  for (const std::string& line : recovered) text += "recovered " + line + "\n";
  if (text.empty() && !warned && exit_code == 0) text = "nothing to do\n";
  print(text);
  return warned ? exit_some_failed : exit_code;
}

}  // namespace caisson::cli
