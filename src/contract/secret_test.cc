// Secrets: what they hold, how they move, and that their memory is wiped before it is given back (S-6).
#include "caisson/contract/secret.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

#include "contract/release_watch.h"

namespace caisson {
namespace {

// Longer than any buffer that a string keeps within itself, and shorter.
constexpr const char* long_value = "canary-3f2a9c1e-which-is-longer-than-a-small-string-buffer";
constexpr const char* short_value = "hunter2";

static_assert(!std::is_copy_constructible_v<Secret> && !std::is_copy_assignable_v<Secret>);
static_assert(std::is_nothrow_move_constructible_v<Secret> && std::is_nothrow_move_assignable_v<Secret>);
static_assert(!std::is_convertible_v<Secret, std::string> &&
              !std::is_convertible_v<Secret, std::string_view>);
static_assert(!std::is_constructible_v<std::string, Secret> &&
              !std::is_constructible_v<std::string_view, Secret>);
static_assert(!std::is_copy_constructible_v<SecretEnv> && !std::is_copy_assignable_v<SecretEnv>);
static_assert(std::is_nothrow_move_constructible_v<SecretEnv>);

TEST(Secret, HoldsBytesOfAnyKind_S6) {
  const std::string bytes("a\0b\xff", 4);
  EXPECT_EQ(Secret(bytes).reveal(), bytes);
  EXPECT_EQ(Secret("").reveal(), "");
  EXPECT_EQ(Secret().reveal(), "");
  EXPECT_EQ(Secret(static_cast<const char*>(nullptr)).reveal(), "");
}

TEST(Secret, TellsANulWithoutTheValue_S6) {
  EXPECT_TRUE(Secret(std::string("a\0b", 3)).has_nul());
  EXPECT_TRUE(Secret(std::string(1, '\0')).has_nul());
  EXPECT_FALSE(Secret("ab").has_nul());
  EXPECT_FALSE(Secret().has_nul());
}

TEST(Secret, MovesWithoutCopyingItsMemory) {
  Secret first(long_value);
  const char* memory = first.reveal().data();
  Secret second(std::move(first));
  EXPECT_EQ(second.reveal().data(), memory);
  EXPECT_EQ(first.reveal(), "");  // NOLINT(bugprone-use-after-move): an emptied Secret is what is tested.
  Secret third(short_value);
  third = std::move(second);
  EXPECT_EQ(third.reveal().data(), memory);
  EXPECT_EQ(third.reveal(), long_value);
  EXPECT_EQ(second.reveal(), "");  // NOLINT(bugprone-use-after-move)
}

TEST(Secret, SurvivesAMoveToItself) {
  Secret secret(long_value);
  Secret& same = secret;
  secret = std::move(same);
  EXPECT_EQ(secret.reveal(), long_value);
}

TEST(Secret, CloneIsAnotherBlockOfMemory) {
  Secret first(long_value);
  Secret second = first.clone();
  EXPECT_NE(first.reveal().data(), second.reveal().data());
  EXPECT_EQ(first.reveal(), second.reveal());
}

TEST(Secret, IsWipedAtItsEnd_S6) {
  for (const char* value : {long_value, short_value, "x"}) {
    {
      const Secret secret(value);
      testing::watch_release(secret.reveal());
      EXPECT_EQ(secret.reveal(), value);
    }
    EXPECT_EQ(testing::watched_releases(), 1) << value;
    EXPECT_TRUE(testing::was_zero_at_release()) << value;
  }
}

TEST(Secret, IsWipedWhenAnotherIsMovedOverIt_S6) {
  Secret secret(long_value);
  testing::watch_release(secret.reveal());
  secret = Secret(short_value);
  EXPECT_EQ(testing::watched_releases(), 1);
  EXPECT_TRUE(testing::was_zero_at_release());
}

TEST(Secret, IsWipedWhenItsVariableGoes_S6) {
  SecretEnv env{{"TOKEN", long_value}};
  testing::watch_release(env.at("TOKEN").reveal());
  env.erase("TOKEN");
  EXPECT_EQ(testing::watched_releases(), 1);
  EXPECT_TRUE(testing::was_zero_at_release());
}

TEST(Secret, WipeOverwrites) {
  std::string memory = "abcdef";
  wipe(memory.data() + 1, 4);
  EXPECT_EQ(memory, std::string("a\0\0\0\0f", 6));
  wipe(nullptr, 0);
}

TEST(SecretEnv, IsWrittenAsABracedList) {
  const std::string value = "two";
  SecretEnv env{{"A", "one"}, {"B", value}, {"A", "again"}};
  EXPECT_EQ(env.size(), 2U);
  EXPECT_EQ(env.at("A").reveal(), "one");
  EXPECT_EQ(env.at("B").reveal(), "two");
}

TEST(SecretEnv, CloneCopiesEveryVariable) {
  const SecretEnv env{{"A", "one"}, {"B", "two"}};
  const SecretEnv copy = clone(env);
  EXPECT_EQ(copy.size(), 2U);
  EXPECT_EQ(copy.at("B").reveal(), "two");
  EXPECT_NE(copy.at("B").reveal().data(), env.at("B").reveal().data());
}

}  // namespace
}  // namespace caisson
