// A container provider on an event loop of its own thread, for tests of it as a whole.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <filesystem>
#include <future>
#include <thread>

#include "caisson/providers/container.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {

inline SandboxSessionSpec spec_of(Durability durability, const std::string& key = "key") {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = key;
  spec.durability = durability;
  spec.ttl_seconds = 60;
  return spec;
}

class ContainerSandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
    settings_.root = temporary_ / "root";
    settings_.runtime_directory = temporary_ / "run";
    settings_.init_program = CAISSON_INIT_PROGRAM;
    settings_.unbounded_disk = true;
    settings_.pool_size = 0;
    thread_ = std::thread([this] { context_.run(); });
  }
  void TearDown() override {
    sandbox_.reset();
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }
  kit::ManagedSandbox& sandbox() {
    if (!sandbox_) {
      ContainerOptions options;
      options.executor = context_.get_executor();
      options.settings = settings_;
      sandbox_ = container::open(std::move(options));
      sandbox_->bind_policy({Network::egress, Isolation::none, false, true});
    }
    return *sandbox_;
  }
  template <class T>
  T get(Awaitable<T> work) {
    return boost::asio::co_spawn(context_, std::move(work), boost::asio::use_future).get();
  }
  std::shared_ptr<SandboxSession> create(SandboxSessionSpec spec = spec_of(Durability::ephemeral)) {
    return get(sandbox().create_session(std::move(spec)));
  }
  ExecResult exec(const std::shared_ptr<SandboxSession>& session, const std::string& script,
                  std::chrono::duration<double> timeout = std::chrono::seconds(60)) {
    return get(session->exec(Argv{"sh", "-c", script}, ExecOptions(timeout)));
  }
  std::string out_of(const std::shared_ptr<SandboxSession>& session, const std::string& script) {
    const ExecResult result = exec(session, script);
    return result.out + result.err;
  }
  template <class Call>
  std::string failure_of(Call call) {
    try {
      call();
    } catch (const SandboxError& error) {
      return std::string(to_string(error.code())) + " " + error.field() + ": " + error.what();
    }
    return "it succeeded";
  }
  std::string refusal(SandboxSessionSpec spec) {
    return failure_of([&] { create(std::move(spec)); });
  }
  std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(temporary_ / directory))
      names.push_back(entry.path().filename().string());
    return names;
  }

  test::TemporaryDirectory temporary_;
  ContainerSettings settings_;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(context_);
  std::thread thread_;
  std::shared_ptr<kit::ManagedSandbox> sandbox_;
};

}  // namespace caisson::container
