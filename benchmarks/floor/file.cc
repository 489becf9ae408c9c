// The floor of a file transfer.
#include "benchmarks/floor/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "benchmarks/floor/require.h"

namespace caisson::bench::floor {

void write_rename_read(const std::string& path, const std::string& data, std::string& into) {
  const std::string temporary = path + ".new";
  int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  require(file >= 0, errno, "open");
  require(write(file, data.data(), data.size()) == static_cast<ssize_t>(data.size()), errno, "write");
  close(file);
  require(std::rename(temporary.c_str(), path.c_str()) == 0, errno, "rename");
  file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, errno, "open");
  require(read(file, into.data(), into.size()) == static_cast<ssize_t>(into.size()), errno, "read");
  close(file);
}

}  // namespace caisson::bench::floor
