// The event loop of caisson-init, and which answer each request has.
#include "init/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "init/box_builder.h"
#include "init/exec_start.h"
#include "init/wire.h"
#include "os/socket.h"

namespace caisson::init {
namespace {

bool is_connected(os::FdRef socket) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getpeername(socket.number, reinterpret_cast<sockaddr*>(&address), &size) == 0;
}

os::Result<os::Fd> watch_children() noexcept {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  if (::sigprocmask(SIG_BLOCK, &child, nullptr) != 0) return os::last_error();
  os::Fd watch = os::Fd::adopt(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!watch) return os::last_error();
  return watch;
}

Failed protocol_failure(const char* detail) { return failure(Step::protocol, 0, detail); }

}  // namespace

os::Result<Server> Server::create(os::Fd control) {
  auto children = watch_children();
  if (!children) return children.error();
  if (!is_connected(control)) {
    // By init itself: peers see whoever called it last.
    if (const auto listening = os::listen_on(control); !listening) return listening.error();
    return Server(std::move(control), std::move(*children));
  }
  auto channel = Channel::over(std::move(control), Peer::host);
  if (!channel) return channel.error();
  Server server({}, std::move(*children));
  server.channel_ = std::move(*channel);
  return server;
}

void Server::run() {
  while (wait_and_serve()) {
  }
}

bool Server::wait_and_serve() {
  if (!channel_ && !listener_) return false;
  pollfd events[3] = {{children_.number(), POLLIN, 0}, {-1, 0, 0}, {-1, 0, 0}};
  if (channel_) {
    // No request is taken while the answers of others wait: a host that does not read them stops itself.
    events[1] = {channel_->socket().number, static_cast<short>(channel_->has_output() ? POLLOUT : POLLIN), 0};
  } else {
    events[2] = {listener_.number(), POLLIN, 0};
  }
  const int pause = execs_ ? execs_->pause_ms() : -1;
  if (::poll(events, 3, pause) < 0) return errno == EINTR;
  if (events[0].revents != 0) {
    signalfd_siginfo news;
    while (::read(children_.number(), &news, sizeof news) > 0) {
    }
  }
  if (events[2].revents != 0) accept_next();
  if (events[1].revents != 0 && !serve_connection()) broken_ = true;
  tell_news();
  if (broken_) drop_connection();
  return true;
}

void Server::accept_next() {
  auto socket = os::accept_from(listener_);
  if (!socket) return;
  auto channel = Channel::over(std::move(*socket), Peer::host);
  if (channel) channel_ = std::move(*channel);
}

// What lives in the box does not end with a connection, but for files that nobody can write any more.
void Server::drop_connection() {
  channel_.reset();
  broken_ = greeted_ = false;
  if (files_) files_->abort_all();
}

bool Server::serve_connection() {
  if (channel_->has_output() && !channel_->flush()) return false;
  while (!channel_->has_output()) {
    auto incoming = channel_->receive();
    if (!incoming) return false;
    if (!*incoming) return true;
    Frame& frame = (*incoming)->frame;
    auto request = decode_request(frame);
    wipe(frame.body);
    auto answer = request ? serve(std::move(*request), std::move((*incoming)->descriptors))
                          : BoxResult<Answer>(protocol_failure("not a request"));
    send(frame.request, answer ? std::move(*answer) : Answer{answer.error(), {}});
    if (broken_) return false;
    // A new connection hears of every exit that nobody has acknowledged.
    if (frame.type == MessageType::hello && execs_) {
      for (const Exited& end : execs_->unacknowledged()) send(0, {end, {}});
    }
  }
  return true;
}

void Server::tell_news() {
  if (!execs_) return;
  const auto news = execs_->reap();
  // Nobody to tell: what matters of it is told to the next connection.
  if (!channel_ || !greeted_) return;
  for (const auto& each : news) {
    send(0, {std::visit([](const auto& message) { return Reply(message); }, each), {}});
  }
}

void Server::send(std::uint64_t request, Answer answer) {
  if (broken_) return;
  auto bytes = std::visit([&](const auto& message) { return encode(request, message); }, answer.reply);
  const auto sent = bytes ? channel_->send(std::move(*bytes), std::move(answer.descriptors))
                          : ChannelResult<bool>(ChannelFailure{});
  // Too much waits for a host that reads nothing: whatever it missed it hears when it comes back.
  if (!sent || !*sent) broken_ = true;
}

BoxResult<Server::Answer> Server::serve(Request request, std::vector<os::Fd> descriptors) {
  const bool hello = std::holds_alternative<Hello>(request);
  if (!greeted_ && !hello) return protocol_failure("no Hello yet");
  const bool early =
      hello || std::holds_alternative<BuildBox>(request) || std::holds_alternative<Ping>(request);
  if (!early && !execs_) return protocol_failure("no box yet");
  return std::visit([&](auto& each) { return answer(each, descriptors); }, request);
}

BoxResult<Server::Answer> Server::answer(const Hello& /*request*/, std::vector<os::Fd>& /*descriptors*/) {
  greeted_ = true;
  return Answer{HelloReply{}, {}};
}

BoxResult<Server::Answer> Server::answer(BuildBox& request, std::vector<os::Fd>& descriptors) {
  if (std::exchange(begun_, true)) return protocol_failure("there is a box already");
  auto box = build_box(std::move(request.plan), std::move(descriptors));
  if (!box) return box.error();
  box_ = std::make_unique<Box>(std::move(*box));
  execs_.emplace(*box_, static_cast<bool>(listener_));
  files_.emplace(*box_);
  return Answer{Done{}, {}};
}

BoxResult<Server::Answer> Server::answer(StartExec& request, std::vector<os::Fd>& descriptors) {
  auto started = execs_->start(request, std::move(descriptors));
  wipe_all(request.env);
  if (!started) return started.error();
  Answer answer{started->started, {}};
  if (started->terminal) answer.descriptors.push_back(std::move(started->terminal));
  return answer;
}

BoxResult<Server::Answer> Server::answer(const OpenFile& request, std::vector<os::Fd>& /*descriptors*/) {
  auto opened = files_->open(request);
  if (!opened) return opened.error();
  Answer answer{opened->opened, {}};
  answer.descriptors.push_back(std::move(opened->file));
  return answer;
}

BoxResult<Server::Answer> Server::answer(const BeginPut& request, std::vector<os::Fd>& /*descriptors*/) {
  auto opened = files_->begin(request);
  if (!opened) return opened.error();
  Answer answer{opened->opened, {}};
  answer.descriptors.push_back(std::move(opened->file));
  return answer;
}

namespace {

// Done, or the failure.
template <class Answer>
BoxResult<Answer> done_if(const BoxResult<void>& result) {
  if (!result) return result.error();
  return Answer{Done{}, {}};
}

}  // namespace

BoxResult<Server::Answer> Server::answer(const SignalExec& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(execs_->signal(request));
}
BoxResult<Server::Answer> Server::answer(const KillExec& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(execs_->kill(request));
}
BoxResult<Server::Answer> Server::answer(const AckExit& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(execs_->acknowledge(request));
}
BoxResult<Server::Answer> Server::answer(const ResizeTty& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(execs_->resize(request));
}
BoxResult<Server::Answer> Server::answer(const ListExecs& /*request*/, std::vector<os::Fd>& /*descriptors*/) {
  return Answer{execs_->list(), {}};
}
BoxResult<Server::Answer> Server::answer(const TakeStreams& request, std::vector<os::Fd>& /*descriptors*/) {
  auto taken = execs_->take_streams(request);
  if (!taken) return taken.error();
  return Answer{taken->streams, std::move(taken->descriptors)};
}
BoxResult<Server::Answer> Server::answer(const CloseInput& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(execs_->close_input(request));
}
BoxResult<Server::Answer> Server::answer(const CommitPut& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(files_->commit(request));
}
BoxResult<Server::Answer> Server::answer(const AbortPut& request, std::vector<os::Fd>& /*descriptors*/) {
  return done_if<Answer>(files_->abort(request));
}
BoxResult<Server::Answer> Server::answer(const Ping& /*request*/, std::vector<os::Fd>& /*descriptors*/) {
  return Answer{Done{}, {}};
}

}  // namespace caisson::init
