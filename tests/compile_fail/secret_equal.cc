// A Secret is not compared (S-6).
// expect: use of deleted function.*operator==|selected deleted operator '=='

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  static_cast<void>(secret == secret);
#else
  static_cast<void>(secret.reveal() == secret.reveal());
#endif
}
