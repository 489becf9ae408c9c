// caisson version.
#include "caisson/version.h"

#include "cli/report.h"
#include "cli/verbs.h"

namespace caisson::cli {

int version(const VersionOptions& options) {
  if (options.json) {
    print_json({{"version", caisson::version()}});
  } else {
    print(std::string("caisson ") + caisson::version() + "\n");
  }
  return 0;
}

}  // namespace caisson::cli
