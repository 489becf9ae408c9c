// The verbs: each does its work and returns the exit code.
#pragma once

#include "cli/options.h"

namespace caisson::cli {

int run(const RunOptions& options);
int reap(const ReapOptions& options);
int conformance(const ConformanceOptions& options);
int doctor(const DoctorOptions& options);
int version(const VersionOptions& options);

}  // namespace caisson::cli
