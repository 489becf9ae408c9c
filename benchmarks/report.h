// Rows of a benchmark: a figure of ours beside the floor's or a peer's, as a ratio.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::bench {

struct Row {
  std::string row;    ///< What was measured.
  double figure = 0;  ///< Ours.
  std::string unit;
  std::string against;           ///< What it is compared with.
  std::optional<double> other;   ///< Its figure, in the same unit.
  std::optional<double> target;  ///< The ratio to reach, if there is one.
  bool less_is_better = true;

  std::optional<double> ratio() const;
  std::optional<bool> met() const;
};

/// A row of the medians of milliseconds, the less the better; absent where there are none of `theirs`.
Row beside(std::string name, std::vector<double>& ours, std::string against, std::vector<double>& theirs,
           std::optional<double> target);

struct Group {
  std::string_view name;
  std::function<std::vector<Row>()> measure;
};
/// The rows of all groups, or of the one called `only`; throws std::invalid_argument where there is none.
std::vector<Row> rows_of(const std::vector<Group>& groups, const std::string& only);

/// The rows as a table on standard output.
void print_table(const std::vector<Row>& rows);
/// The rows as a JSON array of objects; throws std::runtime_error when the file cannot be written.
void write_json(const std::vector<Row>& rows, const std::string& path);

/// The q-th quantile (0 to 1) of the samples, which are sorted in place; the samples are not empty.
double quantile(std::vector<double>& samples, double q);

}  // namespace caisson::bench
