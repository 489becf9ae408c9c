// caisson-bench: measures, prints a table, and writes JSON when asked.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "benchmarks/container.h"
#include "benchmarks/local.h"

namespace {

int usage() {
  std::fputs(
      "usage: caisson-bench local [--json FILE] [--tai42 PYTHON] [--only exec|streams|files|sessions]\n"
      "       caisson-bench container [--json FILE] [--peers DIRECTORY] [--only "
      "create|peers|exec|idle|many]\n"
      "PYTHON is an interpreter that can import tai42_sandbox_local; DIRECTORY has the commands of other "
      "runtimes.\n"
      "A peer that is not there is shown as absent.\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc % 2 != 0) return usage();
  const std::string_view provider = argv[1];
  const bool local = provider == "local";
  if (!local && provider != "container") return usage();
  std::string json;
  std::string peer;
  std::string only;
  for (int i = 2; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--json") {
      json = argv[i + 1];
    } else if (option == (local ? "--tai42" : "--peers")) {
      peer = argv[i + 1];
    } else if (option == "--only") {
      only = argv[i + 1];
    } else {
      return usage();
    }
  }
  try {
    const auto rows =
        local ? caisson::bench::local_rows(peer, only) : caisson::bench::container_rows(peer, only);
    caisson::bench::print_table(rows);
    if (!json.empty()) caisson::bench::write_json(rows, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caisson-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
