// Which providers this build has, by name.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string_view>

#include "caisson/caisson.h"
#include "caisson/kit/managed_sandbox.h"

namespace caisson::facade {

/// The name of the provider that gives a tier. Throws SandboxUnavailableError for one that none gives.
std::string_view provider_of(SandboxIsolation isolation);

/// Opens the provider called `name`, its policy bound, as caisson::open says.
std::shared_ptr<kit::ManagedSandbox> open_provider(boost::asio::any_io_executor executor,
                                                   std::string_view name, OpenOptions options);

}  // namespace caisson::facade
