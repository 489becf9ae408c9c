// What doctor is told of containers here: proved by making one.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>

#include "caisson/providers/container.h"
#include "os/beneath.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/remove_tree.h"
#include "os/self.h"
#include "providers/container/box_cgroup.h"
#include "providers/container/storage.h"

namespace caisson::container {
namespace {

constexpr std::chrono::seconds command_patience{20};

SandboxSessionSpec probe_spec() {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "probe";
  spec.durability = SandboxDurability::ephemeral;
  spec.network = SandboxNetwork::none;
  spec.isolation = SandboxIsolation::container;
  spec.ttl_seconds = 60;
  return spec;
}

Awaitable<ExecResult> run_in_one(std::shared_ptr<kit::ManagedSandbox> sandbox) {
  SandboxSessionSpec spec = probe_spec();
  auto session = co_await sandbox->create_session(std::move(spec));
  Argv argv{"true"};
  ExecOptions options(command_patience);
  ExecResult result = co_await session->exec(std::move(argv), std::move(options));
  co_await session->release();
  co_return result;
}

Mechanism probe_cgroups() {
  kit::Workers workers(1);
  const auto cgroups = BoxCgroups::open(workers);
  if (cgroups) return {"container_cgroups", true, false, (*cgroups)->description()};
  return {"container_cgroups", false, false,
          cgroups.error() + "; sessions have no cpu and memory_mb, and RLIMIT_NPROC caps their processes"};
}

// Whether a box can be made and a command run in it, in a directory of its own.
Mechanism probe_box(ContainerSettings settings, const std::string& directory) {
  Mechanism found{"container_box", true, true, "made one and ran a command in it"};
  settings.root = directory + "/root";
  settings.runtime_directory = directory + "/run";
  settings.pool_size = 0;
  try {
    boost::asio::io_context context(1);
    auto sandbox = open({context.get_executor(), std::move(settings)});
    sandbox->bind_policy(SandboxPolicy{SandboxNetwork::none, SandboxIsolation::container, false, false});
    auto outcome = boost::asio::co_spawn(context, run_in_one(sandbox), boost::asio::use_future);
    context.run();
    const ExecResult result = outcome.get();
    if (result.exit_code != 0) {
      found.works = false;
      found.detail =
          "a command in one ended with code " + std::to_string(result.exit_code) + ": " + result.err;
    }
  } catch (const std::exception& error) {
    found.works = false;
    found.detail = error.what();
  }
  return found;
}

Mechanism probe_ids(const ContainerSettings& settings) {
  Mechanism found{"container_ids", true, false, {}};
  try {
    const UidRanges ranges(UidSources::of_this_machine(), settings.uid_base, settings.uids_per_box);
    found.detail = ranges.description();
    found.works = ranges.size() > 0;
    if (!found.works && !os::is_root()) {
      found.fix =
          "for ids of their own: apt install uidmap; usermod --add-subuids 100000-165535 "
          "--add-subgids 100000-165535 " +
          std::to_string(os::own_user());
    }
  } catch (const std::exception& error) {
    found.works = false;
    found.detail = error.what();
  }
  return found;
}

// What would keep a persistent workspace from filling the disk that the root is on.
Mechanism probe_disk(const ContainerSettings& settings) {
  try {
    const auto storage = Storage::open(settings);
    Mechanism found{"container_workspaces", true, false, storage->bounds->description()};
    found.works = storage->bounds->can_bound();
    if (!found.works) {
      found.fix =
          os::is_root()
              ? "apt install e2fsprogs, and have loop devices (modprobe loop); or mount the file system of "
                "CAISSON_ROOT with prjquota"
              : "run as root";
    }
    return found;
  } catch (const std::exception& error) {
    return {"container_workspaces", false, false, error.what()};
  }
}

}  // namespace

std::vector<Mechanism> probe(const ContainerSettings& settings) {
  std::vector<Mechanism> all{probe_ids(settings), probe_cgroups(), probe_disk(settings)};
  const std::string temporaries = std::filesystem::temp_directory_path();
  const std::string name = "caisson-probe-" + os::random_hex_id();
  const auto parent = os::open_directory(temporaries);
  const auto made = parent ? os::make_directory_at(*parent, name, 0700) : os::Result<void>(parent.error());
  if (!made) {
    all.push_back({"container_box", false, true,
                   "no directory can be made in " + temporaries + ": " + made.error().message(),
                   "set TMPDIR to a directory that this user may write"});
    return all;
  }
  all.push_back(probe_box(settings, temporaries + "/" + name));
  static_cast<void>(os::remove_tree(*parent, name));
  return all;
}

}  // namespace caisson::container
