// Tests of the messages: they come back whole, and what breaks a rule is neither written nor read.
#include "init/messages.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "init/samples_test.h"
#include "init/wire.h"

namespace caisson::init {
namespace {

template <class Variant>
struct Direction;
template <>
struct Direction<Request> {
  static constexpr Peer peer = Peer::host;
  static std::vector<Request> samples() { return sample_requests(); }
  static os::Result<Request> decode(const Frame& frame) { return decode_request(frame); }
};
template <>
struct Direction<Reply> {
  static constexpr Peer peer = Peer::init;
  static std::vector<Reply> samples() { return sample_replies(); }
  static os::Result<Reply> decode(const Frame& frame) { return decode_reply(frame); }
};

Frame frame_of(Peer sender, const os::Result<std::string>& bytes) {
  FrameDecoder decoder(sender);
  std::string_view rest = bytes.value();
  auto frame = decoder.next(rest);
  EXPECT_TRUE(frame && rest.empty());
  return frame.value_or(Frame());
}

template <class Variant>
Frame frame_of(const Variant& message) {
  return frame_of(Direction<Variant>::peer, encode_any(77, message));
}

template <class Variant>
class MessagesTest : public testing::Test {};
using Variants = testing::Types<Request, Reply>;
TYPED_TEST_SUITE(MessagesTest, Variants);

TYPED_TEST(MessagesTest, TheSamplesAreOfEveryKind) {
  std::set<std::size_t> kinds;
  for (const TypeParam& message : Direction<TypeParam>::samples()) kinds.insert(message.index());
  EXPECT_EQ(kinds.size(), std::variant_size_v<TypeParam>);
}

TYPED_TEST(MessagesTest, ComeBackAsTheyWere) {
  for (const TypeParam& message : Direction<TypeParam>::samples()) {
    const Frame frame = frame_of(message);
    SCOPED_TRACE(static_cast<int>(frame.type));
    EXPECT_EQ(frame.request, 77U);
    const auto decoded = Direction<TypeParam>::decode(frame);
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(*decoded == message);
  }
}

TYPED_TEST(MessagesTest, CutAnywhereAreRefused) {
  for (const TypeParam& message : Direction<TypeParam>::samples()) {
    const Frame frame = frame_of(message);
    for (std::size_t size = 0; size < frame.body.size(); ++size) {
      Frame cut = frame;
      cut.body.resize(size);
      const auto decoded = Direction<TypeParam>::decode(cut);
      ASSERT_FALSE(decoded) << static_cast<int>(frame.type) << " cut to " << size;
      EXPECT_EQ(decoded.error().value(), EBADMSG);
    }
  }
}

TYPED_TEST(MessagesTest, WithATrailingByteAreRefused) {
  for (const TypeParam& message : Direction<TypeParam>::samples()) {
    Frame frame = frame_of(message);
    ASSERT_TRUE(Direction<TypeParam>::decode(frame));
    frame.body += '\0';
    EXPECT_FALSE(Direction<TypeParam>::decode(frame)) << static_cast<int>(frame.type);
  }
}

TYPED_TEST(MessagesTest, WithOneDescriptorMoreOrLessAreRefused) {
  for (const TypeParam& message : Direction<TypeParam>::samples()) {
    const Frame frame = frame_of(message);
    for (std::uint8_t count = 0; count <= max_descriptors; ++count) {
      Frame other = frame;
      other.descriptors = count;
      EXPECT_EQ(Direction<TypeParam>::decode(other).has_value(), count == frame.descriptors)
          << static_cast<int>(frame.type) << " with " << int{count};
    }
  }
}

TYPED_TEST(MessagesTest, WithAFlippedBitAreAnotherMessageOrNone) {
  for (const TypeParam& message : Direction<TypeParam>::samples()) {
    const Frame frame = frame_of(message);
    for (std::size_t bit = 0; bit < frame.body.size() * 8; ++bit) {
      Frame flipped = frame;
      flipped.body[bit / 8] = static_cast<char>(flipped.body[bit / 8] ^ (1 << bit % 8));
      const auto decoded = Direction<TypeParam>::decode(flipped);
      if (!decoded) continue;
      ASSERT_FALSE(*decoded == message);
      ASSERT_TRUE(frame_of(*decoded) == flipped) << "a second form of the same message";
    }
  }
}

TYPED_TEST(MessagesTest, OfTheOtherDirectionAreRefused) {
  const auto refused = [](const Frame& frame) {
    return std::is_same_v<TypeParam, Request> ? !decode_reply(frame) : !decode_request(frame);
  };
  for (const TypeParam& message : Direction<TypeParam>::samples()) EXPECT_TRUE(refused(frame_of(message)));
}

TEST(Messages, SayHowManyDescriptorsRideAlong) {
  StartExec exec = sample_exec();
  EXPECT_EQ(exec.descriptors(), 5);
  exec.joined = 0;
  EXPECT_EQ(exec.descriptors(), 3);
  exec.input = false;
  EXPECT_EQ(exec.descriptors(), 2);
  exec.tty = TtySize{80, 24};
  EXPECT_EQ(exec.descriptors(), 0);
  exec.joined = 1;
  EXPECT_EQ(exec.descriptors(), 1);
  BoxPlan plan = sample_plan();
  EXPECT_EQ(plan.attached(), 2);
  EXPECT_EQ(plan.descriptors(), 6);
  plan.cgroup = false;
  EXPECT_EQ(plan.descriptors(), 5);
  EXPECT_EQ(frame_of(Peer::host, encode(1, exec)).descriptors, 1);
}

template <class T>
std::string bytes_of(T value) {
  std::string bytes;
  Writer(bytes).number(value);
  return bytes;
}

// The body of `message` with the one place in it that is `from` made `to`.
Frame patched(const Frame& frame, const std::string& from, const std::string& to) {
  Frame patched = frame;
  const auto at = frame.body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(frame.body.find(from, at + 1), std::string::npos) << from;
  if (at != std::string::npos) patched.body.replace(at, from.size(), to);
  return patched;
}

struct Patch {
  const char* what;
  std::string from;
  std::string accepted;  // The twin that keeps the rule.
  std::string refused;
};

template <class Variant>
void expect_refused(const Variant& message, const std::vector<Patch>& patches) {
  const Frame frame = frame_of(message);
  for (const Patch& patch : patches) {
    SCOPED_TRACE(patch.what);
    EXPECT_TRUE(Direction<Variant>::decode(patched(frame, patch.from, patch.accepted)));
    const auto decoded = Direction<Variant>::decode(patched(frame, patch.from, patch.refused));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().value(), EBADMSG);
  }
}

const std::string nul(1, '\0');

std::string text(const std::string& value) {
  return bytes_of(static_cast<std::uint32_t>(value.size())) + value;
}

TEST(MessageRules, OfStartExec) {
  expect_refused<Request>(
      sample_exec(),
      {{"a NUL in an argument", "python3", "pyth,n3", "pyth" + nul + "n3"},
       {"no arguments",
        bytes_of(std::uint32_t{4}) + text("python3") + text("-c") + text("") + text("print(1)"),
        bytes_of(std::uint32_t{1}) + text("python3"), bytes_of(std::uint32_t{0})},
       {"a NUL in a variable", "secret", "sec.et", "sec" + nul + "et"},
       {"a variable without =", "TOKEN=secret", "TOKEN=SECRET", "TOKEN.secret"},
       {"a variable without a name", "TOKEN=secret", "T=KEN=secret", "=OKEN=secret"},
       {"a NUL in the directory", "sub/dir", "sub.dir", "sub" + nul + "dir"},
       {"a path to a cgroup", "leaf", "le.f", "le/f"},
       {"the cgroups' own directory", text("leaf"), text(""), text(".")},
       {"a cgroup above the cgroups", text("leaf"), text("..."), text("..")},
       {"a NUL in a cgroup's name", "leaf", "le.f", "le" + nul + "f"}});
}

TEST(MessageRules, OfTheCgroupsOfAStartExec) {
  StartExec exec = sample_exec();
  exec.joined = max_joined;
  EXPECT_TRUE(decode_request(frame_of(Request(exec))));
  ++exec.joined;
  EXPECT_EQ(encode(1, exec).error().value(), EINVAL);
}

TEST(MessageRules, OfBuildBox) {
  const auto u32 = [](std::uint32_t value) { return bytes_of(value); };
  const auto two = [&](std::uint32_t one, std::uint32_t other) { return u32(one) + u32(other); };
  expect_refused<Request>(
      BuildBox{sample_plan()},
      {{"a NUL in the hostname", "box", "b.x", "b" + nul + "x"},
       {"no hostname", text("box"), text("b"), text("")},
       {"a relative target", "/tmp/here", "/tmp.here", ".tmp/here"},
       {".. in a target", "/tmp/here", "/t../here", "/../there"},
       {".. at the end of a target", "/usr/here", "/usr/h..e", "/usr/h/.."},
       {"a NUL in a target", "/proc\x03", "/pr.c\x03", "/pr" + nul + "c\x03"},
       {"an empty target", text("/dev/pts"), text("/"), text("")},
       {"a relative target of an attached mount", "/layers/one", "/layers/1..", "layers/one/"},
       {"a relative target of an overlay", text("/opt"), text("/a.."), text("a/..")},
       {"a relative source", "/srv/source", "/srv/sourc.", "srv/source/"},
       {"a relative lower directory", "/lower/a", "/lower/.", "./lower/"},
       {"an overlay without lower directories", u32(2) + text("/lower/e") + text("/lower/f"),
        u32(1) + text("/lower/e"), u32(0)},
       {"a relative upper directory", "/upper/c", "/upper/.", "./upper/"},
       {"a relative work directory", "/work/d", "/work/.", "./work/"},
       {"an upper without a work directory", text("/work/d"), text("/work/e"), text("")},
       {"an unknown mount", std::string("\x03", 1) + text("/dev/pts"),
        std::string("\x02", 1) + text("/dev/pts"), std::string("\x06", 1) + text("/dev/pts")},
       {"a mode beyond the permissions", u32(01777), u32(07777), u32(010000)},
       {"an attached mount without a descriptor", "\x01" + text("/layers/one"), "\x01" + text("/layers/two"),
        "\x02" + text("/layers/one")},
       {"an attached mount far from any descriptor", "\x01" + text("/layers/one"),
        "\x01" + text("/layers/two"), "\xff" + text("/layers/one")},
       {"a descriptor that is attached twice", nul + text("/layers/zero"), nul + text("/layers/null"),
        "\x01" + text("/layers/zero")},
       {"a relative directory", text("/home/user") + u32(0700), text("/home/u..r") + u32(0700),
        text("home/user/") + u32(0700)},
       {"a directory of no user", u32(0700) + two(0x3e8, 0x3e9), u32(0700) + two(0xfffffffe, 0x3e9),
        u32(0700) + two(0xffffffff, 0x3e9)},
       {"a directory of no group", u32(0700) + two(0x3e8, 0x3e9), u32(0700) + two(0x3e8, 0xfffffffe),
        u32(0700) + two(0x3e8, 0xffffffff)},
       {"a file outside", "/etc/passwd", "/etc/p..swd", "/../passwd."},
       {"a link to nothing", text("../proc/self/fd"), text(".."), text("")},
       {"a relative link", "/dev/fd", "/dev/fc", "dev/fd/"},
       {"an unknown device", u32(2) + std::string("\0\x05", 2), u32(2) + std::string("\0\x04", 2),
        u32(2) + std::string("\0\x06", 2)},
       {"a device named twice", u32(2) + std::string("\0\x05", 2), u32(2) + std::string("\x05\0", 2),
        u32(2) + std::string("\x05\x05", 2)},
       {"a relative masked path", "/sys/firmware", "/sys/f..mware", "sys/firmware/"},
       {"a read-only path outside", "/proc/sys", "/proc/s..", "/proc//.."},
       {"a relative workspace", "/workspace", "/work.pace", "workspace/"},
       {"no workspace", text("/workspace"), text("/"), text("")},
       {"a user who is none", text("/workspace") + u32(0x3e8), text("/workspace") + u32(0),
        text("/workspace") + u32(0xffffffff)},
       {"a group that is none", two(0x64, 0x65), two(0x64, 0), two(0x64, 0xffffffff)},
       {"a relative home", text("/home/user") + text("user"), text("/home/u..r") + text("user"),
        text("home/user/") + text("user")},
       {"a NUL in the user's name", text("/home/user") + text("user"), text("/home/user") + text("us.r"),
        text("/home/user") + text("us" + nul + "r")},
       {"init as no user", two(0x7d0, 0x7d1), two(0, 0), two(0xffffffff, 0)},
       {"init as no group", two(0x7d0, 0x7d1), two(0, 0), two(0, 0xffffffff)},
       {"an unknown resource", u32(7) + u32(0x400), u32(15) + u32(0x400), u32(16) + u32(0x400)},
       {"a soft limit over the hard one", u32(7) + u32(0x400), u32(7) + u32(0x1000), u32(7) + u32(0x1001)},
       {"half an instruction", text(sample_plan().seccomp), text(sample_plan().seccomp + std::string(8, 'x')),
        text(sample_plan().seccomp + std::string(4, 'x'))},
       {"no instruction", text(sample_plan().seccomp), text(std::string(8, 'x')), text("")},
       {"a variable without =", "EMPTY=", "EMPT=Y", "EMPTY."},
       {"a flag that is no boolean", u32(01777) + std::string("\x01\0\x01\x01", 4),
        u32(01777) + std::string(4, '\0'), u32(01777) + std::string("\x02\0\x01\x01", 4)}});
}

TEST(MessageRules, OfTheOtherRequests) {
  const auto u32 = [](std::uint32_t value) { return bytes_of(value); };
  expect_refused<Request>(SignalExec{1, 61}, {{"signal 0", u32(61), u32(1), u32(0)},
                                              {"a signal beyond the last", u32(61), u32(64), u32(65)}});
  expect_refused<Request>(OpenFile{"some/file", "/workspace"},
                          {{"a NUL in a path", "some/file", "some.file", "some" + nul + "file"},
                           {"no path", text("some/file"), text("."), text("")},
                           {"a relative directory", "/workspace", "/work.pace", "workspace/"},
                           {"a NUL in the directory", "/workspace", "/work.pace", "/work" + nul + "pace"}});
  expect_refused<Request>(
      BeginPut{"file", 0755},
      {{"a NUL in a path", "file", "fi.e", "fi" + nul + "e"},
       {"no path", text("file"), text("f"), text("")},
       {"a mode beyond the permissions", u32(0755), u32(07777), u32(010000)},
       {"a mode that is neither there nor not", "\x01" + u32(0755), nul, "\x02" + u32(0755)}});
}

TEST(MessageRules, OfReplies) {
  const auto u32 = [](std::uint32_t value) { return bytes_of(value); };
  const std::string last_step_byte(1, static_cast<char>(last_step));
  const std::string beyond_last(1, static_cast<char>(static_cast<int>(last_step) + 1));
  expect_refused<Reply>(
      Failed{Step::exec, 0x77, "detail"},
      {{"an unknown step", static_cast<char>(Step::exec) + u32(0x77), last_step_byte + u32(0x77),
        beyond_last + u32(0x77)},
       {"no errno", u32(0x77), u32(4095), u32(4096)},
       {"a long detail", text("detail"), text(std::string(512, 'x')), text(std::string(513, 'x'))}});
  expect_refused<Reply>(
      Started{1, 0x2bad, false},
      {{"process 0", u32(0x2bad), u32(1), u32(0)}, {"no pid", u32(0x2bad), u32(INT32_MAX), u32(0x80000000)}});
  expect_refused<Reply>(Exited{3, false, 0xfa, false, true},
                        {{"no exit code", u32(0xfa), u32(255), u32(256)},
                         {"a core dump of what exited", u32(0xfa) + nul, u32(0) + nul, u32(0) + "\x01"}});
  expect_refused<Reply>(
      Exited{3, true, 61, true, false},
      {{"signal 0", u32(61), u32(1), u32(0)}, {"a signal beyond the last", u32(61), u32(64), u32(65)}});
  expect_refused<Reply>(Opened{5, 0640}, {{"more than permissions", u32(0640), u32(07777), u32(0100640)}});
}

TEST(MessageRules, HoldForTheOneWhoEncodes) {
  struct Case {
    const char* what;
    Request request;
    int error;
  };
  StartExec no_arguments = sample_exec();
  no_arguments.argv.clear();
  StartExec no_sign = sample_exec();
  no_sign.env = {"TOKEN"};
  BuildBox parent{sample_plan()};
  parent.plan.masked = {"/a/../b"};
  BuildBox no_filter{sample_plan()};
  no_filter.plan.seccomp.clear();
  const Case cases[] = {
      {"no arguments", no_arguments, EINVAL},
      {"a variable without =", no_sign, EINVAL},
      {"..", parent, EINVAL},
      {"no filter", no_filter, EINVAL},
      {"signal 0", SignalExec{1, 0}, EINVAL},
      {"a long path", OpenFile{std::string(max_path + 1, 'x'), ""}, ENAMETOOLONG},
  };
  for (const Case& each : cases)
    EXPECT_EQ(encode_any(1, each.request).error().value(), each.error) << each.what;
  EXPECT_TRUE(encode(1, OpenFile{std::string(max_path, 'x'), ""}));
}

TEST(MessageRules, NoPathInTheBoxLeadsOutOfIt) {
  using SetPath = void (*)(BoxPlan&, const std::string&);
  const SetPath places[] = {
      [](BoxPlan& plan, const std::string& path) { plan.mounts = {Tmpfs{path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.mounts = {Bind{"/source", path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.mounts = {Proc{path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.mounts = {Devpts{path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.mounts = {Attached{0, path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.mounts = {Overlay{path, {"/lower"}, "", ""}}; },
      [](BoxPlan& plan, const std::string& path) { plan.directories = {{path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.files = {{path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.symlinks = {{"target", path}}; },
      [](BoxPlan& plan, const std::string& path) { plan.masked = {path}; },
      [](BoxPlan& plan, const std::string& path) { plan.read_only = {path}; },
      [](BoxPlan& plan, const std::string& path) { plan.workspace = path; },
      [](BoxPlan& plan, const std::string& path) { plan.user.home = path; },
  };
  for (const SetPath& set : places) {
    SCOPED_TRACE(&set - places);
    BuildBox box{sample_plan()};
    for (const char* path : {"/", "/a", "/a/", "//a/./b", "/..a", "/a../b", "/a/...", "/.../a"}) {
      set(box.plan, path);
      EXPECT_TRUE(encode(1, box)) << path;
    }
    for (const char* path :
         {"", ".", "..", "a", "a/b", "/..", "/../", "/../a", "/a/..", "/a/../b", "//..", "/a//../b"}) {
      set(box.plan, path);
      EXPECT_EQ(encode(1, box).error().value(), EINVAL) << path;
    }
  }
}

TEST(MessageRules, ArgumentsAndEnvironmentShareALimit) {
  // As the kernel counts: nine bytes beside those of each string.
  StartExec exec = sample_exec();
  exec.argv = {std::string(max_arguments / 2 - 9, 'x')};
  exec.env = {"K=" + std::string(max_arguments / 2 - 9 - 2, 'x')};
  const Frame frame = frame_of(Request(exec));
  EXPECT_TRUE(decode_request(frame));
  EXPECT_FALSE(decode_request(patched(frame, text("sub/dir"), text("sub" + nul + "dir"))));
  exec.env[0] += 'x';
  EXPECT_EQ(encode(1, exec).error().value(), E2BIG);

  exec.env = {};
  exec.argv.assign(max_arguments / 9, "");
  EXPECT_TRUE(decode_request(frame_of(Request(exec))));
  exec.argv.emplace_back();
  EXPECT_EQ(encode(1, exec).error().value(), E2BIG);
}

TEST(MessageRules, ATerminalIsTheOnlyStream) {
  EXPECT_TRUE(encode(1, Streams{true, false, false, false}));
  EXPECT_TRUE(encode(1, Streams{false, true, true, true}));
  EXPECT_EQ(encode(1, Streams{true, false, true, false}).error().value(), EINVAL);
  EXPECT_TRUE(encode(1, ExecList{std::vector<ExecState>(max_execs, {1, 1, false})}));
  EXPECT_EQ(encode(1, ExecList{std::vector<ExecState>(max_execs + 1, {1, 1, false})}).error().value(),
            EINVAL);
  EXPECT_EQ(encode(1, ExecList{{{1, 0, false}}}).error().value(), EINVAL);
}

TEST(MessageRules, APlansEnvironmentIsAsLimited) {
  BuildBox box{sample_plan()};
  box.plan.environment = {"K=" + std::string(max_arguments - 9 - 2, 'x')};
  EXPECT_TRUE(decode_request(frame_of(Request(box))));
  box.plan.environment[0] += 'x';
  EXPECT_EQ(encode(1, box).error().value(), E2BIG);
}

// As many as `most` of what `fill` puts into a plan pass, and no more.
void expect_at_most(std::size_t most, const std::function<void(BoxPlan&, std::size_t)>& fill) {
  BuildBox box{sample_plan()};
  fill(box.plan, most);
  EXPECT_TRUE(decode_request(frame_of(Request(box))));
  fill(box.plan, most + 1);
  EXPECT_EQ(encode(1, box).error().value(), EINVAL);
}

TEST(MessageRules, APlanHasNoMoreThanItsLimits) {
  expect_at_most(max_hostname, [](BoxPlan& plan, std::size_t count) { plan.hostname.assign(count, 'h'); });
  expect_at_most(max_mounts, [](BoxPlan& plan, std::size_t count) { plan.mounts.assign(count, Proc{"/p"}); });
  expect_at_most(max_lower, [](BoxPlan& plan, std::size_t count) {
    plan.mounts = {Overlay{"/", std::vector<std::string>(count, "/l"), "", ""}};
  });
  expect_at_most(max_descriptors, [](BoxPlan& plan, std::size_t count) {
    plan.mounts.clear();
    plan.cgroup = false;
    plan.joined = 0;
    for (std::size_t i = 0; i < count; ++i)
      plan.mounts.emplace_back(Attached{static_cast<std::uint8_t>(i), "/a"});
  });
  expect_at_most(max_joined, [](BoxPlan& plan, std::size_t count) {
    plan.mounts.clear();
    plan.joined = static_cast<std::uint8_t>(count);
  });
  // All together ride along with one message.
  expect_at_most(max_descriptors - max_joined - 1, [](BoxPlan& plan, std::size_t count) {
    plan.mounts.clear();
    plan.joined = max_joined;
    for (std::size_t i = 0; i < count; ++i)
      plan.mounts.emplace_back(Attached{static_cast<std::uint8_t>(i), "/a"});
  });
  expect_at_most(max_entries,
                 [](BoxPlan& plan, std::size_t count) { plan.directories.assign(count, {"/d"}); });
  expect_at_most(max_entries, [](BoxPlan& plan, std::size_t count) { plan.files.assign(count, {"/f"}); });
  expect_at_most(max_entries,
                 [](BoxPlan& plan, std::size_t count) { plan.symlinks.assign(count, {"t", "/l"}); });
  expect_at_most(max_entries, [](BoxPlan& plan, std::size_t count) { plan.masked.assign(count, "/m"); });
  expect_at_most(max_entries, [](BoxPlan& plan, std::size_t count) { plan.read_only.assign(count, "/r"); });
  expect_at_most(max_groups, [](BoxPlan& plan, std::size_t count) { plan.user.groups.assign(count, 1); });
  expect_at_most(max_name, [](BoxPlan& plan, std::size_t count) { plan.user.name.assign(count, 'n'); });
  expect_at_most(max_rlimits,
                 [](BoxPlan& plan, std::size_t count) { plan.rlimits.assign(count, {1, 2, 3}); });
  expect_at_most(max_seccomp / 8,
                 [](BoxPlan& plan, std::size_t count) { plan.seccomp.assign(count * 8, 'x'); });
}

TEST(MessageRules, AttachedMountsBeyondAnyCountAreRefused) {
  BuildBox box{sample_plan()};
  for (const std::size_t count : {40U, 255U, 256U}) {
    box.plan.mounts.clear();
    for (std::size_t i = 0; i < count; ++i) {
      box.plan.mounts.emplace_back(Attached{static_cast<std::uint8_t>(i), "/a"});
    }
    EXPECT_EQ(encode(1, box).error().value(), EINVAL);
  }
}

TEST(MessageRules, ABodyIsNoLongerThanAFrames) {
  BuildBox box{sample_plan()};
  const std::size_t others = frame_of(Request(box)).body.size();
  box.plan.files[1].contents.assign(max_body - others, 'x');
  const Frame frame = frame_of(Request(box));
  EXPECT_EQ(frame.body.size(), max_body);
  EXPECT_TRUE(decode_request(frame));
  box.plan.files[1].contents += 'x';
  EXPECT_EQ(encode(1, box).error().value(), EMSGSIZE);
}

TEST(MessageRules, AnythingDecodesToAnAnswer) {
  // Every type number with every short body of one repeated byte.
  for (std::uint32_t type = 0; type < 300; ++type) {
    for (const char byte : {'\0', '\1', '\x7f', '\xff'}) {
      for (std::size_t size = 0; size < 64; ++size) {
        const Frame frame{static_cast<MessageType>(type), 1, 0, std::string(size, byte)};
        if (const auto request = decode_request(frame)) {
          EXPECT_TRUE(frame_of(Peer::host, encode_any(1, *request)) == frame);
        }
        if (const auto reply = decode_reply(frame)) {
          EXPECT_TRUE(frame_of(Peer::init, encode_any(1, *reply)) == frame);
        }
      }
    }
  }
}

}  // namespace
}  // namespace caisson::init
