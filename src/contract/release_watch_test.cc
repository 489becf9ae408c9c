// The replaced allocation functions behind release_watch.h, and the controls for the tests that use it.
#include "contract/release_watch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace {

std::mutex watch_mutex;
const void* watched = nullptr;
std::size_t watched_size = 0;
int releases = 0;
bool all_zero = false;

void look_at(const void* block) noexcept {
  if (block == nullptr) return;
  const std::lock_guard lock(watch_mutex);
  if (block != watched) return;
  const auto* bytes = static_cast<const volatile unsigned char*>(block);
  all_zero = true;
  for (std::size_t i = 0; i < watched_size; ++i) all_zero = all_zero && bytes[i] == 0;
  ++releases;
  watched = nullptr;
}

void give_back(void* block) noexcept {
  look_at(block);
  std::free(block);
}

}  // namespace

// The array forms only: Secret and WipingMemory use them, and little else does.
void* operator new[](std::size_t size) {
  if (void* block = std::malloc(size == 0 ? 1 : size)) return block;
  throw std::bad_alloc();
}
void operator delete[](void* block) noexcept { give_back(block); }
void operator delete[](void* block, std::size_t) noexcept { give_back(block); }

namespace caisson::testing {

void watch_release(std::string_view memory) {
  const std::lock_guard lock(watch_mutex);
  watched = memory.data();
  watched_size = memory.size();
  releases = 0;
  all_zero = false;
}

int watched_releases() {
  const std::lock_guard lock(watch_mutex);
  return releases;
}

bool was_zero_at_release() {
  const std::lock_guard lock(watch_mutex);
  return all_zero;
}

namespace {

TEST(ReleaseWatch, SeesMemoryThatIsNotWiped) {
  char* block = new char[32];
  std::memset(block, 'x', 32);
  asm volatile("" : : "r"(block) : "memory");
  watch_release({block, 32});
  EXPECT_EQ(watched_releases(), 0);
  delete[] block;
  EXPECT_EQ(watched_releases(), 1);
  EXPECT_FALSE(was_zero_at_release());
}

}  // namespace
}  // namespace caisson::testing
