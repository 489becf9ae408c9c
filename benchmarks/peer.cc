// A peer's script as a child process that answers lines.
#include "benchmarks/peer.h"

#include <array>
#include <boost/json.hpp>

namespace caisson::bench {
namespace {

constexpr char script[] = CAISSON_BENCHMARKS_DIR "/peers/tai42_local.py";

std::array<const char*, 2> argv_of(const std::string& python) { return {python.c_str(), script}; }

}  // namespace

Peer::Peer(const std::string& python) : child_(argv_of(python)) {}

std::vector<double> Peer::measure(const std::string& what, int count) {
  const auto answer = boost::json::parse(child_.ask(what + " " + std::to_string(count)));
  std::vector<double> samples;
  for (const auto& sample : answer.as_array()) samples.push_back(sample.to_number<double>());
  return samples;
}

}  // namespace caisson::bench
