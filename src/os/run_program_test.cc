// Programs run to their end.
#include "os/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "os/beneath.h"
#include "os/files.h"
#include "os/self.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

using testing::HasSubstr;

ProgramRun shell(const std::string& script) {
  return {"testing", "dash", "/usr/bin:/bin", {"sh", "-c", script}};
}

TEST(RunProgram, EndsWithTheProgram) {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "file";
  EXPECT_TRUE(run_program(shell("sleep 0.05; echo done >" + file)));
  std::string word;
  std::ifstream(file) >> word;
  EXPECT_EQ(word, "done");
  EXPECT_TRUE(run_program(shell("read nothing || exit 0; exit 1"))) << "it has nothing to read";
  ASSERT_NE(::getenv("PATH"), nullptr) << "the control";
  EXPECT_TRUE(run_program(shell("! env | grep -E '^(HOME|USER|LANG|LD_[A-Z]*)='"))) << "no environment";
}

TEST(RunProgram, GetsItsDescriptor) {
  const test::TemporaryDirectory directory;
  const Fd at = open_directory(directory.path()).value();
  const Fd file = make_unnamed_file(at, 0600).value();
  ProgramRun run = shell("echo text >/proc/self/fd/0");
  run.input = file;
  ASSERT_TRUE(run_program(run));
  char text[8] = {};
  EXPECT_EQ(read_at(file, text, sizeof text, 0).value(), 5U);
  EXPECT_STREQ(text, "text\n");
}

TEST(RunProgram, AFailureHasItsWords) {
  const auto failed = run_program(shell("echo no; echo way >&2; exit 3"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().number, EIO);
  EXPECT_EQ(failed.error().text, "testing by sh: no\nway");
  EXPECT_THAT(run_program(shell("exit 1")).error().text, HasSubstr("saying nothing"));
  EXPECT_THAT(run_program(shell("kill -KILL $$")).error().text, HasSubstr("killed"));
}

TEST(RunProgram, OneThatSaysMuchIsReadToItsEnd) {
  EXPECT_TRUE(run_program(shell("i=0; while [ $i -lt 20000 ]; do echo much; i=$((i+1)); done")));
  const auto failed = run_program(shell("echo begin; seq 100000; exit 1"));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().text, HasSubstr("begin\n1\n"));
  EXPECT_LT(failed.error().text.size(), 5000U);
}

TEST(RunProgram, OneThatDoesNotEndIsKilled) {
  for (const char* script :
       {"while :; do echo much; done", "exec sleep 1000", "exec >&- 2>&-; exec sleep 1000"}) {
    ProgramRun run = shell(script);
    run.patience = std::chrono::milliseconds(200);
    const auto late = run_program(run);
    ASSERT_FALSE(late) << script;
    EXPECT_EQ(late.error().number, ETIMEDOUT) << script;
  }
}

TEST(RunProgram, WhatItLeavesRunningIsNotWaitedFor) {
  const test::TemporaryDirectory directory;
  const std::string fifo = directory / "fifo";
  // It ends when the FIFO is opened, holding the output until then.
  EXPECT_TRUE(run_program(shell("mkfifo " + fifo + "; (read word <" + fifo + ") & exit 0")));
  std::ofstream(fifo) << "end\n";
}

TEST(RunProgram, InAUserNamespaceOfItsOwnItIsFoundWithoutAPath) {
  const IdMaps ids{{{0, own_user(), 1}}, {{0, own_group(), 1}}};
  ProgramRun run{"testing", "coreutils", "/usr/bin:/bin", {"id", "-u"}};
  run.ids = &ids;
  const auto done = run_program(run);
  EXPECT_TRUE(done) << done.error().text;
  run.argv = {"caisson-none"};
  const auto missing = run_program(run);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().number, ENOENT);
  EXPECT_THAT(missing.error().text, HasSubstr("install the package coreutils"));
}

TEST(RunProgram, AMissingOneSaysWhatToInstall) {
  ProgramRun run = shell("");
  run.argv = {"caisson-none"};
  const auto missing = run_program(run);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().number, ENOENT);
  EXPECT_THAT(missing.error().text,
              HasSubstr("testing by caisson-none: there is no such program: install the package dash"));
}

}  // namespace
}  // namespace caisson::os
