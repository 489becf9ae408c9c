// Checks of file transfer: what arrives, with which mode, and how atomically.
#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<std::string> mode_of(Context context, SessionPtr session, std::string path) {
  // What stands behind the ten letters tells of ACLs and labels.
  const std::string line = co_await output_of(context, session, "ls -ld " + path);
  co_return line.substr(0, 10);
}

Awaitable<void> round_trip(Context context) {
  auto session = co_await context.session();
  const std::string bytes("a\0b\xff\r\n", 6);
  std::string large;
  for (int line = 0; large.size() < (std::size_t{1} << 20U); ++line) large += std::to_string(line) + "\n";
  const std::vector<std::string> contents{bytes, "", large};
  for (const std::string& content : contents) {
    co_await session->put_file("file", content);
    const std::string seen = co_await session->get_file("file");
    expect_equal("the file's bytes", seen, content);
  }
}

Awaitable<void> exec_sees_put(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("in", "from outside\n");
  const std::string out = co_await output_of(context, session, "cat in; echo from inside >out");
  expect_equal("a put file as a command sees it", out, "from outside\n");
  const std::string seen = co_await session->get_file("out");
  expect_equal("a command's file as get_file sees it", seen, "from inside\n");
}

Awaitable<void> makes_parents(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("a/b/c", "deep");
  const std::string seen = co_await session->get_file("a/b/c");
  expect_equal("the file's bytes", seen, "deep");
  const std::string mode = co_await mode_of(context, session, "a/b");
  expect_equal("mode of a parent that was made", mode, "drwxr-xr-x");
}

Awaitable<void> default_mode(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("file", "");
  const std::string mode = co_await mode_of(context, session, "file");
  expect_equal("mode of a new file", mode, "-rw-r--r--");
}

Awaitable<void> given_mode(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("new", "", 0750);
  std::string mode = co_await mode_of(context, session, "new");
  expect_equal("mode of a new file put with 0750", mode, "-rwxr-x---");
  co_await session->put_file("new", "", 0604);
  mode = co_await mode_of(context, session, "new");
  expect_equal("mode of that file put again with 0604", mode, "-rw----r--");
}

Awaitable<void> keeps_mode(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "echo old >script; chmod 0755 script");
  co_await session->put_file("script", "new\n");
  const std::string mode = co_await mode_of(context, session, "script");
  expect_equal("mode of a replaced file", mode, "-rwxr-xr-x");
  const std::string seen = co_await session->get_file("script");
  expect_equal("its bytes", seen, "new\n");
}

Awaitable<void> replaces_atomically(Context context) {
  auto session = co_await context.session();
  const std::string before(100000, 'a');
  co_await session->put_file("file", before);
  // A command that has the old file open keeps it, whole, whatever is put meanwhile.
  HandlePtr handle = co_await start_shell(context, session, "exec 3<file; echo open; read -r go; cat <&3");
  co_await read_until(handle, "open\n");
  co_await session->put_file("file", "short");
  const std::string seen = co_await session->get_file("file");
  expect_equal("the new file", seen, "short");
  co_await handle->write_stdin("go\n");
  const Drained drained = co_await drain(handle);
  expect_equal("the old file, opened before the put", drained.out, before);
}

Awaitable<void> leaves_no_trace(Context context) {
  auto session = co_await context.session();
  auto writer = co_await session->open_writer("streamed");
  co_await writer->write("half");
  co_await session->put_file("put", "whole");
  std::string names = co_await output_of(context, session, "ls -A");
  expect_equal("names in the workspace while a writer is open", names, "put\n");
  co_await writer->write(" and half");
  co_await writer->commit();
  names = co_await output_of(context, session, "ls -A");
  expect_equal("names in the workspace after its commit", names, "put\nstreamed\n");
  const std::string seen = co_await session->get_file("streamed");
  expect_equal("bytes of the committed file", seen, "half and half");
}

Awaitable<void> uncommitted_writer(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("file", "old");
  {
    auto writer = co_await session->open_writer("file");
    co_await writer->write("new");
  }
  const std::string seen = co_await session->get_file("file");
  expect_equal("a file whose writer was dropped", seen, "old");
}

Awaitable<void> reads_in_pieces(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("file", "0123456789");
  auto reader = co_await session->open_reader("file");
  expect_equal("size()", reader->size(), std::uint64_t{10});
  std::string seen;
  for (;;) {
    const std::string piece = co_await reader->read(4);
    expect(piece.size() <= 4, "expected read(4) to give at most 4 bytes, saw " + show(piece));
    if (piece.empty()) break;
    seen += piece;
    // What was opened stays what is read.
    co_await session->put_file("file", "another file");
  }
  expect_equal("bytes read in pieces", seen, "0123456789");
}

Awaitable<void> miss(Context context) {
  auto session = co_await context.session();
  const Refusal refusal =
      co_await refused("get_file of a missing file", session->get_file("not-there"), ErrorCode::file_missing);
  expect_contains("the message", refusal.message, "miss");
  co_await refused("get_file in a missing directory", session->get_file("no/such/file"),
                   ErrorCode::file_missing);
  co_await refused("open_reader of a missing file", session->open_reader("not-there"),
                   ErrorCode::file_missing);
}

Awaitable<void> only_regular(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir directory; mkfifo fifo; ln -s fifo link");
  const std::vector<std::string> paths{"directory", "fifo", "link"};
  for (const std::string& path : paths) {
    Task<std::string> get(context.executor(), session->get_file(path));
    const bool got = co_await get.settled(context.limit());
    expect(got, "get_file of " + path + ": expected an answer, saw it wait");
    co_await refused("get_file of " + path, get.get(), ErrorCode::not_a_regular_file);
    Task<void> put(context.executor(), session->put_file(path, "x"));
    const bool was_put = co_await put.settled(context.limit());
    expect(was_put, "put_file to " + path + ": expected an answer, saw it wait");
    co_await refused("put_file to " + path, put.get(), ErrorCode::not_a_regular_file);
  }
}

constexpr Check table[] = {
    {"files.round_trip", "S-71", "what is put is what is got, bytes as they are", round_trip},
    {"files.exec_sees_put", "S-70", "commands and transfers see the same workspace", exec_sees_put},
    {"files.makes_parents", "S-71", "put_file makes missing parents, 0755", makes_parents},
    {"files.default_mode", "S-71", "a new file is 0644", default_mode},
    {"files.given_mode", "S-71", "a mode can be given", given_mode},
    {"files.keeps_mode", "S-71", "an existing target keeps its mode", keeps_mode},
    {"files.replaces_atomically", "S-71", "a reader sees the old bytes or the new, whole",
     replaces_atomically},
    {"files.leaves_no_trace", "S-92", "a workspace never shows a temporary file", leaves_no_trace},
    {"files.uncommitted_writer", "S-71", "a writer dropped before its commit changes nothing",
     uncommitted_writer},
    {"files.reads_in_pieces", "S-72", "a reader keeps to what it opened", reads_in_pieces},
    {"files.miss", "S-72", "a miss is typed and says so", miss},
    {"files.only_regular", "S-72", "what is no regular file is typed at once", only_regular},
};

}  // namespace

std::span<const Check> file_checks() { return table; }

}  // namespace caisson::kit::conformance
