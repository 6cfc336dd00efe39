// Settings of jemalloc, which the binary is linked with. It reads them from this symbol; the
// environment's MALLOC_CONF goes on top of them.
//
// The C library gives blocks above 32 MiB back to the kernel as soon as they are free, so each run
// of a program faults gigabytes in again, page by page. Here freed memory is kept
// (dirty_decay_ms:-1) and huge pages are asked for. One arena, so that what one thread frees serves
// the next: several keep twice the memory. Blocks of 8 MiB and more have an arena of their own
// (oversize_threshold): smaller ones that live longer would cut up the gaps that a step's
// temporaries leave, and each step would take new memory. Small blocks come from each thread's own
// cache. Measured in docs/decisions/20261130-jemalloc.md and bench/README.md.

extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:1,thp:always,dirty_decay_ms:-1,oversize_threshold:8388608";
}
