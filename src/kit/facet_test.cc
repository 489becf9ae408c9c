// The facet (S-80): one provider a process, its policy bound.
#include "caisson/kit/facet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "caisson/contract/errors.h"

namespace caisson::kit {
namespace {

const SandboxPolicy strict{
    .egress = Network::none, .isolation = Isolation::container, .scrub_transcript = true, .durable = false};
const SandboxPolicy loose{
    .egress = Network::egress, .isolation = Isolation::none, .scrub_transcript = false, .durable = true};

/// A provider of which only the name and the bound policy matter.
class NamedSandbox final : public Sandbox {
 public:
  explicit NamedSandbox(std::string name) : name_(std::move(name)) {}

  Awaitable<std::shared_ptr<SandboxSession>> create_session(SandboxSessionSpec) override { return {}; }
  Awaitable<std::shared_ptr<SandboxSession>> get_session(std::string) override { return {}; }
  Awaitable<std::vector<SandboxSessionInfo>> list_sessions() override { return {}; }
  Awaitable<void> destroy_session(std::string) override { return {}; }
  Awaitable<std::vector<std::string>> reap() override { return {}; }
  std::string_view name() const noexcept override { return name_; }
  void bind_policy(SandboxPolicy policy) override {
    if (refuse_policy) throw std::runtime_error("no policy taken");
    bound = policy;
  }

  std::optional<SandboxPolicy> bound;
  bool refuse_policy = false;

 private:
  std::string name_;
};

class Facet : public testing::Test {
 protected:
  Facet() { unregister_sandbox(); }
  ~Facet() override { unregister_sandbox(); }
};

template <class Call>
std::optional<ErrorCode> code_of(const Call& call) {
  try {
    call();
  } catch (const SandboxError& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST_F(Facet, EmptyItNamesTheSettings_S80) {
  for (const auto& call :
       {+[] { static_cast<void>(require_sandbox()); }, +[] { static_cast<void>(sandbox_policy()); }}) {
    try {
      call();
      FAIL() << "nothing is registered";
    } catch (const SandboxUnavailableError& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_NE(message.find("TAI_MCP_SANDBOX_ISOLATION"), std::string::npos) << message;
      EXPECT_NE(message.find("SANDBOX_LOCAL_ROOT"), std::string::npos) << message;
    }
  }
}

TEST_F(Facet, InstallsTheProviderAndBindsThePolicy_S80) {
  const auto sandbox = std::make_shared<NamedSandbox>("local");
  register_sandbox(sandbox, strict);
  EXPECT_EQ(require_sandbox(), sandbox);
  EXPECT_EQ(sandbox_policy(), strict);
  EXPECT_EQ(sandbox->bound, strict);
}

TEST_F(Facet, TheSameProviderAgainReplaces_S80) {
  const auto first = std::make_shared<NamedSandbox>("local");
  const auto second = std::make_shared<NamedSandbox>("local");
  register_sandbox(first, strict);
  register_sandbox(second, loose);
  EXPECT_EQ(require_sandbox(), second);
  EXPECT_EQ(sandbox_policy(), loose);
  EXPECT_EQ(first.use_count(), 1) << "the one before is let go";
  register_sandbox(second, strict);
  EXPECT_EQ(require_sandbox(), second);
  EXPECT_EQ(second->bound, strict);
}

TEST_F(Facet, ADifferentProviderIsAnError_S80) {
  const auto local = std::make_shared<NamedSandbox>("local");
  const auto other = std::make_shared<NamedSandbox>("container");
  register_sandbox(local, strict);
  EXPECT_EQ(code_of([&] { register_sandbox(other, loose); }), ErrorCode::invalid_argument);
  EXPECT_EQ(require_sandbox(), local);
  EXPECT_EQ(sandbox_policy(), strict);
  EXPECT_FALSE(other->bound);
  unregister_sandbox();
  register_sandbox(other, loose);
  EXPECT_EQ(require_sandbox(), other);
}

TEST_F(Facet, NoProviderIsAnError) {
  EXPECT_EQ(code_of([] { register_sandbox(nullptr, strict); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { static_cast<void>(require_sandbox()); }), ErrorCode::unavailable);
}

TEST_F(Facet, AProviderThatTakesNoPolicyIsNotInstalled) {
  const auto first = std::make_shared<NamedSandbox>("local");
  const auto second = std::make_shared<NamedSandbox>("local");
  second->refuse_policy = true;
  register_sandbox(first, strict);
  EXPECT_THROW(register_sandbox(second, loose), std::runtime_error);
  EXPECT_EQ(require_sandbox(), first);
  EXPECT_EQ(sandbox_policy(), strict);
}

TEST_F(Facet, UnregisteringLetsTheProviderGo) {
  const auto sandbox = std::make_shared<NamedSandbox>("local");
  register_sandbox(sandbox, strict);
  unregister_sandbox();
  EXPECT_EQ(sandbox.use_count(), 1);
  EXPECT_EQ(code_of([] { static_cast<void>(require_sandbox()); }), ErrorCode::unavailable);
}

TEST_F(Facet, IsSafeBetweenThreads_S80) {
  register_sandbox(std::make_shared<NamedSandbox>("local"), strict);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, writes = i % 2 == 0] {
      for (int round = 0; round < 500; ++round) {
        if (writes) {
          register_sandbox(std::make_shared<NamedSandbox>("local"), round % 2 == 0 ? strict : loose);
        } else {
          const SandboxPolicy policy = sandbox_policy();
          if (policy != strict && policy != loose) ++wrong;
          if (require_sandbox()->name() != "local") ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace caisson::kit
