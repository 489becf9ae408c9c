// Directory-relative file calls, and who this process is.
#include "os/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "os/beneath.h"
#include "os/clock.h"
#include "os/directory_users.h"
#include "os/identity.h"
#include "tests/support/eventually.h"
#include "tests/support/faults.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

class FilesTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
  }
  std::string text_of(const std::string& name) const { return read_file_at(at_, name, 1 << 20).value(); }
  unsigned mode_of(const std::string& name) const { return status_at(at_, name).value().st_mode & 07777; }

  test::TemporaryDirectory directory_;
  const Fd at_ = open_directory(directory_.path()).value();
};

TEST_F(FilesTest, DirectoriesGetTheirModeWhateverTheUmask) {
  const mode_t before = ::umask(0277);
  const Result<void> made = make_directory_at(at_, "a", 0750);
  const Result<Fd> ensured = ensure_directory_at(at_, "b", 0755);
  ::umask(before);
  ASSERT_TRUE(made);
  ASSERT_TRUE(ensured);
  EXPECT_EQ(mode_of("a"), 0750U);
  EXPECT_EQ(mode_of("b"), 0755U);
  EXPECT_EQ(make_directory_at(at_, "a", 0755).error().value(), EEXIST);
  EXPECT_TRUE(ensure_directory_at(at_, "a", 0755));
  EXPECT_EQ(mode_of("a"), 0750U) << "what is there keeps its own";
}

TEST_F(FilesTest, OwnersAreSetOfWhatIsOpen) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  put("file", "text");
  fs::create_symlink("file", directory_ / "link");
  const Result<Fd> link = open_at(at_, "link", O_PATH);
  ASSERT_TRUE(link && set_owner(*link, 7, 8));
  EXPECT_EQ(status_at(at_, "link").value().st_uid, 7U);
  EXPECT_EQ(status_at(at_, "link").value().st_gid, 8U);
  EXPECT_EQ(status_at(at_, "file").value().st_uid, 0U) << "never what a link leads to";
  EXPECT_EQ(set_owner({}, 7, 8).error().value(), EBADF);
}

TEST_F(FilesTest, SizesAreSetAndFileSystemsTold) {
  const Result<Fd> file = make_unnamed_file(at_, 0600);
  ASSERT_TRUE(file && set_size(*file, 1 << 20));
  EXPECT_EQ(status(*file).value().st_size, 1 << 20);
  EXPECT_EQ(file_system_type(open_directory("/proc").value()).value(), std::uint64_t{PROC_SUPER_MAGIC});
  EXPECT_NE(file_system_type(at_).value(), std::uint64_t{PROC_SUPER_MAGIC});
  EXPECT_EQ(file_system_type({}).error().value(), EBADF);
}

TEST_F(FilesTest, NoNameIsFollowed) {
  put("file", "text");
  fs::create_symlink("file", directory_ / "link");
  fs::create_directory_symlink(".", directory_ / "directory");
  EXPECT_EQ(open_at(at_, "link", O_RDONLY).error().value(), ELOOP);
  EXPECT_EQ(ensure_directory_at(at_, "directory", 0755).error().value(), ENOTDIR);
  EXPECT_TRUE(S_ISLNK(status_at(at_, "link").value().st_mode));
  EXPECT_EQ(read_link_at(at_, "link").value(), "file");
  EXPECT_EQ(read_link_at(at_, "file").error().value(), EINVAL);
  EXPECT_TRUE(unlink_at(at_, "link"));
  EXPECT_TRUE(unlink_at(at_, "link")) << "what is gone is gone";
  EXPECT_EQ(text_of("file"), "text");
  EXPECT_EQ(unlink_at(at_, "directory/..").error().value(), EISDIR);
}

TEST_F(FilesTest, AnUnnamedFileIsSeenOnceItIsNamed) {
  const Result<Fd> file = make_unnamed_file(at_, 0600);
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_TRUE(write_all(*file, "text"));
  EXPECT_TRUE(names_in(at_).value().empty());
  ASSERT_TRUE(link_unnamed_file(*file, at_, "name"));
  EXPECT_EQ(text_of("name"), "text");
  EXPECT_EQ(link_unnamed_file(*file, at_, "name").error().value(), EEXIST);
}

TEST_F(FilesTest, CopiesAndReadsWhole) {
  std::string large(3 << 20, 'x');
  large += "end";
  put("from", large);
  const Fd from = open_at(at_, "from", O_RDONLY).value();
  const Fd to = open_at(at_, "to", O_RDWR | O_CREAT, 0600).value();
  ASSERT_TRUE(copy_contents(from, to));
  EXPECT_EQ(read_file_at(at_, "to", large.size()).value(), large);
  EXPECT_EQ(read_file_at(at_, "to", large.size() - 1).error().value(), EFBIG);
  char end[3] = {};
  EXPECT_EQ(read_at(to, end, 3, large.size() - 3).value(), 3U);
  EXPECT_EQ(std::string(end, 3), "end");
}

TEST_F(FilesTest, ListsNamesOfAnyBytes) {
  const std::string strange = "\xff\n -";
  put(strange, "");
  put(".hidden", "");
  fs::create_directory(directory_ / "d");
  EXPECT_THAT(names_in(at_).value(), UnorderedElementsAre(strange, ".hidden", "d"));
  EXPECT_EQ(remove_directory_at(at_, strange).error().value(), ENOTDIR);
  put("d/x", "");
  EXPECT_EQ(remove_directory_at(at_, "d").error().value(), ENOTEMPTY);
  EXPECT_TRUE(unlink_at(at_, "d/x"));
  EXPECT_TRUE(remove_directory_at(at_, "d"));
  EXPECT_TRUE(remove_directory_at(at_, "d"));
}

TEST_F(FilesTest, FindsARealDirectoryAndMakesWhatIsMissing) {
  const mode_t before = ::umask(0077);
  EXPECT_EQ(real_directory(directory_ / "a//b/./c/", 0755).value(), directory_ / "a/b/c");
  ::umask(before);
  EXPECT_EQ(mode_of("a"), 0755U);
  fs::create_directory_symlink("a/b", directory_ / "link");
  EXPECT_EQ(real_directory(directory_ / "link/d", 0755).value(), directory_ / "a/b/d");
  EXPECT_EQ(real_directory(directory_ / "link/..", 0755).value(), directory_ / "a");
  EXPECT_EQ(real_directory("/", 0755).value(), "/");
  put("file", "");
  fs::create_symlink("nowhere", directory_ / "dangling");
  EXPECT_EQ(real_directory(directory_ / "file", 0755).error().value(), ENOTDIR);
  EXPECT_EQ(real_directory(directory_ / "dangling", 0755).error().value(), ENOENT);
  EXPECT_EQ(real_directory("a", 0755).error().value(), EINVAL);
}

TEST(IdentityTest, TellsThisProcessFromItsChild) {
  const ProcessIdentity mine = own_identity();
  EXPECT_EQ(mine.pid, ::getpid());
  EXPECT_GT(mine.start_time, 0U);
  EXPECT_EQ(mine.boot_id, boot_id());
  EXPECT_EQ(own_identity().start_time, mine.start_time);
  // As ps(1) has it: seconds since boot times the clock's ticks, and it started before now.
  EXPECT_LE(mine.start_time, static_cast<std::uint64_t>(std::chrono::duration<double>(boottime()).count() *
                                                        static_cast<double>(::sysconf(_SC_CLK_TCK))));
}

TEST_F(FilesTest, S72_FilesThatTheKernelMakesUpAreToldFromOthers) {
  put("file", "");
  EXPECT_FALSE(is_made_up_by_kernel(open_at(at_, "file", O_RDONLY).value()).value());
  for (const char* path : {"/proc/self/status", "/sys/kernel/uevent_seqnum"}) {
    const Fd file = Fd::adopt(::open(path, O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file) << path;
    EXPECT_TRUE(S_ISREG(status(file)->st_mode)) << path;
    EXPECT_TRUE(is_made_up_by_kernel(file).value()) << path;
  }
  EXPECT_EQ(is_made_up_by_kernel({}).error(), error_of(EBADF));
}

TEST_F(FilesTest, FindsOutWhichDirectoriesAreUsed) {
  for (const char* name : {"idle", "used", "named-alike"}) fs::create_directories(directory_ / name);
  put("used/file", "");
  put("idle used", "");
  const Fd file = open_at(at_, "used/file", O_RDONLY).value();
  const Fd alike = open_at(at_, "idle used", O_RDONLY).value();
  {
    const test::Faults faults({test::error_at("users.process", EMFILE)});
    EXPECT_TRUE(directory_users(at_, {"idle"}).not_inspected);
  }
  const DirectoryUsers users = directory_users(at_, {"idle", "used", "named"});
  EXPECT_THAT(users.used, UnorderedElementsAre("used"));
  const Fd held = open_at(at_, "idle", O_PATH).value();
  EXPECT_THAT(directory_users(at_, {"idle", "used"}).used, UnorderedElementsAre("idle", "used"));
}

}  // namespace
}  // namespace caisson::os
