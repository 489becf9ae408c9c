// The rows of the local provider.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/bed.h"
#include "benchmarks/report.h"

namespace caisson::bench {

/// Runs them all, about a minute, or one group (exec, streams, files, sessions); throws std::invalid_argument
/// for another name. `peer_python`: an interpreter that can import tai42_sandbox_local, or empty.
std::vector<Row> local_rows(const std::string& peer_python, const std::string& only);

/// What local_rows is made of.
std::vector<Row> exec_rows(Bed& bed);
std::vector<Row> stream_rows(Bed& bed);
std::vector<Row> file_rows(Bed& bed);
std::vector<Row> session_rows(Bed& bed, const std::string& peer_python);

}  // namespace caisson::bench
