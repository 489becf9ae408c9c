// The program caisson.
#include <signal.h>

#include "cli/app.h"
#include "os/self.h"

int main(int argc, char** argv) {
  caisson::os::fill_standard_descriptors();
  // Past a limit on file size a write then fails with EFBIG, an error like others, and the session is
  // released.
  caisson::os::ignore_signal(SIGXFSZ);
  return caisson::cli::main({argv + (argc > 0 ? 1 : 0), argv + argc});
}
