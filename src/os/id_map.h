// The ids of a user namespace: which there are, and who they are outside (user_namespaces(7)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "os/explained.h"
#include "os/process.h"

namespace caisson::os {

struct IdRange {
  std::uint32_t first;
  std::uint32_t count;
  bool operator==(const IdRange&) const = default;
};

/// The ranges that the text of /etc/subuid or /etc/subgid gives a user, by name or by number, in the file's
/// order (subuid(5)). Both files have the user's id and name, the groups' too. Lines that make no sense are
/// left out.
std::vector<IdRange> parse_subordinate_ids(std::string_view text, std::string_view user_name, uid_t user);

/// The ranges that such a text gives anybody.
std::vector<IdRange> parse_subordinate_ids(std::string_view text);

/// One line of a map: ids from `inside` on are those from `outside` on of the parent namespace.
struct IdMapping {
  std::uint32_t inside;
  std::uint32_t outside;
  std::uint32_t count;
};
struct IdMaps {
  std::vector<IdMapping> users;
  std::vector<IdMapping> groups;
};

/// The map that anybody may write: one user and one group, which are the caller's own effective ones outside.
IdMaps single_id_maps(uid_t user, gid_t group) noexcept;

/// Gives the user namespace of a child its maps, once and for good; the child must not have been reaped. With
/// CAP_SETUID and CAP_SETGID, and for a map of one's own ids alone, by /proc; else by newuidmap(1) and
/// newgidmap(1), which give the caller what /etc/subuid and /etc/subgid grant him. A map without those
/// capabilities and programs takes setgroups(2) from the namespace. Blocks: 40 us by /proc, some ms by the
/// programs. ENOENT: the programs are not installed; EPERM: the range is not the caller's.
ExplainedResult<void> write_id_maps(const Process& child, const IdMaps& maps);

}  // namespace caisson::os
