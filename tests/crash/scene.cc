// Scenes: players are started and watched, roots are looked at.
#include "tests/crash/scene.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "os/cgroup.h"
#include "providers/local/root_for_test.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using local::entries_of;
using local::text_of;
using testing::IsEmpty;

constexpr std::chrono::seconds play_patience{60};

// But for the shim's program, which stays open once it was.
std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const std::string& number : entries_of("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink("/proc/self/fd/" + number, gone);
    if (!target.starts_with("/memfd:caisson-shim")) ++count;
  }
  return count;
}

// To the end of the stream; false when that takes too long.
bool read_to_end(os::FdRef fd, std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + play_patience;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd news{fd.number, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&news, 1, static_cast<int>(left.count())) <= 0) return false;
    char buffer[4096];
    const auto count = os::read_some(fd, buffer, sizeof buffer);
    if (!count || *count == 0) return true;
    text.append(buffer, *count);
  }
}

std::vector<std::string> names_given_to(std::initializer_list<std::string_view> calls) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(CAISSON_SOURCE_DIR "/src")) {
    const std::string path = entry.path();
    if (!path.ends_with(".cc") || path.ends_with("_test.cc")) continue;
    // Its tests reach those of its own; what is played here is the local provider.
    if (path.find("/providers/container/") != std::string::npos) continue;
    const std::string text = text_of(path);
    for (const std::string_view call : calls) {
      for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
        const std::size_t begin = at + call.size();
        names.push_back(text.substr(begin, text.find('"', begin) - begin));
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Scene::Scene(kit::TreeKill way) : way_(way), root_(directory_ / "root"), lifeline_(directory_ / "lifeline") {
  EXPECT_EQ(::mkfifo(lifeline_.c_str(), 0600), 0);
  lifeline_end_ = os::Fd::adopt(::open(lifeline_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

Stage Scene::stage() const {
  Stage stage;
  stage.root = root_;
  stage.lifeline = lifeline_;
  stage.way = way_;
  return stage;
}

Played Scene::play(const std::string& scenario, const std::string& point, std::size_t passage) {
  std::vector<std::string> argv{CAISSON_CRASH_PLAYER, root_, lifeline_, std::string(kit::to_string(way_)),
                                scenario};
  if (!point.empty()) {
    argv.push_back(point);
    argv.push_back(std::to_string(passage));
  }
  Played played;
  Command command(argv, {"PATH=/usr/bin:/bin"});
  os::SpawnPlan plan = command.plan();
  auto pipe = os::make_pipe().value();
  plan.descriptors[1] = pipe.write;
  auto process = os::spawn(plan);
  pipe.write.reset();
  if (!process) {
    ADD_FAILURE() << "the player cannot be started";
    return played;
  }
  played.pid = process->pid();
  if (!read_to_end(pipe.read, played.output)) {
    ADD_FAILURE() << "the player hangs:\n" << played.output;
    static_cast<void>(process->signal(SIGKILL));
  }
  const auto status = process->reap().status;
  if (status && !status->signaled) played.exit_code = status->code;
  played.killed = status && status->signaled && status->code == SIGKILL;
  std::istringstream lines(played.output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, name;
    std::size_t count = 0;
    if (words >> first >> name >> count && first == "passed") {
      played.passed[name] = count;
    } else {
      played.news.insert(line);
    }
  }
  add(played.news);
  players_.insert(played.pid);
  note_wishes();
  if (played.killed) died_at_ = point;
  return played;
}

void Scene::add(const std::set<std::string>& news) { all_.news.insert(news.begin(), news.end()); }

void Scene::note_wishes() {
  constexpr std::string_view wish = ".remove";
  const std::string keys = root_ + "/.tai-sandbox/.caisson/keys";
  if (!fs::exists(keys)) return;
  for (const std::string& name : entries_of(keys)) {
    if (name.ends_with(wish)) wished_.insert(name.substr(0, name.size() - wish.size()));
  }
}

bool Scene::any_process() const {
  char byte;
  return ::read(lifeline_end_.number(), &byte, 1) != 0;
}

void Scene::expect_recovered(bool use) {
  const std::size_t descriptors = open_descriptors();
  {
    blocking::Sandbox sandbox = blocking::open("local", crash_options(stage()));
    // A shim hears of its owner's death for itself; a cgroup is dead once it was recovered.
    if (way_ == kit::TreeKill::shim) {
      EXPECT_TRUE(eventually([&] { return !any_process(); })) << "a process of a session lives";
    } else {
      EXPECT_FALSE(any_process()) << "a process of a session lives";
    }
    expect_no_trace();
    for (const char* key : {"keep", "doomed", "shared", "half"}) expect_workspace(key);
    if (mounted_) expect_mounted();
    if (use) expect_usable(sandbox);
  }
  expect_no_trace();
  // A process of another program that cannot be looked into at the moment keeps it from a recovery.
  EXPECT_TRUE(eventually([&] {
    if (!fs::exists(unmarked_scratch())) return true;
    static_cast<void>(blocking::open("local", crash_options(stage())));
    return false;
  })) << "scratch that nobody uses is left";
  EXPECT_EQ(open_descriptors(), descriptors) << "descriptors were left open";
}

void Scene::expect_no_trace() const {
  std::vector<std::string> traces = local::traces_of_sessions(root_);
  std::erase(traces, unmarked_scratch());
  EXPECT_THAT(traces, IsEmpty());
  const std::set<std::string> known{".ephemeral", ".tai-sandbox", "keep", "doomed", "shared", "half"};
  for (const std::string& name : entries_of(root_)) EXPECT_TRUE(known.contains(name)) << name;
  for (const std::string& name : entries_of(root_ + "/.tai-sandbox")) {
    if (name == ".caisson") continue;
    const std::string key = name.substr(0, name.rfind('.'));
    EXPECT_TRUE(name.ends_with(".json") && fs::exists(root_ + "/" + key)) << name << " is of no workspace";
  }
  const auto place = os::find_cgroup_place();
  if (!place || !fs::exists(place->directory)) return;
  for (const std::string& name : entries_of(place->directory)) {
    for (const pid_t player : players_)
      EXPECT_FALSE(name.starts_with(std::to_string(player) + "-")) << "cgroup " << name << " is left";
  }
}

void Scene::expect_workspace(const std::string& key) const {
  SCOPED_TRACE("workspace " + key);
  const std::string path = root_ + "/" + key;
  const bool there = fs::exists(path);
  const bool filled = all_.done("fill " + key);
  const bool removed = all_.done("destroy " + key) && (key != "shared" || all_.done("release sharer"));
  if (removed || wished_.contains(key) || all_.done("fail " + key)) {
    EXPECT_FALSE(there) << "it was to be removed";
  }
  if (filled && !all_.begun("destroy " + key)) {
    EXPECT_TRUE(there) << "nobody removed it";
  }
  if (!there) return;
  // S-71: a file is there whole, or not at all.
  for (const char* name : {"/file", "/deep/er/file"}) {
    const bool is_replaced = std::string_view(name) == "/file";
    expect_file(path + name, filled, is_replaced && all_.begun("replace " + key),
                is_replaced && all_.done("replace " + key));
  }
}

void Scene::expect_file(const std::string& path, bool filled, bool may_be_replaced, bool replaced) const {
  if (!fs::exists(path)) {
    EXPECT_FALSE(filled) << path << " is missing";
    return;
  }
  const std::string text = text_of(path);
  EXPECT_TRUE((!replaced && text == whole("old")) || (may_be_replaced && text == whole("new")))
      << path << " holds " << text.size() << " bytes";
}

bool Scene::mount_within_keep() {
  mounted_ = std::make_unique<test::Mounted>(root_ + "/keep/mounted", "size=16m");
  return mounted_->works();
}

void Scene::expect_mounted() const {
  const std::string path = root_ + "/keep/mounted";
  expect_file(path + "/file", all_.done("fill mounted"), all_.begun("replace mounted"),
              all_.done("replace mounted"));
  // Between two system calls the new file has a hidden name there, as the public comment says.
  for (const std::string& name : entries_of(path))
    EXPECT_TRUE(name == "file" || (died_at_ == "put.hidden" && name.starts_with(".caisson-"))) << name;
}

void Scene::expect_usable(blocking::Sandbox& sandbox) const {
  for (const char* key : {"doomed", "shared"}) {
    blocking::Session session = sandbox.create_session(crash_spec(key, Durability::persistent));
    session.put_file("file", "text");
    session.destroy();
    EXPECT_FALSE(fs::exists(root_ + "/" + key));
  }
  blocking::Session session = sandbox.create_session(crash_spec("scratch", Durability::ephemeral));
  EXPECT_EQ(session.exec(Argv({"sh", "-c", "echo works"}), ExecOptions(60s)).out, "works\n");
  session.release();
  EXPECT_THAT(sandbox.list_sessions(), IsEmpty());
}

std::vector<std::string> points_that_fail() { return names_given_to({"fault_point(\""}); }

std::vector<std::string> points_in_source() { return names_given_to({"fault_point(\"", "kill_point(\""}); }

}  // namespace caisson::test
