// A root that is unmounted under its sessions: calls fail typed or work on what the sessions still hold, and
// nothing hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <functional>
#include <future>

#include "providers/local/root_for_test.h"
#include "tests/crash/scene.h"
#include "tests/support/eventually.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

class UnmountTest : public testing::TestWithParam<kit::TreeKill> {
 protected:
  // Whether the call works; a failure is typed, and comes soon.
  static bool works(const char* what, const std::function<void()>& call) {
    SCOPED_TRACE(what);
    auto outcome = std::async(std::launch::async, [&] {
      try {
        call();
        return std::string();
      } catch (const SandboxError& error) {
        return std::string("typed: ") + error.what();
      } catch (const std::exception& error) {
        return std::string("untyped: ") + error.what();
      }
    });
    EXPECT_EQ(outcome.wait_for(30s), std::future_status::ready) << "it hangs";
    const std::string failure = outcome.get();
    EXPECT_FALSE(failure.starts_with("untyped")) << failure;
    return failure.empty();
  }
  static void run(blocking::Session& session) {
    EXPECT_EQ(session.exec(Argv({"sh", "-c", "echo works"}), ExecOptions(20s)).out, "works\n");
  }
};

TEST_P(UnmountTest, S26_CallsFailTypedAndSessionsEnd) {
  Scene scene(GetParam());
  // Detached at once: it vanishes from its place and lives on as long as somebody has it open.
  auto mounted = std::make_optional<test::Mounted>(scene.root(), "size=16m");
  if (!mounted->works()) GTEST_SKIP() << "needs root, to mount a file system";
  const Stage stage = scene.stage();
  {
    auto sandbox = blocking::open("local", crash_options(stage));
    auto ephemeral = sandbox.create_session(crash_spec("scratch", Durability::ephemeral));
    auto persistent = sandbox.create_session(crash_spec("keep", Durability::persistent));
    for (auto* session : {&ephemeral, &persistent}) {
      session->put_file("file", "text");
      EXPECT_EQ(session->exec(tree_command(stage, false), ExecOptions(20s)).exit_code, 0);
    }
    EXPECT_TRUE(scene.any_process()) << "the control";
    auto reader = ephemeral.exec_start(tree_command(stage, true), ExecOptions(60s));
    mounted.reset();
    ASSERT_THAT(local::entries_of(scene.root()), IsEmpty()) << "the control: it is not there any more";

    for (auto* session : {&ephemeral, &persistent}) {
      static_cast<void>(works("exec", [&] { run(*session); }));
      static_cast<void>(works("put_file", [&] { session->put_file("other", "text"); }));
      static_cast<void>(works("get_file", [&] { EXPECT_EQ(session->get_file("file"), "text"); }));
      EXPECT_TRUE(works("touch", [&] { session->touch(); }));
      EXPECT_TRUE(works("info", [&] { static_cast<void>(session->info()); }));
    }
    EXPECT_FALSE(works("create", [&] {
      static_cast<void>(sandbox.create_session(crash_spec("another", Durability::ephemeral)));
    })) << "a workspace that its path does not lead to";
    EXPECT_TRUE(works("reap", [&] { EXPECT_THAT(sandbox.reap(), IsEmpty()); }));
    EXPECT_THAT(sandbox.list_sessions(), SizeIs(2));
    for (auto* session : {&ephemeral, &persistent}) {
      const bool destroyed = works("destroy", [&] { session->destroy(); });
      const auto left = sandbox.list_sessions();
      const bool listed =
          std::ranges::any_of(left, [&](const auto& info) { return info.id == session->id(); });
      EXPECT_NE(destroyed, listed) << "what is not destroyed stays listed";
    }
    EXPECT_TRUE(eventually([&] { return !scene.any_process(); }));
    EXPECT_TRUE(works("kill", [&] { reader.kill(); }));
  }
  EXPECT_THAT(local::entries_of(scene.root()), IsEmpty()) << "nothing was written into what it covered";
  scene.expect_recovered();
}

INSTANTIATE_TEST_SUITE_P(BothWays, UnmountTest, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
