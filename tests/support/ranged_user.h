// An ordinary user with a range of subordinate ids, for tests as root.
#pragma once

#include <grp.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/forked.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {

/// Named ann; has the ids from 200000 to 265535 beside his own.
inline constexpr uid_t ranged_user = 54321;

/// Why there can be none here; empty where there can.
inline std::string why_no_ranged_user() {
  if (::geteuid() != 0) return "only root becomes another user";
  for (const char* file : {"/usr/bin/newuidmap", "/usr/bin/newgidmap", "/etc/subuid", "/etc/subgid"}) {
    if (::access(file, F_OK) != 0) return std::string(file) + " is not there (package uidmap)";
  }
  return {};
}

/// Runs `body`, which returns a text, as him in a fork, in a mount namespace where the files of /etc say so.
/// `<directory>/home` is made for him to use. Returns that text, or what went wrong before.
template <class Body>
std::string as_ranged_user(const TemporaryDirectory& directory, Body body) {
  namespace fs = std::filesystem;
  std::ofstream(directory / "passwd")
      << "root:x:0:0::/root:/bin/sh\nann:x:" << ranged_user << ':' << ranged_user << "::/:/bin/sh\n";
  std::ofstream(directory / "ranges") << "ann:200000:65536\n";
  fs::create_directory(directory / "home");
  fs::permissions(directory.path(), fs::perms(0711));
  fs::permissions(temporary_base(), fs::perms(0711));
  if (::chown((directory / "home").c_str(), ranged_user, ranged_user) != 0) return "chown";
  return in_child(
      [&]() -> std::string {
        for (const auto& [from, to] : {std::pair{"passwd", "/etc/passwd"}, std::pair{"ranges", "/etc/subuid"},
                                       std::pair{"ranges", "/etc/subgid"}}) {
          if (::mount((directory / from).c_str(), to, nullptr, MS_BIND, nullptr) != 0) return "mount";
        }
        if (::setgroups(0, nullptr) != 0 || ::setresgid(ranged_user, ranged_user, ranged_user) != 0 ||
            ::setresuid(ranged_user, ranged_user, ranged_user) != 0)
          return "ids";
        return body();
      },
      CLONE_NEWNS);
}

}  // namespace caisson::test
