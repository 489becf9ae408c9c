// A spec, whose env is secret, has no JSON (S-6).
// expect: no matching function for call to .to_json|call to .*to_json.*ambiguous

#include "caisson/contract/json.h"
#include "caisson/contract/models.h"

void use() {
  caisson::SandboxSessionSpec spec;
  caisson::SandboxSessionInfo info;
#ifdef CAISSON_COMPILE_FAIL
  static_cast<void>(caisson::to_json(spec));
#else
  static_cast<void>(caisson::to_json(info));
#endif
}
