// A Secret has no JSON (S-6).
// expect: No suitable tag_invoke overload found|static_assert|static assertion failed|no matching
// (function|constructor)
#include <boost/json.hpp>

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  boost::json::value_from(secret);
#else
  boost::json::value_from(secret.reveal());
#endif
}
