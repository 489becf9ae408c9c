// The messages between a host process and caisson-init, each a plain struct.
//
// The host speaks first, with Hello. Each request has a number that is not 0, and one reply that bears it:
// Failed, or what the request's comment names. Exited and TreeEmpty come unasked, with the number 0. init
// answers in any order.
//
// Nothing that init says is to be trusted (S-102): every number in it is a claim from within the box.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "init/box_plan.h"
#include "init/frame.h"
#include "os/result.h"

namespace caisson::init {

/// Of the messages but Hello and its reply: an init that outlives its daemon may meet one that knows others.
inline constexpr std::uint32_t message_version = 1;
inline constexpr std::size_t max_detail = 512;  ///< Bytes.
inline constexpr std::uint32_t max_signal = 64;
inline constexpr std::size_t max_execs = 65536;

// From the host. A member descriptors() says how many ride along; where there is none, none do.

/// Answered by HelloReply.
struct Hello {
  static constexpr MessageType type = MessageType::hello;
  std::uint32_t version = message_version;

  bool operator==(const Hello&) const = default;
};

/// Once in a box's life, before anything but Hello and Ping; a box that Failed is of no use. Answered by
/// Done.
struct BuildBox {
  static constexpr MessageType type = MessageType::build_box;
  BoxPlan plan;

  std::uint8_t descriptors() const noexcept { return plan.descriptors(); }
  bool operator==(const BuildBox&) const = default;
};

struct TtySize {
  std::uint16_t columns = 0;
  std::uint16_t rows = 0;

  bool operator==(const TtySize&) const = default;
};

/// Answered by Started; Exited and TreeEmpty follow. Arguments and environment together are at most
/// max_arguments (E2BIG).
struct StartExec {
  static constexpr MessageType type = MessageType::start_exec;
  std::vector<std::string> argv;  ///< Not empty.
  std::vector<std::string>
      env;                     ///< "K=V" each, over the box's own. Secrets: init forgets them after the exec.
  std::string cwd;             ///< Resolved in the box; empty: the workspace.
  std::optional<TtySize> tty;  ///< A terminal of the box's own, whose master comes back with Started.
  /// Without a tty: its standard input rides along; else it reads an empty one. A box that outlives its
  /// connection keeps a duplicate of the other end of each pipe among the three (TakeStreams).
  bool input = false;
  std::uint64_t descriptor_limit_soft = 0;  ///< RLIMIT_NOFILE; 0 leaves it.
  /// The name of a cgroup among the box's exec_cgroups, to be born into; empty: where init is.
  std::string cgroup;
  /// How many cgroups the command joins first of all, each by a `tasks` (v1) or `cgroup.procs` that is open
  /// for writing. At most max_joined.
  std::uint8_t joined = 0;

  /// In this order: without a tty standard input (if `input`), output and error; then the joined ones.
  std::uint8_t descriptors() const noexcept {
    return static_cast<std::uint8_t>((tty ? 0 : 2 + (input ? 1 : 0)) + joined);
  }
  bool operator==(const StartExec&) const = default;
};

/// To the exec's leader. Answered by Done.
struct SignalExec {
  static constexpr MessageType type = MessageType::signal_exec;
  std::uint64_t exec = 0;
  std::uint32_t signal = 0;  ///< 1 to max_signal.

  bool operator==(const SignalExec&) const = default;
};

/// To all of the exec's tree. Answered by Done at once, and the killing goes on: Exited without `left`, or
/// TreeEmpty, says that it is gone. In a box without cgroups init ends the processes that bear the exec's
/// mark.
struct KillExec {
  static constexpr MessageType type = MessageType::kill_exec;
  std::uint64_t exec = 0;

  bool operator==(const KillExec&) const = default;
};

/// The host has its exit: init may forget the exec. Answered by Done.
struct AckExit {
  static constexpr MessageType type = MessageType::ack_exit;
  std::uint64_t exec = 0;

  bool operator==(const AckExit&) const = default;
};

/// Answered by Done.
struct ResizeTty {
  static constexpr MessageType type = MessageType::resize_tty;
  std::uint64_t exec = 0;
  TtySize size;

  bool operator==(const ResizeTty&) const = default;
};

/// Opens a file for reading, as the box's user. Answered by Opened; Failed with EISDIR for a directory, ENXIO
/// for what is no regular file either, and EXDEV for a relative path that leads out of where it starts.
struct OpenFile {
  static constexpr MessageType type = MessageType::open_file;
  std::string path;
  std::string directory;  ///< Where a relative path starts, in the box; empty: the workspace.

  bool operator==(const OpenFile&) const = default;
};

/// Makes a new file beside `path`, which starts at the workspace if it is relative, to replace it; missing
/// parents are made. Answered by PutOpened, or Failed as OpenFile. What is not committed when the connection
/// ends is removed.
struct BeginPut {
  static constexpr MessageType type = MessageType::begin_put;
  std::string path;
  std::optional<std::uint32_t> mode;  ///< None: as the file that it replaces, else 0644.

  bool operator==(const BeginPut&) const = default;
};

/// Puts the new file in the old one's place. Answered by Done.
struct CommitPut {
  static constexpr MessageType type = MessageType::commit_put;
  std::uint64_t put = 0;

  bool operator==(const CommitPut&) const = default;
};

/// Removes the new file. Answered by Done.
struct AbortPut {
  static constexpr MessageType type = MessageType::abort_put;
  std::uint64_t put = 0;

  bool operator==(const AbortPut&) const = default;
};

/// Answered by Done.
struct Ping {
  static constexpr MessageType type = MessageType::ping;

  bool operator==(const Ping&) const = default;
};

/// Answered by ExecList.
struct ListExecs {
  static constexpr MessageType type = MessageType::list_execs;

  bool operator==(const ListExecs&) const = default;
};

/// Asks for the host's ends of an exec's streams, which are kept until its exit is acknowledged. Answered by
/// Streams.
struct TakeStreams {
  static constexpr MessageType type = MessageType::take_streams;
  std::uint64_t exec = 0;

  bool operator==(const TakeStreams&) const = default;
};

/// Lets go of the duplicate of an exec's standard input: with the host's own closed, the exec sees its end.
/// Answered by Done, also where there is none.
struct CloseInput {
  static constexpr MessageType type = MessageType::close_input;
  std::uint64_t exec = 0;

  bool operator==(const CloseInput&) const = default;
};

using Request = std::variant<Hello, BuildBox, StartExec, SignalExec, KillExec, AckExit, ResizeTty, OpenFile,
                             BeginPut, CommitPut, AbortPut, Ping, ListExecs, TakeStreams, CloseInput>;

// From init.

struct HelloReply {
  static constexpr MessageType type = MessageType::hello_reply;
  std::uint32_t version = message_version;

  bool operator==(const HelloReply&) const = default;
};

struct Done {
  static constexpr MessageType type = MessageType::done;

  bool operator==(const Done&) const = default;
};

/// What init was doing when it failed.
enum class Step : std::uint8_t {
  protocol,  ///< The request is none, comes at the wrong time, or names what is not there.
  hostname,
  mount,
  proc,
  dev,
  etc,  ///< The plan's files, links and directories.
  mask,
  pivot,
  ids,
  limits,
  capabilities,
  seccomp,
  cwd,
  descriptors,
  tty,
  cgroup,
  clone,
  session,
  exec,
  signal,
  open,
  create,
  commit,
  network,  ///< The loopback interface.
};
inline constexpr Step last_step = Step::network;

struct Failed {
  static constexpr MessageType type = MessageType::failed;
  Step step = Step::protocol;
  std::uint32_t number = 0;  ///< errno; 0 where no call failed.
  /// Which path or name; at most max_detail bytes, of any kind. Of `exec` with ENOENT: the program that is
  /// there, but for what is to interpret it; none where there is no program.
  std::string detail;

  bool operator==(const Failed&) const = default;
};

struct Started {
  static constexpr MessageType type = MessageType::started;
  std::uint64_t exec = 0;
  std::uint32_t pid = 0;  ///< In the box; at least 1.
  bool tty = false;       ///< The terminal's master rides along.

  std::uint8_t descriptors() const noexcept { return tty ? 1 : 0; }
  bool operator==(const Started&) const = default;
};

/// The exec's leader has ended. Said again to each new connection until it is acknowledged.
struct Exited {
  static constexpr MessageType type = MessageType::exited;
  std::uint64_t exec = 0;
  bool signaled = false;
  std::uint32_t code = 0;  ///< The exit code, at most 255; if signaled the signal, 1 to max_signal.
  bool core = false;       ///< Dumped core; only if signaled.
  bool left = false;       ///< Descendants are still in its tree: TreeEmpty will follow.

  bool operator==(const Exited&) const = default;
};

/// Nothing of an exec is left that had something left. init knows an exec's processes by the mark that they
/// are born with (its UTS namespace); one that cannot be looked at counts for every exec.
struct TreeEmpty {
  static constexpr MessageType type = MessageType::tree_empty;
  std::uint64_t exec = 0;

  bool operator==(const TreeEmpty&) const = default;
};

/// The file rides along, open for reading. Its size and mode are what init saw: the host believes its own
/// fstat.
struct Opened {
  static constexpr MessageType type = MessageType::opened;
  std::uint64_t size = 0;  ///< Bytes.
  std::uint32_t mode = 0;  ///< Permission bits.

  std::uint8_t descriptors() const noexcept { return 1; }
  bool operator==(const Opened&) const = default;
};

/// The new file rides along, open for writing.
struct PutOpened {
  static constexpr MessageType type = MessageType::put_opened;
  std::uint64_t put = 0;

  std::uint8_t descriptors() const noexcept { return 1; }
  bool operator==(const PutOpened&) const = default;
};

struct ExecState {
  std::uint64_t exec = 0;
  std::uint32_t pid = 0;  ///< In the box; at least 1.
  bool ended = false;     ///< Its leader has: Exited tells how.

  bool operator==(const ExecState&) const = default;
};

/// Every exec that has not ended, is not acknowledged, or has left something.
struct ExecList {
  static constexpr MessageType type = MessageType::exec_list;
  std::vector<ExecState> execs;  ///< In the order of their starts.

  bool operator==(const ExecList&) const = default;
};

/// Duplicates of what is kept, non-blocking but for the terminal, ride along in this order.
struct Streams {
  static constexpr MessageType type = MessageType::streams;
  bool terminal = false;  ///< The master; then there is nothing else.
  bool input = false;     ///< To write to.
  bool output = false;    ///< To read from, as `error`.
  bool error = false;

  std::uint8_t descriptors() const noexcept {
    return static_cast<std::uint8_t>(int{terminal} + int{input} + int{output} + int{error});
  }
  bool operator==(const Streams&) const = default;
};

using Reply =
    std::variant<HelloReply, Done, Failed, Started, Exited, TreeEmpty, Opened, PutOpened, ExecList, Streams>;

/// The whole frame of any message above, in one piece of memory that the caller wipes if the message holds
/// secrets. What the peer would refuse is an error here: E2BIG (StartExec's arguments, BoxPlan's
/// environment), ENAMETOOLONG (a path), EMSGSIZE (longer than a frame), else EINVAL.
template <class Message>
os::Result<std::string> encode(std::uint64_t request, const Message& message);

/// What the frame says. EBADMSG: it is no message of that direction, breaks a rule, or its number of
/// descriptors is not the message's. The caller wipes the frame's body, and what it decodes to, if they may
/// hold secrets.
os::Result<Request> decode_request(const Frame& frame);
os::Result<Reply> decode_reply(const Frame& frame);

}  // namespace caisson::init
