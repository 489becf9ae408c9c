// Tests of the filter compiler, by an interpreter of its programs.
#include "os/seccomp_filter.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#include <cstring>
#include <optional>
#include <random>

#include "os/seccomp.h"
#include "os/seccomp_policy.h"

namespace caisson::os {
namespace {

constexpr SeccompAnswer refuse = SECCOMP_RET_ERRNO | 1;
constexpr SeccompAnswer unknown = SECCOMP_RET_ERRNO | 38;
using Look = ArgumentCheck::Test;

constexpr std::uint64_t upper = std::uint64_t{1} << 32U;

seccomp_data call(std::uint32_t number, std::uint64_t argument = 0, std::uint32_t arch = AUDIT_ARCH_X86_64) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = arch;
  for (__u64& each : data.args) each = argument;
  return data;
}

struct Walk {
  std::optional<SeccompAnswer> answer;  // None: the program does what no filter may.
  int steps = 0;
};

// What the kernel does with a filter, as far as ours use it (Documentation/networking/filter.rst).
Walk walk(const std::vector<sock_filter>& program, const seccomp_data& data) {
  std::uint32_t loaded = 0;
  Walk result;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    ++result.steps;
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (step.k % 4 != 0 || step.k + 4 > sizeof data) return result;
        std::memcpy(&loaded, static_cast<const char*>(static_cast<const void*>(&data)) + step.k, 4);
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += loaded == step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += loaded >= step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (loaded & step.k) != 0 ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      case BPF_RET | BPF_K:
        result.answer = step.k;
        return result;
      default:
        return result;
    }
  }
  return result;
}

SeccompRules rules_with(std::map<std::uint32_t, CallRule> calls) {
  return {AUDIT_ARCH_X86_64, std::move(calls), unknown};
}

TEST(SeccompFilter, D12_EachNumberGetsItsAnswer) {
  std::mt19937 random(20261204);
  // The densest have more steps than one jump spans.
  for (const int named : {0, 1, 2, 7, 60, 400, 1500}) {
    SeccompRules rules = rules_with({});
    for (int i = 0; i < named; ++i) {
      constexpr SeccompAnswer answers[] = {SECCOMP_RET_ALLOW, refuse, unknown};
      rules.calls[static_cast<std::uint32_t>(random() % 2000)] = {answers[random() % 3], {}};
    }
    const auto program = compile_seccomp_rules(rules);
    ASSERT_LE(program.size(), std::size_t{BPF_MAXINSNS});
    for (std::uint32_t number = 0; number < 2100; ++number) {
      const auto rule = rules.calls.find(number);
      const SeccompAnswer expected = rule == rules.calls.end() ? unknown : rule->second.answer;
      ASSERT_EQ(walk(program, call(number)).answer, expected) << number << " of " << named;
    }
  }
}

TEST(SeccompFilter, D12_OtherArchitecturesAndTheLastNumbersGetTheAnswerToAllOthers) {
  const auto program = compile_seccomp_rules(
      rules_with({{0, {SECCOMP_RET_ALLOW, {}}}, {39, {SECCOMP_RET_ALLOW, {}}}, {UINT32_MAX, {refuse, {}}}}));
  EXPECT_EQ(walk(program, call(0)).answer, SECCOMP_RET_ALLOW);
  EXPECT_EQ(walk(program, call(39)).answer, SECCOMP_RET_ALLOW);
  EXPECT_EQ(walk(program, call(39, 0, AUDIT_ARCH_I386)).answer, unknown);
  EXPECT_EQ(walk(program, call(0x40000000U | 39U)).answer, unknown) << "x32";
  EXPECT_EQ(walk(program, call(UINT32_MAX)).answer, refuse);
  EXPECT_EQ(walk(program, call(UINT32_MAX - 1)).answer, unknown);
}

TEST(SeccompFilter, TheFirstCheckThatHoldsAnswersAndSeesTheLowerHalf) {
  constexpr SeccompAnswer one = SECCOMP_RET_ERRNO | 11, two = SECCOMP_RET_ERRNO | 12;
  const auto program = compile_seccomp_rules(rules_with({
      {5, {SECCOMP_RET_ALLOW, {{1, Look::equals, {7, 9}, one}, {2, Look::equals, {9, 10}, two}}}},
      {6, {SECCOMP_RET_ALLOW, {{0, Look::has_bit, {6, 0x80000000}, one}}}},
      {7, {SECCOMP_RET_ALLOW, {{5, Look::is_none_of, {0, 4, 0xffffffff}, one}}}},
  }));
  const auto answer = [&](std::uint32_t number, std::uint64_t argument) {
    return walk(program, call(number, argument)).answer;
  };
  for (const std::uint64_t above : {std::uint64_t{0}, upper}) {
    EXPECT_EQ(answer(5, above | 7), one);
    EXPECT_EQ(answer(5, above | 9), one);
    EXPECT_EQ(answer(5, above | 10), two);
    EXPECT_EQ(answer(5, above | 8), SECCOMP_RET_ALLOW);
    EXPECT_EQ(answer(6, above | 2), one);
    EXPECT_EQ(answer(6, above | 0x80000001), one);
    EXPECT_EQ(answer(6, above | 1), SECCOMP_RET_ALLOW);
    EXPECT_EQ(answer(7, above | 4), SECCOMP_RET_ALLOW);
    EXPECT_EQ(answer(7, above | 0xffffffff), SECCOMP_RET_ALLOW);
    EXPECT_EQ(answer(7, above | 5), one);
  }
  EXPECT_EQ(answer(4, 7), unknown);
  EXPECT_EQ(answer(8, 7), unknown);
}

// The cost of a load, which each command of a box pays.
TEST(SeccompFilter, D12_ThePolicyIsAShortWalk) {
  const std::string policy = compile_seccomp_policy();
  EXPECT_EQ(policy, compile_seccomp_policy());
  std::vector<sock_filter> program(policy.size() / sizeof(sock_filter));
  std::memcpy(program.data(), policy.data(), policy.size());
  EXPECT_LT(program.size(), 350U);
  int most = 0;
  for (std::uint32_t number = 0; number < 1000; ++number) {
    const Walk one = walk(program, call(number, 12345));
    ASSERT_TRUE(one.answer) << number;
    most = std::max(most, one.steps);
  }
  EXPECT_LE(most, 24);
  EXPECT_LE(walk(program, call(0)).steps, 12);
}

}  // namespace
}  // namespace caisson::os
