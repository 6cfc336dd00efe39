// The allocator's settings for large tensors.
#pragma once

namespace strata::cli {

// The C library gives blocks above 32 MiB back to the kernel as soon as they are free, so each run
// of a program faults the same gigabytes in again, page by page. This starts the process anew with
// GLIBC_TUNABLES (read only at start) that keep them and ask for huge pages; what that saves is in
// bench/README.md. It does nothing when STRATA_ALLOCATOR is "system" or the caller has set
// allocator tunables. Programs started from here get the caller's environment back. Call first in
// main.
void tune_allocator(char** argv);

}  // namespace strata::cli
