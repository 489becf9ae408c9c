// A line protocol with a command that keeps running: requests to its standard input, answers from its output.
#include <caisson/caisson.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>

using namespace std::chrono_literals;

// Chunks keep no line borders: this puts the lines together again.
class Lines {
 public:
  explicit Lines(caisson::SandboxOutput& output) : output_(output) {}

  // The next line of standard output; nothing after the last.
  caisson::Awaitable<std::optional<std::string>> next() {
    for (;;) {
      if (const auto end = pending_.find('\n'); end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        co_return line;
      }
      auto item = co_await output_.next();
      if (!item || std::holds_alternative<caisson::SandboxStreamExit>(*item)) co_return std::nullopt;
      auto& chunk = std::get<caisson::SandboxStreamChunk>(*item);
      (chunk.stream == caisson::SandboxStream::out ? pending_ : errors_) += chunk.data;
    }
  }

 private:
  caisson::SandboxOutput& output_;
  std::string pending_;
  std::string errors_;
};

caisson::Awaitable<void> talk(std::shared_ptr<caisson::Sandbox> sandbox) {
  caisson::SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "adder";
  spec.durability = caisson::Durability::ephemeral;
  spec.network = caisson::Network::egress;
  spec.isolation = caisson::Isolation::none;
  spec.ttl_seconds = 300;
  auto session = co_await sandbox->create_session(std::move(spec));

  caisson::Argv argv{"sh", "-c", "while read -r a b; do echo \"$a + $b = $((a + b))\"; done"};
  caisson::ExecOptions options(1min);
  auto adder = co_await session->exec_start(std::move(argv), std::move(options));
  Lines lines(adder->output());
  for (int i = 1; i <= 3; ++i) {
    std::string request = std::to_string(i) + " " + std::to_string(i * i) + "\n";
    co_await adder->write_stdin(std::move(request));
    auto answer = co_await lines.next();
    std::cout << answer.value_or("no answer") << '\n';
  }
  co_await adder->close_stdin();
  auto rest = co_await lines.next();
  std::cout << (rest ? "something unasked" : "the end") << '\n';
  co_await session->release();
}

int main() {
  try {
    boost::asio::io_context context;
    auto sandbox = caisson::open(context.get_executor(), "local");
    boost::asio::co_spawn(context, talk(sandbox), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    context.run();
  } catch (const caisson::SandboxError& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
