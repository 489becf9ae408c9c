// What the command line's options say, one struct a verb.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caisson/contract/models.h"
#include "caisson/kit/host.h"

namespace caisson::cli {

struct RunOptions {
  SandboxIsolation isolation = SandboxIsolation::container;
  SandboxNetwork network = SandboxNetwork::none;
  std::string image = "host";
  std::optional<std::string> workspace;  ///< A key; one is made up without.
  bool persistent = false;
  std::optional<std::int64_t> ttl_seconds;
  std::vector<std::string> labels;  ///< K=V
  std::vector<std::string> env;     ///< K=V, or K for the caller's own value
  std::optional<std::string> env_file;
  std::vector<std::string> put;  ///< LOCAL[:PATH]
  std::vector<std::string> get;  ///< PATH[:LOCAL]
  std::string cwd;
  std::optional<double> cpu;
  std::optional<std::int64_t> memory_mb;
  std::optional<double> timeout_seconds;
  bool input = false;
  bool tty = false;
  bool verbose = false;
  bool json = false;
  std::vector<std::string> argv;
};

struct ConformanceOptions {
  SandboxIsolation isolation = SandboxIsolation::none;
  kit::TreeKill tree_kill = kit::TreeKill::automatic;
  std::string group;  ///< Of checks; empty is every one.
  std::string filter;
  std::optional<std::int64_t> patience_seconds;  ///< For one check.
  std::optional<std::string> serve;  ///< The root to open for a suite that runs in another process.
  bool list = false;
  bool json = false;
};

struct ReapOptions {
  bool json = false;
};

struct DoctorOptions {
  bool json = false;
};

struct VersionOptions {
  bool json = false;
};

}  // namespace caisson::cli
