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

OpenOptions options_for(const TemporaryRoot& root, int pool) {
  OpenOptions options;
  options.policy = SandboxPolicy{Network::egress, Isolation::none, false, true};
  options.settings = [path = root.path(), pool](std::string_view name) -> std::optional<std::string> {
    if (name == "SANDBOX_LOCAL_ROOT") return path;
    if (name == "CAISSON_ROOT") return path + "/root";
    if (name == "CAISSON_RUNTIME_DIR") return path + "/run";
    if (name == "CAISSON_CONTAINER_POOL_SIZE") return std::to_string(pool);
    return std::nullopt;
  };
  return options;
}

SandboxSessionSpec spec(Isolation isolation) {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "bench";
  spec.durability = Durability::ephemeral;
  spec.network = isolation == Isolation::none ? Network::egress : Network::none;
  spec.isolation = isolation;
  spec.ttl_seconds = 3600;
  return spec;
}

Awaitable<void> exec_true(std::shared_ptr<SandboxSession> session) {
  Argv argv{"/bin/true"};
  ExecOptions options(std::chrono::seconds(60));
  const auto result = co_await session->exec(std::move(argv), std::move(options));
  if (result.exit_code != 0) throw std::runtime_error("/bin/true failed");
}

Awaitable<void> time_execs(std::shared_ptr<SandboxSession> session, int count, std::vector<double>* samples) {
  for (int i = 0; i < count; ++i) {
    const auto start = Steady::now();
    co_await exec_true(session);
    samples->push_back(milliseconds_since(start));
  }
}

Bed::Bed(Isolation isolation, int pool)
    : sandbox_(open(loop_.get_executor(), isolation == Isolation::none ? "local" : "container",
                    options_for(root_, pool))) {
  session_ = run(sandbox_->create_session(spec(isolation)));
}

Bed::~Bed() { run(session_->release()); }

}  // namespace caisson::bench
