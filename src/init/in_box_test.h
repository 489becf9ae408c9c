// Running a piece of a test in this process's own fork, in a box that the library has built around it.
#pragma once

#include <linux/sched.h>

#include <string>
#include <utility>
#include <vector>

#include "init/box_builder.h"
#include "init/host_plan_test.h"
#include "init/init_process_test.h"
#include "tests/support/forked.h"

namespace caisson::init {

inline constexpr std::uint64_t all_namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

/// What `body(box)` says within a box of that plan; or why there is none.
template <class Body>
std::string in_box(const BoxPlan& plan, Body body, const char* id_map = "0 100000 65536",
                   std::vector<os::Fd> attached = {}) {
  return test::in_child(
      [&] {
        auto box = build_box(plan, std::move(attached));
        return box ? body(*box) : in_words(box.error());
      },
      all_namespaces, id_map);
}

}  // namespace caisson::init
