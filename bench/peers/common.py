"""What the peers share: arguments, the tokens they work on, the protocol of compare.py."""

import argparse
import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is looked up in the network


def parser(doc):
    out = argparse.ArgumentParser(description=doc.strip().splitlines()[0])
    out.add_argument("--model", required=True, metavar="DIR", help="Hugging Face, llama")
    out.add_argument("--threads", type=int, default=2)
    return out


def limit_threads(count):
    """Call before JAX or PyTorch is imported: every pool of theirs gets `count` threads."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(count)
    os.environ["NPROC"] = str(count)  # XLA's pools
    # Both size other pools by the processors they may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def tokens(rows, length, vocabulary):
    """The tokens every benchmark of the project works on: row r has (100 + 37 i + 11 r) mod V."""
    return [[(100 + 37 * i + 11 * r) % vocabulary for i in range(length)] for r in range(rows)]


def protocol_stream():
    """The process's standard output; what libraries print goes to standard error from now."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


def reply(stream, name, seconds, **more):
    print(json.dumps({"name": name, "seconds": seconds, **more}), file=stream, flush=True)


def serve(stream, name, repetition, **more):
    """One timed call of `repetition` for each line `go`. It returns a dict for the reply."""
    for line in sys.stdin:
        if line.strip() != "go":
            raise SystemExit(f"expected the line 'go', got {line!r}")
        start = time.perf_counter()
        result = repetition()
        reply(stream, name, time.perf_counter() - start, **result, **more)


def since_process_start():
    """Seconds since this process was started, to 10 ms (Linux)."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
