// What the tests of what is on disk share: directories, records of sessions, bounds that are not to be had.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/self.h"
#include "providers/container/storage.h"
#include "tests/support/faults.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {

using test::Child;
using test::code_of_call;
using test::entries_of;
using test::error_of_call;
using test::put;
using test::text_of;

constexpr std::uint64_t small_bound = 4U << 20U;
constexpr std::uint32_t first_id = 524288;

inline kit::SessionRecord record_of(const std::string& id, Durability durability,
                                    const std::string& key = "key") {
  kit::SessionRecord record;
  record.id = id;
  record.spec.image = "host";
  record.spec.workspace_key = key;
  record.spec.durability = durability;
  record.spec.ttl_seconds = 60;
  record.spec.labels = {{"team", "red"}, {"tai42.sandbox", "1"}};
  record.spec.env.emplace("TOKEN", Secret("canary-7f3a"));
  return record;
}
inline kit::SessionRecord persistent(char digit, const std::string& key = "key") {
  return record_of(std::string(32, digit), Durability::persistent, key);
}
inline kit::SessionRecord ephemeral(char digit) {
  return record_of(std::string(32, digit), Durability::ephemeral);
}

inline UidRanges ranges_here() {
  UidSources sources = UidSources::of_this_machine();
  if (sources.user == 0) sources = {0, 0, "", "", "root:x:0:0::/root:/bin/sh\n", "root:x:0:\n"};
  return {sources, first_id, 1024};
}

/// Without quotas and images, so that nothing but an operator's word makes a workspace. Others may be added.
inline std::vector<os::Fault> no_bounds(std::vector<os::Fault> others = {}) {
  others.push_back(test::error_always("bound.quota", ENOTTY));
  others.push_back(test::error_always("bound.image", EPERM));
  return others;
}

/// A root and a runtime directory.
class StorageBed {
 public:
  std::shared_ptr<const Storage> open(bool unbounded = true, std::uint64_t bytes = small_bound) const {
    auto layout = std::make_shared<const Layout>(Layout::open(root, runtime));
    return Storage::open(std::move(layout), ranges_here(), bytes, unbounded);
  }
  /// All that is there beside the directories themselves, with what is a mount point marked.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const std::string& place :
         {root + "/volumes", root + "/volumes/.keys", root + "/ids", runtime + "/sessions"}) {
      for (const std::string& name : entries_of(place)) {
        if (name != ".keys") names.push_back(place.substr(directory.path().size() + 1) + "/" + name);
      }
    }
    return names;
  }
  std::string volume(const std::string& key = "key") const { return root + "/volumes/" + key; }

  test::TemporaryDirectory directory;
  std::string root = directory / "root";
  std::string runtime = directory / "run";
};

/// Why images cannot be had here; empty when they can.
inline std::string no_images_because() {
  const StorageBed bed;
  const auto tried = bed.open()->bounds->images().try_one();
  return tried ? "" : tried.error().text;
}

}  // namespace caisson::container
