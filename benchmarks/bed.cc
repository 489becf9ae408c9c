// The provider that the rows are measured on.
#include "benchmarks/bed.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace caisson::bench {

double milliseconds_since(Steady::time_point start) {
  return std::chrono::duration<double, std::milli>(Steady::now() - start).count();
}

TemporaryRoot::TemporaryRoot() {
  std::string name = (std::filesystem::temp_directory_path() / "caisson-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
  path_ = name;
}

TemporaryRoot::~TemporaryRoot() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

OpenOptions options_for(const TemporaryRoot& root) {
  OpenOptions options;
  options.policy = SandboxPolicy{Network::egress, Isolation::none, false, true};
  options.settings = [path = root.path()](std::string_view name) -> std::optional<std::string> {
    if (name == "SANDBOX_LOCAL_ROOT") return path;
    return std::nullopt;
  };
  return options;
}

SandboxSessionSpec spec() {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "bench";
  spec.durability = Durability::ephemeral;
  spec.network = Network::egress;
  spec.isolation = Isolation::none;
  spec.ttl_seconds = 3600;
  return spec;
}

Bed::Bed() : sandbox_(open(loop_.get_executor(), "local", options_for(root_))) {
  session_ = run(sandbox_->create_session(spec()));
}

Bed::~Bed() { run(session_->release()); }

}  // namespace caisson::bench
