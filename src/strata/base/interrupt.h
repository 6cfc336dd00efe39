// Ctrl-C as a flag that loops ask for, so that a run can save its state before it ends.
#pragma once

namespace strata {

// While one exists, the first SIGINT or SIGTERM only raises the flag; a second one ends the process
// at once, as it would have without this class. Signals raised earlier are forgotten by a new one.
// At most one may exist at a time (invariant); make it in main. Reading is thread-safe.
class InterruptFlag {
 public:
  InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  // Puts back the handlers that were there before.
  ~InterruptFlag();

  bool raised() const { return signal() != 0; }
  // SIGINT, SIGTERM, or 0 when none came.
  int signal() const;
};

}  // namespace strata
