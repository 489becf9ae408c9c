// What a command in a box can reach of what is outside of it: nothing (S-101, S-102, D-5, D-12). Each denial
// stands beside a control: the same probe where nothing forbids it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "os/files.h"
#include "os/process.h"
#include "tests/security/container_sandbox.h"

namespace caisson::test {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

class ContainerReachTest : public ContainerSandboxTest {
 protected:
  ContainerReachTest() { put_guests(session_); }

  std::string inside(const std::string& probe, const std::string& argument = {}) {
    return run({"./guest_reach", probe, argument});
  }
  // The same probe as a plain process of this host, with a directory for its standard input.
  static std::string outside(const std::string& probe, const std::string& argument = {}) {
    Command command({guest("guest_reach"), probe, argument});
    const os::Fd input = os::Fd::adopt(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto pipe = os::make_pipe();
    os::SpawnPlan plan = command.plan();
    plan.descriptors[0] = input;
    plan.descriptors[1] = pipe->write;
    auto process = os::spawn(plan);
    pipe->write.reset();
    std::string text = os::read_all(pipe->read, 4096).value();
    process->reap();
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  static bool is_root() { return ::geteuid() == 0; }
};

TEST_F(ContainerReachTest, S101_CallsThatMakeNamespacesMountsAndDevicesAreRefused) {
  for (const char* probe : {"new_mount", "copy_mount", "new_user_namespace", "new_mount_namespace",
                            "clone_user_namespace", "enter_namespace", "change_root", "open_by_handle"}) {
    EXPECT_EQ(inside(probe), "EPERM") << probe;
    if (is_root()) {
      EXPECT_EQ(outside(probe), "done") << probe << ": the control";
    }
  }
  EXPECT_EQ(inside("clone3"), "ENOSYS") << "so that libc falls back to clone, whose flags can be seen";
  EXPECT_EQ(outside("clone3"), "done") << "the control";
  EXPECT_EQ(inside("make_device", "/tmp"), "EPERM");
  if (is_root()) {
    EXPECT_EQ(outside("make_device", directory_.path()), "done") << "the control";
  }
}

TEST_F(ContainerReachTest, D12_WaysIntoTheKernelAreRefused) {
  for (const char* probe :
       {"io_uring", "userfaultfd", "perf_event", "bpf_map", "set_clock", "add_key", "read_keyring"}) {
    EXPECT_EQ(inside(probe), "EPERM") << probe;
    if (is_root()) {
      EXPECT_EQ(outside(probe), "done") << probe << ": the control";
    }
  }
  EXPECT_EQ(inside("set_up_aio"), "ENOSYS") << "its contexts are counted for the whole machine";
  EXPECT_EQ(outside("set_up_aio"), "done") << "the control";
  EXPECT_EQ(inside("vsock_socket"), "EAFNOSUPPORT");
  EXPECT_EQ(inside("packet_socket"), "EAFNOSUPPORT");
  EXPECT_EQ(inside("internet_socket"), "done") << "the control";
}

TEST_F(ContainerReachTest, D12_OtherCallingConventionsAreRefused) {
  EXPECT_EQ(inside("old_gate"), "ENOSYS");
  EXPECT_THAT(outside("old_gate"), AnyOf("done", "ENOSYS")) << "a kernel may be without";
  EXPECT_EQ(inside("x32_call"), "ENOSYS");
}

TEST_F(ContainerReachTest, S102_NothingOfInitCanBeRead) {
  for (const char* path :
       {"/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/auxv", "/proc/1/syscall"})
    EXPECT_THAT(inside("read_file", path), AnyOf("EACCES", "EPERM", "ENOENT")) << path;
  // Which numbers they have may be seen, and nothing else of them.
  for (const char* path :
       {"/proc/1/root", "/proc/1/cwd", "/proc/1/exe", "/proc/1/ns/mnt", "/proc/1/fd/0", "/proc/1/fd/3"})
    EXPECT_THAT(inside("read_link", path), AnyOf("EACCES", "EPERM")) << path;
  EXPECT_EQ(inside("read_file", "/proc/self/environ"), "done") << "the control";
  EXPECT_EQ(inside("list_directory", "/proc/self/fd"), "done") << "the control";
  EXPECT_EQ(inside("read_link", "/proc/self/root"), "done") << "the control";
}

TEST_F(ContainerReachTest, S102_InitIsNeitherTracedNorKilled) {
  EXPECT_EQ(inside("trace_process", "1"), "EPERM");
  EXPECT_EQ(inside("trace_child"), "done") << "the control";
  EXPECT_EQ(inside("limit_process", "1"), "EPERM");
  EXPECT_EQ(inside("limit_process", "0"), "done") << "the control";
  EXPECT_EQ(outside("limit_process", std::to_string(::getpid())), "done") << "the control";
  EXPECT_THAT(inside("read_file", "/proc/1/autogroup"), AnyOf("ENODATA", "ENOENT")) << "masked";
  run({"sh", "-c", "kill -KILL 1; kill -STOP 1; kill -TERM 1; kill -KILL -1; true"});
  EXPECT_EQ(run({"echo", "alive"}), "alive");
}

TEST_F(ContainerReachTest, S101_PartsOfProcAndSysAreMaskedOrReadOnly) {
  for (const char* path :
       {"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity"}) {
    EXPECT_THAT(inside("open_to_write", path), AnyOf("EROFS", "EACCES", "EPERM", "ENOENT")) << path;
    if (is_root() && fs::exists(path)) {
      EXPECT_EQ(outside("open_to_write", path), "done") << path << ": the control";
    }
  }
  for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats"})
    EXPECT_THAT(inside("read_file", path), AnyOf("ENODATA", "ENOENT", "EACCES", "EPERM")) << path;
  EXPECT_EQ(inside("read_file", "/proc/meminfo"), "done") << "the control";
  for (const char* path : {"/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/kernel", "/sys/fs/cgroup"})
    EXPECT_THAT(inside("list_directory", path), AnyOf("ENODATA", "ENOENT", "EACCES")) << path;
  EXPECT_EQ(inside("list_directory", "/proc"), "done") << "the control";
}

TEST_F(ContainerReachTest, S101_DevicesAreTheFewHarmlessOnes) {
  EXPECT_EQ(
      run({"sh", "-c",
           "cd /dev && for file in * pts/*; do if [ -c $file ] || [ -b $file ]; then echo $file; fi; done"}),
      "full\nnull\nptmx\nrandom\ntty\nurandom\nzero\npts/ptmx");
  for (const char* path : {"/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/vda", "/dev/net/tun"})
    EXPECT_EQ(inside("open_to_write", path), "ENOENT") << path;
  EXPECT_EQ(inside("open_to_write", "/dev/null"), "done") << "the control";
}

TEST_F(ContainerReachTest, D5_NoDescriptorLeadsOut) {
  EXPECT_EQ(inside("climb_from_descriptors"), "ENOTDIR");
  EXPECT_EQ(outside("climb_from_descriptors"), "done") << "the control: its standard input is a directory";
  std::ofstream(directory_.path() + "/marker") << "x";
  EXPECT_EQ(inside("climb_from_directory", directory_.path() + "/marker"), "ENOENT");
  EXPECT_EQ(inside("climb_from_directory", "/workspace/guest_reach"), "done") << "the control";
  EXPECT_EQ(outside("climb_from_directory", directory_.path() + "/marker"), "done") << "the control";
}

TEST_F(ContainerReachTest, S102_ProcessesOutsideAreNotThere) {
  const std::string self = std::to_string(::getpid());
  EXPECT_EQ(inside("signal_process", self), "ESRCH");
  EXPECT_EQ(outside("signal_process", self), "done") << "the control";
  EXPECT_THAT(run({"sh", "-c", "cat /proc/[0-9]*/comm"}), Not(HasSubstr("caisson_securi")));
}

TEST_F(ContainerReachTest, S104_SocketsOfTheHostAreNotThere) {
  const os::Fd abstract = os::Fd::adopt(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string name = "caisson-test-" + std::to_string(::getpid());
  sockaddr_un unix_address = {};
  unix_address.sun_family = AF_UNIX;
  std::memcpy(unix_address.sun_path + 1, name.data(), name.size());
  ASSERT_EQ(::bind(abstract.number(), reinterpret_cast<const sockaddr*>(&unix_address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  ASSERT_EQ(::listen(abstract.number(), 1), 0);
  EXPECT_EQ(inside("connect_abstract", name), "ECONNREFUSED");
  EXPECT_EQ(outside("connect_abstract", name), "done") << "the control";

  const os::Fd internet = os::Fd::adopt(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(internet.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(internet.number(), 1), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(internet.number(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(inside("connect_loopback", port), "ECONNREFUSED");
  EXPECT_EQ(outside("connect_loopback", port), "done") << "the control";
}

TEST_F(ContainerReachTest, S101_NoFileGivesPrivileges) {
  EXPECT_EQ(inside("gain_privileges"), "EPERM");
  EXPECT_EQ(outside("gain_privileges"), "done") << "the control";
  for (const char* path : {"/", "/usr", "/workspace", "/tmp", "/dev/shm", "/run", "/root", "/var/tmp"}) {
    EXPECT_EQ(inside("trust_setuid_files", path), "EPERM") << path;
    EXPECT_EQ(inside("trust_device_files", path), "EPERM") << path;
  }
  EXPECT_EQ(outside("trust_setuid_files", "/"), "done") << "the control";
  const std::string status = run({"cat", "/proc/self/status"});
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_THAT(status, HasSubstr(std::string(set) + ":\t0000000000000000")) << "image host keeps none";
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
}

TEST_F(ContainerReachTest, S101_EveryNamespaceIsItsOwn) {
  for (const char* name : {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"}) {
    const std::string path = std::string("/proc/self/ns/") + name;
    EXPECT_NE(run({"readlink", path}), fs::read_symlink(path).string()) << name;
  }
}

TEST_F(ContainerReachTest, S101_NoCoreIsDumped) {
  const ExecResult result = session_.exec({"sh", "-c", "ulimit -c unlimited 2>/dev/null; kill -SEGV $$"},
                                          ExecOptions(std::chrono::seconds(30)));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_FALSE(result.ended.core);
  EXPECT_EQ(run({"sh", "-c", "ls -a /workspace | grep -c core; true"}), "0");
}

TEST_F(ContainerReachTest, S102_ATerminalTakesNoInjectedInput) {
  auto exec = session_.exec_start({"./guest_reach", "type_into_terminal"},
                                  ExecOptions(std::chrono::seconds(30)).tty(TtySize{80, 24}));
  std::string out;
  while (auto item = exec.output().next()) {
    if (auto* chunk = std::get_if<SandboxStreamChunk>(&*item)) out += chunk->data;
  }
  EXPECT_THAT(out, StartsWith("EPERM"));
}

TEST_F(ContainerReachTest, S102_AnotherSessionsFilesAreNotThere) {
  auto other = sandbox_.create_session(container_spec("other"));
  for (const char* path :
       {"/workspace/secret-7f3e", "/tmp/secret-7f3e", "/dev/shm/secret-7f3e", "/run/secret-7f3e"})
    other.put_file(path, "x");
  const Argv look{
      "sh", "-c",
      "find / -xdev -name 'secret-7f3e' 2>/dev/null; find /workspace /tmp /dev/shm /run -name 'secret-7f3e'"};
  EXPECT_EQ(run(look), "");
  EXPECT_THAT(run(other, look), HasSubstr("/workspace/secret-7f3e")) << "the control";
}

}  // namespace
}  // namespace caisson::test
