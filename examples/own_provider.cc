// A provider of one's own: commands as plain host processes in directories under one root, and the
// conformance suite run against it.
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "caisson/kit/conformance.h"
#include "caisson/kit/host.h"
#include "caisson/kit/managed_sandbox.h"

namespace fs = std::filesystem;
namespace kit = caisson::kit;
using caisson::Awaitable;

/// Keeps persistent workspaces in <root>/kept/<key> and ephemeral ones in <root>/scratch/<id>. The root is
/// this process's alone. The kit brings sessions, deadlines, policy and execs; what remains is to make and
/// remove directories.
class DirectorySandbox final : public kit::ManagedSandbox {
 public:
  DirectorySandbox(boost::asio::any_io_executor executor, const std::string& root)
      : ManagedSandbox({.executor = std::move(executor)}), root_(root), host_(kit::Host::open({})) {
    remove(root_ / "scratch");  // What a process that died left behind.
    for (const char* name : {"kept", "scratch", "temporary"}) fs::create_directories(root_ / name);
  }
  ~DirectorySandbox() override { close(); }

  std::string_view name() const noexcept override { return "directory"; }
  Awaitable<std::vector<std::string>> recover_orphans() override { co_return std::vector<std::string>(); }

 protected:
  void check_enforceable(const caisson::SandboxSessionSpec& spec) const override {
    if (spec.isolation != caisson::Isolation::none) reject("isolation");
    if (spec.network != caisson::Network::egress) reject("network");
    if (spec.cpu || spec.memory_mb) reject("caps");
  }

  Awaitable<std::shared_ptr<kit::SessionBox>> create_resources(const kit::SessionRecord& record) override {
    kit::HostBoxOptions options;
    options.workspace_path = directory(record);
    options.temporary_directory = root_ / "temporary";
    options.base_path = "/usr/local/bin:/usr/bin:/bin";
    auto make = [this, options, key = shared_key(record), id = record.id] {
      if (!key.empty()) enter(key, id);
      try {
        fs::create_directories(options.workspace_path);
        return host_->make_box(options);
      } catch (...) {
        if (key.empty() || leave(key, id, false)) remove(options.workspace_path);
        throw;
      }
    };
    co_return co_await host_->workers().run(make);
  }

  Awaitable<void> destroy_resources(const kit::SessionRecord& record, std::shared_ptr<kit::SessionBox> box,
                                    kit::Disposal disposal) override {
    box.reset();
    auto unmake = [this, path = directory(record), key = shared_key(record), id = record.id, disposal] {
      if (key.empty() || leave(key, id, disposal == kit::Disposal::remove_workspace)) remove(path);
    };
    co_await host_->workers().run(unmake);
  }

 private:
  static std::string shared_key(const kit::SessionRecord& record) {
    return record.spec.durability == caisson::Durability::persistent ? record.spec.workspace_key : "";
  }
  std::string directory(const kit::SessionRecord& record) const {
    const std::string key = shared_key(record);
    return key.empty() ? root_ / "scratch" / record.id : root_ / "kept" / key;
  }

  /// Several sessions may share a persistent workspace: the last one to go removes it, when any was
  /// destroyed.
  void enter(const std::string& key, const std::string& id) {
    const std::scoped_lock lock(mutex_);
    if (doomed_.contains(key)) {
      throw caisson::SandboxError(caisson::ErrorCode::workspace_conflict,
                                  "workspace " + key + " is to be removed");
    }
    users_[key].insert(id);
  }
  bool leave(const std::string& key, const std::string& id, bool destroyed) {
    const std::scoped_lock lock(mutex_);
    users_[key].erase(id);
    if (destroyed) doomed_.insert(key);
    if (!users_[key].empty() || !doomed_.contains(key)) return false;
    doomed_.erase(key);
    return true;
  }

  static void remove(const fs::path& path) {
    std::error_code error;
    fs::recursive_directory_iterator entries(path, error);
    for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
      std::error_code ignored;  // A directory without permission, which an ordinary user could not empty.
      if (fs::is_directory(entries->symlink_status(ignored)))
        fs::permissions(*entries, fs::perms::owner_all, ignored);
    }
    fs::remove_all(path, error);
    if (error)
      throw caisson::SandboxError(caisson::ErrorCode::removal_failed, path.string() + ": " + error.message());
  }

  const fs::path root_;
  const std::shared_ptr<kit::Host> host_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> users_;
  std::set<std::string> doomed_;
};

int main() {
  kit::conformance::ConformanceProfile profile;
  profile.name = "directory";
  profile.open = [](const kit::conformance::OpenContext& context) {
    return std::make_shared<DirectorySandbox>(context.executor, context.root);
  };
  profile.spec = [] {
    caisson::SandboxSessionSpec spec;
    spec.image = "host";
    spec.network = caisson::Network::egress;
    spec.isolation = caisson::Isolation::none;
    return spec;
  };
  profile.rejections = {
      {"a cpu cap", [](caisson::SandboxSessionSpec& spec) { spec.cpu = 1; }},
      {"network none", [](caisson::SandboxSessionSpec& spec) { spec.network = caisson::Network::none; }}};
  int failed = 0;
  kit::conformance::run(profile, "", [&failed](const kit::conformance::CheckResult& result) {
    std::printf("%-8s %-36s %-14s %s\n", std::string(to_string(result.outcome)).c_str(), result.name.c_str(),
                result.rules.c_str(), result.detail.c_str());
    if (result.outcome == kit::conformance::Outcome::failed) ++failed;
  });
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
