// Scenarios, over the blocking facade of the local provider.
#include "tests/crash/scenario.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <stdexcept>

namespace caisson::test {
namespace {

using namespace std::chrono_literals;

class Play {
 public:
  explicit Play(const Stage& stage) : stage_(stage) {}

  void open() {
    step("open", [&] { sandbox_.emplace(blocking::open("local", crash_options(stage_, clock_))); });
  }
  void create(const std::string& label, const std::string& key, Durability durability, int ttl = 100000) {
    step("create " + label,
         [&] { sessions_.emplace(label, sandbox_->create_session(crash_spec(key, durability, ttl))); });
  }
  void fail_to_create(const std::string& key, Durability durability) {
    stage_.say("begin fail " + key);
    try {
      static_cast<void>(sandbox_->create_session(crash_spec(key, durability)));
    } catch (const SandboxError&) {
      stage_.say("done fail " + key);
      return;
    }
    throw std::logic_error("create " + key + " was to fail");
  }
  void fill(const std::string& label) {
    step("fill " + label, [&] {
      at(label).put_file("deep/er/file", whole("old"));
      at(label).put_file("file", whole("old"));
    });
  }
  void replace(const std::string& label) {
    step("replace " + label, [&] { at(label).put_file("file", whole("new")); });
    step("read " + label, [&] {
      if (at(label).get_file("file") != whole("new")) throw std::logic_error("the file is another");
    });
  }
  void fill_and_replace_mounted(const std::string& label) {
    step("fill mounted", [&] { at(label).put_file("mounted/file", whole("old")); });
    step("replace mounted", [&] { at(label).put_file("mounted/file", whole("new")); });
  }
  void run(const std::string& label) {
    step("run " + label, [&] {
      const auto result = at(label).exec(Argv({"sh", "-c", "exit 7"}), ExecOptions(60s));
      if (result.exit_code != 7) throw std::logic_error("the command ended otherwise");
    });
  }
  // The leader is gone afterwards, its descendants are not.
  void grow(const std::string& label) {
    step("grow " + label, [&] {
      const auto result = at(label).exec(tree_command(stage_, false), ExecOptions(60s));
      if (result.exit_code != 0) throw std::logic_error("the tree did not grow: " + result.err);
    });
  }
  void start(const std::string& label) {
    step("start " + label, [&] {
      handles_.push_back(at(label).exec_start(tree_command(stage_, true), ExecOptions(60s)));
      wait_for("ready 3\n");
    });
  }
  // The command stops its parent: with shims that is what would hear of our death.
  void start_and_stop_parent(const std::string& label) {
    step("start " + label, [&] {
      const char* const script = "exec 9>\"$0\"; read go; kill -STOP $PPID; echo ready; exec sleep 60";
      handles_.push_back(at(label).exec_start(Argv({"sh", "-c", script, stage_.lifeline}), ExecOptions(60s)));
      // Not before its start was reported.
      handles_.back().write_stdin("go\n");
      wait_for("ready\n");
    });
  }
  void destroy(const std::string& label) {
    step("destroy " + label, [&] { at(label).destroy(); });
  }
  void release(const std::string& label) {
    step("release " + label, [&] { at(label).release(); });
  }
  void reap(const std::string& label) {
    clock_->advance(61s);
    step("reap " + label, [&] {
      // The reaper's own sweep may be first.
      static_cast<void>(sandbox_->reap());
      const auto left = sandbox_->list_sessions();
      if (std::ranges::any_of(left, [&](const auto& info) { return info.id == at(label).id(); }))
        throw SandboxError(ErrorCode::removal_failed, "session " + label + " is still listed");
    });
  }
  void close() {
    if (stage_.finish) stage_.finish(*sandbox_);
    stage_.say("begin close");
    handles_.clear();
    sessions_.clear();
    sandbox_.reset();
    stage_.say("done close");
  }

 private:
  template <class Body>
  void step(const std::string& name, Body body) {
    stage_.say("begin " + name);
    try {
      body();
    } catch (const SandboxError& error) {
      if (!stage_.failed) throw;
      stage_.failed(name, error);
      body();
    }
    stage_.say("done " + name);
  }
  blocking::Session& at(const std::string& label) { return sessions_.at(label); }
  void wait_for(std::string_view last_words) {
    std::string out;
    while (!out.ends_with(last_words)) {
      const auto item = handles_.back().output().next();
      const auto* const chunk = item ? std::get_if<SandboxStreamChunk>(&*item) : nullptr;
      if (chunk == nullptr) throw std::logic_error("the command ended: " + out);
      out += chunk->data;
    }
  }

  const Stage& stage_;
  const std::shared_ptr<kit::ManualClock> clock_ = std::make_shared<kit::ManualClock>();
  std::optional<blocking::Sandbox> sandbox_;
  std::map<std::string, blocking::Session> sessions_;
  std::vector<blocking::ExecHandle> handles_;
};

// A workspace that is used and kept.
void play_keep(Play& play) {
  play.create("keep", "keep", Durability::persistent);
  play.fill("keep");
  play.replace("keep");
  play.run("keep");
  play.grow("keep");
}
// One that is removed while a command runs in it.
void play_doomed(Play& play) {
  play.create("doomed", "doomed", Durability::persistent);
  play.fill("doomed");
  play.start("doomed");
  play.destroy("doomed");
}
void play_scratch(Play& play) {
  play.create("scratch", "scratch", Durability::ephemeral, 60);
  play.fill("scratch");
  play.grow("scratch");
  play.reap("scratch");
}
// One that two sessions are on when the first wishes it away.
void play_shared(Play& play) {
  play.create("shared", "shared", Durability::persistent);
  play.create("sharer", "shared", Durability::persistent);
  play.fill("shared");
  play.destroy("shared");
  play.release("sharer");
}

void play_wreck(Play& play) {
  play.create("keep", "keep", Durability::persistent);
  play.fill("keep");
  play.grow("keep");
  play.create("scratch", "scratch", Durability::ephemeral);
  play.fill("scratch");
  play.grow("scratch");
  play.create("shared", "shared", Durability::persistent);
  play.create("sharer", "shared", Durability::persistent);
  play.fill("shared");
  play.destroy("shared");
}

}  // namespace

void play(const Stage& stage, std::string_view scenario) {
  Play play(stage);
  play.open();
  if (scenario == "life") {
    play_keep(play);
    play_doomed(play);
    play_scratch(play);
    play_shared(play);
    play.release("keep");
  } else if (scenario == "keep") {
    play_keep(play);
    play.release("keep");
  } else if (scenario == "doomed") {
    play_doomed(play);
  } else if (scenario == "scratch") {
    play_scratch(play);
  } else if (scenario == "shared") {
    play_shared(play);
  } else if (scenario == "failed_create") {
    play.fail_to_create("half", Durability::persistent);
    play.fail_to_create("half_scratch", Durability::ephemeral);
  } else if (scenario == "mounted") {
    play.create("keep", "keep", Durability::persistent);
    play.fill_and_replace_mounted("keep");
    play.release("keep");
  } else if (scenario == "stopped_shim") {
    play.create("scratch", "scratch", Durability::ephemeral);
    play.start_and_stop_parent("scratch");
  } else if (scenario == "wreck") {
    play_wreck(play);
  } else if (scenario != "recovery") {
    throw std::logic_error("no scenario is called " + std::string(scenario));
  }
  play.close();
}

std::vector<os::Fault> own_faults(std::string_view scenario) {
  if (scenario != "failed_create") return {};
  return {{"create.box", EIO, 1, ~std::size_t{0}}};
}

std::string whole(std::string_view word) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text.append(word).append(" ");
  return text;
}

OpenOptions crash_options(const Stage& stage, std::shared_ptr<kit::Clock> clock) {
  OpenOptions options;
  options.policy = SandboxPolicy{Network::egress, Isolation::none, false, true};
  options.settings = [root = stage.root](std::string_view name) -> std::optional<std::string> {
    if (name == "SANDBOX_LOCAL_ROOT") return root;
    return std::nullopt;
  };
  options.clock = std::move(clock);
  options.tree_kill = stage.way;
  return options;
}

SandboxSessionSpec crash_spec(std::string key, Durability durability, int ttl_seconds) {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = std::move(key);
  spec.durability = durability;
  spec.network = Network::egress;
  spec.isolation = Isolation::none;
  spec.ttl_seconds = ttl_seconds;
  return spec;
}

Argv tree_command(const Stage& stage, bool stay) {
  // What stays behind and holds the output would hold up the exec's end for the length of the grace.
  const char* const script =
      stay ? "exec 9>\"$0\"; exec \"$@\"" : "exec 9>\"$0\"; exec \"$@\" >/dev/null 2>&1";
  return Argv({"sh", "-c", script, stage.lifeline, CAISSON_GUESTS_DIR "/guest_tree", stay ? "stay" : "leave",
               "plain", "setsid", "double"});
}

}  // namespace caisson::test
