// A Secret is not joined to a message (S-6).
// expect: no match for .operator\+.|invalid operands to binary expression
#include <string>

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
  std::string message = "value: ";
#ifdef CAISSON_COMPILE_FAIL
  message = message + secret;
#else
  message = message + std::string(secret.reveal());
#endif
}
