// The error family: classes, codes, attributes, messages.
#include "caisson/contract/errors.h"

#include <gtest/gtest.h>

#include <string>

#include "contract/described.h"

namespace caisson {
namespace {

TEST(Errors, EveryCodeHasItsWord) {
  EXPECT_EQ(to_string(ErrorCode::invalid_argument), "invalid_argument");
  EXPECT_EQ(to_string(ErrorCode::argument_list_too_long), "argument_list_too_long");
  EXPECT_EQ(to_string(ErrorCode::internal), "internal");
  int described = 0;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<ErrorCode>>([&](auto enumerator) {
    EXPECT_EQ(static_cast<int>(enumerator.value), described) << enumerator.name;
    ++described;
  });
  EXPECT_EQ(described, static_cast<int>(ErrorCode::internal) + 1);
}

TEST(Errors, AllAreSandboxErrors) {
  const auto code_of = [](const auto& error) {
    try {
      throw error;
    } catch (const SandboxError& caught) {
      return caught.code();
    }
  };
  EXPECT_EQ(code_of(SandboxUnavailableError("no")), ErrorCode::unavailable);
  EXPECT_EQ(code_of(SandboxSessionNotFoundError("ab")), ErrorCode::session_not_found);
  EXPECT_EQ(code_of(SandboxExecTimeoutError(std::chrono::seconds(1), 0, 0)), ErrorCode::timeout);
  EXPECT_EQ(code_of(SandboxSpecRejectedError(ErrorCode::policy_refused, "no")), ErrorCode::policy_refused);
  EXPECT_EQ(code_of(SandboxOutputLimitError(1, 2, 3)), ErrorCode::output_limit);
}

TEST(Errors, FieldIsKept) {
  EXPECT_EQ(SandboxError(ErrorCode::invalid_argument, "m", "labels.team").field(), "labels.team");
  EXPECT_EQ(SandboxError(ErrorCode::internal, "m").field(), "");
}

TEST(Errors, NotFoundCarriesTheIdAndShowsItSafely_S28) {
  const SandboxSessionNotFoundError error("a\nb");
  EXPECT_EQ(error.session_id(), "a\nb");
  EXPECT_NE(std::string(error.what()).find("\"a\\nb\""), std::string::npos) << error.what();
}

TEST(Errors, TimeoutCarriesLengthsAndSaysWhetherTheTreeIsGone_S46) {
  const SandboxExecTimeoutError gone(std::chrono::milliseconds(1500), 12, 34);
  EXPECT_EQ(gone.timeout_seconds(), 1.5);
  EXPECT_EQ(gone.stdout_len(), 12U);
  EXPECT_EQ(gone.stderr_len(), 34U);
  EXPECT_TRUE(gone.gone());
  const std::string message = gone.what();
  EXPECT_NE(message.find("1.5 s"), std::string::npos) << message;
  EXPECT_NE(message.find("12 bytes of stdout"), std::string::npos) << message;
  EXPECT_EQ(message.find("not gone"), std::string::npos) << message;
  const SandboxExecTimeoutError left(std::chrono::seconds(1), 0, 0, false);
  EXPECT_FALSE(left.gone());
  EXPECT_NE(std::string(left.what()).find("not gone"), std::string::npos) << left.what();
}

TEST(Errors, OutputLimitCarriesBothTotals_S50) {
  const SandboxOutputLimitError error(100, 250, 7);
  EXPECT_EQ(error.limit(), 100U);
  EXPECT_EQ(error.stdout_bytes(), 250U);
  EXPECT_EQ(error.stderr_bytes(), 7U);
  EXPECT_NE(std::string(error.what()).find("250 bytes of stdout"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace caisson
