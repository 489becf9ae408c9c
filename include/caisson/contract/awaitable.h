// The coroutine type of every asynchronous call of the contract.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace caisson {

/// What an `async` method of the contract returns: a lazy coroutine, started by `co_await` or `co_spawn`.
///
/// Three rules hold for every call that returns one:
///  - Failures are exceptions of the SandboxError family (errors.h), thrown from the `co_await`.
///  - Cancelling the awaiting coroutine (terminal, partial or total) undoes the call, waits for the undoing,
///  and
///    surfaces as `boost::system::system_error` with `operation_aborted`, as everywhere in Asio.
///  - Pass named objects, not braced aggregates, inside a `co_await`: GCC 12 destroys those twice.
template <class T>
using Awaitable = boost::asio::awaitable<T>;

}  // namespace caisson
