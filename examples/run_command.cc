// A file and a command in a session of their own.
#include <caisson/caisson.h>

#include <chrono>
#include <iostream>

int main() {
  using namespace std::chrono_literals;
  try {
    auto sandbox = caisson::blocking::open("container");
    auto session = sandbox.create_session({.image = "host",
                                           .workspace_key = "demo",
                                           .durability = caisson::Durability::ephemeral,
                                           .ttl_seconds = 300});
    session.put_file("hello.sh", "echo $((2 + 2))\n");
    auto result = session.exec({"sh", "hello.sh"}, caisson::ExecOptions(5s));
    std::cout << result.out;  // 4
  } catch (const caisson::SandboxError& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}  // its owner releases the session: the processes and the workspace are gone
