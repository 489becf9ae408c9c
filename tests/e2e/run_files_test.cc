// caisson run --put and --get: files in and out.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/e2e/program.h"

namespace caisson::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RunFilesTest : public CaissonTest {};

TEST_F(RunFilesTest, PutsAndGets) {
  write_file("in.txt", "1 2 3\n");
  const Ended ended = run({"--put", "in.txt:deep/er/in.txt", "--get", "out/sum", "--get", "out/sum:copy"},
                          {"sh", "-c", "mkdir out; wc -c < deep/er/in.txt > out/sum"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_EQ(read_file("sum"), "6\n");
  EXPECT_EQ(read_file("copy"), "6\n");
}

// S-72: no cap on what is streamed.
TEST_F(RunFilesTest, S72_FilesOverTheInMemoryCapGoThrough) {
  std::string bytes(70U << 20, 'x');
  bytes.back() = 'y';
  write_file("big", bytes);
  const Ended ended = run({"--put", "big", "--get", "big2"}, {"mv", "big", "big2"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_TRUE(read_file("big2") == bytes);
}

TEST_F(RunFilesTest, PutKeepsPermissionBits) {
  write_file("tool", "#!/bin/sh\necho ran\n", 0755);
  EXPECT_EQ(run({"--put", "tool"}, {"./tool"}).out, "ran\n");
}

TEST_F(RunFilesTest, PutOfAPipeWorks) {
  const Ended ended = run_with_input({"--put", "/dev/stdin:x"}, {"cat", "x"}, "through a pipe");
  EXPECT_EQ(ended.out, "through a pipe") << ended;
}

TEST_F(RunFilesTest, MissingPutIs125AndRunsNothing) {
  const Ended ended = run({"--json", "--put", "none"}, {"sh", "-c", "touch \"$0\"", path("ran")});
  EXPECT_EQ(ended.code, 125) << ended;
  EXPECT_EQ(ended.json().at("code"), "file_missing");
  EXPECT_THAT(ended.err, HasSubstr("none"));
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
  EXPECT_EQ(run({"--put", "."}, {"true"}).code, 2);
}

TEST_F(RunFilesTest, MissingGetIs125AndMakesNoFile) {
  const Ended ended = run({"--get", "none:kept"}, {"echo", "ran"});
  EXPECT_EQ(ended.code, 125) << ended;
  EXPECT_EQ(ended.out, "ran\n");
  EXPECT_THAT(ended.err, HasSubstr("miss"));
  EXPECT_FALSE(std::filesystem::exists(path("kept")));
  EXPECT_EQ(run({"--json", "--get", "none"}, {"true"}).json().at("code"), "file_missing");
}

TEST_F(RunFilesTest, CommandsOwnFailureComesBeforeAMissingGet) {
  const Ended ended =
      run({"--json", "--get", "none", "--get", "log"}, {"sh", "-c", "echo why > log; exit 4"});
  EXPECT_EQ(ended.code, 4) << ended;
  EXPECT_EQ(ended.json().at("exit_code"), 4);
  EXPECT_THAT(ended.err, HasSubstr("none"));
  EXPECT_EQ(read_file("log"), "why\n") << "what is there still comes out";
}

// S-70, with its positive control.
TEST_F(RunFilesTest, S70_TransfersStayInTheWorkspace) {
  write_file("secret", "host\n");
  EXPECT_EQ(run({"--get", "inside"}, {"sh", "-c", "echo in > real; ln -s real inside"}).code, 0);
  EXPECT_EQ(read_file("inside"), "in\n");
  const Ended link = run({"--json", "--get", "link"}, {"ln", "-s", path("secret"), "link"});
  EXPECT_EQ(link.code, 125);
  EXPECT_EQ(link.json().at("code"), "path_escapes");
  write_file("x", "x");
  EXPECT_EQ(run({"--json", "--put", "x:../../x"}, {"true"}).json().at("code"), "path_escapes");
}

TEST_F(RunFilesTest, GetIntoWhatIsThereKeepsItsKind) {
  std::filesystem::create_directory(path("dir"));
  EXPECT_EQ(run({"--get", "f:dir"}, {"sh", "-c", "echo 1 > f"}).code, 0);
  EXPECT_EQ(read_file("dir/f"), "1\n");
  const Ended ended = run({"--get", "f:/dev/stdout"}, {"sh", "-c", "echo 2 > f"});
  EXPECT_EQ(ended.out, "2\n") << ended;
}

TEST_F(RunFilesTest, GetToAStandardOutputThatIsAFileAddsToIt) {
  const Words words = run_words({"--get", "f:/dev/stdout"}, {"sh", "-c", "echo out; echo 3 > f"});
  Words argv{"sh", "-c", "{ \"$@\"; echo after; } > file", "sh"};
  argv.insert(argv.end(), words.begin(), words.end());
  EXPECT_EQ(start_program(argv).wait().code, 0);
  EXPECT_EQ(read_file("file"), "out\n3\nafter\n");
}

}  // namespace
}  // namespace caisson::test
