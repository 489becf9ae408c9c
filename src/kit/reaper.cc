// The reaper task.
#include "caisson/kit/reaper.h"

#include "kit/event.h"
#include "kit/strand.h"

namespace caisson::kit {
namespace {

// Sleeps on the injected clock; on a strand, for the alarm rings there. operation_aborted when cancelled.
Awaitable<void> sleep_on(Strand strand, std::shared_ptr<Clock> clock, std::chrono::duration<double> time) {
  auto rung = std::make_shared<bool>(false);
  auto event = std::make_shared<Event>(strand);
  auto alarm = clock->alarm(strand);
  alarm->set(clock->now() + std::chrono::duration_cast<BootClock::duration>(time), [rung, event] {
    *rung = true;
    event->notify();
  });
  while (!*rung) co_await event->wait();
}

}  // namespace

Awaitable<void> run_reaper(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Clock> clock,
                           std::chrono::duration<double> interval, Log log) {
  const Strand strand = boost::asio::make_strand(co_await boost::asio::this_coro::executor);
  for (;;) {
    co_await on_strand(strand, sleep_on(strand, clock, interval));
    std::string failure;
    try {
      for (const std::string& id : co_await sandbox->reap()) {
        if (log) log(LogLevel::info, "reaped session " + id);
      }
    } catch (const boost::system::system_error& error) {
      if (error.code() == boost::asio::error::operation_aborted) throw;
      failure = error.what();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure.empty() && log) log(LogLevel::error, "a sweep for expired sessions failed: " + failure);
  }
}

}  // namespace caisson::kit
