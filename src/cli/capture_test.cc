// The command's output kept for --json.
#include "cli/capture.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

SandboxStreamExit exit_with(int code) {
  SandboxStreamExit exit;
  exit.exit_code = code;
  exit.ended.exit_code = code;
  return exit;
}

TEST(Capture, KeepsTheStreamsApart) {
  Capture capture;
  capture.take(SandboxStream::out, "a");
  capture.take(SandboxStream::err, "b");
  capture.take(SandboxStream::out, "c");
  const ExecResult result = capture.finish(exit_with(3));
  EXPECT_EQ(result.out, "ac");
  EXPECT_EQ(result.err, "b");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.ended.exit_code, 3);
  EXPECT_FALSE(result.truncated);
}

// S-50: past the cap bytes are counted and dropped; a stream that ends at it is whole.
TEST(Capture, S50_CountsWhatItDrops) {
  Capture capture(4);
  capture.take(SandboxStream::out, "abcd");
  capture.take(SandboxStream::err, "ab");
  capture.take(SandboxStream::err, "cde");
  capture.take(SandboxStream::err, "f");
  const ExecResult result = capture.finish(exit_with(0));
  EXPECT_EQ(result.out, "abcd");
  EXPECT_EQ(result.err, "abcd");
  EXPECT_EQ(result.stdout_bytes, 4U);
  EXPECT_EQ(result.stderr_bytes, 6U);
  EXPECT_TRUE(result.truncated);
  Capture whole(4);
  whole.take(SandboxStream::out, "abcd");
  EXPECT_FALSE(whole.finish(exit_with(0)).truncated);
}

}  // namespace
}  // namespace caisson::cli
