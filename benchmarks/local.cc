// All rows of the local provider.
#include "benchmarks/local.h"

namespace caisson::bench {

std::vector<Row> local_rows(const std::string& peer_python, const std::string& only) {
  Bed bed;
  return rows_of({{"exec", [&] { return exec_rows(bed); }},
                  {"streams", [&] { return stream_rows(bed); }},
                  {"files", [&] { return file_rows(bed); }},
                  {"sessions", [&] { return session_rows(bed, peer_python); }}},
                 only);
}

}  // namespace caisson::bench
