// The main of every test program.
#include <gtest/gtest.h>

#include "tests/support/leak_check.h"
#include "tests/support/traces.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/common_interface_defs.h>

#include <thread>
#define CAISSON_UNDER_TSAN
#endif
#endif

#ifdef CAISSON_UNDER_TSAN
// What TSan sees wrongly; the runtime asks for this (a build under TSan alone has it).
extern "C" const char* __tsan_default_suppressions() {
  return
      // Asio counts an executor's references with relaxed decrements and a fence, which TSan does not follow.
      "race:boost::asio::execution::detail::any_executor_base::destroy_shared\n"
      // libstdc++'s own count of an exception's references is in a library that is not instrumented.
      "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
#endif

int main(int argc, char** argv) {
#ifdef CAISSON_UNDER_TSAN
  // TSan starts a thread of its own, for good, with the program's first: so before any test looks.
  std::thread([] {}).join();
  // Likewise the child that it asks for names, to match them with what is suppressed.
  char name[64];
  __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name, sizeof name);
#endif
  testing::InitGoogleTest(&argc, argv);
  caisson::test::isolate_mounts();
  caisson::test::install_leak_check();
  return RUN_ALL_TESTS();
}
