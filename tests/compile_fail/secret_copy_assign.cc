// A Secret is not copied over another by accident (S-6).
// expect: use of deleted function.*operator=\(const|selected deleted operator '='

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
  caisson::Secret other;
#ifdef CAISSON_COMPILE_FAIL
  other = secret;
#else
  other = secret.clone();
#endif
}
