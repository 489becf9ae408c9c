// Server: what caisson-init does with its control socket and its children, one event after another.
#pragma once

#include <optional>
#include <vector>

#include "init/channel.h"
#include "init/exec_server.h"
#include "init/file_server.h"

namespace caisson::init {

/// Serves one connection at a time, and builds the box when the first one asks for it. One thread; SIGCHLD is
/// blocked in it.
class Server {
 public:
  /// `control`: a connected socket, whose end of file is the box's end; or one that is bound and does not
  /// listen yet, which is listened on here, so that what lives in the box outlives each connection.
  static os::Result<Server> create(os::Fd control);

  /// Until the connected socket's peer is gone, or something fails that leaves nothing to serve.
  void run();

 private:
  // What goes back for a request, or unasked.
  struct Answer {
    // Of two arguments: one alone would make any message, Failed too, an answer and a failure alike.
    Answer(Reply message, std::vector<os::Fd> with)
        : reply(std::move(message)), descriptors(std::move(with)) {}
    Reply reply;
    std::vector<os::Fd> descriptors;
  };

  Server(os::Fd listener, os::Fd children) noexcept
      : listener_(std::move(listener)), children_(std::move(children)) {}

  // What calls it is not there once it returns false.
  bool wait_and_serve();
  void accept_next();
  void drop_connection();
  bool serve_connection();
  BoxResult<Answer> serve(Request request, std::vector<os::Fd> descriptors);
  BoxResult<Answer> answer(const Hello& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(BuildBox& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(StartExec& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const OpenFile& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const BeginPut& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const SignalExec& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const KillExec& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const AckExit& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const ResizeTty& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const ListExecs& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const TakeStreams& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const CloseInput& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const CommitPut& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const AbortPut& request, std::vector<os::Fd>& descriptors);
  BoxResult<Answer> answer(const Ping& request, std::vector<os::Fd>& descriptors);
  void tell_news();
  void send(std::uint64_t request, Answer answer);

  os::Fd listener_;  // None: the connection is all there is.
  os::Fd children_;  // A signalfd of SIGCHLD.
  std::optional<Channel> channel_;
  bool broken_ = false;       // The connection is of no more use.
  bool greeted_ = false;      // It has said Hello.
  bool begun_ = false;        // A box was asked for.
  std::unique_ptr<Box> box_;  // Lent to those below.
  std::optional<ExecServer> execs_;
  std::optional<FileServer> files_;
};

}  // namespace caisson::init
