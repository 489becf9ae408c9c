// File transfers beside plain files.
#include "benchmarks/floor/file.h"
#include "benchmarks/local.h"

namespace caisson::bench {
namespace {

constexpr std::size_t file_bytes = 1 << 20;
constexpr int transfers_a_round = 20;

Awaitable<void> put_and_get(std::shared_ptr<SandboxSession> session, const std::string* data,
                            std::vector<double>* samples) {
  for (int i = 0; i < transfers_a_round; ++i) {
    std::string sent = *data;
    const auto start = Steady::now();
    co_await session->put_file("file", std::move(sent));
    const std::string got = co_await session->get_file("file");
    samples->push_back(milliseconds_since(start));
    if (got != *data) throw std::runtime_error("a file came back changed");
  }
}

}  // namespace

std::vector<Row> file_rows(Bed& bed) {
  std::string data(file_bytes, 'x');
  std::vector<double> ours;
  std::vector<double> floors;
  const std::string path = bed.session()->workspace_path() + "/floor";
  for (int round = 0; round < 20; ++round) {
    bed.run(put_and_get(bed.session(), &data, &ours));
    for (int i = 0; i < transfers_a_round; ++i) {
      const auto start = Steady::now();
      std::string into(file_bytes, '\0');
      floor::write_rename_read(path, data, into);
      floors.push_back(milliseconds_since(start));
    }
  }
  return {{"put and get of 1 MiB, p50", quantile(ours, 0.5), "ms", "plain write, rename, read",
           quantile(floors, 0.5), 1.3, true}};
}

}  // namespace caisson::bench
