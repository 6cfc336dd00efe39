// Settings of jemalloc, which the binary is linked with. It reads them from this symbol; the
// environment's MALLOC_CONF goes on top of them.
//
// The C library gives blocks above 32 MiB back to the kernel as soon as they are free, so each run
// of a program faults gigabytes in again, page by page. Here freed memory is kept
// (dirty_decay_ms:-1, and no threshold above which a block is given back at once) and huge pages
// are asked for. One arena, so that what one thread frees serves the next: several keep twice the
// memory. Small blocks come from each thread's own cache. Measured in bench/README.md.

extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:1,thp:always,dirty_decay_ms:-1,oversize_threshold:0";
}
