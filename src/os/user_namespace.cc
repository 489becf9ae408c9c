// A user namespace made by starting a program in it.
#include "os/user_namespace.h"

#include <linux/sched.h>
#include <signal.h>

#include "os/namespaces.h"
#include "os/shim_program.h"
#include "os/socket.h"
#include "os/spawn.h"

namespace caisson::os {
namespace {

// The shim serves as a program that is surely there and starts fast: without a plan it waits on its socket.
boost::system::result<Process, ExplainedError> start_holder(FdRef socket, FdRef empty_input) {
  const auto program = shim_program();
  if (!program) return explained(program.error(), "preparing a program for a user namespace");
  const char* const argv[] = {"caisson-ids", nullptr};
  const char* const envp[] = {nullptr};
  SpawnPlan plan;
  plan.program = *program;
  plan.argv = argv;
  plan.envp = envp;
  for (FdRef& descriptor : plan.descriptors) descriptor = empty_input;
  plan.extra = socket;
  plan.namespaces = CLONE_NEWUSER;
  plan.parent_death_signal = SIGKILL;
  auto process = spawn(plan);
  if (!process) return explained(process.error().number, "making a user namespace");
  return std::move(*process);
}

}  // namespace

ExplainedResult<Fd> make_user_namespace(const IdMaps& maps) {
  const auto sockets = make_socket_pair();
  const auto input = open_empty_input();
  if (!sockets || !input) {
    return explained(sockets ? input.error() : sockets.error(), "preparing a user namespace");
  }
  auto holder = start_holder(sockets->second, *input);
  if (!holder) return holder.error();
  const auto mapped = write_id_maps(*holder, maps);
  auto opened = open_namespace(holder->pidfd(), CLONE_NEWUSER);
  static_cast<void>(holder->signal(SIGKILL));
  holder->reap();
  if (!mapped) return mapped.error();
  if (!opened) return explained(opened.error(), "opening a user namespace");
  return std::move(*opened);
}

}  // namespace caisson::os
