// Tests of files opened and replaced in a box, by the library itself.
#include "init/file_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "init/in_box_test.h"
#include "init/user_rights.h"
#include "os/files.h"

namespace caisson::init {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
    plan_.ids = {65535, 65535};
    plan_.user = {1000, 1000, {}, "/workspace", "user"};
    plan_.directories = {
        {"/workspace", 0755, 1000, 1000}, {"/run/secret", 0700, 3, 3}, {"/run/open", 0755, 3, 3}};
    plan_.files.push_back({"/run/secret/f", 0644, "secret"});
    plan_.files.push_back({"/run/open/f", 0644, "open"});
    plan_.files.push_back({"/run/open/closed", 0600, "closed"});
    plan_.symlinks.push_back({"/workspace/sub", "/workspace/in"});
    plan_.symlinks.push_back({"/run/open", "/workspace/out"});
    plan_.symlinks.push_back({"/proc/self/fd/0", "/workspace/magic"});
  }
  BoxPlan plan_ = host_plan();
};

std::string open_in(FileServer& server, const std::string& path, const std::string& directory = "") {
  const auto opened = server.open({path, directory});
  return opened ? os::read_all(opened->file, 1000).value() : in_words(opened.error());
}

std::string put_in(FileServer& server, const std::string& path, const std::string& text,
                   std::optional<std::uint32_t> mode = {}) {
  auto put = server.begin({path, mode});
  if (!put) return in_words(put.error());
  if (!os::write_all(put->file, text)) return "write";
  const auto done = server.commit({put->opened.put});
  return done ? "fine" : in_words(done.error());
}

std::string mode_of(const std::string& path) {
  struct stat is{};
  if (::stat(path.c_str(), &is) != 0) return "none";
  char text[16];
  std::snprintf(text, sizeof text, "%o %u", is.st_mode & 07777U, is.st_uid);
  return text;
}

// In this order: the operands of a sum have none.
template <class... Actions>
std::string one_by_one(Actions... actions) {
  std::string text;
  ((text += actions() + ";"), ...);
  return text;
}

std::string failed(Step step, int number, const std::string& detail) {
  return in_words(failure(step, number, detail));
}

// The workspace is made by init, and so is what the tests put into it by hand.
void write_as_user(const Box& box, const std::string& path, const std::string& text) {
  FileServer server(box);
  put_in(server, path, text);
}

TEST_F(FileServerTest, S70_PathsAreTheBoxesAndTheRightsTheUsers) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     FileServer server(box);
                     write_as_user(box, "sub/f", "text");
                     return open_in(server, "sub/f") + ";" + open_in(server, "/workspace/sub/f") + ";" +
                            open_in(server, "in/f") + ";" + open_in(server, "f", "/workspace/sub") + ";" +
                            open_in(server, "/run/open/f") + ";" + open_in(server, "/workspace/out/f");
                   }),
            "text;text;text;text;open;open");
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     FileServer server(box);
                     return open_in(server, "/run/secret/f") + open_in(server, "/run/open/closed") +
                            open_in(server, "out/f") + open_in(server, "../run/open/f") +
                            open_in(server, "none") + open_in(server, "magic") +
                            open_in(server, "/proc/self/cwd/run/open/f");
                   }),
            failed(Step::open, EACCES, "/run/secret/f") + failed(Step::open, EACCES, "/run/open/closed") +
                failed(Step::open, EXDEV, "out/f") + failed(Step::open, EXDEV, "../run/open/f") +
                failed(Step::open, ENOENT, "none") + failed(Step::open, EXDEV, "magic") +
                failed(Step::open, ELOOP, "/proc/self/cwd/run/open/f"));
}

TEST_F(FileServerTest, S72_OnlyRegularFilesAreOpened) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     FileServer server(box);
                     ::mkfifo("/tmp/fifo", 0666);
                     return open_in(server, "/tmp") + open_in(server, "/tmp/fifo") +
                            open_in(server, "/dev/zero") + put_in(server, "/tmp", "x") +
                            put_in(server, "/tmp/fifo", "x") + put_in(server, "/tmp/new/", "x");
                   }),
            failed(Step::open, EISDIR, "/tmp") + failed(Step::open, ENXIO, "/tmp/fifo") +
                failed(Step::open, ENXIO, "/dev/zero") + failed(Step::create, EISDIR, "/tmp") +
                failed(Step::create, ENXIO, "/tmp/fifo") + failed(Step::create, EISDIR, "/tmp/new/"));
}

TEST_F(FileServerTest, S71_PutMakesParentsKeepsModesAndReplacesAtOnce) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     FileServer server(box);
                     const auto look = [] { return mode_of("/workspace/a/b/f"); };
                     std::string text =
                         one_by_one([&] { return put_in(server, "a/b/f", "one"); }, look,
                                    [] { return mode_of("/workspace/a/b"); },
                                    [&] { return put_in(server, "a/b/f", "two", 0755); }, look);
                     // A reader that has the old file keeps it, whole.
                     const auto old = server.open({"a/b/f", ""});
                     text += one_by_one([&] { return put_in(server, "a/b/f", "three"); }, look,
                                        [&] { return os::read_all(old->file, 100).value(); },
                                        [&] { return open_in(server, "a/b/f"); });
                     text += std::to_string(std::distance(fs::directory_iterator("/workspace/a/b"), {}));
                     return text;
                   }),
            "fine;644 1000;755 1000;fine;755 1000;fine;755 1000;two;three;1");
}

TEST_F(FileServerTest, S71_FinalLinkIsFollowedInside) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     FileServer server(box);
                     write_as_user(box, "sub/target", "old");
                     {
                       const auto rights = UserRights::take(box);
                       ::symlink("sub/target", "/workspace/link");
                       ::symlink("/run/open/f", "/workspace/away");
                     }
                     return one_by_one([&] { return put_in(server, "link", "new"); },
                                       [&] { return open_in(server, "sub/target"); },
                                       [&] { return put_in(server, "away", "new"); },
                                       [&] { return put_in(server, "/run/open/f", "x"); });
                   }),
            "fine;new;" + failed(Step::create, EXDEV, "away") + ";" +
                failed(Step::create, EACCES, "/run/open/f") + ";");
}

TEST_F(FileServerTest, WhatIsNotCommittedLeavesNothing) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     std::string text;
                     FileServer server(box);
                     const auto one = server.begin({"f", {}});
                     text += std::to_string(server.abort({one->opened.put}).has_value());
                     text += std::to_string(server.commit({one->opened.put}).has_value());
                     {
                       const auto two = FileServer(box).begin({"f", {}});
                     }
                     text += open_in(server, "f");
                     for (const auto& entry : fs::directory_iterator("/workspace")) {
                       if (!entry.is_symlink()) text += entry.path().string();
                     }
                     return text;
                   }),
            "10" + failed(Step::open, ENOENT, "f"));
}

// A layer's upper on a file system without O_TMPFILE is rare; the name beside the target is what the kernel's
// answer leads to, and where nothing can be made that is told.
TEST_F(FileServerTest, WhatCannotBeMadeIsTold) {
  plan_.mounts.emplace_back(Tmpfs{"/workspace/small", 4096, 2, 0777, {}});
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     FileServer server(box);
                     return put_in(server, "/usr/f", "x") + put_in(server, "small/d/e", "x") +
                            put_in(server, "/etc/passwd", "x");
                   }),
            failed(Step::create, EROFS, "/usr/f") + failed(Step::create, ENOSPC, "small/d/e") +
                failed(Step::create, EROFS, "/etc/passwd"));
}

}  // namespace
}  // namespace caisson::init
