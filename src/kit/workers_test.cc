// Workers where threads run out.
#include "caisson/kit/workers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "caisson/contract/errors.h"
#include "os/self.h"
#include "tests/support/async.h"

namespace caisson::kit {
namespace {

Awaitable<int> answer(Workers* workers) {
  auto call = [] { return 42; };
  co_return co_await workers->run(std::move(call));
}

TEST(WorkersTest, RunCallsAndWaitForThem) {
  bool ran = false;
  {
    Workers workers(2);
    EXPECT_EQ(test::run(answer(&workers)), 42);
    workers.post([&ran] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

// As a user who may have six processes: whether sixteen threads are refused as they should be.
[[noreturn]] void want_too_many_threads() {
  ::alarm(20);
  const rlimit few = {6, 6};
  if (::setrlimit(RLIMIT_NPROC, &few) != 0 || ::setresuid(61234, 61234, 61234) != 0) ::_exit(2);
  {
    const Workers control(2);
  }
  try {
    const Workers workers(16);
  } catch (const SandboxError& error) {
    ::_exit(error.code() == ErrorCode::unavailable ? 0 : 3);
  }
  ::_exit(4);
}

TEST(WorkersTest, ThreadsThatCannotBeHadAreAnErrorAndNoHang) {
  if (!os::is_root()) GTEST_SKIP() << "takes another user's id";
  EXPECT_EXIT(want_too_many_threads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace caisson::kit
