#include "strata/base/interrupt.h"

#include <signal.h>

#include <atomic>

#include "strata/base/error.h"

namespace strata {
namespace {

// A signal handler can reach nothing but static storage.
std::atomic<int> caught_signal{0};
std::atomic<bool> in_use{false};
struct sigaction old_int {};
struct sigaction old_term {};
static_assert(std::atomic<int>::is_always_lock_free, "the handler must not lock");

void remember_signal(int number) {
  if (caught_signal.exchange(number) == 0) return;
  // The second one: die of it.
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  invariant(!in_use.exchange(true), "base.interrupt_twice", "at most one InterruptFlag");
  caught_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &old_int);
  ::sigaction(SIGTERM, &action, &old_term);
}

InterruptFlag::~InterruptFlag() {
  ::sigaction(SIGINT, &old_int, nullptr);
  ::sigaction(SIGTERM, &old_term, nullptr);
  in_use = false;
}

int InterruptFlag::signal() const { return caught_signal; }

}  // namespace strata
