// A Secret is not printed (S-6).
// expect: use of deleted function.*operator<<|selected deleted operator '<<'|invalid operands.*deleted
#include <iostream>

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  std::cout << secret;
#else
  std::cout << secret.reveal();
#endif
}
