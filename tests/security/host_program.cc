// caisson_host_program STATE ROOT cgroup|shim COMMAND...: a careless host program. Puts itself into STATE,
// runs COMMAND in a session, prints its output and then how it ended. For `crowd` runs 2,000 at once and
// prints how many succeeded.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iterator>
#include <string_view>
#include <vector>

#include "caisson/caisson.h"

namespace {

using namespace std::chrono_literals;

void limit_descriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
}

// As an older kernel would have it, or a filter that some container engine loads.
void lose_call(unsigned number) {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    std::abort();
}

void enter(std::string_view state) {
  if (state == "ignores_sigchld") std::signal(SIGCHLD, SIG_IGN);
  if (state == "keeps_no_children") {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    action.sa_flags = SA_NOCLDWAIT;
    sigaction(SIGCHLD, &action, nullptr);
  }
  if (state == "holds_descriptors") {
    for (int i = 0; i < 500; ++i) {
      if (open("/dev/null", O_RDONLY) < 0) std::abort();  // not close-on-exec
    }
  }
  if (state == "blocks_signals") {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    for (int number = 1; number < 32; ++number) std::signal(number, SIG_IGN);
    std::signal(SIGCHLD, SIG_DFL);
  }
  if (state == "has_a_large_heap") {
    const std::size_t size = 1UL << 30;
    void* heap = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) std::abort();
    std::memset(heap, 1, size);
  }
  if (state == "has_closed_stdin") close(0);
  if (state == "lacks_openat2") lose_call(SYS_openat2);
  if (state == "lacks_clone3") lose_call(SYS_clone3);
  if (state == "lacks_pidfd") lose_call(SYS_pidfd_open);
  if (state == "lacks_close_range") lose_call(SYS_close_range);
  if (state == "limited") limit_descriptors(1024, 4096);
  if (state == "crowd_raised") limit_descriptors(1024, 16384);
  if (state == "crowd_short") limit_descriptors(1024, 1024);
}

caisson::SandboxSessionSpec spec() {
  caisson::SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "careless";
  spec.durability = caisson::Durability::ephemeral;
  spec.network = caisson::Network::egress;
  spec.isolation = caisson::Isolation::none;
  spec.ttl_seconds = 600;
  return spec;
}

caisson::Awaitable<int> one(std::shared_ptr<caisson::SandboxSession> session, int number) {
  caisson::Argv argv{"sh", "-c", "echo $0; exit 7", std::to_string(number)};
  caisson::ExecOptions options(300s);
  const auto result = co_await session->exec(std::move(argv), std::move(options));
  co_return result.exit_code == 7 && result.out == std::to_string(number) + "\n" ? 1 : 0;
}

int crowd(const caisson::OpenOptions& options) {
  boost::asio::io_context loop;
  auto sandbox = caisson::open(loop.get_executor(), "local", options);
  auto created = boost::asio::co_spawn(loop, sandbox->create_session(spec()), boost::asio::use_future);
  loop.run();
  auto session = created.get();
  std::vector<std::future<int>> outcomes;
  for (int i = 0; i < 2000; ++i) {
    outcomes.push_back(boost::asio::co_spawn(loop, one(session, i), boost::asio::use_future));
  }
  loop.restart();
  loop.run();
  int good = 0;
  for (auto& outcome : outcomes) good += outcome.get();
  auto released = boost::asio::co_spawn(loop, session->release(), boost::asio::use_future);
  loop.restart();
  loop.run();
  released.get();
  std::printf("succeeded %d\n", good);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string_view state = argv[1];
  enter(state);
  caisson::OpenOptions options;
  options.policy = caisson::SandboxPolicy{caisson::Network::egress, caisson::Isolation::none, false, true};
  options.settings = [root = std::string(argv[2])](std::string_view name) -> std::optional<std::string> {
    if (name == "SANDBOX_LOCAL_ROOT") return root;
    return std::nullopt;
  };
  options.tree_kill =
      std::string_view(argv[3]) == "shim" ? caisson::kit::TreeKill::shim : caisson::kit::TreeKill::cgroup;
  try {
    if (state.starts_with("crowd")) return crowd(options);
    auto sandbox = caisson::blocking::open("local", options);
    auto session = sandbox.create_session(spec());
    const auto result = session.exec(caisson::Argv(std::vector<std::string>(argv + 4, argv + argc)),
                                     caisson::ExecOptions(30s));
    std::fwrite(result.out.data(), 1, result.out.size(), stdout);
    std::printf("ended %s %d\n", std::string(caisson::to_string(result.ended.how)).c_str(), result.exit_code);
  } catch (const std::exception& error) {
    std::printf("error %s\n", error.what());
    return 1;
  }
  return 0;
}
