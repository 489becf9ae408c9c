// Boxes with the real caisson-init, and what their tests do with them.
#pragma once

#include <boost/asio.hpp>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "os/fd.h"
#include "providers/container/container_box.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {

namespace asio = boost::asio;

inline constexpr UidSlot first_slot{524288, 524288, 65536};
inline constexpr UidSlot second_slot{589824, 589824, 65536};

inline std::string box_text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Ran {
  std::string out;
  std::string err;
  ExecEnded ended;
};

// co_spawn returns only what has a default constructor.
inline Awaitable<void> start_into(std::shared_ptr<kit::SessionBox> box,
                                  std::shared_ptr<const kit::ExecPlan> plan, asio::any_io_executor executor,
                                  std::optional<kit::StartedExec>* started) {
  started->emplace(co_await box->start(plan, executor));
}
inline Awaitable<void> write_into(std::shared_ptr<kit::SessionBox> box, std::string path, std::string data,
                                  FileMode mode) {
  co_await box->put_file(path, data, mode);
}

inline kit::ExecPlan plan_of(std::vector<std::string> argv) {
  kit::ExecPlan plan;
  plan.argv = std::move(argv);
  return plan;
}
inline kit::ExecPlan shell(const std::string& script) { return plan_of({"/bin/sh", "-c", script}); }

/// A core and an event loop on a thread of its own.
class BoxBed {
 public:
  BoxBed() : work_(asio::make_work_guard(context)), thread_([this] { context.run(); }) {
    settings.root = temporary / "root";
    settings.runtime_directory = temporary / "run";
    settings.init_program = CAISSON_INIT_PROGRAM;
    settings.upper_bytes = settings.workspace_bytes = settings.tmp_bytes = settings.shm_bytes = 8 << 20;
  }
  ~BoxBed() {
    core_.reset();
    work_.reset();
    thread_.join();
  }
  BoxBed(const BoxBed&) = delete;
  BoxBed& operator=(const BoxBed&) = delete;

  const std::shared_ptr<ContainerCore>& core() {
    if (!core_) {
      core_ = std::make_shared<ContainerCore>(
          settings, clock, [this](kit::LogLevel, const std::string& message) { log += message + "\n"; },
          use_cgroups);
    }
    return core_;
  }

  template <class T>
  T get(Awaitable<T> work) {
    return asio::co_spawn(context, std::move(work), asio::use_future).get();
  }

  std::shared_ptr<ContainerBox> make(BoxRequest request) {
    if (request.cgroup_name.empty()) request.cgroup_name = os::new_cgroup_name();
    PrepareBox prepare = [request = std::move(request)] { return request; };
    return get(make_box(core(), std::move(prepare), context.get_executor()));
  }
  std::shared_ptr<ContainerBox> make(const UidSlot& slot = first_slot, const std::string& image = "host") {
    return make(BoxRequest{image, BoxShape{"box", slot, {}, false}, {}, {}, {}});
  }

  kit::StartedExec start(const std::shared_ptr<kit::SessionBox>& box, kit::ExecPlan plan) {
    auto shared = std::make_shared<const kit::ExecPlan>(std::move(plan));
    std::optional<kit::StartedExec> started;
    get(start_into(box, std::move(shared), context.get_executor(), &started));
    return std::move(*started);
  }
  /// To its end, its output with it.
  Ran run(const std::shared_ptr<kit::SessionBox>& box, kit::ExecPlan plan, const std::string& input = {}) {
    plan.input = !input.empty();
    kit::StartedExec started = start(box, std::move(plan));
    if (!input.empty()) {
      static_cast<void>(os::write_all(os::FdRef{started.in.native_handle()}, input));
      started.in.close();
    }
    Ran ran;
    ran.out = read_to_end(started.out);
    if (started.err.is_open()) ran.err = read_to_end(started.err);
    ran.ended = wait_for(*started.tree);
    return ran;
  }
  Ran run(const std::shared_ptr<kit::SessionBox>& box, const std::string& script,
          const std::string& input = {}) {
    return run(box, shell(script), input);
  }
  void put(const std::shared_ptr<kit::SessionBox>& box, const std::string& path, const std::string& data,
           FileMode mode = {}) {
    get(write_into(box, path, data, mode));
  }
  std::string read(const std::shared_ptr<kit::SessionBox>& box, const std::string& path) {
    return get(box->get_file(path, 1 << 20));
  }

  static ExecEnded wait_for(kit::ExecTree& tree) {
    std::optional<ExecEnded> ended;
    test::eventually([&] { return (ended = tree.try_reap()).has_value(); });
    if (ended) return *ended;
    ExecEnded none;
    none.how = ExecEnd::lost;
    return none;
  }
  static std::string read_to_end(asio::posix::stream_descriptor& stream) {
    std::string text;
    char buffer[4096];
    stream.native_non_blocking(false);
    for (;;) {
      const auto count = os::read_some(os::FdRef{stream.native_handle()}, buffer, sizeof buffer);
      if (!count || *count == 0) return text;  // EIO is how a terminal's master says the end.
      text.append(buffer, *count);
    }
  }
  static std::string read_until(asio::posix::stream_descriptor& stream, std::string_view word) {
    stream.native_non_blocking(false);
    return test::read_until(os::FdRef{stream.native_handle()}, word);
  }

  test::TemporaryDirectory temporary;
  ContainerSettings settings;                               ///< As they are when the core is first used.
  std::shared_ptr<kit::Clock> clock = kit::system_clock();  ///< Likewise.
  UseCgroups use_cgroups = UseCgroups::yes;                 ///< Likewise.
  std::string log;
  asio::io_context context;

 private:
  std::shared_ptr<ContainerCore> core_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

/// What a call throws, which must fail, as "<code> <field>: <message>".
template <class Call>
std::string failure_of(Call call) {
  try {
    call();
  } catch (const SandboxError& error) {
    return std::string(to_string(error.code())) + " " + error.field() + ": " + error.what();
  }
  return "it succeeded";
}

}  // namespace caisson::container
