// The local provider's settings (S-91).
#include "caisson/providers/local.h"
#include "contract/quote.h"
#include "os/identity.h"
#include "os/self.h"

namespace caisson::local {
namespace {

// For an ordinary user $XDG_DATA_HOME, else .local/share of the home that the user database names: an
// environment's HOME may be another user's (sudo).
std::string default_root(const kit::SettingSource& source) {
  if (os::is_root()) return "/var/lib/tai-sandbox-local";
  if (const auto data = source("XDG_DATA_HOME"); data && data->starts_with("/"))
    return *data + "/caisson/local";
  const auto home = os::home_directory();
  if (!home) {
    throw SandboxError(ErrorCode::bad_setting,
                       "this user has no home directory to keep workspaces in: set SANDBOX_LOCAL_ROOT",
                       "SANDBOX_LOCAL_ROOT");
  }
  return *home + "/.local/share/caisson/local";
}

}  // namespace

LocalSettings LocalSettings::from(const kit::SettingSource& source) {
  LocalSettings settings;
  const auto root = source("SANDBOX_LOCAL_ROOT");
  settings.root = root ? *root : default_root(source);
  if (!settings.root.starts_with("/") || settings.root.find('\0') != std::string::npos) {
    throw SandboxError(ErrorCode::bad_setting,
                       "SANDBOX_LOCAL_ROOT must be an absolute path, not " + quote(settings.root),
                       "SANDBOX_LOCAL_ROOT");
  }
  settings.base_path = kit::string_setting(source, "SANDBOX_LOCAL_BASE_PATH", settings.base_path);
  settings.dispatch = kit::DispatchSettings::from(source, "SANDBOX_LOCAL_");
  return settings;
}

}  // namespace caisson::local
