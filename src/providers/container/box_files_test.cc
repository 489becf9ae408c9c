// Files of a box, with the real caisson-init and with ones that lie (S-70 to S-73, S-102).
#include "providers/container/box_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "os/files.h"
#include "providers/container/box_bed_test.h"
#include "providers/container/lying_init_test.h"
#include "tests/support/eventually.h"

namespace caisson::container {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class BoxFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
  }
  std::string failure_to_read(const std::shared_ptr<ContainerBox>& box, const std::string& path) {
    return failure_of([&] { bed_.read(box, path); });
  }
  std::string failure_to_write(const std::shared_ptr<ContainerBox>& box, const std::string& path,
                               FileMode mode = {}) {
    return failure_of([&] { bed_.put(box, path, "x", mode); });
  }
  std::string out_of(const std::shared_ptr<ContainerBox>& box, const std::string& script) {
    const Ran ran = bed_.run(box, script);
    return ran.out + ran.err;
  }
  BoxBed bed_;
};

TEST_F(BoxFilesTest, S70_FilesAreTheBoxesOwn) {
  const auto box = bed_.make();
  bed_.put(box, "sub/dir/file", "from outside");
  EXPECT_EQ(out_of(box, "cat sub/dir/file; stat -c '%a %u' sub/dir/file sub"), "from outside644 0\n755 0\n");
  EXPECT_EQ(bed_.read(box, "sub/dir/file"), "from outside");
  EXPECT_EQ(bed_.read(box, "/workspace/sub/dir/file"), "from outside");
  bed_.put(box, "/tmp/x", "the box's");
  EXPECT_EQ(out_of(box, "cat /tmp/x"), "the box's");
  EXPECT_NE(::access("/tmp/x", F_OK), 0);
  EXPECT_THAT(bed_.read(box, "/etc/hostname"), StartsWith("box\n"));
  EXPECT_THAT(failure_to_read(box, "/etc/shadow"), StartsWith("file_missing "));
}

TEST_F(BoxFilesTest, S70_WhatLeadsOutOfTheWorkspaceIsRefused) {
  const auto box = bed_.make();
  out_of(box, "ln -s /etc out; ln -s /workspace/real in; ln -s ../../etc/passwd up; echo r > real");
  EXPECT_EQ(bed_.read(box, "in"), "r\n");
  for (const char* path : {"../etc/passwd", "out/passwd", "up"})
    EXPECT_THAT(failure_to_read(box, path), StartsWith("path_escapes ")) << path;
  for (const char* path : {"../tmp/x", "out/x", "up"})
    EXPECT_THAT(failure_to_write(box, path), StartsWith("path_escapes ")) << path;
}

TEST_F(BoxFilesTest, S71_AReplacementIsWholeAndKeepsTheMode) {
  const auto box = bed_.make();
  out_of(box, "echo old > file; chmod 750 file; ln -s file link");
  bed_.put(box, "link", "new");
  EXPECT_EQ(out_of(box, "cat file; stat -c ' %a' file; readlink link; ls -A"), "new 750\nfile\nfile\nlink\n");
  bed_.put(box, "file", "#!/bin/sh\necho ran", 0755U);
  EXPECT_EQ(bed_.run(box, plan_of({"/workspace/file"})).out, "ran\n");
  EXPECT_THAT(failure_to_write(box, "file", 010000U), StartsWith("invalid_argument mode"));
}

TEST_F(BoxFilesTest, S71_WhatIsNotCommittedIsNotThere) {
  const auto box = bed_.make();
  {
    const auto writer = bed_.get(box->open_writer("file", {}));
    bed_.get(writer->write("half"));
    EXPECT_EQ(out_of(box, "ls -A"), "");
  }
  EXPECT_TRUE(test::eventually([&] { return out_of(box, "ls -A") == ""; }));
  const auto writer = bed_.get(box->open_writer("file", {}));
  bed_.get(writer->write("whole "));
  bed_.get(writer->write("file"));
  bed_.get(writer->commit());
  EXPECT_EQ(out_of(box, "cat file"), "whole file");
  EXPECT_THAT(failure_of([&] { bed_.get(writer->write("more")); }), HasSubstr("already committed"));
  EXPECT_THAT(failure_of([&] { bed_.get(writer->commit()); }), HasSubstr("already committed"));
}

TEST_F(BoxFilesTest, S72_OnlyRegularFiles) {
  const auto box = bed_.make();
  out_of(box, "mkdir dir; mkfifo fifo");
  for (const char* path : {"dir", "fifo", "/dev/null", "/dev/tty", ".", "/"}) {
    EXPECT_THAT(failure_to_read(box, path), StartsWith("not_a_regular_file ")) << path;
    EXPECT_THAT(failure_to_write(box, path), StartsWith("not_a_regular_file ")) << path;
  }
  EXPECT_THAT(failure_to_read(box, "none"), AllOf(StartsWith("file_missing "), HasSubstr("miss")));
  EXPECT_THAT(failure_to_read(box, ""), StartsWith("invalid_argument path"));
  EXPECT_THAT(failure_to_write(box, std::string("a\0b", 3)), StartsWith("invalid_argument path"));
  EXPECT_THAT(failure_to_write(box, std::string(5000, 'x')), StartsWith("invalid_argument path"));
}

// What the kernel makes up as it is read would be made up for this process, not for the box.
TEST_F(BoxFilesTest, S102_FilesOfTheKernelAreNone) {
  const auto box = bed_.make();
  EXPECT_EQ(out_of(box, "test -f /proc/sys/kernel/hostname && cat /proc/sys/kernel/hostname"), "box\n");
  for (const char* path : {"/proc/sys/kernel/hostname", "/proc/self/environ", "/proc/uptime"})
    EXPECT_THAT(failure_to_read(box, path), StartsWith("not_a_regular_file ")) << path;
}

TEST_F(BoxFilesTest, S72_CapsAndStreams) {
  const auto box = bed_.make();
  out_of(box, "head -c 100 /dev/zero > file");
  EXPECT_EQ(bed_.get(box->get_file("file", 100)).size(), 100U);
  EXPECT_THAT(failure_of([&] { bed_.get(box->get_file("file", 99)); }), StartsWith("too_large "));
  const auto reader = bed_.get(box->open_reader("file"));
  EXPECT_EQ(reader->size(), 100U);
  EXPECT_EQ(bed_.get(reader->read(60)).size(), 60U);
  out_of(box, "rm file; echo other > file");
  EXPECT_EQ(bed_.get(reader->read(60)).size(), 40U);
  EXPECT_EQ(bed_.get(reader->read(60)).size(), 0U);
}

TEST_F(BoxFilesTest, S101_AFullWorkspaceIsSaid) {
  const auto box = bed_.make();
  const std::string most(7 << 20, 'x');
  bed_.put(box, "file", most);
  EXPECT_THAT(failure_of([&] { bed_.put(box, "more", most); }), HasSubstr("no space is left"));
  EXPECT_EQ(out_of(box, "ls -A"), "file\n");
  bed_.put(box, "small", "x");
}

TEST_F(BoxFilesTest, S26_FilesEndWithTheirBox) {
  auto box = bed_.make();
  bed_.put(box, "file", "x");
  const auto reader = bed_.get(box->open_reader("file"));
  const auto writer = bed_.get(box->open_writer("other", {}));
  box->end_processes();
  EXPECT_TRUE(box->process()->wait_ended(std::chrono::seconds(10)));
  EXPECT_THAT(failure_to_read(box, "file"), StartsWith("unavailable : file 'file' cannot be reached"));
  EXPECT_THAT(failure_of([&] { bed_.get(writer->commit()); }), StartsWith("unavailable "));
  box.reset();
  EXPECT_THAT(failure_of([&] { bed_.get(reader->read(1)); }), StartsWith("session_destroyed "));
  EXPECT_THAT(failure_of([&] { bed_.get(writer->write("x")); }), StartsWith("session_destroyed "));
}

class LyingFilesTest : public LyingInitTest {
 protected:
  // What comes of a read when init passes that descriptor, and of a write.
  std::string outcome_of_reading(os::FdRef passed) {
    FakeInit fake([&](FakeInit& init) {
      greet(init);
      init.say(init.expect<init::OpenFile>().number, init::Opened{4, 0644}, {passed});
      init.drain();
    });
    const auto box = connect(fake);
    return failure_of([&] { read_ = bed_.read(box, "file"); });
  }
  std::string outcome_of_writing(os::FdRef passed) {
    std::atomic<bool> heard = false;
    FakeInit fake([&](FakeInit& init) {
      greet(init);
      init.say(init.expect<init::BeginPut>().number, init::PutOpened{1}, {passed});
      const auto next = init.next();
      aborted_ = next && std::holds_alternative<init::AbortPut>(next->request);
      heard = true;
      if (next) init.say(next->number, init::Done());
      init.drain();
    });
    const auto box = connect(fake);
    const std::string outcome = failure_of([&] { bed_.put(box, "file", "data"); });
    // What it is told when the call has ended already.
    EXPECT_TRUE(test::eventually([&] { return heard.load(); }));
    return outcome;
  }
  std::string read_;
  bool aborted_ = false;
};

TEST_F(LyingFilesTest, S102_OnlyWhatFstatSaysOfAFileIsBelieved) {
  const os::Fd file = os::Fd::adopt(::memfd_create("file", MFD_CLOEXEC));
  ASSERT_TRUE(os::write_all(file, "more than it said"));
  EXPECT_EQ(outcome_of_reading(file), "it succeeded");
  EXPECT_EQ(read_, "more than it said");

  const auto pipe = os::make_pipe().value();
  const os::Fd directory = os::Fd::adopt(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const os::Fd path = os::Fd::adopt(::open("/etc/passwd", O_PATH | O_CLOEXEC));
  const os::Fd device = os::Fd::adopt(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const os::Fd made_up = os::Fd::adopt(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const os::Fd socket = os::Fd::adopt(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const os::FdRef fd : {os::FdRef(pipe.read), os::FdRef(directory), os::FdRef(device),
                             os::FdRef(made_up), os::FdRef(socket)}) {
    EXPECT_THAT(outcome_of_reading(fd), StartsWith("not_a_regular_file "));
  }
  EXPECT_THAT(outcome_of_reading(path), StartsWith("internal ")) << "it cannot be read";
}

TEST_F(LyingFilesTest, S102_OnlyIntoARegularFileIsWritten) {
  const os::Fd file = os::Fd::adopt(::memfd_create("file", MFD_CLOEXEC));
  outcome_of_writing(file);
  EXPECT_EQ(os::status(file)->st_size, 4);
  EXPECT_FALSE(aborted_);
  const auto pipe = os::make_pipe().value();
  EXPECT_THAT(outcome_of_writing(pipe.write), StartsWith("not_a_regular_file "));
  EXPECT_TRUE(aborted_);
  EXPECT_EQ(os::readable_bytes(pipe.read).value(), 0U);
}

}  // namespace
}  // namespace caisson::container
