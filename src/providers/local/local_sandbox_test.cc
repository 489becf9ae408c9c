// The local provider as a whole (S-90 to S-94): what is its own, beside what the conformance suite checks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <boost/json.hpp>

#include "caisson/providers/local.h"
#include "os/fd.h"
#include "providers/local/root_for_test.h"
#include "tests/support/async.h"
#include "tests/support/eventually.h"
#include "tests/support/faults.h"

namespace caisson::local {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SandboxSessionSpec spec_of(Durability durability, const std::string& key = "key") {
  SandboxSessionSpec spec;
  spec.image = "python:3.12";
  spec.workspace_key = key;
  spec.durability = durability;
  spec.network = Network::egress;
  spec.isolation = Isolation::none;
  spec.ttl_seconds = 60;
  return spec;
}

class LocalSandboxTest : public testing::Test {
 protected:
  std::shared_ptr<kit::ManagedSandbox> open(const std::string& root) {
    LocalOptions options;
    options.executor = context_.get_executor();
    options.settings.root = root;
    options.log = remembered_.log();
    auto sandbox = local::open(std::move(options));
    sandbox->bind_policy({Network::egress, Isolation::none, false, true});
    return sandbox;
  }
  std::shared_ptr<SandboxSession> create(const std::shared_ptr<kit::ManagedSandbox>& sandbox,
                                         Durability durability, const std::string& key = "key") {
    return test::run(context_, sandbox->create_session(spec_of(durability, key)));
  }
  void put_file(const std::shared_ptr<SandboxSession>& session, const std::string& path,
                const std::string& text) {
    test::run(context_, session->put_file(path, text));
  }
  std::string get_file(const std::shared_ptr<SandboxSession>& session, const std::string& path) {
    return test::run(context_, session->get_file(path));
  }
  ExecResult exec(const std::shared_ptr<SandboxSession>& session, const std::string& script) {
    return test::run(context_, session->exec(Argv{"sh", "-c", script}, ExecOptions(60s)));
  }
  void destroy(const std::shared_ptr<SandboxSession>& session) { test::run(context_, session->destroy()); }
  void release(const std::shared_ptr<SandboxSession>& session) { test::run(context_, session->release()); }
  std::optional<SandboxError> rejection_of(const std::function<void(SandboxSessionSpec&)>& change) {
    return error_of_call([&] {
      SandboxSessionSpec spec = spec_of(Durability::ephemeral);
      change(spec);
      const auto sandbox = open(root_);
      test::run(context_, sandbox->create_session(std::move(spec)));
    });
  }

  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
  Remembered remembered_;
  boost::asio::io_context context_;
};

TEST_F(LocalSandboxTest, S92_AnEphemeralSessionLeavesNothing) {
  const auto sandbox = open(root_);
  const auto session = create(sandbox, Durability::ephemeral);
  EXPECT_EQ(session->workspace_path(), root_ + "/.ephemeral/" + session->id());
  EXPECT_EQ(mode_of(session->workspace_path()), 0700U);
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/.caisson/" + session->id() + ".json"));
  put_file(session, "dir/file", "text");
  EXPECT_EQ(exec(session, "cat dir/file; pwd").out, "text" + session->workspace_path() + "\n");
  EXPECT_EQ(get_file(session, session->workspace_path() + "/dir/file"), "text");
  destroy(session);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  EXPECT_THAT(entries_of(root_), ElementsAre(".ephemeral", ".tai-sandbox"));
}

TEST_F(LocalSandboxTest, S92_APersistentWorkspaceOutlivesItsSession) {
  {
    const auto sandbox = open(root_);
    const auto session = create(sandbox, Durability::persistent);
    EXPECT_EQ(session->workspace_path(), root_ + "/key");
    put_file(session, "file", "text");
    EXPECT_THAT(entries_of(root_ + "/key"), ElementsAre("file")) << "nothing of Caisson's is in it";
    release(session);
  }
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  const auto sidecar = boost::json::parse(text_of(root_ + "/.tai-sandbox/key.json"));
  EXPECT_EQ(sidecar.at("image"), "python:3.12");
  EXPECT_EQ(sidecar.at("labels").at("tai42.sandbox"), "1");
  const auto sandbox = open(root_);
  const auto session = create(sandbox, Durability::persistent);
  EXPECT_EQ(get_file(session, "file"), "text");
  destroy(session);
  EXPECT_THAT(entries_of(root_), ElementsAre(".ephemeral", ".tai-sandbox"));
  EXPECT_THAT(entries_of(root_ + "/.tai-sandbox"), ElementsAre(".caisson"));
}

TEST_F(LocalSandboxTest, S92_RootsOfOtherImplementationsAreAdopted) {
  fs::create_directories(root_ + "/theirs");
  put(root_ + "/theirs/file", "text");
  fs::create_directories(root_ + "/.tai-sandbox");
  const std::string sidecar =
      R"({"workspace_key": "theirs", "durability": "persistent", "created_at": "2025-05-06T07:08:09+00:00", )"
      R"("image": "host", "labels": {}, "new": 1})";
  put(root_ + "/.tai-sandbox/theirs.json", sidecar);
  fs::create_directories(root_ + "/bare");
  put(root_ + "/bare/file", "other");
  const auto sandbox = open(root_);
  const auto theirs = create(sandbox, Durability::persistent, "theirs");
  const auto bare = create(sandbox, Durability::persistent, "bare");
  EXPECT_EQ(get_file(theirs, "file"), "text");
  EXPECT_EQ(text_of(root_ + "/.tai-sandbox/theirs.json"), sidecar);
  EXPECT_EQ(get_file(bare, "file"), "other");
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/bare.json")) << "one without a sidecar gets one";
}

TEST_F(LocalSandboxTest, S92_WhatIsNoDirectoryIsNoWorkspace) {
  const auto sandbox = open(root_);
  fs::create_directory(directory_ / "elsewhere");
  fs::create_directory_symlink(directory_ / "elsewhere", root_ + "/link");
  put(root_ + "/file", "");
  for (const char* key : {"link", "file"}) {
    const auto error = error_of_call([&] { create(sandbox, Durability::persistent, key); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::workspace_conflict);
    EXPECT_THAT(error->what(), HasSubstr(root_ + "/" + key));
    EXPECT_FALSE(fs::exists(root_ + "/.tai-sandbox/" + key + ".json"));
  }
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty()) << "S-27";
  EXPECT_TRUE(fs::is_symlink(root_ + "/link"));
}

TEST_F(LocalSandboxTest, S27_AFailedCreateKeepsWhatItFound) {
  const auto sandbox = open(root_);
  auto session = create(sandbox, Durability::persistent);
  put_file(session, "file", "kept");
  release(session);
  for (const int error : {EIO, EMFILE, EACCES}) {
    SCOPED_TRACE(error);
    // Whether there is a wish is looked for first, then the sidecar.
    const test::Faults faults({test::error_at("files.look", error, 2), test::error_at("create.box", error)});
    EXPECT_EQ(code_of_call([&] { create(sandbox, Durability::persistent); }), ErrorCode::root_unusable);
  }
  for (const int error : {EIO, EMFILE}) {
    SCOPED_TRACE(error);
    const test::Faults faults({test::error_at("create.sidecar", error)});
    EXPECT_EQ(code_of_call([&] { create(sandbox, Durability::persistent); }), ErrorCode::root_unusable)
        << "nothing is wrong with the sidecar itself";
  }
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  EXPECT_EQ(text_of(root_ + "/key/file"), "kept");
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(LocalSandboxTest, S93_WhatStandsInTheWayIsToldFromARootThatCannotBeUsed) {
  const auto sandbox = open(root_);
  const std::pair<int, const char*> advice[] = {{EMFILE, "descriptors"}, {EIO, "disk"}, {ENOSPC, "space"}};
  for (const auto& [error, word] : advice) {
    const test::Faults faults({test::error_at("create.lock", error)});
    const auto failure = error_of_call([&] { create(sandbox, Durability::ephemeral); });
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->what(), HasSubstr(word));
  }
}

TEST_F(LocalSandboxTest, S26_AnEphemeralSessionSharesNothingWithAPersistentOneOfItsKey) {
  const auto sandbox = open(root_);
  const auto persistent = create(sandbox, Durability::persistent);
  const auto ephemeral = create(sandbox, Durability::ephemeral);
  put_file(persistent, "file", "persistent");
  put_file(ephemeral, "file", "ephemeral");
  destroy(ephemeral);
  EXPECT_EQ(get_file(persistent, "file"), "persistent");
}

TEST_F(LocalSandboxTest, S25_AKeyMayBeSpelledLikeASessionsId) {
  const auto sandbox = open(root_);
  const auto session = create(sandbox, Durability::ephemeral);
  const auto other = create(sandbox, Durability::persistent, session->id());
  put_file(other, "file", "text");
  destroy(session);
  EXPECT_EQ(get_file(other, "file"), "text");
  destroy(other);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(LocalSandboxTest, S25_OneProvidersDestroyNeverRemovesAnothersWorkspace) {
  const auto one = open(root_);
  const auto two = open(root_);
  const auto first = create(one, Durability::persistent);
  const auto second = create(two, Durability::persistent);
  put_file(first, "file", "text");
  destroy(first);
  EXPECT_EQ(get_file(second, "file"), "text");
  EXPECT_EQ(code_of_call([&] { create(one, Durability::persistent); }), ErrorCode::workspace_conflict);
  release(second);
  EXPECT_FALSE(fs::exists(root_ + "/key")) << "the last to go removes it, by whatever way it goes";
  EXPECT_NO_THROW(release(create(one, Durability::persistent)));
}

TEST_F(LocalSandboxTest, S90_RejectsInThatOrder) {
  const auto all = [](SandboxSessionSpec& spec) {
    spec.isolation = Isolation::container;
    spec.network = Network::none;
    spec.cpu = 1;
    spec.memory_mb = 64;
  };
  std::vector<std::function<void(SandboxSessionSpec&)>> steps = {
      [](SandboxSessionSpec& spec) { spec.isolation = Isolation::none; },
      [](SandboxSessionSpec& spec) { spec.network = Network::egress; },
      [](SandboxSessionSpec& spec) { spec.cpu.reset(); }};
  const std::vector<std::string> words = {"isolation", "network", "cpu", "memory_mb"};
  for (std::size_t applied = 0; applied <= steps.size(); ++applied) {
    const auto error = rejection_of([&](SandboxSessionSpec& spec) {
      all(spec);
      for (std::size_t i = 0; i < applied; ++i) steps[i](spec);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::not_enforceable);
    EXPECT_THAT(error->what(), testing::StartsWith("provider cannot enforce: " + words[applied]));
  }
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(LocalSandboxTest, S29_WhatADeadProcessLeftIsRecoveredAtTheNextOpen) {
  std::string id;
  {
    Child owner([&] {
      // Never destroyed: it ends with the process.
      const auto& sandbox = *new std::shared_ptr<kit::ManagedSandbox>(open(root_));
      const auto scratch = create(sandbox, Durability::ephemeral);
      put_file(scratch, "file", "text");
      put_file(create(sandbox, Durability::persistent), "file", "text");
      put(directory_ / "id", scratch->id());
    });
    id = text_of(directory_ / "id");
    open(root_);
    EXPECT_TRUE(fs::exists(root_ + "/.ephemeral/" + id + "/file"))
        << "the control: not while its owner lives";
  }
  const auto sandbox = open(root_);
  EXPECT_THAT(remembered_.text(), HasSubstr(id));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  EXPECT_EQ(text_of(root_ + "/key/file"), "text");
  EXPECT_THAT(test::run(context_, sandbox->recover_orphans()), IsEmpty());
}

TEST_F(LocalSandboxTest, S29_RecoveringLeavesOnesOwnSessionsAlone) {
  const auto sandbox = open(root_);
  const auto session = create(sandbox, Durability::ephemeral);
  put_file(session, "file", "text");
  EXPECT_THAT(test::run(context_, sandbox->recover_orphans()), IsEmpty());
  EXPECT_EQ(get_file(session, "file"), "text");
}

TEST_F(LocalSandboxTest, S32_TheProvidersEndReleasesItsSessions) {
  {
    const auto sandbox = open(root_);
    create(sandbox, Durability::ephemeral);
    put_file(create(sandbox, Durability::persistent), "file", "text");
  }
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  EXPECT_EQ(text_of(root_ + "/key/file"), "text");
}

TEST_F(LocalSandboxTest, S30_WhatCannotBeRemovedStaysListedAndIsTriedAgain) {
  const auto sandbox = open(root_);
  const auto session = create(sandbox, Durability::ephemeral);
  put_file(session, "file", "text");
  const os::Fd file =
      os::Fd::adopt(::open((session->workspace_path() + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  int flag = FS_IMMUTABLE_FL;
  if (::ioctl(file.number(), FS_IOC_SETFLAGS, &flag) != 0) {
    GTEST_SKIP() << "needs CAP_LINUX_IMMUTABLE and a file system with that flag";
  }
  const auto error = error_of_call([&] { destroy(session); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::removal_failed);
  EXPECT_THAT(error->what(), HasSubstr(session->workspace_path()));
  EXPECT_EQ(test::run(context_, sandbox->list_sessions()).size(), 1U);
  flag = 0;
  ASSERT_EQ(::ioctl(file.number(), FS_IOC_SETFLAGS, &flag), 0);
  destroy(session);
  EXPECT_EQ(test::run(context_, sandbox->list_sessions()).size(), 0U);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(LocalSandboxTest, S27_AFullRootIsTypedAndLeavesNothing) {
  const Mounted mounted(root_, "size=1m,nr_inodes=24");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  const auto sandbox = open(root_);
  destroy(create(sandbox, Durability::persistent));
  std::vector<std::string> fillers;
  for (;; fillers.push_back(root_ + "/filler" + std::to_string(fillers.size()))) {
    if (!std::ofstream(root_ + "/filler" + std::to_string(fillers.size()))) break;
  }
  const auto before = entries_of(root_);
  // With every number of inodes free, from none to enough.
  for (int created = 0; created < 2;) {
    ASSERT_FALSE(fillers.empty());
    for (const Durability durability : {Durability::ephemeral, Durability::persistent}) {
      try {
        destroy(create(sandbox, durability));
        ++created;
      } catch (const SandboxError& error) {
        created = 0;
        EXPECT_EQ(error.code(), ErrorCode::root_unusable) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(root_));
        EXPECT_THAT(error.what(), HasSubstr("space"));
      }
      EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
      EXPECT_FALSE(fs::exists(root_ + "/key"));
      EXPECT_FALSE(fs::exists(root_ + "/.tai-sandbox/key.json"));
    }
    fs::remove(fillers.back());
    fillers.pop_back();
  }
}

TEST_F(LocalSandboxTest, S93_ARootThatBecomesReadOnlyIsTyped) {
  const Mounted mounted(root_);
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  const auto sandbox = open(root_);
  const auto session = create(sandbox, Durability::ephemeral);
  ASSERT_TRUE(test::eventually([&] { return mounted.set_read_only(true); }));
  const auto error = error_of_call([&] { create(sandbox, Durability::ephemeral); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::root_unusable);
  EXPECT_THAT(error->what(), HasSubstr(root_));
  EXPECT_EQ(code_of_call([&] { open(root_); }), ErrorCode::root_unusable);
  EXPECT_EQ(code_of_call([&] { destroy(session); }), ErrorCode::removal_failed);
  ASSERT_TRUE(mounted.set_read_only(false));
  destroy(session);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(LocalSandboxTest, S93_AnUnusableRootIsTypedAndNamed) {
  put(directory_ / "file", "");
  for (const std::string& root : {directory_ / "file", std::string("relative")}) {
    const auto error = error_of_call([&] { open(root); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::root_unusable);
    EXPECT_THAT(error->what(), HasSubstr(root));
  }
}

TEST(TreeKillProbe, S94_SaysTheWayAndWhy) {
  const TreeKillReport report = probe_tree_kill();
  EXPECT_NE(report.way, kit::TreeKill::automatic);
  EXPECT_FALSE(report.detail.empty());
}

}  // namespace
}  // namespace caisson::local
