// A filter's program in classic BPF.
#include "os/seccomp_filter.h"

#include <linux/seccomp.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace caisson::os {
namespace {

using Program = std::vector<sock_filter>;

// How far a conditional jump reaches.
constexpr std::size_t longest_jump = 255;

// Calls from a number on, to where the next run begins.
struct Run {
  std::uint32_t first;
  CallRule rule;
};

void statement(Program& program, int code, std::uint32_t value) {
  program.push_back({static_cast<std::uint16_t>(code), 0, 0, value});
}
void jump(Program& program, int test, std::uint32_t value, std::size_t if_true, std::size_t if_false) {
  program.push_back({static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), static_cast<std::uint8_t>(if_true),
                     static_cast<std::uint8_t>(if_false), value});
}
void load(Program& program, std::size_t offset) {
  statement(program, BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
void answer(Program& program, SeccompAnswer value) { statement(program, BPF_RET | BPF_K, value); }

// The lower half stands first on a little-endian machine.
constexpr std::size_t lower_half(unsigned argument) {
  return offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t);
}

void check(Program& program, const ArgumentCheck& check) {
  load(program, lower_half(check.argument));
  const int test = check.test == ArgumentCheck::Test::has_bit ? BPF_JSET : BPF_JEQ;
  const bool answers_if_none = check.test == ArgumentCheck::Test::is_none_of;
  // A hit goes to the answer or past it, which stands behind all tests.
  for (std::size_t left = check.values.size(); left > 0; --left) {
    const std::size_t to_answer = left - 1;
    const bool last = left == 1;
    if (answers_if_none) {
      jump(program, test, check.values[check.values.size() - left], to_answer + 1, 0);
    } else {
      jump(program, test, check.values[check.values.size() - left], to_answer, last ? 1 : 0);
    }
  }
  answer(program, check.answer);
}

Program leaf(const CallRule& rule) {
  Program program;
  for (const ArgumentCheck& each : rule.checks) check(program, each);
  answer(program, rule.answer);
  return program;
}

// With the call's number loaded.
Program search(std::span<const Run> runs) {
  if (runs.size() == 1) return leaf(runs.front().rule);
  const std::size_t half = runs.size() / 2;
  const Program below = search(runs.first(half));
  const Program above = search(runs.subspan(half));
  Program program;
  const std::uint32_t first_above = runs[half].first;
  if (below.size() <= longest_jump) {
    jump(program, BPF_JGE, first_above, below.size(), 0);
  } else {
    jump(program, BPF_JGE, first_above, 0, 1);
    statement(program, BPF_JMP | BPF_JA, static_cast<std::uint32_t>(below.size()));
  }
  program.insert(program.end(), below.begin(), below.end());
  program.insert(program.end(), above.begin(), above.end());
  return program;
}

std::vector<Run> runs_of(const SeccompRules& rules) {
  const CallRule others{rules.otherwise, {}};
  std::vector<Run> runs{{0, others}};
  const auto begin_run = [&runs](std::uint32_t first, const CallRule& rule) {
    if (runs.back().first == first) runs.pop_back();
    if (runs.empty() || runs.back().rule != rule) runs.push_back({first, rule});
  };
  for (const auto& [number, rule] : rules.calls) {
    begin_run(number, rule);
    if (number != UINT32_MAX) begin_run(number + 1, others);
  }
  return runs;
}

}  // namespace

std::vector<sock_filter> compile_seccomp_rules(const SeccompRules& rules) {
  Program program;
  load(program, offsetof(seccomp_data, arch));
  jump(program, BPF_JEQ, rules.architecture, 1, 0);
  answer(program, rules.otherwise);
  load(program, offsetof(seccomp_data, nr));
  const Program tree = search(runs_of(rules));
  program.insert(program.end(), tree.begin(), tree.end());
  return program;
}

}  // namespace caisson::os
