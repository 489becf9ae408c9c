// Paths that lead out of the workspace.
#include "kit/conformance/outside.h"

#include <filesystem>

namespace caisson::kit::conformance {

void expect_outside_untouched(const Context& context) {
  expect_equal("the canary outside the workspace", context.canary_now(), context.canary());
  for (const auto& entry : std::filesystem::directory_iterator(context.outside())) {
    const std::string name = entry.path().filename();
    expect(name == "canary", "expected no new file outside the workspace, saw " + show(name));
  }
}

Awaitable<void> no_way_out(Context context, SessionPtr session, std::string directory) {
  // Where the session has a root of its own, the path leads to a place in that which is not there.
  std::vector<ErrorCode> codes{ErrorCode::path_escapes};
  if (context.profile().own_root) codes.push_back(ErrorCode::file_missing);
  const std::string file = directory + "/canary";
  expect_equal("the canary", context.canary_now(), context.canary());
  if (!context.profile().own_root) {
    // That the path does lead there: a command, which nothing holds back here, can go it.
    const std::string seen = co_await output_of(context, session, "cat '" + file + "'");
    expect_equal("the canary as a command sees it", seen, context.canary());
  }
  co_await refused("get_file of " + file, session->get_file(file), codes);
  co_await refused("open_reader of " + file, session->open_reader(file), codes);
  // Such a path may well be written, in a root of the session's own.
  const Caught put = co_await caught(session->put_file(file, "overwritten"));
  const Caught made = co_await caught(session->put_file(directory + "/made", "made"));
  expect_outside_untouched(context);
  if (context.profile().own_root) co_return;
  expect_code("put_file to " + file, put, codes);
  expect_code("put_file to " + directory + "/made", made, codes);
}

}  // namespace caisson::kit::conformance
