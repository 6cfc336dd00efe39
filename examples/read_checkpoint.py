#!/usr/bin/env python3
"""Reads a Strata checkpoint: python3 read_checkpoint.py CHECKPOINT_OR_RUN [TENSOR...]

Lists what it holds and checks every hash; with TENSOR prints that tensor, which may be named by a
stacked name (model.layers[0:24:1].mlp.up_proj.weight). Needs numpy and safetensors only.
The format is described in docs/formats/checkpoint.md."""
import hashlib
import json
import os
import re
import sys

import numpy
from safetensors import deserialize

NUMPY = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
         "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bf16": "u2"}


def latest(path):
    """The checkpoint itself, or that of a run with the highest number."""
    if os.path.exists(os.path.join(path, "manifest.json")):
        return path
    folder = os.path.join(path, "checkpoints")
    names = [n for n in os.listdir(folder) if re.fullmatch(r"step-\d{8,}(\+\d+)?", n)]
    return os.path.join(folder, max(names, key=lambda n: [int(d) for d in re.findall(r"\d+", n)]))


class Checkpoint:
    def __init__(self, path):
        with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        assert (self.manifest["format"], self.manifest["version"]) == ("strata.checkpoint", 1)
        self.tensors = {}
        entries = self.manifest["parameters"] + self.manifest["slots"]
        for name in sorted({e["file"] for e in entries}):
            with open(os.path.join(path, name), "rb") as file:
                held = dict(deserialize(file.read()))
            for e in (e for e in entries if e["file"] == name):
                data = bytes(held[e["name"]]["data"])
                assert hashlib.sha256(data).hexdigest() == e["sha256"], e["name"] + " is damaged"
                value = numpy.frombuffer(data, "<" + NUMPY[e["dtype"]]).reshape(e["dims"])
                if e["dtype"] == "bf16":  # the upper half of an f32
                    value = (value.astype("<u4") << 16).view("<f4")
                self.tensors[e["name"]] = value

    def tensor(self, name, axis=0):
        """stack[b:e:s].leaf holds stack.b.leaf, stack.(b+s).leaf, ... below e, along a new dim."""
        found = re.fullmatch(r"(.+)\[(\d+):(\d+):(\d+)\]\.(.+)", name)
        if not found:
            return self.tensors[name]
        layers = range(*map(int, found.group(2, 3, 4)))
        return numpy.stack([self.tensors[f"{found[1]}.{i}.{found[5]}"] for i in layers], axis)


if __name__ == "__main__":
    checkpoint = Checkpoint(latest(sys.argv[1]))
    for name in sys.argv[2:] or checkpoint.tensors:
        print(name, checkpoint.tensor(name) if sys.argv[2:] else checkpoint.tensors[name].shape)
    print("step", checkpoint.manifest["step"], checkpoint.manifest["run"]["counts"])
