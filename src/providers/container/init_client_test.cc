// The client of an init, against one that keeps the protocol and others that do not (S-102).
#include "providers/container/init_client.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>

#include <boost/asio.hpp>
#include <optional>
#include <thread>

#include "os/files.h"
#include "providers/container/fake_init_test.h"
#include "tests/support/async.h"
#include "tests/support/eventually.h"

namespace caisson::container {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::chrono::nanoseconds patience = 30s;

bool readable(os::FdRef fd) {
  pollfd one{fd.number, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}
bool same_file(os::FdRef one, os::FdRef other) {
  struct stat a = {};
  struct stat b = {};
  return ::fstat(one.number, &a) == 0 && ::fstat(other.number, &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

class InitClientTest : public testing::Test {
 protected:
  // The client is dropped before its context runs out of work.
  ~InitClientTest() override { drop(); }

  void connect(FakeInit& fake) {
    InitClientOptions options;
    options.clock = clock_;
    options.on_end = [this](const std::string& why) {
      ended_ = why;
      ++ends_;
    };
    client_ = std::make_unique<InitClient>(context_.get_executor(), fake.take_host_end(), std::move(options));
  }
  void drop() {
    client_.reset();
    context_.restart();
    context_.poll();
  }
  InitResult<InitAnswer> call(init::Request request, std::vector<os::Fd> descriptors = {},
                              std::chrono::nanoseconds at_most = patience) {
    return test::run(context_, client_->call(std::move(request), std::move(descriptors), at_most));
  }
  // Runs what is ready, until something is true.
  template <class Predicate>
  bool runs_until(Predicate predicate) {
    return test::eventually([&] {
      context_.restart();
      context_.poll();
      return predicate();
    });
  }
  std::shared_ptr<InitExec> start(std::vector<os::Fd> streams = {}) {
    if (streams.empty()) streams = two_streams();
    init::StartExec request;
    request.argv = {"true"};
    auto answer = call(request, std::move(streams));
    EXPECT_TRUE(answer) << describe(answer.error());
    return answer ? answer->exec : nullptr;
  }
  static std::vector<os::Fd> two_streams() {
    auto out = os::make_pipe();
    auto err = os::make_pipe();
    std::vector<os::Fd> streams;
    streams.push_back(std::move(out->write));
    streams.push_back(std::move(err->write));
    return streams;
  }
  // What a client makes of an init that says `bytes` when it is asked for a sign of life.
  InitFailure failure_when_told(const std::function<void(FakeInit&, std::uint64_t number)>& script) {
    FakeInit fake([&](FakeInit& init) {
      script(init, init.expect<init::Ping>().number);
      init.drain();
    });
    connect(fake);
    const auto answer = call(init::Ping());
    const InitFailure failure =
        answer ? InitFailure{InitFault::unsent, {}, 0, "it was believed"} : answer.error();
    EXPECT_EQ(ends_, 1) << "the owner is told";
    drop();
    return failure;
  }

  asio::io_context context_;
  std::shared_ptr<kit::ManualClock> clock_ = std::make_shared<kit::ManualClock>();
  std::string ended_;
  int ends_ = 0;
  std::unique_ptr<InitClient> client_;
};

TEST_F(InitClientTest, AnswersAreMatchedByNumberInAnyOrder) {
  FakeInit fake([](FakeInit& init) {
    init.say(init.expect<init::Hello>().number, init::HelloReply());
    const Asked first = init.expect<init::OpenFile>();
    const Asked second = init.expect<init::Ping>();
    EXPECT_NE(first.number, second.number);
    init.say(second.number, init::Done());
    const auto pipe = os::make_pipe();
    init.say(first.number, init::Opened{7, 0644}, {pipe->read});
    init.drain();
  });
  connect(fake);
  const auto hello = call(init::Hello());
  ASSERT_TRUE(hello) << describe(hello.error());
  EXPECT_EQ(std::get<init::HelloReply>(hello->reply).version, init::message_version);
  auto opened =
      asio::co_spawn(context_, client_->call(init::OpenFile{"a", ""}, {}, patience), asio::use_future);
  const auto pong = call(init::Ping());
  ASSERT_TRUE(pong) << describe(pong.error());
  EXPECT_TRUE(std::holds_alternative<init::Done>(pong->reply));
  ASSERT_TRUE(runs_until([&] { return opened.wait_for(0s) == std::future_status::ready; }));
  const auto file = opened.get();
  ASSERT_TRUE(file) << describe(file.error());
  EXPECT_EQ(std::get<init::Opened>(file->reply).size, 7U);
  ASSERT_EQ(file->descriptors.size(), 1U);
  EXPECT_TRUE(file->descriptors.front());
  EXPECT_EQ(ends_, 0);
}

TEST_F(InitClientTest, DescriptorsRideAlongAndWhatIsLargeArrivesWhole) {
  auto streams = two_streams();
  const os::FdRef out = streams.front();
  const auto kept = os::duplicate(out);
  FakeInit fake([&](FakeInit& init) {
    const Asked asked = init.expect<init::StartExec>();
    ASSERT_EQ(asked.descriptors.size(), 2U);
    EXPECT_TRUE(same_file(asked.descriptors.front(), *kept));
    const auto& start = std::get<init::StartExec>(asked.request);
    EXPECT_EQ(start.argv.front(), "cat");
    EXPECT_EQ(start.env.front(), "BIG=" + std::string(4 << 20, 'x'));
    init.say(asked.number, init::Started{41, 9, false});
    init.drain();
  });
  connect(fake);
  init::StartExec request;
  request.argv = {"cat"};
  request.env = {"BIG=" + std::string(4 << 20, 'x')};
  const auto answer = call(std::move(request), std::move(streams));
  ASSERT_TRUE(answer) << describe(answer.error());
  EXPECT_EQ(answer->exec->id(), 41U);
  EXPECT_EQ(answer->exec->pid(), 9U);
}

TEST_F(InitClientTest, WhatInitRefusesIsSaid) {
  FakeInit fake([](FakeInit& init) {
    init.say(init.expect<init::Ping>().number, init::Failed{init::Step::open, ENOENT, "a/\x1b[31mb"});
    init.drain();
  });
  connect(fake);
  const auto answer = call(init::Ping());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, InitFault::refused);
  EXPECT_EQ(answer.error().step, init::Step::open);
  EXPECT_EQ(answer.error().number, ENOENT);
  EXPECT_THAT(describe(answer.error()), HasSubstr("No such file"));
  EXPECT_EQ(describe(answer.error()).find('\x1b'), std::string::npos) << "what is not printable is quoted";
}

TEST_F(InitClientTest, WhatCannotBeEncodedIsNotSent) {
  FakeInit fake([](FakeInit& init) { EXPECT_FALSE(init.next()) << "nothing of it came"; });
  connect(fake);
  const auto empty = call(init::StartExec(), two_streams());
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().fault, InitFault::unsent);
  EXPECT_EQ(empty.error().number, EINVAL);
  const auto without_streams = call(init::StartExec{{"true"}, {}, {}, {}, false, 0, "", 0});
  ASSERT_FALSE(without_streams);
  EXPECT_EQ(without_streams.error().fault, InitFault::unsent);
  EXPECT_EQ(ends_, 0);
  drop();
}

TEST_F(InitClientTest, S48_ExitsAreKeptForWhoAsksAndAcknowledged) {
  std::atomic<bool> acknowledged = false;
  FakeInit fake([&](FakeInit& init) {
    const Asked asked = init.expect<init::StartExec>();
    init.say(asked.number, init::Started{5, 2, false});
    init.say(0, init::Exited{5, true, 9, false, true});
    const Asked ack = init.expect<init::AckExit>();
    EXPECT_EQ(std::get<init::AckExit>(ack.request).exec, 5U);
    init.say(ack.number, init::Done());
    acknowledged = true;
    init.say(0, init::TreeEmpty{5});
    init.say(0, init::TreeEmpty{5});
    init.drain();
  });
  connect(fake);
  const auto exec = start();
  ASSERT_TRUE(exec);
  ASSERT_TRUE(runs_until([&] { return readable(exec->ended()); }));
  ASSERT_TRUE(exec->state().exited);
  EXPECT_TRUE(exec->state().exited->signaled);
  EXPECT_EQ(exec->state().exited->code, 9U);
  EXPECT_TRUE(runs_until([&] { return exec->state().empty; }));
  EXPECT_TRUE(acknowledged);
  EXPECT_THAT(exec->state().lost, IsEmpty());
  EXPECT_EQ(ends_, 0) << "what is said of an exec that is over is passed over";
}

TEST_F(InitClientTest, AnExecWithoutDescendantsIsEmptyAtItsExit) {
  FakeInit fake([](FakeInit& init) {
    const Asked asked = init.expect<init::StartExec>();
    init.say(asked.number, init::Started{5, 2, false});
    init.say(0, init::Exited{6, false, 1, false, false});
    init.say(0, init::Exited{5, false, 3, false, false});
    init.drain();
  });
  connect(fake);
  const auto exec = start();
  ASSERT_TRUE(exec);
  EXPECT_FALSE(exec->state().empty && !exec->state().exited);
  ASSERT_TRUE(runs_until([&] { return exec->state().empty; }));
  EXPECT_EQ(exec->state().exited->code, 3U) << "and not what was said of an unknown one";
}

TEST_F(InitClientTest, S102_SilenceEndsAtTheHostsOwnDeadline) {
  FakeInit fake([&](FakeInit& init) {
    const Asked late = init.expect<init::Ping>();
    clock_->advance(999ms);
    clock_->advance(2ms);
    const Asked next = init.expect<init::Ping>();
    init.say(late.number, init::Done());
    init.say(next.number, init::Done());
    init.drain();
  });
  connect(fake);
  const auto answer = call(init::Ping(), {}, 1s);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, InitFault::silent);
  EXPECT_TRUE(call(init::Ping(), {}, 1s)) << "the connection goes on, a late answer is passed over";
  EXPECT_EQ(ends_, 0);
}

TEST_F(InitClientTest, S102_AnInitThatReadsNothingHoldsNobodyUp) {
  std::promise<void> over;
  FakeInit fake([&](FakeInit&) { over.get_future().wait(); });
  connect(fake);
  init::StartExec request;
  request.argv = {"cat"};
  request.env = {"BIG=" + std::string(4 << 20, 'x')};
  auto waiting =
      asio::co_spawn(context_, client_->call(std::move(request), two_streams(), 1s), asio::use_future);
  auto behind = asio::co_spawn(context_, client_->call(init::Ping(), {}, 2s), asio::use_future);
  context_.poll();
  clock_->advance(3s);
  EXPECT_TRUE(runs_until([&] { return behind.wait_for(0s) == std::future_status::ready; }));
  EXPECT_EQ(behind.get().error().fault, InitFault::silent);
  EXPECT_EQ(waiting.get().error().fault, InitFault::silent);
  over.set_value();
}

TEST_F(InitClientTest, S102_AllWhoWaitHearThatInitHasVanished) {
  FakeInit fake([](FakeInit& init) {
    const Asked asked = init.expect<init::StartExec>();
    init.say(asked.number, init::Started{5, 2, false});
    init.expect<init::Ping>();
    init.expect<init::Ping>();
  });
  connect(fake);
  const auto exec = start();
  ASSERT_TRUE(exec);
  EXPECT_FALSE(readable(exec->ended())) << "the control";
  auto first = asio::co_spawn(context_, client_->call(init::Ping(), {}, patience), asio::use_future);
  const auto second = call(init::Ping());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().fault, InitFault::lost);
  ASSERT_TRUE(runs_until([&] { return first.wait_for(0s) == std::future_status::ready; }));
  EXPECT_EQ(first.get().error().fault, InitFault::lost);
  EXPECT_TRUE(readable(exec->ended()));
  EXPECT_FALSE(exec->state().exited);
  EXPECT_THAT(exec->state().lost, HasSubstr("closed"));
  const auto later = call(init::Ping());
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().fault, InitFault::lost);
  EXPECT_EQ(ends_, 1);
}

TEST_F(InitClientTest, DroppingItEndsWhatWaits) {
  FakeInit fake([](FakeInit& init) { init.drain(); });
  connect(fake);
  auto waiting = asio::co_spawn(context_, client_->call(init::Ping(), {}, patience), asio::use_future);
  context_.poll();
  client_.reset();
  ASSERT_TRUE(runs_until([&] { return waiting.wait_for(0s) == std::future_status::ready; }));
  EXPECT_EQ(waiting.get().error().fault, InitFault::lost);
  EXPECT_EQ(ends_, 0) << "its owner knows";
}

TEST_F(InitClientTest, S52_WhatWasStartedForOneWhoHasGoneIsKilled) {
  std::promise<void> asked_for;
  std::atomic<bool> killed = false;
  FakeInit fake([&](FakeInit& init) {
    const Asked asked = init.expect<init::StartExec>();
    const Asked put = init.expect<init::BeginPut>();
    asked_for.set_value();
    init.expect<init::Ping>();
    init.say(asked.number, init::Started{5, 2, false});
    const Asked kill = init.expect<init::KillExec>();
    EXPECT_EQ(std::get<init::KillExec>(kill.request).exec, 5U);
    init.say(kill.number, init::Done());
    init.say(0, init::Exited{5, true, 9, false, false});
    init.say(init.expect<init::AckExit>().number, init::Done());
    const auto pipe = os::make_pipe();
    init.say(put.number, init::PutOpened{8}, {pipe->write});
    EXPECT_EQ(std::get<init::AbortPut>(init.expect<init::AbortPut>().request).put, 8U);
    killed = true;
    init.drain();
  });
  connect(fake);
  init::StartExec request;
  request.argv = {"true"};
  asio::cancellation_signal signal;
  asio::cancellation_signal other;
  std::exception_ptr error;
  std::exception_ptr other_error;
  asio::co_spawn(
      context_, client_->call(std::move(request), two_streams(), patience),
      asio::bind_cancellation_slot(
          signal.slot(), [&](std::exception_ptr thrown, const InitResult<InitAnswer>&) { error = thrown; }));
  asio::co_spawn(context_, client_->call(init::BeginPut{"a", {}}, {}, patience),
                 asio::bind_cancellation_slot(other.slot(),
                                              [&](std::exception_ptr thrown, const InitResult<InitAnswer>&) {
                                                other_error = thrown;
                                              }));
  auto come = asked_for.get_future();
  ASSERT_TRUE(runs_until([&] { return come.wait_for(0s) == std::future_status::ready; }));
  signal.emit(asio::cancellation_type::terminal);
  other.emit(asio::cancellation_type::terminal);
  ASSERT_TRUE(runs_until([&] { return error && other_error; }));
  client_->tell(init::Ping());
  EXPECT_TRUE(runs_until([&] { return killed.load(); }));
}

// Wherever the cancellation falls, also between the answer and who waits for it: there only where another
// thread cancels.
TEST_F(InitClientTest, S52_APutThatNobodyTakesIsAborted) {
  constexpr int rounds = 1500;
  std::atomic<int> opened = 0;
  std::atomic<int> aborted = 0;
  FakeInit fake([&](FakeInit& init) {
    const auto pipe = os::make_pipe();
    while (const auto asked = init.next()) {
      if (std::holds_alternative<init::BeginPut>(asked->request)) {
        init.say(asked->number, init::PutOpened{static_cast<std::uint64_t>(++opened)}, {pipe->write});
        continue;
      }
      if (std::holds_alternative<init::AbortPut>(asked->request)) ++aborted;
      init.say(asked->number, init::Done());
    }
  });
  connect(fake);
  auto work = std::make_optional(asio::make_work_guard(context_));
  std::thread other([&] { context_.run(); });
  std::thread another([&] { context_.run(); });
  int taken = 0;
  int given_up = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto strand = asio::make_strand(context_);
    asio::cancellation_signal signal;
    std::promise<bool> got;
    asio::co_spawn(strand, client_->call(init::BeginPut{"a", {}}, {}, patience),
                   asio::bind_cancellation_slot(
                       signal.slot(), [&](std::exception_ptr thrown, const InitResult<InitAnswer>& answer) {
                         got.set_value(!thrown && answer.has_value());
                       }));
    const auto when = std::chrono::steady_clock::now() + round * 100ns;
    while (std::chrono::steady_clock::now() < when) continue;
    std::promise<void> emitted;
    asio::post(strand, [&] {
      signal.emit(asio::cancellation_type::terminal);
      emitted.set_value();
    });
    emitted.get_future().wait();
    ++(got.get_future().get() ? taken : given_up);
  }
  EXPECT_TRUE(test::eventually([&] { return opened == taken + aborted; }))
      << opened << " opened, " << taken << " taken, " << aborted << " aborted";
  EXPECT_GT(taken, 0) << "the control";
  EXPECT_GT(given_up, 0) << "the control";
  work.reset();
  drop();
  other.join();
  another.join();
}

TEST_F(InitClientTest, S102_LiesEndTheConnection) {
  const auto pipe = os::make_pipe();
  struct Lie {
    const char* what;
    std::function<void(FakeInit&, std::uint64_t)> say;
  };
  const std::vector<Lie> lies{
      {"what nobody asked", [](FakeInit& init, std::uint64_t number) { init.say(number + 7, init::Done()); }},
      {"of another type", [](FakeInit& init, std::uint64_t number) { init.say(number, init::HelloReply()); }},
      {"of another type",
       [](FakeInit& init, std::uint64_t number) { init.say(number, init::Started{1, 1, false}); }},
      {"neither an answer nor an event", [](FakeInit& init, std::uint64_t) { init.say(0, init::Done()); }},
      {"neither an answer nor an event",
       [](FakeInit& init, std::uint64_t number) { init.say(number, init::TreeEmpty{1}); }},
      {"no frame", [](FakeInit& init, std::uint64_t) { init.say_bytes(std::string(64, 'x')); }},
      {"rules of its type",
       [](FakeInit& init, std::uint64_t number) {
         init::Frame frame{init::MessageType::exited, number, 0, "short"};
         init.say_bytes(*init::encode(frame));
       }},
      {"did not announce",
       [&](FakeInit& init, std::uint64_t number) { init.say(number, init::Done(), {pipe->read}); }},
      {"did not announce",
       [&](FakeInit& init, std::uint64_t number) {
         const std::string bytes = *init::encode(number, init::Done());
         for (std::size_t i = 0; i <= init::max_descriptors; ++i)
           init.say_bytes(bytes.substr(i, 1), {pipe->read});
       }},
      {"did not come",
       [](FakeInit& init, std::uint64_t number) { init.say(number, init::Opened{1, 0644}); }}};
  for (const Lie& lie : lies) {
    ends_ = 0;
    const InitFailure failure = failure_when_told(lie.say);
    EXPECT_EQ(failure.fault, InitFault::lost) << lie.what << ": " << failure.detail;
    EXPECT_THAT(failure.detail, HasSubstr(lie.what));
  }
}

TEST_F(InitClientTest, S102_HalfAFrameIsNoAnswer) {
  FakeInit fake([](FakeInit& init) {
    const Asked asked = init.expect<init::Ping>();
    const std::string bytes = *init::encode(asked.number, init::Done());
    for (const char byte : bytes) init.say_bytes({&byte, 1});
    const Asked second = init.expect<init::Ping>();
    init.say_bytes(init::encode(second.number, init::Done())->substr(0, 20));
  });
  connect(fake);
  EXPECT_TRUE(call(init::Ping())) << "the control: cut anywhere, but whole";
  const auto answer = call(init::Ping());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, InitFault::lost);
}

TEST_F(InitClientTest, S102_AnExecIsStartedOnce) {
  FakeInit fake([](FakeInit& init) {
    init.say(init.expect<init::StartExec>().number, init::Started{5, 2, false});
    init.say(init.expect<init::StartExec>().number, init::Started{5, 3, false});
    init.drain();
  });
  connect(fake);
  const auto exec = start();
  ASSERT_TRUE(exec);
  init::StartExec request;
  request.argv = {"true"};
  const auto again = call(std::move(request), two_streams());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().detail, HasSubstr("twice"));
  EXPECT_EQ(exec->pid(), 2U);
  EXPECT_THAT(exec->state().lost, HasSubstr("twice"));
}

TEST_F(InitClientTest, S102_AnInitThatOwesTooManyAnswersIsGivenUp) {
  FakeInit fake([](FakeInit& init) { init.drain(); });
  connect(fake);
  for (int i = 0; i < 1100; ++i) client_->tell(init::Ping());
  EXPECT_TRUE(runs_until([&] { return ends_ == 1; }));
  EXPECT_THAT(ended_, HasSubstr("unanswered"));
}

}  // namespace
}  // namespace caisson::container
