// Checks of sessions as a provider keeps them: ids, info, labels, the list.
#include <algorithm>
#include <set>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

Awaitable<void> ids(Context context) {
  std::set<std::string> seen;
  for (int count = 0; count < 3; ++count) {
    auto session = co_await context.session();
    const std::string& id = session->id();
    expect(id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string::npos,
           "expected an id of 32 lowercase hex digits, saw " + show(id));
    expect(seen.insert(id).second, "expected a new id for each session, saw " + show(id) + " again");
  }
}

Awaitable<void> info_fields(Context context) {
  SandboxSessionSpec spec = context.spec("Key_of-the-session1");
  spec.ttl_seconds = 1234;
  const std::string image = spec.image;
  auto session = co_await context.create(std::move(spec));
  const SandboxSessionInfo info = co_await session->info();
  expect_equal("id", info.id, session->id());
  expect_equal("image", info.image, image);
  expect_equal("workspace_key", info.workspace_key, "Key_of-the-session1");
  expect_equal("durability", to_string(info.durability), to_string(SandboxDurability::ephemeral));
  // Created a moment ago, and nothing has moved its deadline since; a second is for reading the clock twice.
  const auto ttl = info.expires_at - info.created_at;
  expect(ttl >= 1233s && ttl <= 1235s, "expected expires_at to be created_at + 1234 s, saw " +
                                           std::to_string(std::chrono::duration<double>(ttl).count()) + " s");
}

Awaitable<void> labels_kept(Context context) {
  SandboxSessionSpec spec = context.spec();
  spec.labels.emplace("team", "blue");
  spec.labels.emplace("tai42", "allowed");
  spec.labels.emplace("empty", "");
  const Labels wanted = spec.labels;
  auto session = co_await context.create(std::move(spec));
  SandboxSessionInfo info = co_await session->info();
  expect_equal("labels of info()", info.labels, wanted);
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed", listed.size(), std::size_t{1});
  expect_equal("labels of list_sessions()", listed.front().labels, wanted);
}

Awaitable<void> list_oldest_first(Context context) {
  std::vector<SandboxSessionInfo> infos;
  for (int count = 0; count < 4; ++count) {
    auto session = co_await context.create(context.spec("key" + std::to_string(count)));
    SandboxSessionInfo info = co_await session->info();
    infos.push_back(std::move(info));
    co_await context.elapse(2ms);
  }
  std::sort(infos.begin(), infos.end(), [](const SandboxSessionInfo& left, const SandboxSessionInfo& right) {
    return std::tie(left.created_at, left.id) < std::tie(right.created_at, right.id);
  });
  std::vector<std::string> wanted;
  for (const SandboxSessionInfo& info : infos) wanted.push_back(info.workspace_key);
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  std::vector<std::string> seen;
  for (const SandboxSessionInfo& info : listed) seen.push_back(info.workspace_key);
  expect_equal("keys of list_sessions()", seen, wanted);
}

Awaitable<void> get_by_id(Context context) {
  auto one = co_await context.create(context.spec("one"));
  auto two = co_await context.create(context.spec("two"));
  co_await two->put_file("file", "of two");
  auto found = co_await context.sandbox().get_session(two->id());
  expect_equal("id", found->id(), two->id());
  const std::string seen = co_await found->get_file("file");
  expect_equal("the session's file", seen, "of two");
}

Awaitable<void> unknown_id(Context context) {
  auto session = co_await context.session();
  const std::string id(32, '0');
  const Refusal refusal = co_await refused("get_session of an unknown id", context.sandbox().get_session(id),
                                           ErrorCode::session_not_found);
  expect_equal("session_id() of the SandboxSessionNotFoundError", refusal.missing_session, id);
}

constexpr Check table[] = {
    {"session.ids", "S-28", "ids are 32 lowercase hex digits, never the same", ids},
    {"session.info_fields", "S-7 S-20", "info says what was asked for, and until when", info_fields},
    {"session.labels", "S-7 S-14", "labels are exactly the consumer's", labels_kept},
    {"session.list_oldest_first", "S-21", "list_sessions gives every live session, oldest first",
     list_oldest_first},
    {"session.get_by_id", "S-28", "get_session finds a live session", get_by_id},
    {"session.unknown_id", "S-28", "an unknown id is SandboxSessionNotFoundError with the id", unknown_id},
};

}  // namespace

std::span<const Check> session_checks() { return table; }

}  // namespace caisson::kit::conformance
