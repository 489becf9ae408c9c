// The threads at our standard streams: order, backpressure, failure, and that none is left behind.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "caisson/contract/errors.h"
#include "cli/input_reader.h"
#include "cli/output_writer.h"
#include "tests/support/async.h"
#include "tests/support/eventually.h"

namespace caisson::cli {
namespace {

using boost::asio::use_future;
using test::run;

std::string read_exactly(os::FdRef from, std::size_t size) {
  std::string all;
  while (all.size() < size) {
    char buffer[4096];
    const auto got = os::read_some(from, buffer, std::min(sizeof buffer, size - all.size())).value();
    if (got == 0) break;
    all.append(buffer, got);
  }
  return all;
}

TEST(OutputWriter, WritesInOrderToEachStream) {
  boost::asio::io_context context;
  auto out = os::make_pipe().value();
  auto err = os::make_pipe().value();
  OutputWriter writer(context.get_executor(), {out.write, err.write}, [](os::Error) { FAIL(); });
  for (int i = 0; i < 10; ++i) {
    run(context, writer.write(i % 2 == 0 ? SandboxStream::out : SandboxStream::err, std::to_string(i)));
  }
  run(context, writer.drain());
  EXPECT_EQ(read_exactly(out.read, 5), "02468");
  EXPECT_EQ(read_exactly(err.read, 5), "13579");
  EXPECT_TRUE(writer.stop());
}

constexpr std::size_t piece_size = (1U << 16) - 4096;

Awaitable<void> write_all(OutputWriter* writer, std::size_t pieces, std::size_t* written) {
  for (std::size_t i = 0; i < pieces; ++i) {
    std::string data(piece_size, 'x');
    co_await writer->write(SandboxStream::out, std::move(data));
    ++*written;
  }
}

TEST(OutputWriter, SlowReaderHoldsTheWriterBackAndLosesNothing) {
  boost::asio::io_context context;
  auto out = os::make_pipe().value();
  OutputWriter writer(context.get_executor(), {out.write, out.write}, [](os::Error) { FAIL(); });
  std::size_t written = 0;
  constexpr std::size_t pieces = 64;
  auto done = boost::asio::co_spawn(context, write_all(&writer, pieces, &written), use_future);
  context.poll();
  // The limit, a piece in the write under way and one more at most.
  EXPECT_LE(written, OutputWriter::limit / piece_size + 3);
  EXPECT_GE(written, OutputWriter::limit / piece_size);
  std::thread reader(
      [&] { EXPECT_EQ(read_exactly(out.read, pieces * piece_size).size(), pieces * piece_size); });
  run(context, writer.drain());
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    context.restart();
    context.run_one();
  }
  run(context, writer.drain());
  reader.join();
  EXPECT_EQ(written, pieces);
}

TEST(OutputWriter, LiftedLimitNeverWaits) {
  boost::asio::io_context context;
  auto out = os::make_pipe().value();
  auto writer = std::make_unique<OutputWriter>(context.get_executor(),
                                               OutputWriter::Targets{out.write, out.write}, [](os::Error) {});
  writer->lift_limit();
  std::size_t written = 0;
  run(context, write_all(writer.get(), 64, &written));
  EXPECT_EQ(written, 64U);
  // Pieces of 64 KiB less a page: a full pipe is one in the middle of a write.
  EXPECT_TRUE(test::eventually([&] { return os::readable_bytes(out.read).value() == 1U << 16; }));
  EXPECT_FALSE(writer->stop()) << "it is held up in a write that nobody reads";
  // The reader's end: the write fails, and the thread ends.
  out.read.reset();
  while (!writer->stop()) std::this_thread::yield();
}

TEST(OutputWriter, GoneReaderIsToldOnceAndTheRestIsDropped) {
  boost::asio::io_context context;
  auto out = os::make_pipe().value();
  out.read.reset();
  std::vector<os::Error> failures;
  OutputWriter writer(context.get_executor(), {out.write, out.write},
                      [&](os::Error error) { failures.push_back(error); });
  std::size_t written = 0;
  run(context, write_all(&writer, 64, &written));
  run(context, writer.drain());
  context.restart();
  context.poll();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures.front(), os::error_of(EPIPE));
  EXPECT_EQ(written, 64U);
}

TEST(InputReader, ReadsToTheEndAndStaysThere) {
  boost::asio::io_context context;
  auto in = os::make_pipe().value();
  ASSERT_TRUE(os::write_all(in.write, "hello"));
  in.write.reset();
  InputReader reader(context.get_executor(), in.read);
  EXPECT_EQ(run(context, reader.read()), "hello");
  EXPECT_EQ(run(context, reader.read()), "");
  EXPECT_EQ(run(context, reader.read()), "");
}

TEST(InputReader, TakesNoMoreThanOnePieceAhead) {
  boost::asio::io_context context;
  auto in = os::make_pipe().value();
  ASSERT_GT(::fcntl(in.read.number(), F_SETPIPE_SZ, 1 << 20), 0);
  ASSERT_TRUE(os::write_all(in.write, std::string(1 << 19, 'x')));
  InputReader reader(context.get_executor(), in.read);
  const std::string first = run(context, reader.read());
  EXPECT_LE(first.size(), InputReader::piece);
  EXPECT_GE(os::readable_bytes(in.read).value(), (1U << 19) - 3 * InputReader::piece);
}

TEST(InputReader, EndsWhileNothingComes) {
  boost::asio::io_context context;
  auto in = os::make_pipe().value();
  const int flags = ::fcntl(in.read.number(), F_GETFL);
  {
    InputReader reader(context.get_executor(), in.read);
  }
  EXPECT_EQ(::fcntl(in.read.number(), F_GETFL), flags) << "the caller's descriptor stays as it was";
}

TEST(InputReader, WhatCannotBeReadIsTyped) {
  boost::asio::io_context context;
  const os::Fd directory = os::Fd::adopt(::open("/", O_RDONLY | O_CLOEXEC));
  InputReader reader(context.get_executor(), directory);
  EXPECT_THROW(run(context, reader.read()), SandboxError);
}

}  // namespace
}  // namespace caisson::cli
