// Containers of an ordinary user who has a range of ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "providers/container/sandbox_bed_test.h"
#include "tests/support/on_disk.h"
#include "tests/support/ranged_user.h"

namespace caisson::container {
namespace {

// The provider with nothing else but this user's rights.
class UsersSandbox {
 public:
  explicit UsersSandbox(const std::string& home) : thread_([this] { context_.run(); }) {
    ContainerOptions options;
    options.executor = context_.get_executor();
    options.settings.root = home + "/root";
    options.settings.runtime_directory = home + "/run";
    options.settings.init_program = CAISSON_INIT_PROGRAM;
    options.settings.unbounded_disk = true;  // A bound takes root.
    options.settings.pool_size = 0;
    sandbox_ = container::open(std::move(options));
    sandbox_->bind_policy({Network::egress, Isolation::none, false, true});
  }
  ~UsersSandbox() {
    sandbox_.reset();
    work_.reset();
    thread_.join();
  }
  template <class T>
  T get(Awaitable<T> work) {
    return boost::asio::co_spawn(context_, std::move(work), boost::asio::use_future).get();
  }
  std::shared_ptr<SandboxSession> create(Durability durability) {
    return get(sandbox_->create_session(spec_of(durability)));
  }
  std::string run(const std::shared_ptr<SandboxSession>& session, const std::string& script) {
    const ExecResult result =
        get(session->exec(Argv{"sh", "-c", script}, ExecOptions(std::chrono::seconds(60))));
    return result.out + result.err;
  }

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(context_);
  std::thread thread_;
  std::shared_ptr<kit::ManagedSandbox> sandbox_;
};

TEST(RangedUserTest, S103_AUsersWorkspaceBelongsToItsIdsAndGoesWithAllInIt) {
  if (const std::string why = test::why_no_ranged_user(); !why.empty()) GTEST_SKIP() << why;
  const test::TemporaryDirectory temporary;
  const std::string home = temporary / "home";
  const std::string outcome = test::as_ranged_user(temporary, [&]() -> std::string {
    // Nobody else may look into what is his.
    ::chmod(home.c_str(), 0700);
    try {
      UsersSandbox user(home);
      auto session = user.create(Durability::persistent);
      std::string text = user.run(session, "echo one > log; mkdir -p a/b; chmod 0 a; stat -c %u .");
      user.get(session->put_file("log", "two\n"));
      user.get(session->release());
      session = user.create(Durability::persistent);
      text += user.run(session, "echo three >> log; cat log; stat -c %u:%a a");
      struct stat is = {};
      ::stat((home + "/root/volumes/key").c_str(), &is);
      text += is.st_uid - 200000 < 65536 ? "of the range\n" : "of " + std::to_string(is.st_uid) + "\n";
      user.get(session->destroy());
      return text;
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  EXPECT_EQ(outcome, "0\ntwo\nthree\n0:0\nof the range\n");
  EXPECT_THAT(test::entries_of(home + "/root/volumes"), testing::ElementsAre(".keys"));
  EXPECT_THAT(test::entries_of(home + "/root/volumes/.keys"), testing::IsEmpty());
  EXPECT_THAT(test::entries_of(home + "/root/ids"), testing::IsEmpty());
}

TEST(RangedUserTest, S103_TwoSessionsHaveIdsApart) {
  if (const std::string why = test::why_no_ranged_user(); !why.empty()) GTEST_SKIP() << why;
  const test::TemporaryDirectory temporary;
  const std::string outcome = test::as_ranged_user(temporary, [&]() -> std::string {
    try {
      UsersSandbox user(temporary / "home");
      const auto one = user.create(Durability::ephemeral);
      const auto other = user.create(Durability::ephemeral);
      const std::string map = "cat /proc/self/uid_map";
      const std::string first = user.run(one, map);
      return first == user.run(other, map) ? "the same: " + first : "apart";
    } catch (const std::exception& error) {
      return error.what();
    }
  });
  EXPECT_EQ(outcome, "apart");
}

}  // namespace
}  // namespace caisson::container
