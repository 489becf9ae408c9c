// Checks of transfers: what is no regular file, modes, caps, and the event loop meanwhile.
#include <atomic>
#include <thread>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

template <class T>
Awaitable<void> refused_at_once(Context context, std::string what, Awaitable<T> call) {
  Task<T> task(context.executor(), std::move(call));
  const bool settled = co_await task.settled(context.limit());
  expect(settled, what + ": expected an answer, saw it wait");
  co_await refused(what, task.get(), ErrorCode::not_a_regular_file);
}

Awaitable<void> all_refused_at_once(Context context, SessionPtr session, std::string path) {
  co_await refused_at_once(context, "get_file of " + path, session->get_file(path));
  co_await refused_at_once(context, "put_file to " + path, session->put_file(path, "x"));
  co_await refused_at_once(context, "open_reader of " + path, session->open_reader(path));
  co_await refused_at_once(context, "open_writer of " + path, session->open_writer(path));
}

Awaitable<void> streams_only_regular(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir -p sub/directory; mkfifo sub/fifo; ln -s sub/fifo link");
  const std::vector<std::string> paths{"sub/directory", "sub/fifo", "link"};
  for (const std::string& path : paths) co_await all_refused_at_once(context, session, path);
  const std::string kinds =
      co_await output_of(context, session, "test -d sub/directory && test -p sub/fifo && echo kept");
  expect_equal("what stood in the way of the transfers", kinds, "kept\n");
}

Awaitable<void> devices(Context context) {
  auto session = co_await context.session();
  const ExecResult made = co_await run_shell(context, session, "mknod zero c 1 5 && test -c zero");
  if (made.exit_code != 0) throw NotRun("a session's commands can make no device (mknod)");
  co_await all_refused_at_once(context, session, "zero");
}

Awaitable<void> becomes_directory(Context context) {
  auto session = co_await context.session();
  auto writer = co_await session->open_writer("name");
  co_await writer->write("x");
  co_await output_of(context, session, "mkdir name; echo y >name/file");
  co_await refused("commit to what has become a directory", writer->commit(), ErrorCode::not_a_regular_file);
  const std::string out = co_await output_of(context, session, "cat name/file");
  expect_equal("the file in that directory", out, "y\n");
}

Awaitable<void> mode_through_symlink(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session,
                     "mkdir sub; echo old >sub/script; chmod 0751 sub/script; ln -s sub/script link");
  co_await session->put_file("link", "new\n");
  std::string line = co_await output_of(context, session, "ls -ld sub/script");
  expect_equal("mode of the target of a put by a symlink", line.substr(0, 10), "-rwxr-x--x");
  line = co_await output_of(context, session, "test -h link && cat sub/script");
  expect_equal("the target of that symlink", line, "new\n");
}

Awaitable<void> hard_link_untouched(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "echo old >one; ln one two");
  co_await session->put_file("one", "new\n");
  const std::string out = co_await output_of(context, session, "cat one two");
  expect_equal("a replaced file, and another name of the old one", out, "new\nold\n");
}

Awaitable<void> all_bits(Context context) {
  auto session = co_await context.session();
  // What the umask of a command would take away.
  co_await session->put_file("open", "", 0666);
  co_await session->put_file("closed", "", 0400);
  co_await session->put_file("closed", "again", 0400);
  const std::string out = co_await output_of(
      context, session, "ls -l open closed | while read -r mode rest; do echo $mode; done");
  expect_contains("modes of files put with 0666 and 0400", out, "-rw-rw-rw-");
  expect_contains("modes of files put with 0666 and 0400", out, "-r--------");
}

std::uint64_t max_file_bytes(const Context& context) {
  if (!context.profile().max_file_bytes) throw NotRun("the profile names no cap of in-memory file transfers");
  return *context.profile().max_file_bytes;
}

Awaitable<void> cap_of_put(Context context) {
  const std::uint64_t cap = max_file_bytes(context);
  auto session = co_await context.session();
  co_await refused("put_file of a byte over the cap", session->put_file("file", std::string(cap + 1, 'x')),
                   ErrorCode::too_large);
  co_await refused("the file that it would have made", session->get_file("file"), ErrorCode::file_missing);
  co_await session->put_file("file", std::string(cap, 'x'));
}

Awaitable<void> cap_of_get(Context context) {
  const std::uint64_t cap = max_file_bytes(context);
  auto session = co_await context.session();
  co_await output_of(context, session, "head -c " + std::to_string(cap + 1) + " /dev/zero >file");
  co_await refused("get_file of a byte over the cap", session->get_file("file"), ErrorCode::too_large);
  co_await output_of(context, session, "head -c " + std::to_string(cap) + " /dev/zero >file");
  const std::string seen = co_await session->get_file("file");
  expect_equal("bytes of a file just at the cap", std::uint64_t{seen.size()}, cap);
}

Awaitable<void> streams_past_cap(Context context) {
  const std::uint64_t cap = max_file_bytes(context);
  auto session = co_await context.session();
  auto writer = co_await session->open_writer("file");
  const std::string piece(std::size_t{1} << 20U, 'x');
  std::uint64_t written = 0;
  while (written <= cap) {
    co_await writer->write(piece);
    written += piece.size();
  }
  co_await writer->commit();
  auto reader = co_await session->open_reader("file");
  expect_equal("size() of a file over the cap", reader->size(), written);
  std::uint64_t read = 0;
  for (;;) {
    const std::string part = co_await reader->read(piece.size());
    if (part.empty()) break;
    read += part.size();
  }
  expect_equal("bytes streamed of a file over the cap", read, written);
}

/// Counts turns of a millisecond on a thread of its own: what the machine lets anybody have.
class Metronome {
 public:
  Metronome() : thread_(&Metronome::tick, this) {}
  ~Metronome() {
    stop_ = true;
    thread_.join();
  }
  Metronome(const Metronome&) = delete;
  Metronome& operator=(const Metronome&) = delete;
  int ticks() const noexcept { return ticks_; }

 private:
  void tick() {
    while (!stop_) {
      std::this_thread::sleep_for(1ms);
      ++ticks_;
    }
  }
  std::atomic<int> ticks_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

Awaitable<void> count_turns(Context context, std::shared_ptr<int> turns) {
  for (;;) {
    co_await pause(context, 1ms);
    ++*turns;
  }
}

Awaitable<void> loop_goes_on(Context context) {
  auto session = co_await context.session();
  const auto turns = std::make_shared<int>(0);
  Task<void> counting(context.executor(), count_turns(context, turns));
  const Metronome metronome;
  const std::string data(std::size_t{1} << 20U, 'x');
  // Transfers one after the other, until there were turns enough to compare.
  while (metronome.ticks() < 200) {
    co_await session->put_file("file", data);
    co_await session->get_file("file");
  }
  const int had = metronome.ticks();
  expect(*turns * 10 >= had, "expected the event loop to go on during file transfers, saw it take " +
                                 show(*turns) + " turns while a thread took " + show(had));
}

constexpr Check table[] = {
    {"files.streams_only_regular", "S-72", "readers and writers take regular files alone, at once",
     streams_only_regular},
    {"files.devices", "S-72", "a device is typed at once", devices},
    {"files.target_becomes_directory", "S-71 S-72", "a target that changes before the commit is typed",
     becomes_directory},
    {"files.mode_through_symlink", "S-71", "a put by a symlink keeps its target's mode",
     mode_through_symlink},
    {"files.hard_link_untouched", "S-71", "a put replaces one name, not what others name",
     hard_link_untouched},
    {"files.mode_bits", "S-71", "a given mode is as given, whatever the umask", all_bits},
    {"files.cap_of_put", "S-72", "put_file over the cap is typed, and makes nothing", cap_of_put},
    {"files.cap_of_get", "S-72", "get_file over the cap is typed", cap_of_get},
    {"files.streams_past_cap", "S-72", "streaming has no cap", streams_past_cap},
    {"files.loop_goes_on", "S-73", "transfers never block the event loop", loop_goes_on},
};

}  // namespace

std::span<const Check> transfer_checks() { return table; }

}  // namespace caisson::kit::conformance
