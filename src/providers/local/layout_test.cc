// The root on disk (S-92, S-93).
#include "providers/local/layout.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "os/clock.h"
#include "os/files.h"
#include "os/self.h"
#include "providers/local/marker.h"
#include "providers/local/root_for_test.h"

namespace caisson::local {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string an_id = "0123456789abcdef0123456789abcdef";

class LayoutTest : public testing::Test {
 protected:
  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
};

TEST_F(LayoutTest, S92_MakesAMissingRootAndItsParents) {
  const mode_t before = ::umask(0077);
  const std::string deep = directory_ / "a/b/root";
  const Layout layout = Layout::open(deep);
  ::umask(before);
  EXPECT_EQ(layout.root, deep);
  for (const char* path : {"a", "a/b", "a/b/root", "a/b/root/.tai-sandbox"}) {
    EXPECT_EQ(mode_of(directory_ / path), 0755U) << path;
  }
  EXPECT_EQ(mode_of(deep + "/.ephemeral"), 0700U);
  EXPECT_EQ(mode_of(deep + "/.tai-sandbox/.caisson"), 0700U);
  EXPECT_TRUE(traces_of_sessions(deep).empty()) << "what it tries it takes away";
}

TEST_F(LayoutTest, S92_ARootThatIsALinkIsResolvedOnce) {
  fs::create_directory(root_);
  fs::create_directory_symlink(root_, directory_ / "link");
  const Layout layout = Layout::open(directory_ / "link");
  EXPECT_EQ(layout.root, root_);
  fs::remove(directory_ / "link");
  fs::create_directory_symlink("/", directory_ / "link");
  replace_record(layout, an_id, layout.sidecars, "key.json", "{}");
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/key.json"));
}

TEST_F(LayoutTest, S93_AnUnusableRootIsTypedAndNamed) {
  put(directory_ / "file", "");
  fs::create_symlink("nowhere/at/all", directory_ / "dangling");
  fs::create_directory(directory_ / "taken");
  fs::create_directory_symlink("/", directory_ / "taken/.tai-sandbox");
  fs::create_directory(directory_ / "taken-too");
  put(directory_ / "taken-too/.ephemeral", "");
  for (const std::string& root :
       {directory_ / "file", directory_ / "file/below", directory_ / "dangling", directory_ / "taken",
        directory_ / "taken-too", std::string("relative/root"), std::string()}) {
    const auto error = error_of_call([&] { Layout::open(root); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::root_unusable) << root;
    EXPECT_THAT(error->what(), HasSubstr('"' + root + '"'));
  }
  EXPECT_FALSE(fs::exists("relative"));
  EXPECT_NO_THROW(Layout::open(root_)) << "the control";
}

TEST_F(LayoutTest, S93_AReadOnlyOrFullRootIsTyped) {
  const Mounted mounted(root_, "size=1m,nr_inodes=12");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_NO_THROW(Layout::open(root_)) << "the control";
  ASSERT_TRUE(mounted.set_read_only(true));
  EXPECT_EQ(code_of_call([&] { Layout::open(root_); }), ErrorCode::root_unusable);
  ASSERT_TRUE(mounted.set_read_only(false));
  for (int i = 0; std::ofstream(root_ + "/" + std::to_string(i)); ++i) continue;
  const auto full = error_of_call([&] { Layout::open(root_); });
  ASSERT_TRUE(full);
  EXPECT_EQ(full->code(), ErrorCode::root_unusable);
  EXPECT_THAT(full->what(), HasSubstr("space"));
}

TEST_F(LayoutTest, S93_ARootWithoutPermissionIsTyped) {
  if (os::is_root()) {
    // Root passes permission checks: tried as somebody else.
    fs::create_directory(root_);
    fs::permissions(directory_.path(), fs::perms(0711));
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
      try {
        Layout::open(root_);
      } catch (const SandboxError& error) {
        ::_exit(error.code() == ErrorCode::root_unusable ? 0 : 3);
      }
      ::_exit(1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  } else {
    fs::create_directory(root_);
    fs::permissions(root_, fs::perms(0555));
    EXPECT_EQ(code_of_call([&] { Layout::open(root_); }), ErrorCode::root_unusable);
  }
}

SandboxSessionSpec spec_of(const std::string& key) {
  SandboxSessionSpec spec;
  spec.image = "python:3.12";
  spec.workspace_key = key;
  spec.durability = Durability::persistent;
  spec.labels = {{"team", "a"}, {"tai42.sandbox", "1"}};
  return spec;
}

boost::json::object json_of(const std::string& path) {
  return boost::json::parse(text_of(path)).get_object();
}

TEST_F(LayoutTest, S92_WritesASidecar) {
  const Layout layout = Layout::open(root_);
  ensure_sidecar(layout, an_id, spec_of("key"), UtcTime(std::chrono::seconds(1767323045)));
  const auto sidecar = json_of(root_ + "/.tai-sandbox/key.json");
  EXPECT_EQ(sidecar.size(), 5U);
  EXPECT_EQ(sidecar.at("workspace_key"), "key");
  EXPECT_EQ(sidecar.at("durability"), "persistent");
  EXPECT_EQ(sidecar.at("image"), "python:3.12");
  EXPECT_EQ(sidecar.at("created_at"), "2026-01-02T03:04:05.000000Z");
  const boost::json::value labels = {{"tai42.sandbox", "1"}, {"team", "a"}};
  EXPECT_EQ(sidecar.at("labels"), labels);
  EXPECT_EQ(mode_of(root_ + "/.tai-sandbox/key.json"), 0644U);
  EXPECT_TRUE(traces_of_sessions(root_).empty());
}

TEST_F(LayoutTest, S92_AnothersSidecarStaysAsItIs) {
  const Layout layout = Layout::open(root_);
  // As the reference implementation writes it, and with fields of a later one.
  const std::string text =
      R"({"workspace_key": "key", "durability": "persistent", "created_at": "2025-05-06T07:08:09.123456+00:00", )"
      R"("image": "host", "labels": {"team": "b"}, "quota": {"disk": [1, 2]}})";
  put(root_ + "/.tai-sandbox/key.json", text);
  ensure_sidecar(layout, an_id, spec_of("key"), UtcTime());
  EXPECT_EQ(text_of(root_ + "/.tai-sandbox/key.json"), text);
}

TEST_F(LayoutTest, S92_AnIncompleteSidecarIsCompletedAndKeepsWhatItHas) {
  const Layout layout = Layout::open(root_);
  put(root_ + "/.tai-sandbox/key.json", R"({"created_at": "then", "later": {"a": null}})");
  ensure_sidecar(layout, an_id, spec_of("key"), UtcTime());
  const auto sidecar = json_of(root_ + "/.tai-sandbox/key.json");
  EXPECT_EQ(sidecar.at("created_at"), "then");
  EXPECT_EQ(sidecar.at("later"), boost::json::value({{"a", nullptr}}));
  EXPECT_EQ(sidecar.at("image"), "python:3.12");
  EXPECT_EQ(sidecar.size(), 6U);
}

// Numbers that no double holds are written back as they stood.
TEST_F(LayoutTest, S92_WhatASidecarHoldsStaysAsItWasWritten) {
  const Layout layout = Layout::open(root_);
  const std::string held = R"({"huge": 123e456789, "fraction": 0.1234567890123456789)";
  put(root_ + "/.tai-sandbox/key.json", held + "}");
  ensure_sidecar(layout, an_id, spec_of("key"), UtcTime());
  EXPECT_TRUE(text_of(root_ + "/.tai-sandbox/key.json").starts_with(held + ",\"workspace_key\":\"key\","));
  ensure_sidecar(layout, an_id, spec_of("key"), UtcTime());
  EXPECT_EQ(json_of(root_ + "/.tai-sandbox/key.json").size(), 7U);
  put(root_ + "/.tai-sandbox/key.json", "{ }");
  ensure_sidecar(layout, an_id, spec_of("key"), UtcTime());
  EXPECT_EQ(json_of(root_ + "/.tai-sandbox/key.json").size(), 5U);
}

TEST_F(LayoutTest, S92_ASidecarThatCannotBeReadIsTypedAndLeftAsItIs) {
  const Layout layout = Layout::open(root_);
  const std::string cut_short = R"({"created_at": "th)";
  put(root_ + "/.tai-sandbox/key.json", cut_short);
  try {
    ensure_sidecar(layout, an_id, spec_of("key"), UtcTime());
    FAIL();
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::workspace_conflict);
  }
  EXPECT_EQ(os::read_file_at(layout.sidecars, "key.json", 1000).value(), cut_short);
}

Marker a_marker() {
  Marker marker;
  marker.id = an_id;
  marker.workspace_key = "key";
  marker.durability = Durability::persistent;
  marker.workspace = "/root/key";
  marker.created_at = "2026-01-02T03:04:05.000000Z";
  marker.cgroup = "/sys/fs/cgroup/caisson/77-fedcba9876543210fedcba9876543210";
  marker.owner = {77, 123456789, os::boot_id()};
  return marker;
}

TEST_F(LayoutTest, MarkersComeBackAsWritten) {
  const Layout layout = Layout::open(root_);
  write_marker(layout, a_marker());
  const auto marker = read_marker(layout, an_id);
  ASSERT_TRUE(marker);
  EXPECT_EQ(marker->id, an_id);
  EXPECT_EQ(marker->workspace_key, "key");
  EXPECT_EQ(marker->durability, Durability::persistent);
  EXPECT_EQ(marker->workspace, "/root/key");
  EXPECT_EQ(marker->cgroup, a_marker().cgroup);
  EXPECT_EQ(marker->owner.pid, 77);
  EXPECT_EQ(marker->owner.start_time, 123456789U);
  EXPECT_EQ(marker->owner.boot_id, os::boot_id());
  for (const char* text : {"", "[]", "{", "{}", R"({"durability": "eternal"})", R"({"durability": 7})"}) {
    put(root_ + "/.tai-sandbox/.caisson/" + record_name(an_id), text);
    EXPECT_FALSE(read_marker(layout, an_id)) << text;
  }
}

}  // namespace
}  // namespace caisson::local
