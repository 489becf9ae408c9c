// Tasks that nobody waits for, with an error handler.
#include "kit/strand.h"

#include <boost/system/system_error.hpp>

namespace caisson::kit {
namespace {

struct LogFailure {
  void operator()(std::exception_ptr error) const {
    if (!error || !log) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& failure) {
      log(LogLevel::error, std::string(what) + " failed: " + failure.what());
    } catch (...) {
      log(LogLevel::error, std::string(what) + " failed");
    }
  }
  Log log;
  const char* what;
};

}  // namespace

void spawn_task(const boost::asio::any_io_executor& executor, Awaitable<void> body, Log log,
                const char* what) {
  boost::asio::co_spawn(executor, std::move(body), LogFailure{std::move(log), what});
}

}  // namespace caisson::kit
