// Reading models from JSON (S-8): strict, every complaint naming the field's path and none holding an env
// value (S-6).
#include <gtest/gtest.h>

#include <string>

#include "caisson/contract/json.h"

namespace caisson {
namespace {

constexpr const char* canary = "canary-91d04c";

/// A good spec's text with `more` fields.
std::string spec_text(const std::string& more = "") {
  return R"({"image":"host","workspace_key":"demo","durability":"ephemeral","ttl_seconds":300)" + more + "}";
}

template <class Model>
std::string complaint(const std::string& text, const std::string& field) {
  try {
    static_cast<void>(from_json<Model>(text));
  } catch (const SandboxError& error) {
    const bool is_spec_error = dynamic_cast<const SandboxSpecRejectedError*>(&error) != nullptr;
    EXPECT_EQ(is_spec_error, (std::is_same_v<Model, SandboxSessionSpec>)) << text;
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << text;
    EXPECT_EQ(error.field(), field) << text << "\n" << error.what();
    EXPECT_EQ(std::string(error.what()).find(canary), std::string::npos) << error.what();
    EXPECT_LT(std::string(error.what()).size(), 600U);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

std::string complaint(const std::string& text, const std::string& field) {
  return complaint<SandboxSessionSpec>(text, field);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST(ReadSpec, RequiredFieldsAlone_S1) {
  const auto spec = from_json<SandboxSessionSpec>(spec_text());
  EXPECT_EQ(spec.image, "host");
  EXPECT_EQ(spec.workspace_key, "demo");
  EXPECT_EQ(spec.durability, Durability::ephemeral);
  EXPECT_EQ(spec.ttl_seconds, 300);
  EXPECT_TRUE(spec.env.empty());
  EXPECT_EQ(spec.network, Network::none);
  EXPECT_FALSE(spec.isolation);
  EXPECT_FALSE(spec.cpu);
  EXPECT_FALSE(spec.memory_mb);
  EXPECT_TRUE(spec.labels.empty());
}

TEST(ReadSpec, EveryField_S1) {
  const auto spec = from_json<SandboxSessionSpec>(spec_text(
      R"(,"env":{"TOKEN":"a\u0022b\n\u00e9","EMPTY":""},"network":"egress","isolation":"vm","cpu":1.5,
                   "memory_mb":512,"labels":{"team":"a","":"b","x.y":"\ud83d\ude00"})"));
  EXPECT_EQ(spec.env.size(), 2U);
  EXPECT_EQ(spec.env.at("TOKEN").reveal(), "a\"b\n\xc3\xa9");
  EXPECT_EQ(spec.env.at("EMPTY").reveal(), "");
  EXPECT_EQ(spec.network, Network::egress);
  EXPECT_EQ(spec.isolation, Isolation::vm);
  EXPECT_EQ(spec.cpu, 1.5);
  EXPECT_EQ(spec.memory_mb, 512);
  EXPECT_EQ(spec.labels, (Labels{{"team", "a"}, {"", "b"}, {"x.y", "\xf0\x9f\x98\x80"}}));
}

TEST(ReadSpec, NullIsUnsetWhereAFieldMayBeUnset_S8) {
  const auto spec =
      from_json<SandboxSessionSpec>(spec_text(R"(,"isolation":null,"cpu":null,"memory_mb":null)"));
  EXPECT_FALSE(spec.isolation);
  EXPECT_FALSE(spec.cpu);
  EXPECT_FALSE(spec.memory_mb);
  for (const char* field : {"env", "network", "labels"}) {
    complaint(spec_text(std::string(",\"") + field + "\":null"), field);
  }
}

TEST(ReadSpec, WholeNumbersOfCoresAreNumbers_S8) {
  EXPECT_EQ(from_json<SandboxSessionSpec>(spec_text(R"(,"cpu":2)")).cpu, 2.0);
  EXPECT_EQ(from_json<SandboxSessionSpec>(spec_text(R"(,"cpu":18446744073709551615)")).cpu,
            18446744073709551616.0);
}

TEST(ReadSpec, MissingFieldsAreNamed_S8) {
  EXPECT_EQ(complaint(replaced(spec_text(), R"("image":"host",)", ""), "image"),
            "image is missing: it is required");
  complaint(replaced(spec_text(), R"("workspace_key":"demo",)", ""), "workspace_key");
  complaint(replaced(spec_text(), R"("durability":"ephemeral",)", ""), "durability");
  complaint(replaced(spec_text(), R"(,"ttl_seconds":300)", ""), "ttl_seconds");
}

TEST(ReadSpec, UnknownFieldsAreNamed_S8) {
  EXPECT_EQ(
      complaint(spec_text(R"(,"ttl":3)"), "ttl"),
      "ttl is no known field; there are image, workspace_key, durability, env, network, isolation, cpu, "
      "memory_mb, ttl_seconds, labels");
  complaint(spec_text(R"(,"Image":"x")"), "Image");
  complaint(spec_text(R"(,"":1)"), "");
  complaint(spec_text(R"(,"a\nb":1)"), "a\\nb");
}

TEST(ReadSpec, MistypedFieldsAreNamed_S8) {
  EXPECT_EQ(complaint(replaced(spec_text(), "300", "\"300\""), "ttl_seconds"),
            "ttl_seconds must be an integer, not a string");
  complaint(replaced(spec_text(), "300", "5.0"), "ttl_seconds");
  complaint(replaced(spec_text(), "300", "3e2"), "ttl_seconds");
  complaint(replaced(spec_text(), "300", "true"), "ttl_seconds");
  complaint(replaced(spec_text(), "300", "null"), "ttl_seconds");
  complaint(replaced(spec_text(), "\"host\"", "7"), "image");
  complaint(replaced(spec_text(), "\"ephemeral\"", "1"), "durability");
  complaint(spec_text(R"(,"cpu":"1")"), "cpu");
  complaint(spec_text(R"(,"memory_mb":1.5)"), "memory_mb");
  complaint(spec_text(R"(,"labels":[])"), "labels");
  EXPECT_EQ(complaint(spec_text(R"(,"labels":{"team":7})"), "labels.team"),
            "labels.team must be a string, not an integer");
}

TEST(ReadSpec, HugeNumbersAreTyped_S8) {
  complaint(replaced(spec_text(), "300", "9223372036854775807"), "ttl_seconds");
  complaint(replaced(spec_text(), "300", "9223372036854775808"), "ttl_seconds");
  complaint(replaced(spec_text(), "300", "99999999999999999999999999"), "ttl_seconds");
  complaint(replaced(spec_text(), "300", "-99999999999999999999999999"), "ttl_seconds");
  complaint(spec_text(R"(,"cpu":1e400)"), "cpu");
  complaint(spec_text(R"(,"memory_mb":9223372036854775807)"), "memory_mb");
}

TEST(ReadSpec, WordsAreClosed_S3) {
  EXPECT_EQ(complaint(replaced(spec_text(), "ephemeral", "forever"), "durability"),
            R"(durability must be "ephemeral" or "persistent", not "forever")");
  complaint(replaced(spec_text(), "ephemeral", "unset"), "durability");
  complaint(spec_text(R"(,"network":"Egress")"), "network");
  complaint(spec_text(R"(,"isolation":"strong")"), "isolation");
}

TEST(ReadSpec, RepeatedKeysAreErrors_S8) {
  EXPECT_EQ(complaint(spec_text(R"(,"image":"other")"), "image"), "image is given twice: keep one");
  complaint(spec_text(R"(,"labels":{"a":"1","b":"2","a":"1"})"), "labels.a");
  complaint(spec_text(R"(,"labels":{"a":"1","\u0061":"2"})"), "labels.a");
  complaint(spec_text(R"(,"env":{"TOKEN":"canary-91d04c","TOKEN":"canary-91d04c"})"), "env.TOKEN");
  // The control: the same key in two objects is no repetition.
  EXPECT_NO_THROW(from_json<SandboxSessionSpec>(spec_text(R"(,"env":{"a":"1"},"labels":{"a":"1"})")));
}

TEST(ReadSpec, ValuesOfEnvAreInNoMessage_S6) {
  complaint(spec_text(R"(,"env":{"TOKEN":["canary-91d04c"]})"), "env.TOKEN");
  complaint(spec_text(R"(,"env":"TOKEN=canary-91d04c")"), "env");
  complaint(spec_text(R"(,"env":{"TOKEN=canary-91d04c":""})"), "env.TOKEN");
  complaint(spec_text(R"(,"env":{"TOKEN":"canary-91d04c\u0000"})"), "env.TOKEN");
  complaint(spec_text(R"(,"env":{"TOKEN":"canary-91d04c)"), "");
  complaint(spec_text(R"(,"env":{"TOKEN=canary-91d04c":1})"), "env.TOKEN");
  complaint(spec_text(R"(,"env":{"TOKEN=canary-91d04c":"","TOKEN=canary-91d04c":""})"), "env.TOKEN");
}

TEST(ReadSpec, WhatIsReadIsValidated) {
  complaint(replaced(spec_text(), "demo", "a b"), "workspace_key");
  complaint(replaced(spec_text(), "300", "0"), "ttl_seconds");
  complaint(spec_text(R"(,"env":{"":"x"})"), "env");
}

TEST(ReadSpec, TextThatIsNoJsonIsTyped_S8) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("nul"), spec_text() + "x", spec_text() + spec_text(),
        std::string("{\"image\":\"\xff\"}"), std::string("{'image':1}"), std::string("[1,]"),
        std::string("NaN"), std::string("{\"image\":01}"), std::string("/**/{}"),
        std::string("\xef\xbb\xbf{}"), std::string(R"({"image":"\ud800"})"),
        std::string("{\"image\":\"a\nb\"}"), std::string(1, '\0')}) {
    complaint(text, "");
  }
  EXPECT_EQ(complaint("{]", "").substr(0, 25), "not valid JSON at byte 1:");
  EXPECT_NO_THROW(from_json<SandboxSessionSpec>(" \r\n\t" + spec_text() + " \n"));
}

TEST(ReadSpec, OnlyAnObjectIsAModel_S8) {
  EXPECT_EQ(complaint("[]", ""), "the JSON text must be an object, not an array");
  for (const char* text : {"null", "true", "1", "1.5", "\"a\""}) complaint(text, "");
}

TEST(ReadSpec, DepthIsLimited_S8) {
  const auto nested = [](std::size_t depth) {
    return spec_text(",\"labels\":" + std::string(depth, '[') + std::string(depth, ']'));
  };
  // As deep as is read, the complaint is the type's; one deeper, and a great deal deeper, it is the depth's.
  EXPECT_EQ(complaint(nested(15), "labels"), "labels must be an object, not an array");
  EXPECT_NE(complaint(nested(16), "").find("too deep"), std::string::npos);
  complaint(nested(1 << 20), "");
}

TEST(ReadSpec, PathsStayShort) {
  const std::string key(1 << 20, 'k');
  complaint(spec_text(",\"" + key + "\":1"), std::string(80, 'k') + "...");
}

TEST(ReadPolicy, EveryFieldIsRequired_S10) {
  const std::string text =
      R"({"egress":"internal","isolation":"container","scrub_transcript":true,"durable":false})";
  const SandboxPolicy policy{.egress = Network::internal,
                             .isolation = Isolation::container,
                             .scrub_transcript = true,
                             .durable = false};
  EXPECT_EQ(from_json<SandboxPolicy>(text), policy);
  complaint<SandboxPolicy>(replaced(text, R"("egress":"internal",)", ""), "egress");
  complaint<SandboxPolicy>(replaced(text, R"("isolation":"container",)", ""), "isolation");
  complaint<SandboxPolicy>(replaced(text, R"("scrub_transcript":true,)", ""), "scrub_transcript");
  complaint<SandboxPolicy>(replaced(text, R"(,"durable":false)", ""), "durable");
  complaint<SandboxPolicy>(replaced(text, "false", "0"), "durable");
  complaint<SandboxPolicy>(replaced(text, "false", "\"false\""), "durable");
}

TEST(ReadInfo, ComesBackAsItWas_S7) {
  const SandboxSessionInfo info{.id = "0123456789abcdef0123456789abcdef",
                                .image = "host",
                                .workspace_key = "demo",
                                .workspace_path = "/workspace",
                                .durability = Durability::persistent,
                                .created_at = UtcTime(std::chrono::microseconds(1767323045678901)),
                                .expires_at = UtcTime(std::chrono::microseconds(1767326645678901)),
                                .labels = {{"team", "a"}}};
  EXPECT_EQ(from_json<SandboxSessionInfo>(boost::json::serialize(to_json(info))), info);
}

TEST(ReadInfo, TimesAreTimes_S8) {
  const std::string text =
      R"({"id":"a","image":"b","workspace_key":"c","workspace_path":"/d","durability":"ephemeral",
      "created_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-02T04:04:05+01:00","labels":{}})";
  const auto info = from_json<SandboxSessionInfo>(text);
  EXPECT_EQ(info.created_at, UtcTime(std::chrono::seconds(1767323045)));
  EXPECT_EQ(info.expires_at, info.created_at);
  complaint<SandboxSessionInfo>(replaced(text, "03:04:05Z", "03:04:05"), "created_at");
  complaint<SandboxSessionInfo>(replaced(text, "\"2026-01-02T03:04:05Z\"", "1767323045"), "created_at");
}

}  // namespace
}  // namespace caisson
