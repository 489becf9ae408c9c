// Compares the traces before and after each test.
#include "tests/support/leak_check.h"

#include <gtest/gtest.h>

#include "tests/support/eventually.h"
#include "tests/support/traces.h"

namespace caisson::test {
namespace {

class LeakCheck : public testing::EmptyTestEventListener {
 public:
  explicit LeakCheck(std::chrono::milliseconds patience) : patience_(patience) {}
  void OnTestSuiteStart(const testing::TestSuite&) override {
    before_suite_ = take_traces();
    reported_.clear();
  }
  void OnTestStart(const testing::TestInfo&) override { before_test_ = take_traces(); }
  void OnTestEnd(const testing::TestInfo&) override { check("the test", before_test_); }
  void OnTestSuiteEnd(const testing::TestSuite&) override { check("the test suite", before_suite_); }

 private:
  void check(const char* who, const Traces& before) {
    Traces left;
    const auto clean = [&] {
      left = left_behind(before, take_traces());
      std::erase_if(left, [&](const auto& trace) { return reported_.contains(trace.first); });
      return left.empty();
    };
    if (eventually(clean, patience_)) {
      return;
    }
    std::string list;
    for (const auto& [key, words] : left) {
      list += "\n  " + words;
    }
    reported_.merge(left);
    ADD_FAILURE() << who << " left behind:" << list;
  }

  std::chrono::milliseconds patience_;
  Traces before_suite_;
  Traces before_test_;
  Traces reported_;
};

}  // namespace

void install_leak_check(std::chrono::milliseconds patience) {
  // Last, so that it is the first to hear of a test's end, before the printer.
  testing::UnitTest::GetInstance()->listeners().Append(new LeakCheck(patience));
}

}  // namespace caisson::test
