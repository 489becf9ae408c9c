// Thousands of seeded rounds of calls that race on sessions (S-20 to S-27).
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tests/races/race_round.h"

namespace caisson::test {
namespace {

constexpr std::uint64_t usual_seed = 1;
constexpr std::uint64_t usual_rounds = 4000;

std::optional<std::uint64_t> number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

// Rounds of one seed have nothing in common (SplitMix64).
std::uint64_t seed_of(std::uint64_t seed, std::uint64_t round) {
  std::uint64_t mixed = seed + (round + 1) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

TEST(SessionRaces, EveryOrderKeepsTheRules) {
  const std::uint64_t seed = number_in("CAISSON_RACE_SEED").value_or(usual_seed);
  const auto only = number_in("CAISSON_RACE_ROUND");
  const std::uint64_t first = only.value_or(0);
  const std::uint64_t last = only ? *only + 1 : number_in("CAISSON_RACE_ROUNDS").value_or(usual_rounds);
  Sightings seen;
  for (std::uint64_t number = first; number < last; ++number) {
    RaceRound round(seed_of(seed, number), seen);
    const auto wrong = round.play();
    ASSERT_TRUE(wrong.empty()) << "round " << number << text_of(wrong)
                               << "\nplay it again with CAISSON_RACE_SEED=" << seed
                               << " CAISSON_RACE_ROUND=" << number
                               << "\nwhat happened, each with the step:" << text_of(round.trace());
  }
  if (only) return;
  // What was never met was never tried.
  for (const auto& [what, count] : seen) std::cout << "  " << count << " " << what << "\n";
  for (const char* what : {"touch done",
                           "touch refused or failed",
                           "exec done",
                           "exec refused or failed",
                           "exec cancelled",
                           "exec_start done",
                           "exec_start cancelled",
                           "put_file done",
                           "put_file refused or failed",
                           "put_file cancelled",
                           "get_file done",
                           "get_file refused or failed",
                           "get_file cancelled",
                           "destroy done",
                           "destroy refused or failed",
                           "release done",
                           "destroy_session done",
                           "release_session done",
                           "reap done",
                           "list done",
                           "info done",
                           "info refused or failed",
                           "create done",
                           "create cancelled",
                           "create refused or failed",
                           "a create was taken back",
                           "a create met a wish",
                           "an exec timed out",
                           "an exec was cut short by its session's end",
                           "a teardown failed",
                           "removed by a later reap",
                           "reaped",
                           "ended by a reap alone",
                           "deadlines known exactly",
                           "closed with a provider's call under way"}) {
    EXPECT_GE(seen[what], last / 800) << what << " was hardly met in " << last << " rounds";
  }
}

TEST(SessionRaces, ASeedIsPlayedTheSameAgain) {
  int compared = 0;
  for (std::uint64_t number = 0; number < 200; ++number) {
    Sightings seen;
    RaceRound one(seed_of(usual_seed, number), seen);
    one.play();
    RaceRound two(seed_of(usual_seed, number), seen);
    two.play();
    if (one.met_real_time()) continue;
    ASSERT_EQ(one.trace(), two.trace()) << "round " << number;
    ++compared;
  }
  EXPECT_GE(compared, 150);
}

}  // namespace
}  // namespace caisson::test
