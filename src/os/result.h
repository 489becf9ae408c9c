// How this layer reports expected failures: values, not exceptions.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cerrno>

namespace caisson::os {

/// A value, or the errno of the call that failed (generic category).
template <class T>
using Result = boost::system::result<T>;
using Error = boost::system::error_code;

inline Error error_of(int number) noexcept { return {number, boost::system::generic_category()}; }
inline Error last_error() noexcept { return error_of(errno); }

}  // namespace caisson::os
