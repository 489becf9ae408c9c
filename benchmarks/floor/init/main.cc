// The init of the floor's box: says that it runs, and ends when nobody holds the other end of standard input.
#include <unistd.h>

int main() {
  char byte = 1;
  if (write(STDOUT_FILENO, &byte, 1) != 1) return 1;
  return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}
