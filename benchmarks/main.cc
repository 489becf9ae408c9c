// caisson-bench: measures, prints a table, and writes JSON when asked.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "benchmarks/local.h"

namespace {

int usage() {
  std::fputs(
      "usage: caisson-bench local [--json FILE] [--tai42 PYTHON] [--only exec|streams|files|sessions]\n"
      "PYTHON is an interpreter that can import tai42_sandbox_local; without it that peer is shown as "
      "absent.\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc % 2 != 0 || std::string_view(argv[1]) != "local") return usage();
  std::string json;
  std::string tai42;
  std::string only;
  for (int i = 2; i < argc; i += 2) {
    if (std::string_view(argv[i]) == "--json") {
      json = argv[i + 1];
    } else if (std::string_view(argv[i]) == "--tai42") {
      tai42 = argv[i + 1];
    } else if (std::string_view(argv[i]) == "--only") {
      only = argv[i + 1];
    } else {
      return usage();
    }
  }
  try {
    const auto rows = caisson::bench::local_rows(tai42, only);
    caisson::bench::print_table(rows);
    if (!json.empty()) caisson::bench::write_json(rows, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caisson-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
