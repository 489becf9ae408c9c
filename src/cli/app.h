// The command line's definition: verbs and options, from which parsing, help, manual and completion come.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace caisson::cli {

/// Where parsing leaves what it found.
struct Parsed {
  RunOptions run;
  ReapOptions reap;
  ConformanceOptions conformance;
  DoctorOptions doctor;
  VersionOptions version;
};

/// The definition; `into` must outlive it.
std::shared_ptr<CLI::App> make_app(Parsed& into);

/// The manual page (man(7), in roff) and the completion script of bash(1).
std::string manual(const CLI::App& app);
std::string bash_completion(const CLI::App& app);

/// Parses the arguments, runs the verb and returns the exit code. Nothing is thrown.
int main(const std::vector<std::string>& arguments) noexcept;

}  // namespace caisson::cli
