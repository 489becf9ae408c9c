// A root on which scenarios play, and what must hold of it afterwards.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "os/fd.h"
#include "os/process.h"
#include "providers/local/root_for_test.h"
#include "tests/crash/scenario.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {

/// How a player ended, and what it said until then.
struct Played {
  bool killed = false;
  std::optional<int> exit_code = std::nullopt;
  pid_t pid = 0;
  std::set<std::string> news = {};  ///< "begin STEP" and "done STEP"
  std::map<std::string, std::size_t> passed = {};
  std::string output = {};

  bool begun(const std::string& step) const { return news.contains("begin " + step); }
  bool done(const std::string& step) const { return news.contains("done " + step); }
};

class Scene {
 public:
  explicit Scene(kit::TreeKill way);

  Stage stage() const;
  const std::string& root() const noexcept { return root_; }
  /// Scratch that another implementation may have left (S-92); made by who wants it there.
  std::string unmarked_scratch() const { return root_ + "/.ephemeral/tmpdead"; }

  /// A program of its own plays the scenario, to its end or to that passage of the point.
  Played play(const std::string& scenario, const std::string& point = "", std::size_t passage = 1);
  /// Mounts a file system at `mounted` in the workspace "keep"; false where that is not permitted.
  bool mount_within_keep();
  /// Takes in what this process played.
  void add(const std::set<std::string>& news);

  /// Whether a process of a session lives: each holds the lifeline.
  bool any_process() const;
  /// Opens the root in this process, which recovers it, and checks that nothing of sessions is left, that
  /// each workspace is as its players left it, that none but a removed one is missing; then, with `use`, that
  /// the root can be used as any other; and that nothing of all this stays in this process.
  void expect_recovered(bool use = true);
  /// A sandbox on the root makes sessions, runs commands and removes workspaces.
  void expect_usable(blocking::Sandbox& sandbox) const;

 private:
  void expect_no_trace() const;
  void expect_workspace(const std::string& key) const;
  void expect_file(const std::string& path, bool filled, bool may_be_replaced, bool replaced) const;
  void expect_mounted() const;
  void note_wishes();

  kit::TreeKill way_;
  TemporaryDirectory directory_;
  std::string root_;
  std::string lifeline_;
  std::unique_ptr<test::Mounted> mounted_;
  os::Fd lifeline_end_;
  Played all_;  ///< Of all players.
  std::set<pid_t> players_;
  std::string died_at_;           ///< The last point where a player died.
  std::set<std::string> wished_;  ///< Keys whose removal was decided when a player died.
};

/// The points in the source, each once, in order; and those of them that may return an error.
std::vector<std::string> points_in_source();
std::vector<std::string> points_that_fail();

}  // namespace caisson::test
