// Tests of Host: how commands start, what they start with, and what comes back when they cannot.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "caisson/kit/host.h"
#include "kit/host_bed_test.h"
#include "os/rlimits.h"
#include "tests/support/ways.h"

namespace caisson::kit {
namespace {

using caisson::test::eventually;
using caisson::test::guest;
using caisson::test::values_of;
using test::base_path;
using test::HostBed;
using test::plan_of;
using test::Ran;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
namespace asio = boost::asio;

// The same tests for both ways that trees are killed.
class HostTest : public testing::TestWithParam<TreeKill> {
 protected:
  // What start throws, by its code.
  ErrorCode failure(ExecPlan plan, std::string* message = nullptr) {
    try {
      StartedExec started = bed_.start(std::move(plan));
      ADD_FAILURE() << "it started";
      return ErrorCode::internal;
    } catch (const SandboxError& error) {
      if (message != nullptr) *message = error.what();
      return error.code();
    }
  }

  HostBed bed_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(BothWays, HostTest, testing::ValuesIn(caisson::test::ways_here()),
                         caisson::test::name_of_way);

TEST_P(HostTest, S94_SaysWhichWayIsInUse) {
  EXPECT_EQ(bed_.host->tree_kill(), GetParam());
  EXPECT_EQ(bed_.host->cgroup_path().empty(), GetParam() == TreeKill::shim);
  EXPECT_THAT(bed_.log, IsEmpty());
}

TEST_P(HostTest, S48_RunsACommandAndTellsItsEnd) {
  const Ran ran = bed_.run(plan_of({"sh", "-c", "echo out; echo err >&2; exit 3"}));
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(ran.ended.how, ExecEnd::exited);
  EXPECT_EQ(ran.ended.exit_code, 3);
  const Ran killed = bed_.run(plan_of({"sh", "-c", "kill -TERM $$"}));
  EXPECT_EQ(killed.ended.how, ExecEnd::signaled);
  EXPECT_EQ(killed.ended.exit_code, 128 + SIGTERM);
  EXPECT_EQ(killed.ended.signal, SIGTERM);
}

TEST_P(HostTest, S41_EnvironmentIsTheBasePathAndThePlans) {
  const Ran base = bed_.run(plan_of({guest("guest_state")}));
  EXPECT_THAT(values_of(base.out, "variable"), ElementsAre(std::string("PATH=") + base_path));
  ExecPlan plan = plan_of({guest("guest_state")});
  plan.env.emplace("A", "1");
  plan.env.emplace("PATH", "/nowhere");
  EXPECT_THAT(values_of(bed_.run(std::move(plan)).out, "variable"),
              UnorderedElementsAre("A=1", "PATH=/nowhere"));
}

TEST_P(HostTest, S40_LookUpUsesThePathThatTheChildSees) {
  EXPECT_EQ(bed_.run(plan_of({"true"})).ended.exit_code, 0);
  ExecPlan plan = plan_of({"true"});
  plan.env.emplace("PATH", "/nowhere/secret-directory");
  std::string message;
  EXPECT_EQ(failure(std::move(plan), &message), ErrorCode::command_not_found);
  // S-6: PATH may be the caller's, and no value is ever in a message.
  EXPECT_THAT(message, Not(HasSubstr("secret-directory")));
  EXPECT_THAT(message, HasSubstr("\"true\""));
}

TEST_P(HostTest, S44_StartsClean) {
  const Ran ran = bed_.run(plan_of({guest("guest_state")}));
  EXPECT_THAT(values_of(ran.out, "descriptor"), UnorderedElementsAre("0", "1", "2"));
  EXPECT_THAT(values_of(ran.out, "blocked"), ElementsAre("0"));
  EXPECT_THAT(values_of(ran.out, "ignored"), ElementsAre("0"));
  EXPECT_THAT(values_of(ran.out, "caught"), ElementsAre("0"));
  EXPECT_THAT(values_of(ran.out, "session"), ElementsAre("own"));
  EXPECT_THAT(values_of(ran.out, "terminal"), ElementsAre("no"));
  EXPECT_THAT(values_of(ran.out, "umask"), ElementsAre("022"));
  EXPECT_THAT(values_of(ran.out, "subreaper"), ElementsAre("0"));
}

TEST_P(HostTest, S42_WorkingDirectory) {
  const std::string real = std::filesystem::canonical(bed_.workspace);
  std::filesystem::create_directory(bed_.workspace + "/sub");
  std::filesystem::create_symlink("/", bed_.workspace + "/out");
  std::ofstream(bed_.workspace + "/file") << "x";
  const auto in = [](std::string cwd) {
    ExecPlan plan = plan_of({"pwd", "-P"});
    plan.argv = {"/bin/pwd", "-P"};
    plan.cwd = std::move(cwd);
    return plan;
  };
  EXPECT_EQ(bed_.run(in("")).out, real + "\n");
  EXPECT_EQ(bed_.run(in("sub")).out, real + "/sub\n");
  EXPECT_EQ(bed_.run(in("sub/..")).out, real + "\n");
  EXPECT_EQ(bed_.run(in("/usr")).out, "/usr\n");
  EXPECT_EQ(failure(in("..")), ErrorCode::path_escapes);
  EXPECT_EQ(failure(in("out")), ErrorCode::path_escapes);
  EXPECT_EQ(failure(in("missing")), ErrorCode::cwd_missing);
  EXPECT_EQ(failure(in("/missing")), ErrorCode::cwd_missing);
  EXPECT_EQ(failure(in("file")), ErrorCode::cwd_missing);
  std::filesystem::create_symlink("loop", bed_.workspace + "/loop");
  EXPECT_EQ(failure(in("loop")), ErrorCode::invalid_argument) << "it is there, so it is not missing";
  EXPECT_EQ(failure(in(std::string(300, 'n'))), ErrorCode::invalid_argument);
}

TEST_P(HostTest, S40_FailuresAreTypedAndNameTheBinary) {
  std::ofstream(bed_.workspace + "/plain") << "text";
  std::ofstream(bed_.workspace + "/garbage") << "\x01\x02";
  std::ofstream(bed_.workspace + "/script") << "#!/nowhere/at/all\n";
  ::chmod((bed_.workspace + "/garbage").c_str(), 0755);
  ::chmod((bed_.workspace + "/script").c_str(), 0755);
  std::string message;
  EXPECT_EQ(failure(plan_of({"no-such-command"}), &message), ErrorCode::command_not_found);
  EXPECT_THAT(message, HasSubstr("\"no-such-command\""));
  EXPECT_EQ(failure(plan_of({""})), ErrorCode::command_not_found);
  EXPECT_EQ(failure(plan_of({"./plain"}), &message), ErrorCode::not_executable);
  EXPECT_THAT(message, HasSubstr("\"./plain\""));
  EXPECT_EQ(failure(plan_of({"./garbage"}), &message), ErrorCode::bad_format);
  EXPECT_THAT(message, HasSubstr("\"./garbage\""));
  EXPECT_EQ(failure(plan_of({"./script"}), &message), ErrorCode::bad_format);
  EXPECT_EQ(failure(plan_of({"true", std::string(256 << 10, 'x')}), &message),
            ErrorCode::argument_list_too_long);
  EXPECT_THAT(message, HasSubstr("\"true\""));
  EXPECT_EQ(failure(plan_of({std::string(100000, 'n')}), &message), ErrorCode::command_not_found);
  EXPECT_LT(message.size(), 400u);
}

TEST_P(HostTest, S43_InputIsAPipeOrEmpty) {
  EXPECT_EQ(bed_.run(plan_of({"cat"})).out, "");
  ExecPlan plan = plan_of({"cat"});
  plan.input = true;
  StartedExec started = bed_.start(std::move(plan));
  asio::write(started.in, asio::buffer("hello", 5));
  started.in.close();
  EXPECT_EQ(HostBed::read_to_end(started.out), "hello");
  EXPECT_EQ(HostBed::wait_for(*started.tree).exit_code, 0);
  EXPECT_TRUE(HostBed::finish(started));
}

TEST_P(HostTest, S64_Terminal) {
  ExecPlan plan = plan_of({guest("guest_state")});
  plan.tty = TtySize{77, 33};
  plan.input = true;
  StartedExec started = bed_.start(std::move(plan));
  EXPECT_TRUE(started.in.is_open());
  EXPECT_FALSE(started.err.is_open());
  std::string output = HostBed::read_to_end(started.out);
  std::erase(output, '\r');
  EXPECT_THAT(values_of(output, "terminal"), ElementsAre("yes"));
  EXPECT_THAT(values_of(output, "size"), ElementsAre("77 33"));
  EXPECT_THAT(values_of(output, "descriptor"), UnorderedElementsAre("0", "1", "2"));
  EXPECT_EQ(HostBed::wait_for(*started.tree).exit_code, 0);
  EXPECT_TRUE(HostBed::finish(started));
}

TEST_P(HostTest, S44_RunningOutOfDescriptorsIsTold) {
  struct rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const struct rlimit tight{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  // What is left is the host program's own, and that a start may not touch.
  std::vector<os::Fd> held;
  do {
    held.push_back(os::Fd::adopt(::fcntl(0, F_DUPFD_CLOEXEC, 0)));
  } while (static_cast<rlim_t>(held.back().number()) + 1 < tight.rlim_cur - os::descriptor_reserve);
  bool exhausted = false;
  try {
    StartedExec started = bed_.start(plan_of({"true"}));
  } catch (const DescriptorsExhausted&) {
    exhausted = true;
  }
  held.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(exhausted);
  EXPECT_EQ(bed_.run(plan_of({"true"})).ended.exit_code, 0);
}

Awaitable<int> run_many(std::shared_ptr<SessionBox> box, std::shared_ptr<const ExecPlan> plan, int times) {
  const auto executor = co_await asio::this_coro::executor;
  int good = 0;
  for (int i = 0; i < times; ++i) {
    StartedExec started = co_await box->start(plan, executor);
    auto waited = co_await started.tree->leader().async_wait(asio::posix::stream_descriptor::wait_read,
                                                             asio::as_tuple(asio::use_awaitable));
    static_cast<void>(waited);
    std::optional<ExecEnded> ended;
    while (!(ended = started.tree->try_reap())) {
      co_await started.tree->leader().async_wait(asio::posix::stream_descriptor::wait_read,
                                                 asio::use_awaitable);
    }
    if (ended->exit_code == 4) ++good;
    if (started.tree->empty()) started.tree->retire();
  }
  co_return good;
}

TEST_P(HostTest, S51_ManyAtOnce) {
  auto plan = std::make_shared<const ExecPlan>(plan_of({"sh", "-c", "exit 4"}));
  std::vector<std::future<int>> all;
  bed_.context.restart();
  for (int i = 0; i < 8; ++i) {
    all.push_back(asio::co_spawn(bed_.context, run_many(bed_.box, plan, 10), asio::use_future));
  }
  bed_.context.run_for(std::chrono::seconds(60));
  for (auto& one : all) EXPECT_EQ(one.get(), 10);
}

TEST_P(HostTest, MissingDirectoriesAreTyped) {
  HostBoxOptions options;
  options.workspace_path = bed_.temporary / "missing";
  options.temporary_directory = bed_.scratch;
  options.base_path = base_path;
  try {
    bed_.host->make_box(std::move(options));
    ADD_FAILURE() << "no error";
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::root_unusable);
    EXPECT_THAT(error.what(), HasSubstr("missing"));
  }
}

}  // namespace
}  // namespace caisson::kit
