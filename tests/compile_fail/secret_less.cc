// A Secret is not ordered (S-6).
// expect: no match for .operator<.|invalid operands to binary expression

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  static_cast<void>(secret < secret);
#else
  static_cast<void>(secret.reveal() < secret.reveal());
#endif
}
