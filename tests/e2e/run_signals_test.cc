// caisson run, ended from outside: by signals, a closed output, a timeout that nobody hears of.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/program.h"
#include "tests/support/eventually.h"

namespace caisson::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RunSignalsTest : public CaissonTest {
 protected:
  // Peak resident memory of a process, in KiB (proc(5), VmHWM).
  static long peak_memory(const Program& program) {
    std::ifstream status("/proc/" + std::to_string(program.process().pid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
    }
    return -1;
  }
};

TEST_F(RunSignalsTest, SignalKillsTheTreeReleasesAndExits128PlusN) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const std::string time = long_time();
    Program program = start({}, {"sh", "-c", "setsid sleep " + time + " & echo ready; sleep " + time});
    EXPECT_EQ(program.read_line(), "ready");
    EXPECT_TRUE(eventually([&] { return runs(time); }));
    program.signal(number);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.code, 128 + number) << ended;
    EXPECT_THAT(ended.err, IsEmpty());
    EXPECT_FALSE(runs(time));
  }
}

TEST_F(RunSignalsTest, SignalEndsACommandThatIgnoresIt) {
  Program program = start({}, {"sh", "-c", "trap '' TERM INT HUP; echo ready; while :; do sleep 0.1; done"});
  EXPECT_EQ(program.read_line(), "ready");
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
}

// What stands where its record was cannot be removed as one.
TEST_F(RunSignalsTest, FailedReleaseIsToldHoweverTheRunEnded) {
  const std::string records = root_.path() + "/.tai-sandbox/.caisson/";
  const std::string script = "id=$(basename \"$PWD\"); cd '" + records +
                             "' && rm $id.json && mkdir -p $id.json/x && echo $id > '" + path("id") +
                             "' && echo ready && ";
  for (const int number : {0, SIGTERM, SIGALRM}) {
    Program program = start({"--timeout", number == SIGALRM ? "1" : "60"},
                            {"sh", "-c", script + (number == 0 ? "exit 3" : "sleep " + long_time())});
    EXPECT_EQ(program.read_line(), "ready");
    if (number == SIGTERM) program.signal(number);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.code, number == 0 ? 3 : number == SIGTERM ? 128 + number : 124) << ended;
    std::string id = read_file("id");
    ASSERT_EQ(id.size(), 33U);
    id.pop_back();
    EXPECT_THAT(ended.err, HasSubstr("session " + id + " could not be released"));
    std::filesystem::remove_all(records + id + ".json");
    EXPECT_EQ(caisson({"reap"}).code, 0);
  }
}

TEST_F(RunSignalsTest, SignalKeepsAPersistentWorkspace) {
  Program program =
      start({"--workspace", "kept", "--persistent"}, {"sh", "-c", "echo 1 > f; echo ready; sleep 60"});
  EXPECT_EQ(program.read_line(), "ready");
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
  EXPECT_EQ(run({"--workspace", "kept", "--persistent"}, {"cat", "f"}).out, "1\n");
}

TEST_F(RunSignalsTest, JsonSaysThatASignalEndedIt) {
  Program program = start({"--json", "-i"}, {"sh", "-c", "touch \"$0\"; sleep 60", path("started")});
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path("started")); }));
  program.signal(SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.code, 128 + SIGINT);
  EXPECT_EQ(ended.json().at("code"), "session_destroyed") << ended;
  EXPECT_THAT(ended.err, HasSubstr("signal 2"));
}

// nohup(1), and background jobs of a script: what the caller ignores stays ignored.
TEST_F(RunSignalsTest, SignalThatTheCallerIgnoresIsIgnored) {
  Words words = run_words({"-i"}, {"sh", "-c", "echo ready; cat; exit 7"});
  Words argv{"sh", "-c", "trap '' HUP; exec \"$@\"", "sh"};
  argv.insert(argv.end(), words.begin(), words.end());
  Program program = start_program(argv);
  EXPECT_EQ(program.read_line(), "ready");
  program.signal(SIGHUP);
  program.write_in("still\n");
  EXPECT_EQ(program.read_line(), "still");
  program.close_in();
  EXPECT_EQ(program.wait().code, 7);
}

// A host file that nobody serves holds a step up, never the end.
TEST_F(RunSignalsTest, SignalEndsATransferThatIsHeldUp) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  Program program = start({"--put", "fifo:x"}, {"true"});
  EXPECT_TRUE(eventually([&] {
    std::error_code ignored;
    std::filesystem::directory_iterator sessions(root_.path() + "/.ephemeral", ignored);
    return !ignored && sessions != std::filesystem::directory_iterator();
  }));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
}

TEST_F(RunSignalsTest, ClosedOutputEndsItQuietly) {
  const std::string time = long_time();
  Program program = start({}, {"sh", "-c", "setsid sleep " + time + " & while :; do echo line; done"});
  EXPECT_EQ(program.read_line(), "line");
  program.close_out();
  const Ended ended = program.wait();
  EXPECT_EQ(ended.code, 141) << ended;
  EXPECT_THAT(ended.err, IsEmpty());
  EXPECT_FALSE(runs(time));
}

TEST_F(RunSignalsTest, ClosedOutputOfAQuickCommandIsQuietToo) {
  Program program = start({"-i"}, {"sh", "-c", "cat > /dev/null; echo line"});
  program.close_out();
  const Ended ended = program.wait();
  EXPECT_EQ(ended.code, 141) << ended;
  EXPECT_THAT(ended.err, IsEmpty());
  Program json = start({"--json", "-i"}, {"sh", "-c", "cat > /dev/null; echo line"});
  json.close_out();
  EXPECT_EQ(json.wait().code, 141);
}

TEST_F(RunSignalsTest, OutputThatCannotBeWrittenIs125) {
  const os::Fd full = os::Fd::adopt(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Program::Streams streams;
  streams.out = full;
  const Ended ended = start_with({}, {"echo", "x"}, streams).wait();
  EXPECT_EQ(ended.code, 125) << ended;
  EXPECT_THAT(ended.err, HasSubstr("No space left"));
}

TEST_F(RunSignalsTest, OutputPastTheFileSizeLimitIs125AndReleases) {
  const Words words = run_words({}, {"sh", "-c", "head -c 100000000 /dev/zero"});
  Words argv{"bash", "-c", "ulimit -f 65536; exec \"$@\" > file", "bash"};
  argv.insert(argv.end(), words.begin(), words.end());
  const Ended ended = start_program(argv).wait();
  EXPECT_EQ(ended.code, 125) << ended;
  EXPECT_THAT(ended.err, HasSubstr("File too large"));
}

TEST_F(RunSignalsTest, CommandItselfDiesAtTheFileSizeLimit) {
  const Words words = run_words({"--json"}, {"sh", "-c", "exec head -c 100000000 /dev/zero > file"});
  Words argv{"bash", "-c", "ulimit -f 65536; exec \"$@\"", "bash"};
  argv.insert(argv.end(), words.begin(), words.end());
  EXPECT_EQ(start_program(argv).wait().json().at("signal"), SIGXFSZ);
}

// S-46: enforced whether or not anyone reads the output.
TEST_F(RunSignalsTest, S46_TimeoutHoldsThoughNobodyReads) {
  Program program = start({"--timeout", "0.5"}, {"yes"});
  EXPECT_TRUE(eventually([&] { return program.ended(); }));
  const Ended ended = program.wait();
  EXPECT_EQ(ended.code, 124);
  EXPECT_THAT(ended.err, HasSubstr("0.5"));
}

TEST_F(RunSignalsTest, SignalEndsItThoughNobodyReads) {
  Program program = start({}, {"yes"});
  EXPECT_EQ(program.read_line(), "y");
  // Full: the pipe, our queue and the sandbox's buffer.
  long before = -1;
  EXPECT_TRUE(eventually([&] { return std::exchange(before, peak_memory(program)) == before; }));
  program.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return program.ended(); }));
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
}

// S-47, S-61: nothing is lost to a slow reader, nor does it cost memory, nor time out what has ended.
TEST_F(RunSignalsTest, S61_FloodToASlowReaderIsWholeAndMemoryFlat) {
  constexpr std::size_t size = 192U << 20;
  // AddressSanitizer would keep what was freed.
  env_["ASAN_OPTIONS"] = "quarantine_size_mb=1";
  Program program = start({}, {"head", "-c", std::to_string(size), "/dev/zero"});
  std::size_t got = 0;
  std::string buffer(1U << 16, '\0');
  long peak = 0;
  for (;;) {
    const auto read = os::read_some(program.out(), buffer.data(), buffer.size()).value();
    if (read == 0) break;
    got += read;
    if (got < size / 2) peak = std::max(peak, peak_memory(program));
  }
  EXPECT_EQ(got, size);
  EXPECT_EQ(program.wait().code, 0);
  EXPECT_GT(peak, 0);
  EXPECT_LT(peak, 80L << 10);
}

TEST_F(RunSignalsTest, S47_SlowReaderIsNoTimeoutOfWhatHasEnded) {
  Program program =
      start({"--timeout", "1"}, {"sh", "-c", "head -c 300000 /dev/zero; touch \"$0\"", path("ended")});
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path("ended")); }));
  const auto past = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  EXPECT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > past; }));
  const Ended ended = program.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out.size(), 300000U);
}

// O_NONBLOCK belongs to the open file description: it would change the caller's streams for everybody.
TEST_F(RunSignalsTest, CallersStreamsStayBlocking) {
  auto in = os::make_pipe().value();
  auto out = os::make_pipe().value();
  auto err = os::make_pipe().value();
  ASSERT_TRUE(os::write_all(in.write, "some\n"));
  in.write.reset();
  Program::Streams streams;
  streams.in = in.read;
  streams.out = out.write;
  streams.err = err.write;
  EXPECT_EQ(start_with({"-i"}, {"sh", "-c", "cat; echo e >&2"}, streams).wait().code, 0);
  EXPECT_EQ(os::readable_bytes(out.read).value(), 5U) << "it was used";
  for (const os::FdRef stream : {os::FdRef(in.read), os::FdRef(out.write), os::FdRef(err.write)}) {
    EXPECT_EQ(::fcntl(stream.number, F_GETFL) & O_NONBLOCK, 0);
  }
}

}  // namespace
}  // namespace caisson::test
