// A Secret is not copied by accident: clone() is the copy on purpose (S-6).
// expect: use of deleted function.*Secret\(const|call to deleted constructor of .*Secret

#include "caisson/contract/models.h"

void use() {
  caisson::Secret secret("value");
#ifdef CAISSON_COMPILE_FAIL
  caisson::Secret copy(secret);
#else
  caisson::Secret copy(secret.clone());
#endif
}
