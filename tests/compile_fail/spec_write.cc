// The writer behind to_json cannot be given a spec either, described as it is (S-6).
// expect: a Secret cannot be serialised
#include "contract/json_writer.h"

void use() {
  caisson::SandboxSessionSpec spec;
  caisson::SandboxSessionInfo info;
#ifdef CAISSON_COMPILE_FAIL
  static_cast<void>(caisson::wire::write(spec));
#else
  static_cast<void>(caisson::wire::write(info));
#endif
}
