// All rows of the container provider, and the peers that they stand beside.
#include "benchmarks/container.h"

#include <fstream>

#include "benchmarks/floor/exec.h"

namespace caisson::bench {

void time_peer(const std::string& peers, const std::string& name, int count, std::vector<double>& samples) {
  std::ifstream file(peers + "/" + name);
  std::vector<std::string> words;
  for (std::string line; std::getline(file, line);) words.push_back(line);
  if (words.empty()) return;
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  for (int i = 0; i < count; ++i) {
    const auto start = Steady::now();
    floor::run(argv);
    samples.push_back(milliseconds_since(start));
  }
}

std::vector<Row> container_rows(const std::string& peers, const std::string& only) {
  return rows_of({{"create", create_rows},
                  {"peers", [&] { return peer_rows(peers); }},
                  {"exec", [&] { return container_exec_rows(peers); }},
                  {"idle", idle_rows},
                  {"many", many_rows}},
                 only);
}

}  // namespace caisson::bench
