// Sessions cut short, or met by errors, at each point of what they have on disk (S-21, S-27, S-29).
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>

#include <map>
#include <set>

#include "os/cgroup.h"
#include "os/mount.h"
#include "providers/container/recovery.h"
#include "providers/container/session_state.h"
#include "providers/container/storage_bed_test.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

const std::string no_quotas = "bound.quota";

// With images, or without any bound.
std::vector<os::Fault> with(bool images, std::vector<os::Fault> others = {}) {
  if (!images) return no_bounds(std::move(others));
  others.push_back(test::error_always(no_quotas.c_str(), ENOTTY));
  return others;
}

// The points of the files that are tested here, by the names of their calls.
std::set<std::string> points_in_source(const std::string& call) {
  std::set<std::string> names;
  for (const char* file : {"layout", "recorded_cgroups", "recovery", "session_state", "volumes",
                           "workspace_bound", "workspace_image"}) {
    const std::string text =
        text_of(CAISSON_SOURCE_DIR "/src/providers/container/" + std::string(file) + ".cc");
    for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      const std::size_t begin = at + call.size();
      EXPECT_TRUE(names.insert(text.substr(begin, text.find('"', begin) - begin)).second)
          << "a name stands at two places: " << text.substr(begin, 30);
    }
  }
  return names;
}

class StorageCrashTest : public testing::TestWithParam<bool> {
 protected:
  using Step = std::function<void()>;

  void SetUp() override {
    static const std::string reason = no_images_because();
    if (GetParam() && !reason.empty()) GTEST_SKIP() << reason;
    const auto place = os::find_cgroup_place();
    if (!place) return;
    place_ = place->directory + "/" + os::new_cgroup_name();
    fs::create_directories(place_);
  }
  void TearDown() override {
    std::error_code in_use;
    if (place_.empty()) return;
    fs::remove(place_, in_use);
    fs::remove(fs::path(place_).parent_path(), in_use);
  }

  // What goes on in a process that has sessions. `attempt` runs each step.
  void life(const StorageBed& bed, const std::function<void(const Step&)>& attempt) const {
    std::shared_ptr<const Storage> storage;
    attempt([&] { storage = bed.open(true); });
    attempt([&] { static_cast<void>(recover(*storage, {})); });
    std::map<char, std::unique_ptr<SessionOnDisk>> sessions;
    const auto create = [&](const kit::SessionRecord& session, const SessionCgroups& cgroups = {}) {
      attempt([&] {
        sessions[session.id[0]] =
            std::make_unique<SessionOnDisk>(storage, session, os::own_identity(), cgroups);
      });
    };
    create(ephemeral('1'), cgroups_of('1'));
    create(persistent('2', "doomed"));
    create(persistent('3', "doomed"));
    create(persistent('4', "keep"));
    create(persistent('5', "undone"));
    attempt([&] { sessions.at('1')->pass_on(ephemeral('1')); });
    if (!place_.empty()) fs::create_directories(cgroups_of('1').unified + "/execs");
    if (!fs::exists(bed.volume("keep") + "/file")) put(bed.volume("keep") + "/file", "work");
    if (!place_.empty())
      static_cast<void>(os::remove_cgroup_tree(cgroups_of('1').unified, std::chrono::seconds(2)));
    attempt([&] { sessions.at('1')->remove(false); });
    attempt([&] { sessions.at('2')->remove(true); });
    attempt([&] { sessions.at('3')->remove(false); });
    attempt([&] { sessions.at('4')->remove(false); });
    attempt([&] { sessions.at('5')->abandon(); });
  }
  // As it is in the middle of one: of every kind, one of them wished away.
  void wreck(const StorageBed& bed) const {
    Child owner([&] {
      os::arm_faults(with(GetParam()));
      const auto storage = bed.open(true);
      for (const auto& session :
           {std::pair('1', ""), std::pair('2', "doomed"), std::pair('3', "doomed"), std::pair('4', "keep")}) {
        const auto record =
            *session.second == 0 ? ephemeral(session.first) : persistent(session.first, session.second);
        auto made =
            std::make_unique<SessionOnDisk>(storage, record, os::own_identity(), cgroups_of(session.first));
        // Whoever removes a session has removed its cgroups.
        if (!place_.empty() && session.first != '2')
          fs::create_directories(cgroups_of(session.first).unified + "/execs");
        if (session.first == '2') made->remove(true);
        static_cast<void>(made.release());
      }
      put(bed.volume("keep") + "/file", "work");
      static_cast<void>(Volume::take(storage, persistent('5', "lost")));
    });
  }
  SessionCgroups cgroups_of(char digit) const {
    if (place_.empty()) return {};
    return {place_ + "/" + cgroup_name(os::own_identity(), std::string(32, digit)), {}};
  }

  // Runs it in a process of its own; what it passed, when it came to its end.
  std::optional<std::map<std::string, std::size_t>> play(const Step& step,
                                                         const std::vector<os::Fault>& faults) const {
    auto pipe = os::make_pipe().value();
    const pid_t child = ::fork();
    if (child == 0) {
      os::arm_faults(with(GetParam(), faults));
      step();
      std::string text;
      for (const auto& [point, count] : os::disarm_faults())
        text += point + " " + std::to_string(count) + "\n";
      static_cast<void>(os::write_all(pipe.write, text));
      ::_exit(0);
    }
    pipe.write.reset();
    std::istringstream text(os::read_all(pipe.read, 1 << 20).value());
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      EXPECT_EQ(WTERMSIG(status), SIGKILL);
      return std::nullopt;
    }
    EXPECT_EQ(status, 0);
    std::map<std::string, std::size_t> passed;
    std::string point;
    for (std::size_t count = 0; text >> point >> count;) passed[point] = count;
    return passed;
  }

  // A later process puts all right, and can use all of it.
  void expect_recovered(const StorageBed& bed) const {
    const test::Faults faults(with(GetParam()));
    const auto storage = bed.open(true);
    static_cast<void>(recover(*storage, {}));
    EXPECT_THAT(entries_of(bed.runtime + "/sessions"), IsEmpty());
    EXPECT_THAT(entries_of(bed.root + "/volumes/.keys"), IsEmpty());
    if (!place_.empty()) {
      for (const auto& entry : fs::directory_iterator(place_))
        EXPECT_FALSE(entry.is_directory()) << entry.path();
    }
    for (const char* key : {"doomed", "keep", "undone", "lost"}) {
      SCOPED_TRACE(key);
      const auto mounted = os::is_mount_at(storage->layout->volumes, key);
      EXPECT_FALSE(mounted && *mounted);
      SessionOnDisk session(storage, persistent('9', key), os::own_identity());
      if (fs::exists(session.volume_path() + "/file")) {
        EXPECT_EQ(text_of(session.volume_path() + "/file"), "work");
      }
      put(session.volume_path() + "/other", "");
      session.remove(true);
    }
    EXPECT_THAT(bed.left(), IsEmpty());
  }
  void clean(const StorageBed& bed) const {
    for (const char* key : {"doomed", "keep", "undone", "lost"})
      ::umount2(bed.volume(key).c_str(), MNT_DETACH);
  }

  // At the first and the last passage of each point.
  void kill_everywhere(const std::function<void(const StorageBed&)>& prepare,
                       const std::function<void(const StorageBed&)>& body) {
    std::map<std::string, std::size_t> points;
    {
      const StorageBed bed;
      prepare(bed);
      const auto passed = play([&] { body(bed); }, {});
      ASSERT_TRUE(passed);
      points = *passed;
      expect_recovered(bed);
    }
    ASSERT_GT(points.size(), 8U);
    for (const auto& [point, count] : points) {
      // Without images all else has had its turn.
      if (point == no_quotas || (GetParam() && !point.starts_with("image."))) continue;
      for (const std::size_t passage : std::set<std::size_t>{1, count}) {
        SCOPED_TRACE("killed at passage " + std::to_string(passage) + " of " + point);
        const StorageBed bed;
        prepare(bed);
        if (point == "bound.image") continue;  // It is not to be had here.
        EXPECT_FALSE(play([&] { body(bed); }, {{point, 0, passage, passage}})) << "it never came there";
        expect_recovered(bed);
        clean(bed);
      }
      if (HasFailure()) return;
    }
  }

  std::string place_;
};

TEST_P(StorageCrashTest, S29_KilledInALife) {
  kill_everywhere([](const StorageBed&) {},
                  [this](const StorageBed& bed) { life(bed, [](const Step& step) { step(); }); });
}

TEST_P(StorageCrashTest, S29_KilledInARecovery) {
  kill_everywhere([this](const StorageBed& bed) { wreck(bed); },
                  [](const StorageBed& bed) { static_cast<void>(recover(*bed.open(true), {})); });
}

// What fails is typed, is tried again, and then it works.
TEST_P(StorageCrashTest, S21_S27_ErrorsInALife) {
  constexpr int errors[] = {ENOSPC, EMFILE, EACCES, EIO};
  std::map<std::string, std::size_t> points;
  {
    const StorageBed bed;
    points = play([&] { life(bed, [](const Step& step) { step(); }); }, {}).value();
    expect_recovered(bed);
  }
  std::set<std::string> failing = points_in_source("fault_point(\"");
  failing.insert({"record.open", "record.write", "record.rename", "files.look", "create.share",
                  "workspace.alone", "workspace.remove", "workspace.sidecar", "wish.write", "wish.remove"});
  std::size_t turn = 0;
  for (const auto& [point, count] : points) {
    if (!failing.contains(point) || point.starts_with("bound.") ||
        (GetParam() && !point.starts_with("image.")))
      continue;
    for (const std::size_t passage : std::set<std::size_t>{1, 2, count}) {
      const int error = errors[turn++ % std::size(errors)];
      SCOPED_TRACE(os::error_of(error).message() + " at passage " + std::to_string(passage) + " of " + point);
      const StorageBed bed;
      {
        const test::Faults faults(with(GetParam(), {{point, error, passage, passage}}));
        int failures = 0;
        life(bed, [&](const Step& step) {
          try {
            step();
          } catch (const SandboxError& failure) {
            ++failures;
            const std::set<ErrorCode> fitting = {ErrorCode::root_unusable, ErrorCode::workspace_conflict,
                                                 ErrorCode::removal_failed, ErrorCode::not_enforceable};
            EXPECT_TRUE(fitting.contains(failure.code())) << failure.what();
            step();
          }
        });
        EXPECT_LE(failures, 1);
      }
      expect_recovered(bed);
      clean(bed);
    }
    if (HasFailure()) return;
  }
}

TEST_P(StorageCrashTest, S29_ErrorsInARecovery) {
  for (const char* point :
       {"salvage.session", "salvage.remove", "salvage.kill", "files.look", "workspace.alone",
        "workspace.remove", "wish.remove", "image.unmount", "image.remove"}) {
    SCOPED_TRACE(point);
    const StorageBed bed;
    wreck(bed);
    {
      const test::Faults faults(with(GetParam(), {test::error_at(point, EIO)}));
      EXPECT_NO_THROW(static_cast<void>(recover(*bed.open(true), {})));
    }
    expect_recovered(bed);
    clean(bed);
  }
}

TEST_P(StorageCrashTest, EachPointIsPassed) {
  if (place_.empty()) GTEST_SKIP() << "some are passed with cgroups only";
  std::set<std::string> missing = points_in_source("fault_point(\"");
  missing.merge(points_in_source("kill_point(\""));
  ASSERT_GT(missing.size(), 30U);
  const auto pass = [&](const Step& step) {
    const auto passed = play(step, {});
    ASSERT_TRUE(passed);
    for (const auto& [point, count] : *passed) missing.erase(point);
  };
  const StorageBed bed;
  pass([&] { life(bed, [](const Step& step) { step(); }); });
  wreck(bed);
  pass([&] { static_cast<void>(recover(*bed.open(true), {})); });
  expect_recovered(bed);
  missing.erase("volume.quota");  // Where there are quotas.
  if (!GetParam())
    std::erase_if(missing, [](const std::string& point) { return point.starts_with("image."); });
  EXPECT_THAT(missing, IsEmpty());
}

std::string name_of(const testing::TestParamInfo<bool>& with_images) {
  return with_images.param ? "WithImages" : "WithoutImages";
}
INSTANTIATE_TEST_SUITE_P(Both, StorageCrashTest, testing::Bool(), name_of);

}  // namespace
}  // namespace caisson::container
