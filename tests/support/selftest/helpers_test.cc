// Tests of the helpers themselves.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/async.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {
namespace {

namespace asio = boost::asio;

TEST(TemporaryDirectory, IsUniqueEmptyPrivateAndRemovedWithItsContents) {
  std::string path;
  {
    const TemporaryDirectory one;
    const TemporaryDirectory two;
    EXPECT_NE(one.path(), two.path());
    EXPECT_TRUE(std::filesystem::is_empty(one.path()));
    struct stat status{};
    ASSERT_EQ(::stat(one.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0700U);
    std::filesystem::create_directories(one / "a/b");
    std::ofstream(one / "a/b/file") << "x";
    std::filesystem::permissions(one / "a/b", std::filesystem::perms::none);
    path = one.path();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(temporary_base()));
}

TEST(Eventually, WaitsForTheThingItself) {
  std::atomic<bool> done = false;
  std::thread other([&] { done = true; });
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  other.join();
}

TEST(Eventually, GivesUp) {
  int asked = 0;
  EXPECT_FALSE(eventually([&] { return ++asked, false; }, std::chrono::milliseconds(5)));
  EXPECT_GT(asked, 1);
}

Awaitable<int> seven() { co_return 7; }

Awaitable<void> fail() {
  throw std::runtime_error("failed");
  co_return;
}

Awaitable<void> wait_forever() {
  asio::steady_timer timer(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
  co_await timer.async_wait(asio::use_awaitable);
}

TEST(Run, ReturnsTheValueOrThrows) {
  EXPECT_EQ(run(seven()), 7);
  EXPECT_THROW(run(fail()), std::runtime_error);
  asio::io_context context;
  EXPECT_EQ(run(context, seven()), 7);
  EXPECT_EQ(run(context, seven()), 7);
}

TEST(Run, GivesUp) {
  asio::io_context context;
  EXPECT_THROW(run(context, wait_forever(), std::chrono::milliseconds(5)), std::runtime_error);
}

TEST(Run, LeavesTheRestOfTheLoopForLater) {
  asio::io_context context;
  bool ran = false;
  asio::steady_timer timer(context, asio::steady_timer::time_point::max());
  timer.async_wait([&](boost::system::error_code) { ran = true; });
  EXPECT_EQ(run(context, seven()), 7);
  EXPECT_FALSE(ran);
  timer.cancel();
  run(context, seven());
  context.run();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace caisson::test
