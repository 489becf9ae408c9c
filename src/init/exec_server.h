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
class ExecServer {
 public:
  using News = std::variant<Exited, TreeEmpty>;
  struct StartedExec {
    Started started;
    os::Fd terminal;  ///< The master, with a tty.
  };

  /// `box` is borrowed. `keep`: the other ends of commands' pipes are kept, for a host that comes back.
  static BoxResult<ExecServer> create(const Box& box, bool keep);

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
    bool empty = false;  ///< Nothing of its tree is left.
    bool acknowledged = false;
    bool killing = false;
    os::Fd terminal;
    os::Fd input, output, error;  ///< Kept for a host that comes back.
    std::vector<pid_t> before;    ///< Children of ours that were there before it: none of its own.
  };
  using Execs = std::map<std::uint64_t, Exec>;

  ExecServer(const Box& box, bool keep, ProcessTable processes) noexcept
      : box_(&box), keep_(keep), processes_(std::move(processes)) {}

  BoxResult<Execs::iterator> find(std::uint64_t id);
  void reap_ended(std::vector<std::uint64_t>& ended);
  std::vector<pid_t> orphans() const;
  bool may_own(const Exec& exec, pid_t orphan, pid_t session) const;
  std::vector<pid_t> orphans_of(const Exec& exec, bool certain) const;
  void go_on_killing();

  const Box* box_;
  bool keep_;
  ProcessTable processes_;
  Execs execs_;
  std::uint64_t next_ = 1;
  int rounds_ = 0;  // Of killing, since something was last found to kill.
};

}  // namespace caisson::init
