// Tests of the queue between an exec's pump and its reader.
#include "kit/output_queue.h"

#include <gtest/gtest.h>

namespace caisson::kit {
namespace {

SandboxStreamChunk chunk_of(std::size_t size) { return {SandboxStream::out, std::string(size, 'x')}; }

TEST(OutputQueue, S60GivesChunksInOrder) {
  OutputQueue queue;
  for (const std::size_t size : {1U, 2U, 3U}) queue.push(chunk_of(size));
  for (const std::size_t size : {1U, 2U, 3U}) EXPECT_EQ(queue.pop().chunk->data.size(), size);
  EXPECT_FALSE(queue.pop().chunk);
}

TEST(OutputQueue, S60ANewcomerTakesNothingFromAReader) {
  OutputQueue queue;
  queue.push(chunk_of(1));
  ASSERT_TRUE(queue.begin_reading());
  EXPECT_FALSE(queue.begin_reading());
  EXPECT_FALSE(queue.pop_unless_read().chunk);
  queue.end_reading();
  EXPECT_TRUE(queue.pop_unless_read().chunk);
  EXPECT_TRUE(queue.begin_reading());
}

TEST(OutputQueue, S61APumpThatIsHeldUpIsWokenOnceHalfIsFree) {
  OutputQueue queue;
  constexpr std::size_t eighth = OutputQueue::limit / 8;
  for (int i = 0; i < 7; ++i) queue.push(chunk_of(eighth));
  EXPECT_FALSE(queue.hold_up());
  queue.push(chunk_of(eighth));
  EXPECT_TRUE(queue.full());
  EXPECT_TRUE(queue.hold_up());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(queue.pop().room);
  EXPECT_TRUE(queue.pop().room);
  EXPECT_FALSE(queue.pop().room) << "it is awake";
}

TEST(OutputQueue, S61APumpThatWasNotHeldUpIsNotWoken) {
  OutputQueue queue;
  queue.push(chunk_of(OutputQueue::limit));
  EXPECT_FALSE(queue.pop().room);
}

}  // namespace
}  // namespace caisson::kit
