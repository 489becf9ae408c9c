// Signals of the host program, kept off threads of ours.
#pragma once

#include <signal.h>

namespace caisson::os {

/// While it lives, a thread that this one starts begins with every signal blocked but those that a fault
/// raises: the host program's handlers then run on its own threads.
class SignalsBlockedForNewThreads {
 public:
  SignalsBlockedForNewThreads() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&all, fault);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlockedForNewThreads() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlockedForNewThreads(const SignalsBlockedForNewThreads&) = delete;
  SignalsBlockedForNewThreads& operator=(const SignalsBlockedForNewThreads&) = delete;

 private:
  sigset_t before_;
};

}  // namespace caisson::os
