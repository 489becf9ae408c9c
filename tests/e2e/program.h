// Running the program caisson as a subprocess, with every kind of standard stream.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "os/fd.h"
#include "os/process.h"
#include "os/tty.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {

using Words = std::vector<std::string>;

/// How the program ended, and what it wrote.
struct Ended {
  int code = -1;   ///< Exit code; -1 when a signal ended it.
  int signal = 0;  ///< The signal that ended it.
  std::string out;
  std::string err;

  /// Standard output as one line of JSON; fails the test when it is not that.
  boost::json::object json() const;
};
std::ostream& operator<<(std::ostream& stream, const Ended& ended);

/// A started program. Standard streams that it was given as pipes are ours to use until wait().
class Program {
 public:
  /// What a standard stream is: a pipe to us, or a descriptor given.
  struct Streams {
    std::optional<os::FdRef> in;  ///< None: a pipe, kept open until close_in().
    std::optional<os::FdRef> out;
    std::optional<os::FdRef> err;
    bool terminal = false;  ///< `in` is to be the controlling terminal.
  };
  Program(Words argv, std::map<std::string, std::string> env, Streams streams, const std::string& directory);
  Program(Program&&) = default;
  ~Program();

  const os::Process& process() const noexcept { return process_; }
  void signal(int number) const;
  void write_in(std::string_view data) const;
  void close_in() { in_.reset(); }
  /// Reads standard output up to a newline, which is left out; empty at the end.
  std::string read_line();
  os::FdRef out() const noexcept { return out_; }
  void close_out() { out_.reset(); }
  /// Reads what is left, closes standard input and reaps.
  Ended wait();
  /// Whether it has ended, without waiting.
  bool ended();

 private:
  os::Process process_;
  os::Fd in_;
  os::Fd out_;
  os::Fd err_;
  std::optional<os::ExitStatus> status_;
};

/// A root of the local provider, the settings that permit tier none, and a working directory.
class CaissonTest : public testing::Test {
 protected:
  CaissonTest();
  /// No session of the test is left.
  void TearDown() override;

  /// `caisson WORDS...` with standard input /dev/null, to its end.
  Ended caisson(Words words);
  /// `caisson run --isolation none --network egress OPTIONS... -- COMMAND...`.
  Ended run(Words options, Words command);
  /// The same with `input` piped in.
  Ended run_with_input(Words options, Words command, std::string_view input);
  Program start(Words options, Words command);
  Program start_with(Words options, Words command, Program::Streams streams);
  Program start_program(Words argv, Program::Streams streams = {});
  static Words run_words(Words options, Words command);

  std::string path(std::string_view name) const { return directory_ / name; }
  void write_file(std::string_view name, std::string_view bytes, unsigned mode = 0644) const;
  std::string read_file(std::string_view name) const;
  /// A word for sleep(1) that no other test uses.
  static std::string long_time();

  TemporaryDirectory root_;
  TemporaryDirectory containers_;
  TemporaryDirectory directory_;
  std::map<std::string, std::string> env_;
};

/// Whether a process runs whose command line has exactly this word.
bool runs(const std::string& word);

}  // namespace caisson::test
