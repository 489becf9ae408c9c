// A peer: another implementation, driven by a script of benchmarks/peers.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/floor/child.h"

namespace caisson::bench {

/// tai42-sandbox-local under an interpreter that can import it.
class Peer {
 public:
  explicit Peer(const std::string& python);
  /// `count` samples of one of the script's measurements, in milliseconds.
  std::vector<double> measure(const std::string& what, int count);

 private:
  floor::Child child_;
};

}  // namespace caisson::bench
