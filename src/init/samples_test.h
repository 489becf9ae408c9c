// A message of every type, with every field set.
#pragma once

#include <string>
#include <vector>

#include "init/messages.h"

namespace caisson::init {

inline BoxPlan sample_plan() {
  const MountFlags flags{true, false, true, true};
  BoxPlan plan;
  plan.hostname = "box";
  plan.mounts = {Tmpfs{"/tmp/here", 0x10000, 0x2000, 01777, flags},
                 Bind{"/srv/source", "/usr/here", true, {true, true, false, false}},
                 Proc{"/proc"},
                 Devpts{"/dev/pts"},
                 Attached{1, "/layers/one"},
                 Attached{0, "/layers/zero"},
                 Overlay{"/", {"/lower/a", "/lower/b"}, "/upper/c", "/work/d"},
                 Overlay{"/opt", {"/lower/e", "/lower/f"}, "", ""}};
  plan.directories = {{"/home/user", 0700, 0x3e8, 0x3e9}};
  plan.files = {{"/etc/passwd", 0640, std::string("user:x\n\0\xff", 9)}, {"/etc/empty", 0, ""}};
  plan.symlinks = {{"../proc/self/fd", "/dev/fd"}};
  plan.devices = {Device::null, Device::tty};
  plan.masked = {"/proc/kcore", "/sys/firmware"};
  plan.read_only = {"/proc/sys"};
  plan.workspace = "/workspace";
  plan.user = {0x3e8, 0x3e9, {0x64, 0x65}, "/home/user", "user"};
  plan.ids = {0x7d0, 0x7d1};
  plan.capabilities = 0x8000000000000001;
  plan.rlimits = {{7, 0x400, 0x1000}, {4, UINT64_MAX, UINT64_MAX}};
  plan.seccomp = std::string("\x06\0\0\0\0\0\xff\x7f", 8);
  plan.environment = {"PATH=/usr/bin:/bin", "EMPTY="};
  plan.cgroup = true;
  plan.joined = 3;
  return plan;
}

inline StartExec sample_exec() {
  return {
      {"python3", "-c", "", "print(1)"}, {"TOKEN=secret", "A=B=C"}, "sub/dir", {}, true, 0x1000, "leaf", 2};
}

inline std::vector<Request> sample_requests() {
  StartExec terminal = sample_exec();
  terminal.tty = TtySize{120, 40};
  terminal.cwd = "";
  terminal.input = false;
  terminal.cgroup = "";
  terminal.joined = 0;
  return {Hello{7},
          BuildBox{sample_plan()},
          sample_exec(),
          terminal,
          SignalExec{0x1122334455667788, 61},
          KillExec{5},
          AckExit{6},
          ResizeTty{7, {132, 50}},
          OpenFile{"some/file", "/workspace/sub"},
          OpenFile{"/some/file", ""},
          BeginPut{"new/file", 0755},
          BeginPut{"new/file", {}},
          CommitPut{8},
          AbortPut{9},
          Ping{},
          ListExecs{},
          TakeStreams{0x1122334455667788},
          CloseInput{10}};
}

inline std::vector<Reply> sample_replies() {
  return {HelloReply{8},
          Done{},
          Failed{Step::exec, 0x77, "python3"},
          Started{0x1122334455667788, 0x2bad, true},
          Started{2, 0x2bad, false},
          Exited{3, false, 0xfa, false, true},
          Exited{4, true, 61, true, false},
          TreeEmpty{5},
          Opened{0x123456789, 0640},
          PutOpened{6},
          ExecList{{{7, 0x2bad, true}, {8, 0x2bae, false}}},
          ExecList{},
          Streams{true, false, false, false},
          Streams{false, true, true, false}};
}

template <class... Messages>
os::Result<std::string> encode_any(std::uint64_t request, const std::variant<Messages...>& message) {
  return std::visit([&](const auto& each) { return encode(request, each); }, message);
}

}  // namespace caisson::init
