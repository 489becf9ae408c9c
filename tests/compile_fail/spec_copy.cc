// A spec, whose env is secret, is not copied by accident (S-6).
// expect: use of deleted function.*SandboxSessionSpec\(const|call to implicitly-deleted copy constructor of
// .*SandboxSessionSpec

#include "caisson/contract/models.h"

void use() {
  caisson::SandboxSessionSpec spec;
#ifdef CAISSON_COMPILE_FAIL
  caisson::SandboxSessionSpec copy(spec);
#else
  caisson::SandboxSessionSpec copy(spec.clone());
#endif
}
