// What the tests of this folder share: a root, its files, and calls that fail typed.
#pragma once

#include <string>
#include <vector>

#include "tests/support/mounted.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::local {

using test::Child;
using test::code_of_call;
using test::entries_of;
using test::error_of_call;
using test::mode_of;
using test::Mounted;
using test::put;
using test::Remembered;
using test::text_of;

/// What stands under a root beside persistent workspaces and their sidecars: nothing, when no session lives.
inline std::vector<std::string> traces_of_sessions(const std::string& root) {
  std::vector<std::string> traces;
  for (const char* place : {"/.ephemeral", "/.tai-sandbox/.caisson", "/.tai-sandbox/.caisson/keys"}) {
    for (const std::string& name : entries_of(root + place)) {
      if (name != "keys") traces.push_back(root + place + "/" + name);
    }
  }
  return traces;
}

}  // namespace caisson::local
