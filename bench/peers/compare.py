#!/usr/bin/env python3
"""Times two programs against one another, in turns, in one run.

    compare.py [--pairs N] [--warmup N] [--oneshot] [--json FILE] NAME -- OURS... --versus PEER...

    bench/peers/compare.py train -- build/bin/train_bench runs/smollm2 \\
        --versus train_jax.py --model runs/smollm2

A command whose first word is a script of this folder runs in that script's virtual environment
(setup.sh makes them). Prints a table: median, least and most seconds, CPU seconds (median; other
work on the machine disturbs them less than the clock), peak memory, and the ratio of the medians,
peer / ours: above 1 ours is faster. Python 3.9 or later, standard library only.

Protocol of both programs: start, load, then for each line `go` on standard input run one repetition
and print one line, a JSON object, on standard output; end when standard input ends. Keys:

    name      what was timed, "jax f32 scan"               (required)
    seconds   wall time of the repetition                  (required)
    work      amount of work in it, a number, with `unit`  (optional: a rate is printed)
    versions  {"jax": "0.12.0.1", ...}                     (optional)

Other keys (loss, ...) are shown from the last repetition. Both processes stay alive, warm, and wait
in turns; the first --warmup repetitions of each (compilation among them) are not counted. The order
within a pair alternates, so that a drifting machine harms neither.

--oneshot: each repetition is a fresh process without standard input that prints one such line when
it has got where it is timed to. Then `seconds` is the time from the start of the process to that
line, taken here, the same for both; the process's own figure is not used.

Both get the same --cpus processors (default 2). Standard error of both goes to a file whose end is
shown when one fails.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent.parent / ".deps" / "peers"


class Failure(Exception):
    pass


def resolve(command):
    """Puts a script of this folder behind the Python of its environment."""
    script = HERE / command[0]
    if "/" in command[0] or script.suffix != ".py" or not script.exists():
        return command
    name = "jax" if command[0].endswith("_jax.py") else "torch"
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        raise Failure(f"{python} is missing: run {HERE / 'setup.sh'} first")
    return [str(python), str(script), *command[1:]]


class Program:
    """One of the two programs; `repetition()` gives a reply."""

    def __init__(self, command, oneshot, cpus):
        self.command, self.oneshot, self.cpus = resolve(command), oneshot, cpus
        self.errors = tempfile.TemporaryFile()
        self.replies, self.peak = [], 0.0
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL if self.oneshot else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, self.cpus),
        )

    def repetition(self):
        started = time.perf_counter()
        if self.process is None:
            self.start()
        cpu = 0.0 if self.oneshot else self.cpu_seconds()
        if not self.oneshot:
            self.send_go()
        line = self.process.stdout.readline()
        elapsed = time.perf_counter() - started
        reply = self.parse(line)
        reply["cpu"] = self.cpu_seconds() - cpu
        if self.oneshot:
            reply["seconds"] = elapsed
            self.peak = max(self.peak, self.reap())
        else:
            self.peak = max(self.peak, self.peak_memory())
        return reply

    def send_go(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # readline() finds the end, and says why

    def parse(self, line):
        try:
            reply = json.loads(line)
            reply["seconds"] = float(reply["seconds"])
            reply["name"] = str(reply["name"])
            return reply
        except (ValueError, KeyError, TypeError):
            self.process.kill()
            status = self.process.wait()
            self.errors.seek(0)
            tail = self.errors.read().decode(errors="replace")[-3000:]
            raise Failure(
                f"{' '.join(self.command)}\nreplied {line!r} (exit status {status}) in place of a "
                f"JSON line with name and seconds; the end of its standard error:\n{tail}"
            ) from None

    def cpu_seconds(self):
        """CPU time of all threads of the process so far, to 10 ms."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self):
        """The most GiB of memory that the process has held; 0 when it has just ended."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        return int(found[0]) / 2**20 if found else 0.0

    def reap(self):
        """Waits for the end of a one-shot process. Returns the most GiB that it held."""
        self.process.stdout.close()
        _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        self.process = None
        return usage.ru_maxrss / 2**20

    def stop(self):
        if self.process is None:
            return
        try:
            if self.process.stdin:
                self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def measure(programs, warmup, pairs):
    """Warms up both, then takes `pairs` replies of each, in turns. Returns the load averages."""
    for program in programs:
        for _ in range(warmup):
            program.repetition()
    loads = [os.getloadavg()[0]]
    for i in range(pairs):
        for program in programs if i % 2 == 0 else reversed(programs):
            program.replies.append(program.repetition())
        loads.append(os.getloadavg()[0])
        done = ", ".join(f"{p.replies[-1]['seconds']:.3f} s" for p in programs)
        print(f"  pair {i + 1}/{pairs}: {done}, load {loads[-1]:.1f}", file=sys.stderr)
    return loads


def summary(program):
    seconds = [reply["seconds"] for reply in program.replies]
    last = program.replies[-1]
    used = ("name", "seconds", "cpu", "work", "unit")
    out = {
        "name": last["name"],
        "median": statistics.median(seconds),
        "min": min(seconds),
        "max": max(seconds),
        "cpu": statistics.median(reply["cpu"] for reply in program.replies),
        "peak_gib": program.peak,
        "seconds": seconds,
        "command": program.command,
    }
    if last.get("work"):
        out["rate"] = f"{last['work'] / out['median']:.1f} {last.get('unit', '')}/s"
    others = {k: v for k, v in last.items() if k not in used}
    return out | others


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def report(result):
    print(f"{result['name']}, {result['pairs']} pairs after {result['warmup']} of warm-up")
    print("| program | median s | min | max | CPU s | rate | peak GiB | more |")
    print("|---|---|---|---|---|---|---|---|")
    shown = ("name", "median", "min", "max", "cpu", "rate", "peak_gib", "seconds", "command")
    for s in (result["ours"], result["peer"]):
        more = "; ".join(f"{k} {v}" for k, v in s.items() if k not in shown)
        row = [s["name"]] + [f"{s[k]:.3f}" for k in ("median", "min", "max", "cpu")]
        print("| " + " | ".join(row + [s.get("rate", ""), f"{s['peak_gib']:.2f}", more]) + " |")
    low, high = min(result["pair_ratios"]), max(result["pair_ratios"])
    print(f"peer / ours: {result['ratio']:.3f} (single pairs {low:.3f} to {high:.3f})")
    loads = result["load_average"]
    print(
        f"{result['cpus']} CPUs of {result['processor']}, load average {min(loads):.1f} to "
        f"{max(loads):.1f}, {result['date']}"
    )


def split_arguments(words):
    try:
        first, second = words.index("--"), words.index("--versus")
    except ValueError:
        return words, [], []
    return words[:first], words[first + 1 : second], words[second + 1 :]


def parse(words):
    own, ours, peer = split_arguments(words)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--warmup", type=int, help="default 2, and 1 with --oneshot")
    parser.add_argument("--oneshot", action="store_true")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", help="append the result to FILE, as one line")
    options = parser.parse_args(own)
    if options.warmup is None:
        options.warmup = 1 if options.oneshot else 2
    if not ours or not peer:
        parser.error("expected NAME -- OURS... --versus PEER...")
    if options.pairs < 1 or options.warmup < 0 or options.cpus < 1:
        parser.error("--pairs and --cpus must be positive, --warmup not negative")
    return options, ours, peer


def run(options, ours, peer):
    cpus = sorted(os.sched_getaffinity(0))[: options.cpus]
    programs = []
    try:
        for command in (ours, peer):
            programs.append(Program(command, options.oneshot, cpus))
        loads = measure(programs, options.warmup, options.pairs)
    finally:
        for program in programs:
            program.stop()
    a, b = (summary(program) for program in programs)
    return {
        "name": options.name,
        "pairs": options.pairs,
        "warmup": options.warmup,
        "ours": a,
        "peer": b,
        "ratio": b["median"] / a["median"],
        "pair_ratios": [y / x for x, y in zip(a["seconds"], b["seconds"])],
        "cpus": len(cpus),
        "processor": processor(),
        "load_average": loads,
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def main():
    options, ours, peer = parse(sys.argv[1:])
    try:
        result = run(options, ours, peer)
    except (Failure, OSError) as e:
        raise SystemExit(f"compare.py: {e}") from None
    report(result)
    if options.json:
        with open(options.json, "a") as f:
            f.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
