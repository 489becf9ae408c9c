// caisson doctor: what works on this machine, and what to do about the rest.
#include <algorithm>
#include <boost/json/array.hpp>

#include "cli/doctor_checks.h"
#include "cli/report.h"
#include "cli/verbs.h"
#include "os/console.h"

namespace caisson::cli {
namespace {

boost::json::value as_json(const std::vector<Finding>& findings, bool works) {
  boost::json::array list;
  for (const Finding& finding : findings) {
    boost::json::value fix;
    if (!finding.fix.empty()) fix = finding.fix;
    list.push_back({{"name", finding.name},
                    {"status", to_string(finding.status)},
                    {"detail", finding.detail},
                    {"fix", std::move(fix)}});
  }
  return {{"works", works}, {"findings", std::move(list)}};
}

std::string mark(FindingStatus status, const Style& style) {
  switch (status) {
    case FindingStatus::ok:
      return style.good("ok     ");
    case FindingStatus::note:
      return "note   ";
    case FindingStatus::weak:
      return style.bad("WEAK   ");
    case FindingStatus::problem:
      break;
  }
  return style.bad("PROBLEM");
}

std::string as_text(const std::vector<Finding>& findings, const Style& style) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string text;
  for (const Finding& finding : findings) {
    text += mark(finding.status, style) + "  " + finding.name +
            std::string(width - finding.name.size() + 2, ' ') + finding.detail + "\n";
    if (!finding.fix.empty()) text += std::string(11 + width, ' ') + style.faint("-> " + finding.fix) + "\n";
  }
  return text;
}

}  // namespace

int doctor(const DoctorOptions& options) {
  const std::vector<Finding> findings = examine(kit::environment_settings());
  const bool works = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.status == FindingStatus::problem;
  });
  if (options.json) {
    print_json(as_json(findings, works));
  } else {
    print(as_text(findings, Style::of(os::standard_output)));
  }
  return works ? 0 : exit_some_failed;
}

}  // namespace caisson::cli
