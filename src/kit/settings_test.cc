// Reading the operator's settings (S-31, S-81, S-22): defaults, good values, and errors at start for the
// others.
#include "caisson/kit/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "caisson/contract/errors.h"

namespace caisson::kit {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

SettingSource source_of(Values values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

/// The message of the bad_setting error that `read` throws for the setting `name`.
template <class Read>
std::string complaint(const std::string& name, const Read& read) {
  try {
    static_cast<void>(read());
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_setting);
    EXPECT_EQ(error.field(), name);
    EXPECT_EQ(std::string(error.what()).rfind(name + " ", 0), 0U) << error.what();
    return error.what();
  }
  ADD_FAILURE() << name << " accepted";
  return "";
}

TEST(Settings, StringsAreTakenAsTheyAre) {
  const auto source = source_of({{"A", " x\n"}, {"EMPTY", ""}});
  EXPECT_EQ(string_setting(source, "A", "fallback"), " x\n");
  EXPECT_EQ(string_setting(source, "B", "fallback"), "fallback");
  EXPECT_EQ(complaint("EMPTY", [&] { return string_setting(source, "EMPTY", "fallback"); }),
            "EMPTY is empty: give it a value, or unset it for the default");
}

TEST(Settings, Seconds_S31) {
  EXPECT_EQ(seconds_setting(source_of({}), "A", 7.5), 7.5);
  for (const auto& [text, value] : std::map<std::string, double>{
           {"1", 1}, {"0.5", 0.5}, {"1e2", 100}, {"0.001", 0.001}, {"315360000", 315360000}}) {
    EXPECT_EQ(seconds_setting(source_of({{"A", text}}), "A", 7), value) << text;
  }
  for (const char* text : {"", "0", "-1", "0.0001", "315360001", "1e300", "1e999", "nan", "inf", "-inf", "5s",
                           " 5", "5 ", "+5", "0x10", "five", "1,5"}) {
    complaint("A", [&] { return seconds_setting(source_of({{"A", text}}), "A", 7); });
  }
  EXPECT_EQ(
      complaint("A", [] { return seconds_setting(source_of({{"A", "5 min"}}), "A", 7); }),
      "A must be a number of seconds from 0.001 to 315360000, not \"5 min\": correct it, or unset it for the "
      "default");
}

TEST(Settings, Integers_S31) {
  const auto read = [](const char* text) {
    return integer_setting(source_of({{"A", text}}), "A", 7, -3, 300);
  };
  EXPECT_EQ(integer_setting(source_of({}), "A", 7, -3, 300), 7);
  EXPECT_EQ(read("300"), 300);
  EXPECT_EQ(read("-3"), -3);
  EXPECT_EQ(read("007"), 7);
  for (const char* text :
       {"", "301", "-4", "5.0", "1e2", "+5", " 5", "5 ", "0x5", "99999999999999999999", "five"}) {
    complaint("A", [&] { return read(text); });
  }
}

TEST(Settings, Booleans) {
  const auto read = [](const char* text) { return bool_setting(source_of({{"A", text}}), "A", false); };
  EXPECT_TRUE(bool_setting(source_of({}), "A", true));
  EXPECT_FALSE(bool_setting(source_of({}), "A", false));
  for (const char* text : {"true", "TRUE", "1", "yes", "Yes", "on", "oN"}) EXPECT_TRUE(read(text)) << text;
  for (const char* text : {"false", "False", "0", "no", "NO", "off"}) EXPECT_FALSE(read(text)) << text;
  for (const char* text : {"", "2", "y", "t", "true ", "enabled"}) complaint("A", [&] { return read(text); });
}

TEST(Settings, MessagesShowTheValueSafely) {
  const std::string message = complaint(
      "A", [] { return bool_setting(source_of({{"A", "\x1b[31m" + std::string(5000, 'x')}}), "A", true); });
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 300U);
}

TEST(Settings, TheEnvironmentIsASource) {
  const auto source = environment_settings();
  ASSERT_EQ(setenv("CAISSON_SETTINGS_TEST", "here", 1), 0);
  EXPECT_EQ(source("CAISSON_SETTINGS_TEST"), "here");
  ASSERT_EQ(unsetenv("CAISSON_SETTINGS_TEST"), 0);
  EXPECT_EQ(source("CAISSON_SETTINGS_TEST"), std::nullopt);
  // A view that is a part of something longer is looked up alone.
  EXPECT_EQ(source(std::string_view("PATHOLOGY", 4)), std::getenv("PATH"));
}

TEST(DispatchSettings, Defaults_S31) {
  const auto settings = DispatchSettings::from(source_of({}), "SANDBOX_LOCAL_");
  EXPECT_EQ(settings.default_ttl_seconds, 3600);
  EXPECT_EQ(settings.reap_interval_seconds, 300);
  EXPECT_EQ(settings.exec_default_timeout_seconds, 300);
  EXPECT_EQ(settings.max_timeout_seconds, 86400);
  EXPECT_FALSE(settings.max_lifetime_seconds);
  EXPECT_EQ(settings.max_file_bytes, 64ULL << 20);
}

TEST(DispatchSettings, EachIsReadUnderThePrefix_S31_S91) {
  const Values values{
      {"SANDBOX_LOCAL_DEFAULT_TTL_SECONDS", "60"},           {"SANDBOX_LOCAL_REAP_INTERVAL_SECONDS", "0.25"},
      {"SANDBOX_LOCAL_EXEC_DEFAULT_TIMEOUT_SECONDS", "5.5"}, {"SANDBOX_LOCAL_MAX_TIMEOUT_SECONDS", "1000"},
      {"SANDBOX_LOCAL_MAX_LIFETIME_SECONDS", "7200"},        {"SANDBOX_LOCAL_MAX_FILE_BYTES", "1024"}};
  const auto settings = DispatchSettings::from(source_of(values), "SANDBOX_LOCAL_");
  EXPECT_EQ(settings.default_ttl_seconds, 60);
  EXPECT_EQ(settings.reap_interval_seconds, 0.25);
  EXPECT_EQ(settings.exec_default_timeout_seconds, 5.5);
  EXPECT_EQ(settings.max_timeout_seconds, 1000);
  EXPECT_EQ(settings.max_lifetime_seconds, 7200);
  EXPECT_EQ(settings.max_file_bytes, 1024U);
  // Another provider's prefix sees none of them.
  EXPECT_EQ(DispatchSettings::from(source_of(values), "CAISSON_CONTAINER_").default_ttl_seconds, 3600);
}

TEST(DispatchSettings, ValuesThatMakeNoSense_S31) {
  const std::map<std::string, std::vector<std::string>> bad = {
      {"P_DEFAULT_TTL_SECONDS", {"0", "-1", "1.5", "315360001", "", "soon"}},
      {"P_REAP_INTERVAL_SECONDS", {"0", "-1", "nan", "inf", ""}},
      {"P_EXEC_DEFAULT_TIMEOUT_SECONDS", {"0", "-1", "nan", "inf", ""}},
      {"P_MAX_TIMEOUT_SECONDS", {"0", "-1", "nan", "inf", ""}},
      {"P_MAX_LIFETIME_SECONDS", {"0", "0.5", "nan", "inf", ""}},
      {"P_MAX_FILE_BYTES", {"0", "-1", "1.5", "1099511627777", ""}},
  };
  for (const auto& [name, texts] : bad) {
    for (const std::string& text : texts) {
      complaint(name,
                [&, setting = name] { return DispatchSettings::from(source_of({{setting, text}}), "P_"); });
    }
  }
}

TEST(DispatchSettings, ADefaultOverItsMaximumIsAnError_S22) {
  EXPECT_EQ(
      complaint("P_EXEC_DEFAULT_TIMEOUT_SECONDS",
                [] {
                  return DispatchSettings::from(
                      source_of({{"P_EXEC_DEFAULT_TIMEOUT_SECONDS", "61"}, {"P_MAX_TIMEOUT_SECONDS", "60"}}),
                      "P_");
                }),
      "P_EXEC_DEFAULT_TIMEOUT_SECONDS is 61, more than P_MAX_TIMEOUT_SECONDS (60): lower it, or raise that");
  complaint("P_DEFAULT_TTL_SECONDS", [] {
    return DispatchSettings::from(
        source_of({{"P_DEFAULT_TTL_SECONDS", "61"}, {"P_MAX_LIFETIME_SECONDS", "60.5"}}), "P_");
  });
}

TEST(DispatchSettings, ADefaultThatWasNotSetFollowsItsMaximum_S22) {
  const auto settings = DispatchSettings::from(
      source_of({{"P_MAX_TIMEOUT_SECONDS", "60"}, {"P_MAX_LIFETIME_SECONDS", "90.5"}}), "P_");
  EXPECT_EQ(settings.exec_default_timeout_seconds, 60);
  EXPECT_EQ(settings.default_ttl_seconds, 90);
}

TEST(PolicySettings, Defaults_S81) {
  const SandboxPolicy expected{.egress = Network::egress,
                               .isolation = Isolation::container,
                               .scrub_transcript = false,
                               .durable = true};
  EXPECT_EQ(policy_from(source_of({})), expected);
}

TEST(PolicySettings, EachIsRead_S81) {
  const SandboxPolicy expected{
      .egress = Network::none, .isolation = Isolation::vm, .scrub_transcript = true, .durable = false};
  EXPECT_EQ(policy_from(source_of({{"TAI_MCP_SANDBOX_EGRESS", "none"},
                                   {"TAI_MCP_SANDBOX_ISOLATION", "vm"},
                                   {"TAI_MCP_SANDBOX_SCRUB_TRANSCRIPT", "true"},
                                   {"TAI_MCP_SANDBOX_DURABLE", "0"}})),
            expected);
}

TEST(PolicySettings, BadValuesAreStartUpErrors_S81) {
  EXPECT_EQ(complaint("TAI_MCP_SANDBOX_EGRESS",
                      [] { return policy_from(source_of({{"TAI_MCP_SANDBOX_EGRESS", "open"}})); }),
            "TAI_MCP_SANDBOX_EGRESS must be \"none\", \"internal\" or \"egress\", not \"open\": correct it, "
            "or unset it "
            "for the default");
  for (const char* name : {"TAI_MCP_SANDBOX_EGRESS", "TAI_MCP_SANDBOX_ISOLATION",
                           "TAI_MCP_SANDBOX_SCRUB_TRANSCRIPT", "TAI_MCP_SANDBOX_DURABLE"}) {
    for (const char* text : {"", "None", "none ", "maybe"}) {
      complaint(name, [&] { return policy_from(source_of({{name, text}})); });
    }
  }
}

}  // namespace
}  // namespace caisson::kit
