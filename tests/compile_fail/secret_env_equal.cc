// A SecretEnv is not compared (S-6).
// expect: use of deleted function|deleted (function|operator)

#include "caisson/contract/models.h"

void use() {
  caisson::SecretEnv env{{"TOKEN", "value"}};
#ifdef CAISSON_COMPILE_FAIL
  static_cast<void>(env == env);
#else
  static_cast<void>(env.size() == env.size());
#endif
}
