// caisson_container_rounds ROOT RUNTIME SEED ROUNDS: makes a container session, runs a command in it and
// destroys it, and so on; every third workspace is persistent. Prints "round N", and at the end how many
// sessions were made and destroyed, and how much its memory grew after a tenth of the rounds, in bytes.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "caisson/caisson.h"

namespace {

using namespace std::chrono_literals;

caisson::OpenOptions options_of(const std::string& root, const std::string& runtime) {
  caisson::OpenOptions options;
  options.policy = caisson::SandboxPolicy{caisson::Network::none, caisson::Isolation::container, false, true};
  options.settings = [root, runtime](std::string_view name) -> std::optional<std::string> {
    if (name == "CAISSON_ROOT") return root;
    if (name == "CAISSON_RUNTIME_DIR") return runtime;
    if (name == "CAISSON_INIT") return CAISSON_INIT_PROGRAM;
    if (name == "CAISSON_CONTAINER_UNBOUNDED_DISK") return "1";
    return std::nullopt;
  };
  return options;
}

std::int64_t memory() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  std::minstd_rand random(static_cast<unsigned>(std::atoi(argv[3])));
  const int rounds = std::atoi(argv[4]);
  auto sandbox = caisson::blocking::open("container", options_of(argv[1], argv[2]));
  std::int64_t before = 0;
  int made = 0;
  for (int round = 0; round < rounds; ++round) {
    std::cout << "round " << round << std::endl;
    if (round == rounds / 10) before = memory();
    caisson::SandboxSessionSpec spec;
    spec.image = "host";
    spec.workspace_key = "key-" + std::to_string(random() % 4);
    spec.durability = random() % 3 == 0 ? caisson::Durability::persistent : caisson::Durability::ephemeral;
    spec.network = caisson::Network::none;
    spec.isolation = caisson::Isolation::container;
    spec.ttl_seconds = 60;
    try {
      auto session = sandbox.create_session(std::move(spec));
      const auto result =
          session.exec({"sh", "-c", "sleep 1000 & echo $$ >> log"}, caisson::ExecOptions(20s));
      if (result.exit_code != 0) std::cout << "exit " << result.exit_code << ": " << result.err << std::endl;
      session.destroy();
      ++made;
    } catch (const caisson::SandboxError& error) {
      // Another process may be about to remove the workspace.
      if (error.code() != caisson::ErrorCode::workspace_conflict) std::cout << error.what() << std::endl;
    }
  }
  std::cout << "made " << made << std::endl;
  std::cout << "grew " << memory() - before << std::endl;
}
