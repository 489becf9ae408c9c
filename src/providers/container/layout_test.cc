// The provider's directories: made, and refused where others have a hand in them.
#include "providers/container/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/self.h"
#include "tests/support/faults.h"
#include "tests/support/mounted.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using test::code_of_call;
using test::entries_of;
using test::error_of_call;
using test::mode_of;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LayoutTest : public testing::Test {
 protected:
  Layout open() const { return Layout::open(root_, runtime_); }
  // The error's message; empty when it is not the one for a directory.
  static std::string refusal(const std::string& root, const std::string& runtime) {
    const auto error = error_of_call([&] { static_cast<void>(Layout::open(root, runtime)); });
    return error && error->code() == ErrorCode::root_unusable ? error->what() : "";
  }

  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
  const std::string runtime_ = directory_ / "run";
};

TEST_F(LayoutTest, MakesWhatIsMissingAndLeavesNoProbe) {
  const mode_t before = ::umask(0077);
  const Layout layout = Layout::open(directory_ / "a/root", directory_ / "b/run//");
  ::umask(before);
  EXPECT_EQ(layout.root, directory_ / "a/root");
  EXPECT_EQ(layout.runtime_directory, directory_ / "b/run");
  EXPECT_EQ(mode_of(directory_ / "a"), 0755U);
  EXPECT_EQ(mode_of(layout.root), 0755U);
  EXPECT_EQ(mode_of(layout.runtime_directory), os::is_root() ? 0755U : 0700U);
  for (const char* path : {"a/root/volumes", "a/root/volumes/.keys", "a/root/ids", "b/run/sessions"})
    EXPECT_EQ(mode_of(directory_ / path), 0700U) << path;
  EXPECT_THAT(entries_of(layout.root), ElementsAre("ids", "volumes"));
  EXPECT_THAT(entries_of(layout.root + "/volumes"), ElementsAre(".keys"));
  for (const char* path : {"a/root/volumes/.keys", "a/root/ids", "b/run/sessions"})
    EXPECT_THAT(entries_of(directory_ / path), IsEmpty()) << path;
  EXPECT_NO_THROW(Layout::open(layout.root, layout.runtime_directory)) << "what is there is opened";
}

TEST_F(LayoutTest, S102_ARuntimeDirectoryOfOthersIsRefused) {
  const Layout layout = open();
  ASSERT_NO_THROW(open()) << "the control";
  fs::create_directory_symlink(runtime_, directory_ / "link");
  EXPECT_THAT(refusal(root_, directory_ / "link"), HasSubstr("/link\"")) << "it may lead anywhere later";
  EXPECT_NO_THROW(Layout::open(directory_ / "link/../root", directory_ / "link/below"))
      << "the control: parents are resolved, once";
  for (const std::string& shared : {root_, runtime_, runtime_ + "/sessions", root_ + "/volumes",
                                    root_ + "/volumes/.keys", root_ + "/ids"}) {
    const auto before = fs::status(shared).permissions();
    fs::permissions(shared, fs::perms::group_write, fs::perm_options::add);
    EXPECT_THAT(refusal(root_, runtime_), HasSubstr("others may write")) << shared;
    fs::permissions(shared, before);
    if (!os::is_root()) continue;
    ASSERT_EQ(::chown(shared.c_str(), 65534, 65534), 0);
    EXPECT_THAT(refusal(root_, runtime_), HasSubstr("another user")) << shared;
    ASSERT_EQ(::chown(shared.c_str(), 0, 0), 0);
  }
  EXPECT_NO_THROW(open()) << "the control: as they were";
}

TEST_F(LayoutTest, AnUnusableDirectoryIsTypedAndNamed) {
  put(directory_ / "file", "");
  fs::create_symlink("nowhere/at/all", directory_ / "dangling");
  fs::create_directory(directory_ / "taken");
  fs::create_directory_symlink("/", directory_ / "taken/volumes");
  for (const std::string& path : {directory_ / "file", directory_ / "file/below", directory_ / "dangling",
                                  std::string("relative/root"), std::string()}) {
    EXPECT_THAT(refusal(path, runtime_), HasSubstr('"' + path + '"'));
    EXPECT_THAT(refusal(root_, path), HasSubstr('"' + path + '"'));
  }
  EXPECT_THAT(refusal(directory_ / "taken", runtime_), HasSubstr("taken/volumes"));
  EXPECT_THAT(refusal(root_, "/"), HasSubstr("\"/\""));
  EXPECT_FALSE(fs::exists("relative"));
  EXPECT_NO_THROW(open()) << "the control";
}

TEST_F(LayoutTest, AReadOnlyOrFullOneIsTyped) {
  const test::Mounted mounted(root_, "size=1m,nr_inodes=12,mode=755");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_NO_THROW(open()) << "the control";
  ASSERT_TRUE(mounted.set_read_only(true));
  EXPECT_THAT(refusal(root_, runtime_), HasSubstr("Read-only"));
  ASSERT_TRUE(mounted.set_read_only(false));
  for (int i = 0; std::ofstream(root_ + "/" + std::to_string(i)); ++i) continue;
  EXPECT_THAT(refusal(root_, runtime_), HasSubstr("space"));
}

TEST_F(LayoutTest, AnErrorOnTheWayIsTyped) {
  for (const char* point : {"layout.open", "layout.probe"}) {
    const test::Faults faults({test::error_at(point, EIO)});
    EXPECT_THAT(refusal(root_, runtime_), HasSubstr("Input/output error")) << point;
  }
}

}  // namespace
}  // namespace caisson::container
