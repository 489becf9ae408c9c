// The records on disk (S-92): whatever stands in a session's marker, reading it tells no other session and
// leads to no cgroup but one named as its owner names its own; whatever stands in a sidecar, adopting it
// loses nothing.
// "@BOOT@" in the input stands for this boot's id, which no input can know.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "caisson/contract/errors.h"
#include "kit/disk_record.h"
#include "os/clock.h"
#include "providers/local/layout.h"
#include "providers/local/marker.h"

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
namespace kit = caisson::kit;
namespace local = caisson::local;

const std::string id(32, 'a');

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A provider's root, removed when the fuzzer ends.
class World {
 public:
  World() {
    std::string name = fs::temp_directory_path() / "caisson-records-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail("mkdtemp");
    root_ = fs::canonical(name);
    layout_ = local::Layout::open(root_);
  }
  ~World() { fs::remove_all(root_); }

  const local::Layout& layout() const noexcept { return layout_; }
  std::string marker() const { return root_ + "/.tai-sandbox/.caisson/" + id + ".json"; }
  std::string sidecar() const { return root_ + "/.tai-sandbox/key.json"; }

 private:
  std::string root_;
  local::Layout layout_;
};

void read_as_marker(const World& world, const std::string& text) {
  std::ofstream(world.marker()) << text;
  const auto marker = local::read_marker(world.layout(), id);
  if (!marker) return;
  if (marker->id != id) fail("a marker told another session");
  const auto cgroup = kit::cgroup_to_kill(marker->cgroup, marker->owner);
  if (!cgroup) return;
  const fs::path path = *cgroup;
  if (!path.is_absolute()) fail("a cgroup that is not absolute");
  for (const auto& part : path) {
    if (part == "..") fail("a cgroup by way of ..");
  }
  if (marker->owner.boot_id != caisson::os::boot_id()) fail("a cgroup of another boot");
  const std::string name = path.filename();
  const auto dash = name.find('-');
  if (name.substr(0, dash) != std::to_string(marker->owner.pid)) fail("a cgroup of another process");
  if (!kit::is_session_id(name.substr(dash + 1))) fail("a cgroup that no owner names so");
}

void adopt_as_sidecar(const World& world, const std::string& text) {
  std::ofstream(world.sidecar()) << text;
  caisson::SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "key";
  spec.durability = caisson::SandboxDurability::persistent;
  spec.labels["team"] = "blue";
  try {
    local::ensure_sidecar(world.layout(), id, spec, caisson::UtcTime());
  } catch (const caisson::SandboxError& error) {
    if (error.code() != caisson::ErrorCode::workspace_conflict) fail("another error");
    if (text_of(world.sidecar()) != text) fail("what could not be read was changed");
    return;
  }
  const auto now = json::parse(text_of(world.sidecar())).as_object();
  for (const char* name : {"workspace_key", "durability", "created_at", "image", "labels"}) {
    if (!now.contains(name)) fail("a field is missing");
  }
  const auto before = json::parse(text).as_object();
  for (const auto& [name, value] : before) {
    if (now.at(name) != value) fail("a field was changed");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  std::string text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view boot = "@BOOT@";
  for (std::size_t at = 0; (at = text.find(boot, at)) != std::string::npos;) {
    text.replace(at, boot.size(), caisson::os::boot_id());
  }
  read_as_marker(world, text);
  adopt_as_sidecar(world, text);
  return 0;
}
