// From the options of `run` to what is asked of the sandbox.
#include "cli/run_request.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/report.h"
#include "facade/host_transfer.h"
#include "os/clock.h"

namespace caisson::cli {
namespace {

constexpr double tty_timeout_seconds = 24 * 3600;

// The last component; none for "", "/", "." and "..".
std::string own_name(std::string_view path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string_view::npos) return {};
  path = path.substr(0, end + 1);
  if (const std::size_t slash = path.rfind('/'); slash != std::string_view::npos)
    path.remove_prefix(slash + 1);
  return path == "." || path == ".." ? std::string() : std::string(path);
}

std::pair<std::string, std::string> split_last_colon(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string under(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

std::string read_whole(const std::string& path) {
  facade::HostSource source(path);
  std::string text;
  for (std::string piece = source.read(); !piece.empty(); piece = source.read()) {
    text += piece;
    wipe(piece.data(), piece.size());
  }
  return text;
}

}  // namespace

Transfer parse_put(const std::string& text) {
  auto [local, path] = split_last_colon(text);
  const std::string name = own_name(local);
  if (local.empty() || name.empty()) throw UsageError("--put takes LOCAL[:PATH], LOCAL being a file");
  if (path.empty()) path = name;
  if (path.ends_with('/')) path += name;
  return {std::move(local), std::move(path)};
}

Transfer parse_get(const std::string& text) {
  auto [path, local] = split_last_colon(text);
  const std::string name = own_name(path);
  if (path.empty() || name.empty())
    throw UsageError("--get takes PATH[:LOCAL], PATH being a file of the session");
  std::error_code ignored;
  if (local.empty()) {
    local = name;
  } else if (local.ends_with('/') || std::filesystem::is_directory(local, ignored)) {
    local = under(local, name);
  }
  return {std::move(local), std::move(path)};
}

void parse_env_file(std::string_view text, SecretEnv& into) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#' || line.find_first_not_of(" \t") == std::string_view::npos)
      continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw UsageError("line " + std::to_string(number) + " of --env-file is not NAME=VALUE");
    }
    into.insert_or_assign(std::string(line.substr(0, equals)), Secret(line.substr(equals + 1)));
  }
}

SecretEnv read_env(const RunOptions& options, const kit::SettingSource& caller) {
  SecretEnv env;
  if (options.env_file) {
    std::string text = read_whole(*options.env_file);
    parse_env_file(text, env);
    wipe(text.data(), text.size());
  }
  for (const std::string& given : options.env) {
    const std::size_t equals = given.find('=');
    std::string name = given.substr(0, equals);
    if (name.empty()) throw UsageError("--env takes NAME=VALUE, or NAME for the value it has here");
    if (equals != std::string::npos) {
      env.insert_or_assign(std::move(name), Secret(std::string_view(given).substr(equals + 1)));
      continue;
    }
    auto own = caller(name);
    if (!own) throw UsageError("--env " + name + " takes the value it has here, but it is not set");
    env.insert_or_assign(std::move(name), Secret(*own));
    wipe(own->data(), own->size());
  }
  return env;
}

SandboxSessionSpec make_spec(const RunOptions& options, const kit::DispatchSettings& dispatch) {
  SandboxSessionSpec spec;
  spec.image = options.image;
  spec.workspace_key = options.workspace ? *options.workspace : "run-" + os::random_hex_id().substr(0, 16);
  spec.durability = options.persistent ? SandboxDurability::persistent : SandboxDurability::ephemeral;
  spec.network = options.network;
  spec.isolation = options.isolation;
  spec.cpu = options.cpu;
  spec.memory_mb = options.memory_mb;
  spec.ttl_seconds = options.ttl_seconds.value_or(dispatch.default_ttl_seconds);
  for (const std::string& label : options.labels) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) throw UsageError("--label takes NAME=VALUE");
    spec.labels.insert_or_assign(label.substr(0, equals), label.substr(equals + 1));
  }
  return spec;
}

ExecOptions make_exec_options(const RunOptions& options, const kit::DispatchSettings& dispatch) {
  const double usual = options.tty ? std::min(tty_timeout_seconds, dispatch.max_timeout_seconds)
                                   : dispatch.exec_default_timeout_seconds;
  ExecOptions exec(std::chrono::duration<double>(options.timeout_seconds.value_or(usual)));
  exec.cwd(options.cwd);
  return exec;
}

}  // namespace caisson::cli
