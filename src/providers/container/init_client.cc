// Requests to an init, and what has become of its execs.
#include "providers/container/init_client.h"

#include <utility>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "init/wire.h"
#include "providers/container/init_link.h"

namespace caisson::container {
namespace {

InitFailure unsent(const os::Error& error) {
  return {InitFault::unsent, init::Step::protocol, error.value(), error.message()};
}

// Environments and paths are not to stay behind in memory.
void wipe_all(std::vector<std::string>& texts) noexcept {
  for (std::string& text : texts) init::wipe(text);
}
void wipe(init::Request& request) noexcept {
  if (auto* const start = std::get_if<init::StartExec>(&request)) {
    wipe_all(start->argv);
    wipe_all(start->env);
  } else if (auto* const build = std::get_if<init::BuildBox>(&request)) {
    wipe_all(build->plan.environment);
  }
}

struct Encoder {
  template <class Message>
  os::Result<std::string> operator()(const Message& message) const {
    return init::encode(number, message);
  }
  std::uint64_t number;
};

struct DescriptorCount {
  template <class Message>
  std::size_t operator()(const Message& message) const {
    if constexpr (requires { message.descriptors(); }) return message.descriptors();
    return 0;
  }
};

Awaitable<InitResult<InitAnswer>> fail_now(InitFailure failure) { co_return failure; }

}  // namespace

init::MessageType type_of(const init::Request& request) noexcept {
  return std::visit([]<class Message>(const Message&) { return Message::type; }, request);
}

os::Result<std::string> encode(std::uint64_t number, const init::Request& request) {
  return std::visit(Encoder{number}, request);
}

std::string describe(const InitFailure& failure) {
  switch (failure.fault) {
    case InitFault::unsent:
      return "the request could not be sent: " + failure.detail;
    case InitFault::refused: {
      std::string text = "caisson-init failed at step " + std::to_string(static_cast<int>(failure.step));
      if (!failure.detail.empty()) text += " with " + quote(failure.detail, 200);
      if (failure.number != 0) text += ": " + os::error_of(failure.number).message();
      return text;
    }
    case InitFault::silent:
      return "caisson-init did not answer in time";
    case InitFault::lost:
      return "the connection to caisson-init has ended: " + failure.detail;
  }
  return {};
}

void throw_exception_from_error(const InitFailure& failure, const boost::source_location&) {
  throw SandboxError(ErrorCode::internal, describe(failure));
}

InitExec::State InitExec::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void InitExec::exit(const init::Exited& exited) {
  const std::lock_guard lock(mutex_);
  if (state_.exited) return;
  state_.exited = exited;
  if (!exited.left) state_.empty = true;
  not_ended_.reset();
}

void InitExec::set_empty() {
  const std::lock_guard lock(mutex_);
  state_.empty = true;
}

void InitExec::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (state_.exited && state_.empty) return;
  state_.lost = why;
  not_ended_.reset();
}

InitClient::InitClient(const boost::asio::any_io_executor& executor, os::Fd socket, InitClientOptions options)
    : link_(std::make_shared<InitLink>(executor, std::move(socket), std::move(options))) {
  boost::asio::post(link_->strand(), [link = link_] { link->open(); });
}

InitClient::~InitClient() {
  boost::asio::post(link_->strand(), [link = link_] { link->end("it is not wanted any more", true); });
}

Awaitable<InitResult<InitAnswer>> InitClient::call(init::Request request, std::vector<os::Fd> descriptors,
                                                   std::chrono::nanoseconds patience) {
  auto call = std::make_shared<InitCall>(link_->strand());
  call->number = link_->next_number();
  call->type = type_of(request);
  call->patience = patience;
  if (const auto* const start = std::get_if<init::StartExec>(&request)) {
    call->tty = start->tty.has_value();
    auto pipe = os::make_pipe();
    if (!pipe) {
      wipe(request);
      return fail_now(unsent(pipe.error()));
    }
    call->exec = InitLink::new_exec(std::move(*pipe));
  }
  const bool complete = descriptors.size() == std::visit(DescriptorCount(), request);
  auto bytes = complete ? encode(call->number, request) : os::Result<std::string>(os::error_of(EINVAL));
  wipe(request);
  if (!bytes) return fail_now(unsent(bytes.error()));
  auto frame = std::make_shared<InitFrame>(std::move(*bytes), std::move(descriptors), call->number);
  return kit::on_strand(link_->strand(), InitLink::converse(link_, std::move(call), std::move(frame)));
}

void InitClient::tell(init::Request request) {
  boost::asio::post(link_->strand(), [link = link_, request = std::move(request)] { link->tell(request); });
}

}  // namespace caisson::container
