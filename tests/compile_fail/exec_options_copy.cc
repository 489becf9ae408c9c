// ExecOptions, whose env is secret, are not copied by accident (S-6).
// expect: use of deleted function.*ExecOptions\(const|call to implicitly-deleted copy constructor of
// .*ExecOptions
#include <chrono>

#include "caisson/contract/models.h"

void use() {
  caisson::ExecOptions options(std::chrono::seconds(1));
#ifdef CAISSON_COMPILE_FAIL
  caisson::ExecOptions copy(options);
#else
  caisson::ExecOptions copy(options.clone());
#endif
}
