// caisson_crash_player ROOT LIFELINE cgroup|shim SCENARIO [POINT PASSAGE]: plays a scenario, and dies at that
// passage of the point, or at the end of a wreck. Prints what it does, and then the points that it passed.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/crash/scenario.h"

namespace {

// At once and in one piece, for the next moment may be the last.
void print(const std::string& line) {
  if (::write(1, (line + "\n").data(), line.size() + 1) < 0) std::_Exit(9);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace caisson;
  if (argc != 5 && argc != 7) return 2;
  const std::string_view scenario = argv[4];
  test::Stage stage;
  stage.root = argv[1];
  stage.lifeline = argv[2];
  stage.way = std::string_view(argv[3]) == "shim" ? kit::TreeKill::shim : kit::TreeKill::cgroup;
  stage.say = print;
  if (scenario == "wreck" || scenario == "stopped_shim")
    stage.finish = [](blocking::Sandbox&) { ::kill(::getpid(), SIGKILL); };
  std::vector<os::Fault> faults = test::own_faults(scenario);
  if (argc == 7) {
    os::Fault death{argv[5]};
    death.first = death.last = static_cast<std::size_t>(std::atoi(argv[6]));
    faults.insert(faults.begin(), std::move(death));
  }
  os::arm_faults(std::move(faults));
  try {
    test::play(stage, scenario);
  } catch (const std::exception& error) {
    print(std::string("error ") + error.what());
    return 1;
  }
  for (const auto& [point, passages] : os::disarm_faults())
    print("passed " + point + " " + std::to_string(passages));
  return 0;
}
