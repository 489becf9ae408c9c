// Workspace files of a host directory (S-70 to S-73).
#include "kit/host_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <sstream>
#include <thread>

#include "kit/file_errors.h"
#include "os/self.h"
#include "tests/support/async.h"
#include "tests/support/eventually.h"
#include "tests/support/mounted.h"
#include "tests/support/temporary_directory.h"

namespace caisson::kit {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Awaitable<std::string> read_file(HostFiles* files, std::string path, std::size_t piece) {
  const std::unique_ptr<SandboxFileReader> reader = co_await files->open_reader(path);
  std::string all;
  for (;;) {
    const std::string data = co_await reader->read(piece);
    if (data.empty()) co_return all;
    all += data;
  }
}

Awaitable<void> write_file(HostFiles* files, std::string path, std::string data, FileMode mode) {
  const std::unique_ptr<SandboxFileWriter> writer = co_await files->open_writer(path, mode);
  co_await writer->write(data);
  co_await writer->commit();
}

std::string host_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void host_put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

unsigned mode_of(const std::string& path) {
  struct stat is = {};
  return ::stat(path.c_str(), &is) == 0 ? is.st_mode & 07777 : ~0U;
}

std::size_t entries_in(const std::string& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

// A workspace and a temporary directory side by side, and a secret beside both.
class HostFilesTest : public testing::Test {
 protected:
  HostFilesTest() {
    fs::create_directories(work_ + "/dir");
    fs::create_directory(temporaries_);
    fs::create_directory(outside_);
    host_put(outside_ + "/file", "secret");
    open_files();
  }

  void open_files() {
    files_ = std::make_unique<HostFiles>(
        workers_, std::make_shared<const os::Beneath>(os::open_directory(work_).value(), work_),
        temporaries_);
  }
  std::string get(const std::string& path, std::size_t piece = 1 << 20) {
    return test::run(context_, read_file(files_.get(), path, piece));
  }
  void put(const std::string& path, const std::string& data, FileMode mode = std::nullopt) {
    test::run(context_, write_file(files_.get(), path, data, mode));
  }
  std::unique_ptr<SandboxFileReader> reader(const std::string& path) {
    return test::run(context_, files_->open_reader(path));
  }
  std::unique_ptr<SandboxFileWriter> writer(const std::string& path, FileMode mode = std::nullopt) {
    return test::run(context_, files_->open_writer(path, mode));
  }
  void expect_nothing_temporary() {
    EXPECT_TRUE(test::eventually([this] { return entries_in(temporaries_) == 0; }));
  }

  test::TemporaryDirectory directory_;
  const std::string work_ = directory_ / "work";
  const std::string temporaries_ = directory_ / "temporaries";
  const std::string outside_ = directory_ / "outside";
  boost::asio::io_context context_;
  std::shared_ptr<Workers> workers_ = std::make_shared<Workers>(2);
  std::unique_ptr<HostFiles> files_;
};

// What a call failed with.
struct Failure {
  std::optional<ErrorCode> code;
  std::string message;
  std::string field;
};

Failure failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const SandboxError& error) {
    return {error.code(), error.what(), error.field()};
  }
  return {std::nullopt, "it did not fail", ""};
}

TEST_F(HostFilesTest, S71_WritesNewFilesWithMissingParents) {
  const mode_t before = ::umask(0077);
  put("a/b/file", "text");
  ::umask(before);
  EXPECT_EQ(host_text(work_ + "/a/b/file"), "text");
  EXPECT_EQ(mode_of(work_ + "/a/b/file"), 0644U);
  EXPECT_EQ(mode_of(work_ + "/a"), 0755U);
  EXPECT_EQ(mode_of(work_ + "/a/b"), 0755U);
  EXPECT_EQ(get("a/b/file"), "text");
  expect_nothing_temporary();
}

TEST_F(HostFilesTest, S71_KeepsAnExistingMode) {
  host_put(work_ + "/script", "old");
  ASSERT_EQ(::chmod((work_ + "/script").c_str(), 04751), 0);
  put("script", "new");
  EXPECT_EQ(mode_of(work_ + "/script"), 0751U) << "but for set-id bits, which any write takes away";
  put("script", "newer", 0600);
  EXPECT_EQ(mode_of(work_ + "/script"), 0600U);
  EXPECT_EQ(host_text(work_ + "/script"), "newer");
  put("fresh", "", 0700);
  EXPECT_EQ(mode_of(work_ + "/fresh"), 0700U);
  EXPECT_EQ(failure_of([&] { put("fresh", "", 010000); }).field, "mode");
}

TEST_F(HostFilesTest, S71_FollowsAFinalLinkThatStaysInside) {
  host_put(work_ + "/dir/file", "old");
  fs::create_symlink("dir/file", work_ + "/relative");
  fs::create_symlink(work_ + "/dir/file", work_ + "/absolute");
  put("relative", "one");
  EXPECT_EQ(host_text(work_ + "/dir/file"), "one");
  put("absolute", "two");
  EXPECT_EQ(host_text(work_ + "/dir/file"), "two");
  EXPECT_TRUE(fs::is_symlink(work_ + "/relative"));
  EXPECT_TRUE(fs::is_symlink(work_ + "/absolute"));
  EXPECT_EQ(get("relative"), "two");
  EXPECT_EQ(get("absolute"), "two");
}

TEST_F(HostFilesTest, S70_AbsolutePathsUnderTheWorkspaceWork) {
  put(work_ + "/dir/file", "text");
  EXPECT_EQ(get("dir/file"), "text");
  EXPECT_EQ(get(work_ + "/dir/file"), "text");
}

TEST_F(HostFilesTest, S70_WhatLeadsOutIsTyped) {
  ASSERT_EQ(host_text(outside_ + "/file"), "secret");
  fs::create_symlink("../outside/file", work_ + "/relative");
  fs::create_symlink(outside_ + "/file", work_ + "/absolute");
  fs::create_symlink(outside_, work_ + "/directory");
  for (const std::string& path :
       {std::string("../outside/file"), outside_ + "/file", std::string("relative"), std::string("absolute"),
        std::string("directory/file"), std::string("/etc/passwd")}) {
    const Failure read = failure_of([&] { get(path); });
    EXPECT_EQ(read.code, ErrorCode::path_escapes) << path;
    EXPECT_THAT(read.message, HasSubstr("escapes the sandbox workspace"));
    const Failure write = failure_of([&] { put(path, "overwritten"); });
    EXPECT_EQ(write.code, ErrorCode::path_escapes) << path;
    EXPECT_THAT(write.message, HasSubstr("escapes the sandbox workspace"));
  }
  EXPECT_EQ(host_text(outside_ + "/file"), "secret");
  EXPECT_EQ(entries_in(outside_), 1U);
  expect_nothing_temporary();
}

TEST_F(HostFilesTest, S72_AMissSaysSo) {
  for (const char* path : {"nothing", "dir/nothing", "nothing/at/all"}) {
    const Failure miss = failure_of([&] { get(path); });
    EXPECT_EQ(miss.code, ErrorCode::file_missing);
    EXPECT_THAT(miss.message, HasSubstr("miss"));
    EXPECT_THAT(miss.message, HasSubstr(path));
  }
}

TEST_F(HostFilesTest, S72_OnlyRegularFiles) {
  ASSERT_EQ(::mkfifo((work_ + "/fifo").c_str(), 0666), 0);
  const os::Fd socket = os::Fd::adopt(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (work_ + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.number(), static_cast<const sockaddr*>(static_cast<const void*>(&address)),
                   sizeof address),
            0);
  std::vector<std::string> paths = {"fifo", "socket", "dir", ".", "dir/"};
  if (os::is_root() && ::mknod((work_ + "/device").c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0) {
    paths.emplace_back("device");
  }
  for (const std::string& path : paths) {
    EXPECT_EQ(failure_of([&] { get(path); }).code, ErrorCode::not_a_regular_file) << path;
    EXPECT_EQ(failure_of([&] { writer(path); }).code, ErrorCode::not_a_regular_file) << path;
  }
  EXPECT_TRUE(fs::is_fifo(work_ + "/fifo")) << "and it is not replaced";
  expect_nothing_temporary();
}

TEST_F(HostFilesTest, S72_AFifoIsNotEvenOpened) {
  ASSERT_EQ(::mkfifo((work_ + "/fifo").c_str(), 0666), 0);
  host_put(work_ + "/file", "text");
  // Whoever waits for a reader of the FIFO, in open(2), would go on.
  const os::Fd opened = os::Fd::adopt(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  for (const char* name : {"/fifo", "/file"}) {
    ASSERT_GE(::inotify_add_watch(opened.number(), (work_ + name).c_str(), IN_OPEN), 0);
  }
  char events[4096];
  EXPECT_EQ(failure_of([&] { get("fifo"); }).code, ErrorCode::not_a_regular_file);
  EXPECT_FALSE(os::read_some(opened, events, sizeof events));
  EXPECT_EQ(get("file"), "text") << "the control";
  EXPECT_TRUE(os::read_some(opened, events, sizeof events));
}

TEST_F(HostFilesTest, ArgumentsThatMakeNoSenseAreTyped) {
  const std::string long_name(256, 'x');
  std::string long_path = "d";
  while (long_path.size() < 5000) long_path += "/directory";
  fs::create_symlink("loop", work_ + "/loop");
  for (const std::string& path :
       {std::string(), std::string("a\0b", 3), long_name, long_path, std::string("loop")}) {
    const Failure read = failure_of([&] { get(path); });
    EXPECT_EQ(read.code, ErrorCode::invalid_argument) << path;
    EXPECT_EQ(read.field, "path");
    const Failure write = failure_of([&] { put(path, ""); });
    EXPECT_EQ(write.code, ErrorCode::invalid_argument) << path;
    EXPECT_EQ(write.field, "path");
    EXPECT_LT(write.message.size(), 500U) << "a long path is shortened";
  }
  put("file", "");
  EXPECT_EQ(failure_of([&] { put("file/below", ""); }).code, ErrorCode::invalid_argument);
  const auto open = reader("file");
  EXPECT_EQ(failure_of([&] { test::run(context_, open->read(0)); }).field, "max_bytes");
}

TEST_F(HostFilesTest, NamesAreBytesAndMessagesAreText) {
  const std::string name = "\xff\xfe new\nline";
  put(name, "text");
  EXPECT_EQ(get(name), "text");
  const std::string message = failure_of([&] { get(name + "x"); }).message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\xff'), std::string::npos);
}

TEST_F(HostFilesTest, S72_StreamsPieceByPiece) {
  std::string large(5 << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i / 1000);
  {
    const auto out = writer("large");
    for (std::size_t at = 0; at < large.size(); at += 700000)
      test::run(context_, out->write(large.substr(at, 700000)));
    EXPECT_FALSE(fs::exists(work_ + "/large")) << "nothing is seen before the commit";
    test::run(context_, out->commit());
    EXPECT_EQ(failure_of([&] { test::run(context_, out->commit()); }).code, ErrorCode::invalid_argument);
    EXPECT_EQ(failure_of([&] { test::run(context_, out->write("more")); }).code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ(reader("large")->size(), large.size());
  EXPECT_EQ(get("large", 333333), large);
  EXPECT_EQ(get("large", std::size_t{1} << 40), large) << "a piece may be asked for larger than any file";
}

TEST_F(HostFilesTest, WhatWasOpenedStaysWhatIsRead) {
  put("file", "old");
  const auto old = reader("file");
  put("file", "new");
  EXPECT_EQ(test::run(context_, old->read(100)), "old");
  EXPECT_EQ(get("file"), "new");
}

TEST_F(HostFilesTest, AFileThatGrowsIsReadOn) {
  put("file", "one");
  const auto open = reader("file");
  EXPECT_EQ(test::run(context_, open->read(100)), "one");
  std::ofstream(work_ + "/file", std::ios::app) << "two";
  EXPECT_EQ(test::run(context_, open->read(100)), "two");
  EXPECT_EQ(test::run(context_, open->read(100)), "");
}

TEST_F(HostFilesTest, S71_AReaderSeesTheOldBytesOrTheNewWhole) {
  const std::string a(100000, 'a');
  const std::string b(120000, 'b');
  put("file", a);
  std::atomic<bool> stop = false;
  std::atomic<int> seen_a = 0;
  std::atomic<int> seen_b = 0;
  std::atomic<int> torn = 0;
  std::thread looker([&] {
    while (!stop) {
      const std::string text = host_text(work_ + "/file");
      ++(text == a ? seen_a : text == b ? seen_b : torn);
    }
  });
  for (int round = 0; round < 200 || ((seen_a == 0 || seen_b == 0) && round < 100000); ++round) {
    put("file", round % 2 == 0 ? b : a);
  }
  stop = true;
  looker.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(seen_a, 0);
  EXPECT_GT(seen_b, 0);
}

TEST_F(HostFilesTest, S71_WhatIsDroppedLeavesNothing) {
  put("kept", "old");
  {
    const auto dropped = writer("kept");
    test::run(context_, dropped->write("new"));
    EXPECT_EQ(entries_in(temporaries_), 1U) << "the control: it is there meanwhile";
    EXPECT_EQ(entries_in(work_), 2U) << "S-92: and not in the workspace";
  }
  expect_nothing_temporary();
  EXPECT_EQ(host_text(work_ + "/kept"), "old");
}

TEST_F(HostFilesTest, ADirectoryThatGoesMeanwhileIsMadeAgain) {
  const auto out = writer("gone/file");
  test::run(context_, out->write("text"));
  fs::remove_all(work_ + "/gone");
  test::run(context_, out->commit());
  EXPECT_EQ(host_text(work_ + "/gone/file"), "text");
}

TEST_F(HostFilesTest, ATargetExchangedBeforeTheCommitIsLookedAtAgain) {
  const auto to_directory = writer("target");
  fs::create_directory(work_ + "/target");
  EXPECT_EQ(failure_of([&] { test::run(context_, to_directory->commit()); }).code,
            ErrorCode::not_a_regular_file);
  const auto to_link = writer("link");
  fs::create_symlink(outside_ + "/file", work_ + "/link");
  EXPECT_EQ(failure_of([&] { test::run(context_, to_link->commit()); }).code, ErrorCode::path_escapes);
  EXPECT_EQ(host_text(outside_ + "/file"), "secret");
}

TEST_F(HostFilesTest, S70ADirectoryMovedOutBeforeTheCommitGetsNothing) {
  const auto out = writer("directory/file");
  fs::rename(work_ + "/directory", outside_ + "/directory");
  test::run(context_, out->commit());
  EXPECT_FALSE(fs::exists(outside_ + "/directory/file"));
  EXPECT_TRUE(fs::exists(work_ + "/directory/file")) << "its place is found anew";
}

TEST_F(HostFilesTest, FilesEndWithTheirSession) {
  put("file", "text");
  const auto in = reader("file");
  auto out = writer("new");
  files_.reset();
  EXPECT_EQ(failure_of([&] { test::run(context_, in->read(1)); }).code, ErrorCode::session_destroyed);
  EXPECT_EQ(failure_of([&] { test::run(context_, out->write("x")); }).code, ErrorCode::session_destroyed);
  EXPECT_EQ(failure_of([&] { test::run(context_, out->commit()); }).code, ErrorCode::session_destroyed);
  out.reset();
  EXPECT_EQ(entries_in(temporaries_), 0U);
}

TEST_F(HostFilesTest, S73_NeverOnTheEventLoop) {
  put("file", "text");
  const auto busy = std::make_shared<Workers>(1);
  std::latch release(1);
  busy->post([&release] { release.wait(); });
  HostFiles files(busy, std::make_shared<const os::Beneath>(os::open_directory(work_).value(), work_),
                  temporaries_);
  bool read = false;
  bool looped = false;
  boost::asio::co_spawn(context_, read_file(&files, "file", 100),
                        [&](std::exception_ptr, std::string) { read = true; });
  boost::asio::post(context_, [&] { looped = true; });
  context_.restart();
  context_.poll();
  EXPECT_TRUE(looped) << "the loop goes on";
  EXPECT_FALSE(read) << "while the only worker is busy";
  release.count_down();
  context_.restart();
  context_.run();
  EXPECT_TRUE(read);
}

// Exchanges two names, round and round, until it is destroyed.
class Swapper {
 public:
  Swapper(std::string one, std::string other)
      : thread_([this, one = std::move(one), other = std::move(other)] {
          while (!stop_) ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
        }) {}
  ~Swapper() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_F(HostFilesTest, S70_ARaceOverAParentNeverEscapes) {
  fs::create_symlink(outside_, work_ + "/link");
  host_put(work_ + "/dir/file", "inside");
  int read = 0;
  int written = 0;
  int refused = 0;
  {
    const Swapper swapper(work_ + "/dir", work_ + "/link");
    for (int round = 0; round < 3000 || ((read == 0 || written == 0 || refused == 0) && round < 200000);
         ++round) {
      try {
        ASSERT_EQ(get("dir/file").substr(0, 6), "inside");
        ++read;
        put("dir/file", "inside again");
        put("dir/new", "new");
        ++written;
      } catch (const SandboxError& error) {
        ASSERT_TRUE(error.code() == ErrorCode::path_escapes || error.code() == ErrorCode::path_changed)
            << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(written, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(host_text(outside_ + "/file"), "secret");
  EXPECT_EQ(entries_in(outside_), 1U);
  expect_nothing_temporary();
}

TEST_F(HostFilesTest, S70_ARaceOverTheTargetNeverEscapes) {
  fs::create_symlink(outside_ + "/file", work_ + "/link");
  host_put(work_ + "/file", "inside");
  int done = 0;
  int refused = 0;
  for (int round = 0; round < 3000 || ((done == 0 || refused == 0) && round < 200000); ++round) {
    const Swapper swapper(work_ + "/file", work_ + "/link");
    for (int turn = 0; turn < 20; ++turn, ++round) {
      try {
        put("file", "inside");
        ASSERT_EQ(get("file"), "inside");
        ++done;
      } catch (const SandboxError& error) {
        ASSERT_TRUE(error.code() == ErrorCode::path_escapes || error.code() == ErrorCode::path_changed)
            << error.what();
        ++refused;
      }
    }
    // A write may replace the link itself, which ends the race: put it there again.
    fs::remove(work_ + "/link");
    fs::create_symlink(outside_ + "/file", work_ + "/link");
    if (fs::is_symlink(work_ + "/file")) fs::remove(work_ + "/file");
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(host_text(outside_ + "/file"), "secret");
}

// The workspace and the temporary directory on a small file system of their own.
class HostFilesOnTmpfsTest : public HostFilesTest {
 protected:
  HostFilesOnTmpfsTest() {
    fs::create_directories(small_ + "/work/dir");
    fs::create_directories(small_ + "/temporaries");
    files_ = std::make_unique<HostFiles>(
        workers_,
        std::make_shared<const os::Beneath>(os::open_directory(small_ + "/work").value(), small_ + "/work"),
        small_ + "/temporaries");
  }
  const std::string small_ = directory_ / "small";
  const test::Mounted mounted_{small_};
};

TEST_F(HostFilesOnTmpfsTest, S71_AFullDiskIsTypedAndLeavesTheOldFile) {
  if (!mounted_.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  put("file", "old");
  {
    const auto out = writer("file");
    const Failure full = failure_of([&] { test::run(context_, out->write(std::string(2 << 20, 'x'))); });
    EXPECT_EQ(full.code, ErrorCode::internal);
    EXPECT_THAT(full.message, HasSubstr("space"));
    EXPECT_EQ(failure_of([&] { test::run(context_, out->commit()); }).message, full.message)
        << "what has a hole in it is never committed";
  }
  EXPECT_EQ(get("file"), "old");
  EXPECT_TRUE(test::eventually([this] { return entries_in(small_ + "/temporaries") == 0; }));
  put("file", std::string(500000, 'x'));
  EXPECT_EQ(get("file").size(), 500000U) << "the control: what fits is written";
}

TEST_F(HostFilesOnTmpfsTest, AReadOnlyDiskIsTyped) {
  if (!mounted_.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  put("file", "text");
  ASSERT_TRUE(test::eventually([this] { return mounted_.set_read_only(true); }));
  const Failure failure = failure_of([&] { put("file", "new"); });
  EXPECT_EQ(failure.code, ErrorCode::internal);
  EXPECT_THAT(failure.message, HasSubstr("read-only"));
  EXPECT_EQ(get("file"), "text");
}

TEST_F(HostFilesTest, S71_ReplacesAtomicallyOnAMountBeneathTheWorkspace) {
  const test::Mounted mounted(work_ + "/mount");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  put("mount/new", "one");
  EXPECT_EQ(host_text(work_ + "/mount/new"), "one");
  EXPECT_EQ(mode_of(work_ + "/mount/new"), 0644U);
  ASSERT_EQ(::chmod((work_ + "/mount/new").c_str(), 0711), 0);
  const std::string old(60000, 'o');
  const std::string other(70000, 'p');
  put("mount/new", old);
  EXPECT_EQ(mode_of(work_ + "/mount/new"), 0711U);
  std::atomic<bool> stop = false;
  std::atomic<int> torn = 0;
  std::thread looker([&] {
    while (!stop) {
      const std::string text = host_text(work_ + "/mount/new");
      if (text != old && text != other) ++torn;
    }
  });
  for (int round = 0; round < 200; ++round) put("mount/new", round % 2 == 0 ? other : old);
  stop = true;
  looker.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(entries_in(work_ + "/mount"), 1U) << "no hidden name stays";
  expect_nothing_temporary();
  EXPECT_EQ(failure_of([&] { put("mount/full", std::string(3 << 20, 'x')); }).code, ErrorCode::internal);
  EXPECT_EQ(entries_in(work_ + "/mount"), 1U);
  expect_nothing_temporary();
}

TEST(FileErrors, SayWhatToDo) {
  for (const auto& [number, code] :
       {std::pair(EDQUOT, ErrorCode::internal), std::pair(EACCES, ErrorCode::internal),
        std::pair(EPERM, ErrorCode::internal), std::pair(EMFILE, ErrorCode::internal),
        std::pair(EFBIG, ErrorCode::too_large), std::pair(EAGAIN, ErrorCode::path_changed),
        std::pair(EIO, ErrorCode::internal)}) {
    for (const FileOperation doing : {FileOperation::read, FileOperation::write}) {
      const Failure failure = failure_of([&] { fail_file(doing, "a/path", os::error_of(number)); });
      EXPECT_EQ(failure.code, code) << number;
      EXPECT_THAT(failure.message, HasSubstr("a/path"));
    }
  }
}

// The directory that a descriptor stands for.
std::string reached(const os::Result<os::Fd>& fd) {
  if (!fd) return "error " + std::to_string(fd.error().value());
  return fs::read_symlink("/proc/self/fd/" + std::to_string(fd->number()));
}

TEST_F(HostFilesTest, S42_ResolvesAWorkingDirectory) {
  const os::Beneath workspace(os::open_directory(work_).value(), work_);
  fs::create_symlink("dir", work_ + "/inside");
  fs::create_symlink(outside_, work_ + "/out");
  host_put(work_ + "/file", "");
  EXPECT_EQ(reached(resolve_cwd(workspace, "")), work_);
  EXPECT_EQ(reached(resolve_cwd(workspace, ".")), work_);
  EXPECT_EQ(reached(resolve_cwd(workspace, "dir")), work_ + "/dir");
  EXPECT_EQ(reached(resolve_cwd(workspace, "inside")), work_ + "/dir");
  EXPECT_EQ(reached(resolve_cwd(workspace, outside_)), outside_) << "absolute is as given";
  EXPECT_EQ(reached(resolve_cwd(workspace, work_ + "/out")), outside_) << "and resolved as the kernel does";
  for (const auto& [cwd, error] : {std::pair<std::string, int>("out", EXDEV),
                                   {"..", EXDEV},
                                   {"nowhere", ENOENT},
                                   {"/nowhere", ENOENT},
                                   {"file", ENOTDIR},
                                   {std::string("d\0r", 3), EINVAL}}) {
    EXPECT_EQ(resolve_cwd(workspace, cwd).error().value(), error) << cwd;
  }
}

}  // namespace
}  // namespace caisson::kit
