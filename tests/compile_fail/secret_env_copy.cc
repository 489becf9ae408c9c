// A SecretEnv is not copied by accident (S-6).
// expect: use of deleted function.*SecretEnv\(const|call to deleted constructor of .*SecretEnv

#include "caisson/contract/models.h"

void use() {
  caisson::SecretEnv env{{"TOKEN", "value"}};
#ifdef CAISSON_COMPILE_FAIL
  caisson::SecretEnv copy(env);
#else
  caisson::SecretEnv copy(caisson::clone(env));
#endif
}
