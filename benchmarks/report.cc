// Printing and writing of rows.
#include "benchmarks/report.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace caisson::bench {

std::optional<double> Row::ratio() const {
  if (!other || *other == 0) return std::nullopt;
  return figure / *other;
}

std::optional<bool> Row::met() const {
  const auto got = ratio();
  if (!got || !target) return std::nullopt;
  return less_is_better ? *got <= *target : *got >= *target;
}

namespace {

std::string text_of(const std::optional<double>& value, bool fixed) {
  char text[32] = "-";
  if (value)
    fixed ? std::snprintf(text, sizeof text, "%.3f", *value)
          : std::snprintf(text, sizeof text, "%.4g", *value);
  return text;
}

}  // namespace

Row beside(std::string name, std::vector<double>& ours, std::string against, std::vector<double>& theirs,
           std::optional<double> target) {
  Row row{std::move(name), quantile(ours, 0.5), "ms", std::move(against), std::nullopt, target, true};
  if (!theirs.empty()) row.other = quantile(theirs, 0.5);
  return row;
}

std::vector<Row> rows_of(const std::vector<Group>& groups, const std::string& only) {
  std::vector<Row> rows;
  for (const Group& group : groups) {
    if (!only.empty() && only != group.name) continue;
    const std::vector<Row> more = group.measure();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (rows.empty()) throw std::invalid_argument("there are no rows of " + only);
  return rows;
}

void print_table(const std::vector<Row>& rows) {
  std::printf("%-44s %12s %12s %-6s %7s %8s  %s\n", "row", "caisson", "against", "unit", "ratio", "target",
              "");
  for (const Row& row : rows) {
    const auto ratio = row.ratio();
    const auto met = row.met();
    char target[32] = "-";
    if (row.target)
      std::snprintf(target, sizeof target, "%s%.2f", row.less_is_better ? "<=" : ">=", *row.target);
    std::printf("%-44s %12.4g %12s %-6s %7s %8s  %s\n", (row.row + " / " + row.against).c_str(), row.figure,
                text_of(row.other, false).c_str(), row.unit.c_str(), text_of(ratio, true).c_str(), target,
                met ? (*met ? "met" : "UNMET") : (row.other ? "" : "absent"));
  }
}

void write_json(const std::vector<Row>& rows, const std::string& path) {
  boost::json::array array;
  for (const Row& row : rows) {
    boost::json::object object;
    object["row"] = row.row;
    object["figure"] = row.figure;
    object["unit"] = row.unit;
    object["against"] = row.against;
    if (row.other) object["against_figure"] = *row.other;
    const auto ratio = row.ratio();
    const auto met = row.met();
    object["ratio"] = ratio ? boost::json::value(*ratio) : nullptr;
    object["target"] = row.target ? boost::json::value(*row.target) : nullptr;
    object["met"] = met ? boost::json::value(*met) : nullptr;
    array.push_back(std::move(object));
  }
  std::ofstream file(path);
  file << boost::json::serialize(array) << "\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

double quantile(std::vector<double>& samples, double q) {
  std::ranges::sort(samples);
  return samples[std::min(samples.size() - 1,
                          static_cast<std::size_t>(q * static_cast<double>(samples.size())))];
}

}  // namespace caisson::bench
