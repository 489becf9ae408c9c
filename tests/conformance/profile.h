// The local provider's profile with a second process, as the tests of the suite use it.
#pragma once

#include <string>

#include "cli/local_profile.h"

namespace caisson::test {

/// The provider with one fault of the suite, or with none (empty), in both processes.
inline kit::conformance::ConformanceProfile decorated(kit::conformance::ConformanceProfile profile,
                                                      const std::string& fault) {
  profile.open = [open = profile.open, fault](const kit::conformance::OpenContext& context) {
    return kit::conformance::faulty_provider(open(context), fault);
  };
  return profile;
}

#ifdef CAISSON_CONFORMANCE_PEER
/// `fault` is that of the second process alone.
inline kit::conformance::ConformanceProfile profile_with_peer(
    kit::TreeKill tree_kill, std::shared_ptr<kit::ManualClock> clock = nullptr,
    const std::string& fault = "") {
  auto profile = cli::local_profile(tree_kill, std::move(clock));
  const std::string way(kit::to_string(tree_kill));
  profile.peer = [way, fault](const std::string& root) {
    return std::vector<std::string>{CAISSON_CONFORMANCE_PEER, root, way, fault};
  };
  return profile;
}
#endif

}  // namespace caisson::test
