// Writing models as JSON: the exact objects that users and clients see, fields in order.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "caisson/contract/json.h"
#include "contract/base64.h"

namespace caisson {
namespace {

template <class Model>
std::string text_of(const Model& model) {
  return boost::json::serialize(to_json(model));
}

TEST(WriteJson, ResultOfAnExitedExec) {
  const ExecResult result{.exit_code = 3,
                          .out = "out\n",
                          .err = "err\n",
                          .ended = {.how = ExecEnd::exited, .exit_code = 3},
                          .stdout_bytes = 4,
                          .stderr_bytes = 4,
                          .truncated = false};
  EXPECT_EQ(text_of(result),
            R"({"exit_code":3,"stdout":"out\n","stderr":"err\n","ended":"exited","signal":null,"core":false,)"
            R"("lost_cause":null,"limits_hit":[],"stdout_bytes":4,"stderr_bytes":4,"truncated":false})");
}

TEST(WriteJson, ResultOfAKilledExecWithBinaryOutput_S48) {
  const ExecResult result{.exit_code = 137,
                          .out = "a\xff",
                          .err = std::string("\0\x01", 2),
                          .ended = {.how = ExecEnd::out_of_memory,
                                    .exit_code = 137,
                                    .signal = 9,
                                    .core = true,
                                    .limits_hit = {SandboxLimit::memory, SandboxLimit::pids}},
                          .stdout_bytes = 18446744073709551615ULL,
                          .stderr_bytes = 2,
                          .truncated = true};
  EXPECT_EQ(text_of(result),
            "{\"exit_code\":137,\"stdout\":\"a\xef\xbf\xbd\",\"stderr\":\"\\u0000\\u0001\",\"ended\":\"out_"
            "of_memory\","
            "\"signal\":9,\"core\":true,\"lost_cause\":null,\"limits_hit\":[\"memory\",\"pids\"],"
            "\"stdout_bytes\":18446744073709551615,\"stderr_bytes\":2,\"truncated\":true,\"stdout_base64\":"
            "\"Yf8=\"}");
}

TEST(WriteJson, ResultOfALostExec_S48) {
  const ExecResult result{.exit_code = 255,
                          .err = "\xc3",
                          .ended = {.how = ExecEnd::lost, .exit_code = 255, .lost_cause = "reaped elsewhere"},
                          .stderr_bytes = 1};
  const boost::json::value json = to_json(result);
  EXPECT_EQ(json.at("ended"), "lost");
  EXPECT_EQ(json.at("lost_cause"), "reaped elsewhere");
  EXPECT_EQ(json.at("stderr_base64"), "ww==");
  EXPECT_FALSE(json.as_object().contains("stdout_base64"));
}

TEST(WriteJson, Info_S7) {
  const SandboxSessionInfo info{.id = "0123456789abcdef0123456789abcdef",
                                .image = "host",
                                .workspace_key = "demo",
                                .workspace_path = "/w/\xff",
                                .durability = Durability::ephemeral,
                                .created_at = UtcTime(std::chrono::nanoseconds(1767323045678901999)),
                                .expires_at = UtcTime(std::chrono::seconds(1767326645)),
                                .labels = {{"b", "2"}, {"a", "1"}}};
  EXPECT_EQ(text_of(info),
            "{\"id\":\"0123456789abcdef0123456789abcdef\",\"image\":\"host\",\"workspace_key\":\"demo\","
            "\"workspace_path\":\"/w/\xef\xbf\xbd\",\"durability\":\"ephemeral\","
            "\"created_at\":\"2026-01-02T03:04:05.678901Z\",\"expires_at\":\"2026-01-02T04:04:05.000000Z\","
            "\"labels\":{\"a\":\"1\",\"b\":\"2\"}}");
}

TEST(WriteJson, Policy_S10) {
  EXPECT_EQ(text_of(SandboxPolicy{.egress = Network::egress,
                                  .isolation = Isolation::none,
                                  .scrub_transcript = false,
                                  .durable = true}),
            R"({"egress":"egress","isolation":"none","scrub_transcript":false,"durable":true})");
}

TEST(WriteJson, StreamItems_S60) {
  EXPECT_EQ(text_of(SandboxStreamChunk{.stream = SandboxStream::err, .data = "x"}),
            R"({"stream":"stderr","data":"x"})");
  EXPECT_EQ(text_of(SandboxStreamChunk{.stream = SandboxStream::out, .data = "\xe2\x82"}),
            "{\"stream\":\"stdout\",\"data\":\"\xef\xbf\xbd\",\"data_base64\":\"4oI=\"}");
  EXPECT_EQ(
      text_of(SandboxStreamExit{.exit_code = 143,
                                .ended = {.how = ExecEnd::signaled, .exit_code = 143, .signal = 15}}),
      R"({"exit_code":143,"ended":"signaled","signal":15,"core":false,"lost_cause":null,"limits_hit":[]})");
}

TEST(WriteJson, Problems) {
  EXPECT_EQ(text_of(SandboxError(ErrorCode::command_not_found, "no \"x\"")),
            R"({"code":"command_not_found","title":"Command not found","detail":"no \"x\"","field":null})");
  EXPECT_EQ(text_of(SandboxSpecRejectedError(ErrorCode::invalid_argument, "m\xff", "labels.team")),
            "{\"code\":\"invalid_argument\",\"title\":\"Invalid argument\",\"detail\":\"m\xef\xbf\xbd\","
            "\"field\":\"labels.team\"}");
}

TEST(WriteJson, WhatIsWrittenIsJsonWhateverTheBytes) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const ExecResult result{.out = bytes, .err = bytes};
  boost::system::error_code error;
  const boost::json::value back = boost::json::parse(text_of(result), error);
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(back.at("stdout_base64").as_string(), base64(bytes));
}

TEST(Base64, Rfc4648Vectors) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xfb\xff\xfe"), "+//+");
}

}  // namespace
}  // namespace caisson
