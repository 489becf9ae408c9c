// ExecServer: the commands of a box, started, signalled, reaped and remembered.
#pragma once

#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "init/box.h"
#include "init/process_table.h"
#include "os/process.h"

namespace caisson::init {

/// Commands of one box, for a process that is their parent and reaper: process 1 of the box. One thread. It
/// never waits, but for a command's start.
///
/// Where the box has cgroups, the host ends the trees of commands and knows what is left of them; else that
/// is done here, by a mark that each tree bears.
class ExecServer {
 public:
  using News = std::variant<Exited, TreeEmpty>;
  struct StartedExec {
    Started started;
    os::Fd terminal;  ///< The master, with a tty.
  };

  /// `box` is borrowed. `keep`: the other ends of commands' pipes are kept, for a host that comes back.
  ExecServer(const Box& box, bool keep) noexcept : box_(&box), keep_(keep), processes_(box.proc) {}

  /// Starts a command with the descriptors that came with the request. The request's environment is left for
  /// the caller to wipe; no copy of it stays.
  BoxResult<StartedExec> start(const StartExec& request, std::vector<os::Fd> descriptors);
  BoxResult<void> signal(const SignalExec& request);
  BoxResult<void> kill(const KillExec& request);
  BoxResult<void> acknowledge(const AckExit& request);
  BoxResult<void> resize(const ResizeTty& request);
  struct TakenStreams {
    Streams streams;
    std::vector<os::Fd> descriptors;
  };
  BoxResult<TakenStreams> take_streams(const TakeStreams& request);
  BoxResult<void> close_input(const CloseInput& request);
  ExecList list() const;

  /// Reaps whatever has ended, and goes on with killing. To be called when a child has ended (SIGCHLD), and
  /// when pause_ms() is over.
  std::vector<News> reap();
  /// How long to wait at most before the next reap(); -1: for a child's end.
  int pause_ms() const noexcept;

  /// The exits that nobody has acknowledged, for a new connection.
  std::vector<Exited> unacknowledged() const;

 private:
  struct Exec {
    os::Process leader;
    std::optional<Exited> end;
    bool empty = false;  ///< Nothing of its tree is left, as far as that is init's to know.
    bool acknowledged = false;
    bool killing = false;
    os::Fd terminal;
    os::Fd input, output, error;  ///< Kept for a host that comes back.
    TreeMark mark;                ///< Of its tree; none where the host has a cgroup for that.
  };
  using Execs = std::map<std::uint64_t, Exec>;

  BoxResult<Execs::iterator> find(std::uint64_t id);
  bool reap_ended(std::vector<std::uint64_t>& ended);
  bool is_empty(const Exec& exec) const;
  void go_on_killing();

  const Box* box_;
  bool keep_;
  ProcessTable processes_;
  Execs execs_;
  std::uint64_t next_ = 1;
  int rounds_ = 0;  // Of killing, since something was last found to kill.
};

}  // namespace caisson::init
