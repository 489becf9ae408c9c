// The local provider in a second process: peer ROOT TREE_KILL FAULT.
#include <string>

#include "tests/conformance/profile.h"

int main(int argc, char** argv) {
  namespace kit = caisson::kit;
  if (argc != 4) return 2;
  kit::TreeKill tree_kill = kit::TreeKill::automatic;
  for (const kit::TreeKill way : {kit::TreeKill::cgroup, kit::TreeKill::shim}) {
    if (kit::to_string(way) == argv[2]) tree_kill = way;
  }
  const auto profile = caisson::test::decorated(caisson::cli::local_profile(tree_kill), argv[3]);
  return kit::conformance::serve(profile, argv[1]);
}
