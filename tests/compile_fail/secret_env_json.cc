// An environment of Secrets has no JSON (S-6).
// expect: No suitable tag_invoke overload found|static_assert|static assertion failed
#include <boost/json.hpp>
#include <map>
#include <string>

#include "caisson/contract/models.h"

void use() {
  caisson::SecretEnv env{{"TOKEN", "value"}};
  std::map<std::string, std::string> plain;
#ifdef CAISSON_COMPILE_FAIL
  boost::json::value_from(env);
#else
  boost::json::value_from(plain);
#endif
}
