// caisson-init: process 1 of a box. Its control socket is descriptor 3; arguments and environment mean
// nothing.
#include <sys/prctl.h>

#include <utility>

#include "init/server.h"

int main() {
  using namespace caisson;
  ::prctl(PR_SET_NAME, "caisson-init");
  auto server = init::Server::create(os::Fd::adopt(3));
  if (!server) return 1;
  server->run();
  // With process 1 the kernel kills all that is left.
  return 0;
}
