// All rows of the container provider, and the peers that they stand beside.
#include "benchmarks/container.h"

#include <fstream>
#include <stdexcept>
#include <string_view>

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

Row beside(std::string name, std::vector<double>& ours, std::string against, std::vector<double>& theirs,
           std::optional<double> target) {
  Row row{std::move(name), quantile(ours, 0.5), "ms", std::move(against), std::nullopt, target, true};
  if (!theirs.empty()) row.other = quantile(theirs, 0.5);
  return row;
}

std::vector<Row> container_rows(const std::string& peers, const std::string& only) {
  std::vector<Row> rows;
  const auto add = [&](std::string_view group, const auto& measure) {
    if (!only.empty() && only != group) return;
    const std::vector<Row> more = measure();
    rows.insert(rows.end(), more.begin(), more.end());
  };
  add("create", [] { return create_rows(); });
  add("peers", [&] { return peer_rows(peers); });
  add("exec", [&] { return container_exec_rows(peers); });
  add("idle", [] { return idle_rows(); });
  add("many", [] { return many_rows(); });
  if (rows.empty()) throw std::invalid_argument("there are no rows of " + only);
  return rows;
}

}  // namespace caisson::bench
