// Path resolution: whatever the path, nothing outside the directory is reached or made (S-70).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "os/beneath.h"
#include "os/files.h"
#include "os/remove_tree.h"

namespace {

namespace fs = std::filesystem;
namespace os = caisson::os;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// A directory with links of every kind, and a secret beside it. Removed when the fuzzer ends.
class World {
 public:
  World() {
    std::string name = fs::temp_directory_path() / "caisson-path-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail("mkdtemp");
    base_ = fs::canonical(name);
    work_ = base_ + "/w";
    fs::create_directories(base_ + "/out/d");
    std::ofstream(base_ + "/out/f") << "secret";
    make_work();
  }
  ~World() { fs::remove_all(base_); }

  const std::string& work() const noexcept { return work_; }

  void make_work() {
    fs::create_directories(work_ + "/d/e");
    std::ofstream(work_ + "/f") << "inside";
    std::ofstream(work_ + "/d/f") << "inside";
    const std::pair<const char*, std::string> links[] = {{"r", "d"},        {"a", work_ + "/d"},
                                                         {"o", "../out"},   {"p", base_ + "/out"},
                                                         {"l", "l"},        {"m", work_ + "/m"},
                                                         {"u", ".."},       {"v", work_ + "/../out"},
                                                         {"c", "a/e/../f"}, {"n", "new/x"},
                                                         {"s", "/"},        {"d/u", "../o"},
                                                         {"d/b", "../a/e"}, {"d/e/t", "../../../out/f"}};
    for (const auto& [name, target] : links) fs::create_symlink(target, work_ + "/" + name);
    inside_.clear();
    note(work_);
    for (const auto& entry : fs::recursive_directory_iterator(work_)) note(entry.path());
  }

  // Whether what a descriptor stands for lies in the directory, by its path.
  bool holds(os::FdRef fd) const {
    const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd.number));
    return path == work_ || path.starts_with(work_ + "/");
  }
  bool outside_is_whole() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(base_ + "/out")) {
      static_cast<void>(entry);
      ++count;
    }
    return count == 2 && fs::directory_iterator(base_) != fs::directory_iterator() &&
           std::distance(fs::directory_iterator(base_), fs::directory_iterator()) == 2;
  }
  // Takes away what a call has made.
  void restore() {
    std::size_t now = 1;
    for (const auto& entry : fs::recursive_directory_iterator(work_)) {
      static_cast<void>(entry);
      ++now;
    }
    if (now == inside_.size()) return;
    const os::Fd at = os::open_directory(base_).value();
    if (!os::remove_tree(at, "w")) fail("remove_tree");
    make_work();
  }

 private:
  void note(const std::string& path) {
    struct stat is = {};
    if (::lstat(path.c_str(), &is) == 0) inside_.emplace(is.st_dev, is.st_ino);
  }

  std::string base_;
  std::string work_;
  std::set<std::pair<dev_t, ino_t>> inside_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size == 0) return 0;
  // The first byte chooses the form; a "W" in the rest stands for the directory's own path, which no input
  // can know.
  std::string path;
  for (std::size_t i = 1; i < size; ++i) {
    const char byte = static_cast<char>(data[i]);
    if (byte == 'W') {
      path += world.work();
    } else {
      path += byte;
    }
  }
  const os::Beneath beneath(os::open_directory(world.work()).value(), world.work());
  switch (data[0] % 3) {
    case 0: {
      const auto fd = beneath.open(path, O_PATH);
      if (fd && !world.holds(*fd)) fail("open reached out");
      break;
    }
    case 1: {
      const auto fd = beneath.open(path, O_WRONLY);
      if (fd && !world.holds(*fd)) fail("open for writing reached out");
      break;
    }
    default: {
      const auto place = beneath.place_for(path);
      if (!place) break;
      if (!world.holds(place->directory)) fail("a place outside");
      if (place->name.empty() || place->name == "." || place->name == ".." ||
          place->name.find('/') != std::string::npos) {
        fail("a place without a name");
      }
      const auto is = os::status_at(place->directory, place->name);
      if (is && S_ISLNK(is->st_mode)) fail("a final link was not followed");
      break;
    }
  }
  if (!world.outside_is_whole()) fail("something outside was changed");
  world.restore();
  return 0;
}
