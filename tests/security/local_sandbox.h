// A local sandbox over a temporary root, for tests of both ways of tree kill.
#pragma once

#include <gtest/gtest.h>

#include "caisson/caisson.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {

inline OpenOptions local_options(const std::string& root, kit::TreeKill tree_kill) {
  OpenOptions options;
  options.policy = SandboxPolicy{Network::egress, Isolation::none, false, true};
  options.settings = [root](std::string_view name) -> std::optional<std::string> {
    if (name == "SANDBOX_LOCAL_ROOT") return root;
    return std::nullopt;
  };
  options.tree_kill = tree_kill;
  return options;
}

inline SandboxSessionSpec local_spec(std::string key = "key") {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = std::move(key);
  spec.durability = Durability::ephemeral;
  spec.network = Network::egress;
  spec.isolation = Isolation::none;
  spec.ttl_seconds = 600;
  return spec;
}

/// A session, through the blocking facade.
class LocalSandboxTest : public testing::TestWithParam<kit::TreeKill> {
 protected:
  TemporaryDirectory root_;
  blocking::Sandbox sandbox_ = blocking::open("local", local_options(root_.path(), GetParam()));
  blocking::Session session_ = sandbox_.create_session(local_spec());
};

}  // namespace caisson::test
