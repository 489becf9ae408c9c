// The abstract classes' destructors, kept in one object file with their type information.
#include "caisson/contract/sandbox.h"

#include <boost/asio/error.hpp>
#include <string>

namespace caisson {

SandboxOutput::~SandboxOutput() = default;

SandboxWriteCancelled::SandboxWriteCancelled(std::size_t written)
    : boost::system::system_error(boost::asio::error::operation_aborted,
                                  "write_stdin cancelled after " + std::to_string(written) + " bytes"),
      written_(written) {}
SandboxWriteCancelled::~SandboxWriteCancelled() = default;

SandboxExecHandle::~SandboxExecHandle() = default;
SandboxFileReader::~SandboxFileReader() = default;
SandboxFileWriter::~SandboxFileWriter() = default;
SandboxSession::~SandboxSession() = default;
Sandbox::~Sandbox() = default;

}  // namespace caisson
