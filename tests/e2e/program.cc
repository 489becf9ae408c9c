// Running the program caisson as a subprocess.
#include "tests/e2e/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "os/beneath.h"
#include "os/spawn.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;

os::Fd open_null() { return os::Fd::adopt(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

std::string read_to_end(os::FdRef fd) {
  std::string all;
  char buffer[1 << 16];
  for (;;) {
    const auto size = os::read_some(fd, buffer, sizeof buffer);
    // EIO: a terminal whose last user is gone.
    if (!size || *size == 0) return all;
    all.append(buffer, *size);
  }
}

std::vector<const char*> pointers_to(const Words& words) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

os::Process spawn_program(const Words& argv, const Words& env, const std::string& directory,
                          const os::FdRef (&streams)[3], bool terminal) {
  const Words candidates = os::exec_candidates(argv.front(), "/usr/bin:/bin");
  const auto candidate_pointers = pointers_to(candidates);
  const auto argv_pointers = pointers_to(argv);
  const auto env_pointers = pointers_to(env);
  const os::Fd working_directory = os::open_directory(directory).value();
  os::SpawnPlan plan;
  plan.candidates = std::span<const char* const>(candidate_pointers.data(), candidates.size());
  plan.argv = argv_pointers.data();
  plan.envp = env_pointers.data();
  plan.directory = working_directory;
  for (int i = 0; i < 3; ++i) plan.descriptors[i] = streams[i];
  plan.terminal = terminal;
  auto process = os::spawn(plan);
  if (!process) throw std::runtime_error("cannot start " + argv.front());
  return std::move(*process);
}

}  // namespace

boost::json::object Ended::json() const {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(out, error);
  if (error || !value.is_object() || out.empty() || out.find('\n') != out.size() - 1) {
    ADD_FAILURE() << "standard output is not one JSON object on a line: " << *this;
    return {};
  }
  return std::move(value.as_object());
}

std::ostream& operator<<(std::ostream& stream, const Ended& ended) {
  return stream << "code " << ended.code << ", signal " << ended.signal << ", out \"" << ended.out
                << "\", err \"" << ended.err << "\"";
}

Program::Program(Words argv, std::map<std::string, std::string> env, Streams streams,
                 const std::string& directory) {
  Words variables;
  for (const auto& [name, value] : env) variables.push_back(name + "=" + value);
  os::Pipe in;
  os::Pipe out;
  os::Pipe err;
  if (!streams.in) in = os::make_pipe().value();
  if (!streams.out) out = os::make_pipe().value();
  if (!streams.err) err = os::make_pipe().value();
  const os::FdRef given[3] = {streams.in ? *streams.in : os::FdRef(in.read),
                              streams.out ? *streams.out : os::FdRef(out.write),
                              streams.err ? *streams.err : os::FdRef(err.write)};
  process_ = spawn_program(argv, variables, directory, given, streams.terminal);
  in_ = std::move(in.write);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
}

Program::~Program() {
  if (!process_ || status_) return;
  (void)process_.signal(SIGKILL);
  (void)process_.reap();
}

void Program::signal(int number) const { ASSERT_TRUE(process_.signal(number)); }

void Program::write_in(std::string_view data) const { ASSERT_TRUE(os::write_all(in_, data)); }

std::string Program::read_line() {
  std::string line;
  char byte = 0;
  for (;;) {
    const auto size = os::read_some(out_, &byte, 1);
    if (!size || *size == 0 || byte == '\n') return line;
    line += byte;
  }
}

Ended Program::wait() {
  Ended ended;
  std::thread errors;
  if (err_) errors = std::thread([&] { ended.err = read_to_end(err_); });
  in_.reset();
  if (out_) ended.out = read_to_end(out_);
  if (errors.joinable()) errors.join();
  if (!status_) status_ = process_.reap().status;
  if (status_) (status_->signaled ? ended.signal : ended.code) = status_->code;
  return ended;
}

bool Program::ended() {
  if (!status_) {
    if (auto reaped = process_.try_reap()) status_ = reaped->status;
  }
  return status_.has_value();
}

CaissonTest::CaissonTest()
    : env_{{"PATH", "/usr/local/bin:/usr/bin:/bin"},
           {"SANDBOX_LOCAL_ROOT", root_.path()},
           {"CAISSON_ROOT", containers_ / "root"},
           {"CAISSON_RUNTIME_DIR", containers_ / "run"},
           {"TAI_MCP_SANDBOX_ISOLATION", "none"}} {
  // Of a program built with that sanitizer.
  if (const char* const options = std::getenv("TSAN_OPTIONS")) env_["TSAN_OPTIONS"] = options;
}

void CaissonTest::TearDown() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(containers_ / "run/sessions", ignored))
    ADD_FAILURE() << "left behind: " << entry.path();
  for (const char* place : {"/.ephemeral", "/.tai-sandbox/.caisson"}) {
    for (const auto& entry : fs::directory_iterator(root_.path() + place, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.size() >= 32) {
        ADD_FAILURE() << "left behind: " << entry.path();
      }
    }
  }
}

Words CaissonTest::run_words(Words options, Words command) {
  Words argv{CAISSON_PROGRAM, "run", "--isolation", "none", "--network", "egress"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back("--");
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

Program CaissonTest::start_program(Words argv, Program::Streams streams) {
  return Program(std::move(argv), env_, streams, directory_.path());
}

Program CaissonTest::start_with(Words options, Words command, Program::Streams streams) {
  return start_program(run_words(std::move(options), std::move(command)), streams);
}

Program CaissonTest::start(Words options, Words command) {
  return start_with(std::move(options), std::move(command), {});
}

Ended CaissonTest::caisson(Words words) {
  const os::Fd null = open_null();
  Words argv{CAISSON_PROGRAM};
  argv.insert(argv.end(), words.begin(), words.end());
  Program::Streams streams;
  streams.in = null;
  return start_program(std::move(argv), streams).wait();
}

Ended CaissonTest::run(Words options, Words command) {
  Words argv = run_words(std::move(options), std::move(command));
  argv.erase(argv.begin());
  return caisson(std::move(argv));
}

Ended CaissonTest::run_with_input(Words options, Words command, std::string_view input) {
  Program program = start(std::move(options), std::move(command));
  std::thread writer([&] {
    program.write_in(input);
    program.close_in();
  });
  // wait() closes standard input too, so the writer is done first; the output may need reading meanwhile.
  Ended ended;
  std::thread reader([&] { ended.out = read_to_end(program.out()); });
  writer.join();
  reader.join();
  std::string out = std::move(ended.out);
  ended = program.wait();
  ended.out = std::move(out);
  return ended;
}

void CaissonTest::write_file(std::string_view name, std::string_view bytes, unsigned mode) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  ASSERT_EQ(::chmod(path(name).c_str(), mode), 0);
}

std::string CaissonTest::read_file(std::string_view name) const {
  std::ostringstream bytes;
  bytes << std::ifstream(path(name), std::ios::binary).rdbuf();
  return bytes.str();
}

std::string CaissonTest::long_time() {
  static std::atomic<int> count{0};
  return "30017." + std::to_string(::getpid()) + std::to_string(++count);
}

bool runs(const std::string& word) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::string argument;
    while (std::getline(file, argument, '\0')) {
      if (argument == word) return true;
    }
  }
  return false;
}

}  // namespace caisson::test
