// The rows of the container provider.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/bed.h"
#include "benchmarks/report.h"

namespace caisson::bench {

/// Runs them all, some minutes, or one group (create, peers, exec, idle, many); throws std::invalid_argument
/// for another name. `peers`: a directory with a file for each peer that is there, whose lines are its
/// command's words: bwrap, runc, docker-run, docker-exec; or empty.
std::vector<Row> container_rows(const std::string& peers, const std::string& only);

/// What container_rows is made of.
std::vector<Row> create_rows();
std::vector<Row> peer_rows(const std::string& peers);
std::vector<Row> container_exec_rows(const std::string& peers);
std::vector<Row> idle_rows();
std::vector<Row> many_rows();

/// The milliseconds that a peer's command takes, added to `samples` `count` times; nothing where it is not
/// there.
void time_peer(const std::string& peers, const std::string& name, int count, std::vector<double>& samples);

}  // namespace caisson::bench
