#!/usr/bin/env python3
"""Runs train_gpt with hundreds of malformed files and flags, each made here with what it breaks.

    tests/cli/malformed.py build/release/examples/train_gpt             all cases
    tests/cli/malformed.py build/release/examples/train_gpt checkpoint  those whose name holds this word, with what they say

Each must end with exit code 2 and one line on standard error that names the flag or the file, what was expected and what was found;
within seconds, on one rank, and with nothing written. The flags describe so small a run that what is accepted wrongly ends at once too.
"""

import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SECONDS = 30  # for one case
# One rank needs no network and no shape of the machine: to look for them takes MPI longer than all else here.
ENVIRONMENT = {"UCX_TLS": "self", "HWLOC_COMPONENTS": "no_os,stop", "ASAN_OPTIONS": "detect_leaks=0"}
MOST = 2**64 - 1

COUNTS_FROM_1 = ["--layers", "--heads", "--kv-heads", "--dim", "--ffn", "--vocab", "--seq", "--global-batch", "--micro-batch", "--threads",
                 "--shard-group", "--save-every", "--keep", "--max-skips", "--check-replicas-every"]
COUNTS_FROM_0 = ["--seed", "--eval-every", "--warmup", "--steps", "--prefetch", "--unit-blocks", "--sample"]
REALS = {"--val-fraction": 1, "--dropout": 1, "--lr": 1e39, "--beta1": 1, "--beta2": 1, "--eps": 1.5, "--momentum": 1,
         "--weight-decay": 1e39, "--clip": 1e39, "--min-lr-ratio": 1.5, "--bucket-mb": 1e7, "--temperature": 1e7, "--timeout": 1e10}
CHOICES = ["--preset", "--order", "--arch", "--precision", "--reduce-dtype", "--optimizer", "--schedule", "--strategy", "--reshard",
           "--overlap", "--progress", "--reduction", "--accumulate", "--reproducible", "--recompute", "--isa"]
NAMES = ["--data", "--val-data", "--init", "--metrics", "--trace", "--report", "--save", "--resume", "--export"]

# The small run: 400 ids below 50, or a text of digits.
SIZES = {"--layers": "1", "--heads": "2", "--dim": "16", "--ffn": "32", "--vocab": "50", "--seq": "8"}
RUN = {"--global-batch": "4", "--steps": "2", "--sample": "0", "--threads": "1", "--precision": "fp32"}


def shard(magic=20240520, version=1, count=400, body=None, length=1024):
    body = struct.pack("<400H", *(i * 7 % 50 for i in range(400))) if body is None else body
    return struct.pack("<3i", magic, version, count).ljust(length, b"\0") + body


def text(value):
    return json.dumps(value).encode()


class Weights:
    """A safetensors file taken apart."""

    def __init__(self, content):
        length = struct.unpack_from("<Q", content)[0]
        self.header = json.loads(content[8:8 + length])
        self.data = content[8 + length:]

    def content(self):
        return whole(text(self.header), self.data)


def whole(header, data=b""):
    return struct.pack("<Q", len(header)) + header + data


def changed(content, change):
    """A safetensors file with another header."""
    weights = Weights(content)
    change(weights.header)
    return weights.content()


def with_key(content, path, value):
    """JSON in which the value at a path is another; None takes the key away."""
    top = json.loads(content)
    at = top
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return text(top)


class Cases:
    """Every case: a name, what it breaks, the flags that replace those of the small run, and words that the sentence must have."""

    def __init__(self, folder):
        self.folder = folder
        self.all = []

    def add(self, name, breaks, flags, says, extra=(), sizes=True):
        base = {"--data": str(self.folder / "data.bin"), **(SIZES if sizes else {}), **RUN}
        for flag, value in flags.items():
            base[flag] = value
        words = [word for flag, value in base.items() if value is not None for word in (flag, str(value))] + list(extra)
        self.all.append((name, breaks, words, [str(s) for s in says]))

    def file(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def copy(self, source, name):
        shutil.copytree(self.folder / source, self.folder / name, symlinks=True)
        return self.folder / name


def flag_cases(cases):
    common = {"an empty value": "", "a negative number": "-1", "a fraction": "1.5", "a word": "many", "trailing garbage": "3x",
              "a blank": " 3", "a sign": "+3", "no number": "nan", "infinity": "inf", "a hexadecimal number": "0x10",
              "more than 64 bits": "99999999999999999999999", "an exponent": "1e3"}
    for flag in COUNTS_FROM_1 + COUNTS_FROM_0:
        for breaks, value in common.items():
            cases.add(f"flags {flag}", breaks, {flag: value}, [flag, "whole number", value.strip() or "nothing"])
        cases.add(f"flags {flag}", "no value", {flag: None}, [flag, "expected a value", "none"], [flag])
    for flag in COUNTS_FROM_1:
        cases.add(f"flags {flag}", "zero", {flag: "0"}, [flag, "from 1", "found 0"])
    for flag, most in {"--layers": 65537, "--dim": 2**31, "--vocab": 2**31, "--seq": 2**31, "--heads": 2**31, "--threads": 1025,
                       "--global-batch": 2**31 + 1, "--micro-batch": 2**31 + 1, "--steps": 2**32, "--warmup": 2**32,
                       "--prefetch": 65537, "--unit-blocks": 65537}.items():
        cases.add(f"flags {flag}", "a number beyond its limit", {flag: most}, [flag, "whole number", f"found {most}"])
    for value in ("", "1.5", "2147483648", "-2147483649", "x", "1 "):
        cases.add("flags --ignore-label", f"'{value}'", {"--ignore-label": value}, ["--ignore-label", "whole number", value.strip()])
    reals = {"an empty value": "", "a negative number": "-0.5", "a word": "half", "trailing garbage": "0.1x", "no number": "nan",
             "infinity": "inf", "minus infinity": "-inf", "what overflows": "1e999", "a comma": "0,5", "a sign": "+0.5"}
    for flag, beyond in REALS.items():
        for breaks, value in reals.items():
            cases.add(f"flags {flag}", breaks, {flag: value}, [flag, "a number from", value or "nothing"])
        cases.add(f"flags {flag}", "a number beyond its limit", {flag: beyond}, [flag, "a number from"])
        cases.add(f"flags {flag}", "no value", {flag: None}, [flag, "expected a value", "none"], [flag])
    for flag in ("--eps", "--timeout"):
        cases.add(f"flags {flag}", "zero", {flag: "0"}, [flag, "a number from", "found 0"])
    for flag in CHOICES:
        for breaks, value in {"an unknown word": "other", "an empty value": "", "a number": "0", "capitals": "AUTO"}.items():
            cases.add(f"flags {flag}", breaks, {flag: value}, [flag, "|", value or "nothing"])
        cases.add(f"flags {flag}", "no value", {flag: None}, [flag, "expected a value", "none"], [flag])
    for flag in NAMES + ["--prompt"]:
        cases.add(f"flags {flag}", "an empty value", {flag: ""}, [flag, "nothing"])
        cases.add(f"flags {flag}", "no value", {flag: None}, [flag, "expected a value", "none"], [flag])
    for flag in NAMES:
        cases.add(f"flags {flag}", "a line break in a name", {flag: "two\nlines"}, [flag, "control characters", "two\\x0alines"])
        cases.add(f"flags {flag}", "an escape in a name", {flag: "\x1b[2J"}, [flag, "control characters", "\\x1b[2J"])
    for value in ("", "5", ":", "1:", ":5", "0:5", "5:2", "a:b", "1:2:3", "1:4294967296", "-1:2", "1.5:2", "1: 2"):
        cases.add("flags --trace-steps", f"'{value}'", {"--trace-steps": value, "--trace": "t"}, ["--trace-steps", "A:B"])
    for word in ("--learning-rate", "--lrr=1", "-x", "word", "", "--version", "--", "-", "---lr", "--LR", "\x1b[31m", "\udcff\udcfe"):
        cases.add("flags unknown", repr(word), {}, ["expected one of the flags"], [word])
    for flag, value in (("--lr", "0.1"), ("--data", "x"), ("--arch", "gpt2"), ("--steps", "2")):
        cases.add(f"flags {flag}", "twice", {flag: None}, [flag, "expected once", "2 times"], [flag, value, flag, value])
    cases.add("flags --lr", "a flag for a value", {"--lr": None}, ["--lr", "found --beta1"], ["--lr", "--beta1"])


def combination_cases(cases):
    data = cases.folder / "data.bin"
    for breaks, flags, says in [
        ("channels that heads do not divide", {"--dim": 17}, ["--dim", "--heads 2", "17"]),
        ("more heads than channels", {"--heads": 32}, ["--dim", "--heads 32", "16"]),
        ("fewer heads of keys in a gpt2 model", {"--kv-heads": 1}, ["--kv-heads", "gpt2", "found 1"]),
        ("heads of keys that do not divide", {"--arch": "llama", "--heads": 4, "--kv-heads": 3}, ["--kv-heads", "--heads 4", "found 3"]),
        ("an odd head of a llama model", {"--arch": "llama", "--heads": 16}, ["--dim", "even", "= 1"]),
        ("more than 2^48 parameters", {"--layers": 60000, "--dim": 1000000, "--ffn": 1000000}, ["--layers", "2^48"]),
        ("more than the memory in channels", {"--dim": 2000000, "--ffn": 8000000}, ["--dim", "GiB"]),
        ("more than the memory in vocabulary", {"--vocab": 2000000000, "--dim": 64}, ["--vocab", "GiB"]),
        ("more than the memory in batch", {"--global-batch": 2**31, "--micro-batch": 2**31}, ["--global-batch", "GiB"]),
        ("ids of 2 bytes for a large vocabulary", {"--vocab": 70000}, [data, "70000", "2-byte"]),
        ("a vocabulary that the data pass", {"--vocab": 49}, [data, "49", "position"]),
        ("a micro-batch that does not divide", {"--micro-batch": 3}, ["--global-batch", "--micro-batch", "found 4"]),
        ("a micro-batch above the batch", {"--micro-batch": 8}, ["--global-batch", "--micro-batch", "found 4"]),
        ("a group without hybrid", {"--shard-group": 1}, ["--shard-group", "hybrid", "none"]),
        ("a group with sharded", {"--shard-group": 1, "--strategy": "sharded"}, ["--shard-group", "hybrid", "sharded"]),
        ("a group of more than all ranks", {"--shard-group": 2, "--strategy": "hybrid"}, ["--shard-group", "divisor", "found 2"]),
        ("a vendor's sum of bf16", {"--reduction": "vendor", "--reduce-dtype": "bf16"}, ["--reduction", "bf16", "vendor"]),
        ("reproducible with a vendor's sum", {"--reproducible": "on", "--reduction": "vendor"}, ["--reproducible", "ordered", "vendor"]),
        ("reproducible with bf16", {"--reproducible": "on", "--reduce-dtype": "bf16"}, ["--reproducible", "fp32", "bf16"]),
        ("reproducible and sharded sums", {"--reproducible": "on", "--accumulate": "sharded"}, ["--reproducible", "local", "sharded"]),
        ("sharded sums on one rank", {"--accumulate": "sharded"}, ["--accumulate", "found single"]),
        ("sharded sums of replicas", {"--accumulate": "sharded", "--strategy": "replicated"}, ["--accumulate", "found replicated"]),
        ("steps of a trace without one", {"--trace-steps": "1:2"}, ["--trace-steps", "--report", "neither"]),
        ("steps of a trace after the last", {"--trace-steps": "3:4", "--trace": "t"}, ["--trace-steps", "--steps 2", "found 3"]),
        ("--save-every without --save", {"--save-every": 1}, ["--save-every", "--save", "none"]),
        ("--keep without --save", {"--keep": 1}, ["--keep", "--save", "none"]),
        ("a sequence as long as the data", {"--seq": 400}, ["--data", data, "401", "found 360"]),
        ("no held-out sequence to evaluate", {"--seq": 50, "--eval-every": 1}, ["--val-fraction", "51", "found 40"]),
        ("evaluation without data", {"--val-fraction": 0, "--eval-every": 1}, ["--eval-every", "held-out", "--val-fraction 0"]),
        ("a prompt beyond the vocabulary", {"--prompt": "z", "--sample": 3}, ["--prompt", "--vocab 50", "found 122"]),
    ]:
        cases.add("combination", breaks, flags, says)


def place_cases(cases):
    """Results that cannot be written, or that would overwrite what is read."""
    folder, data = cases.folder, cases.folder / "data.bin"
    (folder / "place/blocked/model.safetensors").mkdir(parents=True)
    notes = cases.file("place/notes.txt", b"not a folder")
    os.mkfifo(folder / "place/pipe")
    os.symlink(data, folder / "place/link")
    os.link(data, folder / "place/twin")
    none = folder / "place/none/file"
    for flag in ("--metrics", "--trace", "--report"):
        for breaks, value, says in [("a folder", folder / "place", ["place"]), ("a file in a folder that is not there", none, [none]),
                                    ("a file below a file", notes / "x", [notes / "x"]), ("a pipe", folder / "place/pipe", ["pipe"]),
                                    ("the data", data, [flag, "--data", "a file of its own"]),
                                    ("a link to the data", folder / "place/link", [flag, "--data", "a file of its own"]),
                                    ("another name of the data", folder / "place/twin", [flag, "--data", "a file of its own"]),
                                    ("a name that is too long", folder / ("x" * 300), ["xxx"])]:
            cases.add(f"places {flag}", breaks, {flag: value}, says)
    for flag in ("--export", "--save"):
        for breaks, value in [("a file", notes), ("a folder below a file", notes / "x"), ("a folder of the kernel", "/proc/none/x"),
                              ("a name that is too long", folder / ("x" * 300)), ("the data", data), ("a pipe", folder / "place/pipe")]:
            cases.add(f"places {flag}", breaks, {flag: value}, [str(value)[-5:], "directory"])
    cases.add("places --export", "a folder where a file must be", {"--export": folder / "place/blocked"}, ["model.safetensors"])
    cases.add("places --export", "the folder of --init", {"--init": folder / "gpt2", "--export": folder / "gpt2"}, ["--export", "--init"])
    cases.add("places --metrics", "the weights of --init", {"--init": folder / "gpt2", "--metrics": folder / "gpt2/model.safetensors"},
              ["--metrics", "--init", "its own"])
    cases.add("places --trace", "the metrics", {"--metrics": "m", "--trace": "m"}, ["--trace", "--metrics", "its own"])
    cases.add("places --report", "the trace", {"--trace": "./m", "--report": "m"}, ["--report", "--trace", "its own"])
    cases.add("places --metrics", "two names that are too long", {"--metrics": "x" * 300, "--trace": "y" * 300}, ["yyy", "File name too long"])
    cases.add("places --metrics", "a file of a checkpoint", {"--resume": folder / "saved", "--metrics": folder / "saved/latest"},
              ["--metrics", "checkpoint", "--resume"])
    checkpoint = next((folder / "saved").glob("step-*"))
    for name in ("index.json", "notes.jsonl"):
        cases.add("places --metrics", f"{name} in the checkpoint itself", {"--resume": checkpoint, "--metrics": checkpoint / name},
                  ["--metrics", "checkpoint", "--resume"])
    os.symlink("not_yet.json", folder / "place/dangling")
    cases.add("places --trace", "what a link of the metrics will lead to",
              {"--metrics": folder / "place/dangling", "--trace": folder / "place/not_yet.json"}, ["--trace", "--metrics", "its own"])


def data_cases(cases):
    folder = cases.folder
    wide = struct.pack("<9I", *range(8), 4000000000)
    beyond = struct.pack("<400H", *([7] * 123 + [50] + [7] * 276))
    os.mkfifo(folder / "pipe.bin")
    (folder / "folder.bin").mkdir()
    os.symlink(folder / "nowhere", folder / "dangling.bin")
    os.symlink("circle.bin", folder / "circle.bin")
    kinds = {20240522: "evaluation", 20240326: "weights", 20240803: "weights", 20240327: "state", 20240527: "state", 20240328: "tokenizer"}
    files = [("nothing", b"", ["empty"]), ("one byte", b"x", ["1024", "1 bytes"]), ("half a header", shard()[:600], ["1024", "600"]),
             ("a header alone", shard(body=b""), ["truncated", "1824", "1024"]), ("an unknown magic", shard(magic=12345), ["magic", "12345"]),
             ("text", b"some words that are no shard".ljust(2000, b"."), ["magic"]),
             ("big-endian numbers", struct.pack(">3i", 20240520, 1, 400).ljust(1024, b"\0") + bytes(800), ["little-endian", "swapped"]),
             ("big-endian numbers of 4 bytes", struct.pack(">3i", 20240801, 7, 200).ljust(1024, b"\0") + bytes(800), ["little-endian"]),
             ("the version of the other magic", shard(version=7), ["version 1", "found 7"]),
             ("version 0", shard(version=0), ["version 1", "found 0"]),
             ("a negative version", shard(version=-1), ["version 1", "found -1"]),
             ("another version of 4-byte ids", shard(magic=20240801, version=1), ["version 7", "found 1"]),
             ("no tokens", shard(count=0, body=b""), ["count above 0", "found 0"]),
             ("a negative count", shard(count=-400), ["count above 0", "found -400"]),
             ("the least count", shard(count=-2**31), ["count above 0", "found -2147483648"]),
             ("the largest count", shard(count=2**31 - 1), ["truncated", "2147483647"]),
             ("a byte too few", shard()[:-1], ["truncated", "1824", "1823"]), ("a byte too many", shard() + b"x", ["trailing", "1824", "1825"]),
             ("half an id", shard(count=399)[:-1], ["trailing", "1822", "1823"]),
             ("an id beyond the vocabulary", shard(body=beyond), ["vocabulary of 50", "found 50 at position 123"]),
             ("an id beyond 2^31", shard(magic=20240801, version=7, count=9, body=wide), ["vocabulary of 50", "found 4000000000 at position 8"]),
             ("fewer tokens than a sequence", shard(count=8, body=bytes(16)), ["--data", "at least 9", "found 7"])]
    files += [(f"an llm.c file of magic {m}", shard(magic=m), ["expected tokens", m, kind]) for m, kind in kinds.items()]
    for i, (breaks, content, says) in enumerate(files):
        path = cases.file(f"data/{i}.bin", content)
        cases.add("data shard", breaks, {"--data": path}, [path.name, *says])
        if breaks != "fewer tokens than a sequence":
            cases.add("data held-out shard", breaks, {"--val-data": path, "--eval-every": "1"}, [path.name, *says])
    texts = [("nothing", b"", ["empty"]), ("too few bytes", b"0000000", ["--data", "at least 9", "found 6"]),
             ("a byte beyond the vocabulary", b"0" * 400 + b"a", ["vocabulary of 50", "found 97 at position 400"]),
             ("a byte beyond ASCII", b"0" * 100 + b"\xff" + b"0" * 300, ["vocabulary of 50", "found 255 at position 100"])]
    for i, (breaks, content, says) in enumerate(texts):
        path = cases.file(f"data/{i}.txt", content)
        cases.add("data text", breaks, {"--data": path}, [path.name, *says])
    for flag in ("--data", "--val-data"):
        for breaks, path, says in [("a file that is not there", folder / "none.bin", ["does not exist"]),
                                   ("a file in a folder that is not there", folder / "none/x.txt", ["does not exist"]),
                                   ("a file below a file", folder / "data.bin/x", ["expected a file that can be read"]),
                                   ("a folder", folder / "folder.bin", ["directory"]), ("a pipe", folder / "pipe.bin", ["regular file"]),
                                   ("a device", "/dev/zero", ["regular file"]), ("a dangling link", folder / "dangling.bin", ["does not exist"]),
                                   ("a link to itself", folder / "circle.bin", ["expected a file that can be read"]),
                                   ("a name that is too long", folder / ("x" * 300), ["expected a file that can be read"])]:
            cases.add(f"data {flag}", breaks, {flag: path}, [pathlib.Path(path).name, *says])


def safetensors_cases(cases):
    good = (cases.folder / "gpt2/model.safetensors").read_bytes()
    table, norm = "transformer.wte.weight", "transformer.ln_f.bias"
    one = lambda dtype='"F32"', shape="[2]", offsets="[0,8]", data=b"12345678": whole(
        f'{{"t":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'.encode(), data)
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    two = lambda a, b, size: whole(f'{{"a":{entry % a},"b":{entry % b}}}'.encode(), bytes(size))
    files = [
        ("nothing", b"", ["0 bytes"]), ("seven bytes", b"1234567", ["7 bytes"]),
        ("a header of 100000001 bytes", struct.pack("<Q", 100000001) + b"{}", ["100000000", "100000001"]),
        ("a header of 2^64 - 1 bytes", struct.pack("<Q", MOST) + b"{}", ["100000000", str(MOST)]),
        ("a header of 2^63 bytes", struct.pack("<Q", 2**63) + b"{}", ["100000000", str(2**63)]),
        ("a header longer than the file", struct.pack("<Q", 5000) + b"{}", ["at most 2", "5000"]),
        ("a header of one byte more", struct.pack("<Q", 3) + b"{}", ["at most 2", "found 3"]),
        ("a header of no bytes", struct.pack("<Q", 0) + b"{}", ["JSON"]), ("words", b"these are no weights, only words", ["header"]),
        ("a header that is no UTF-8", whole(b"\xff"), ["JSON"]), ("a name that is no UTF-8", whole(b'{"\xff":{}}'), ["UTF-8"]),
        ("a header that is cut", good[:8] + b"{" + b" " * (len(good) - 9), ["JSON"]), ("an array", whole(b"[]"), ["object", "array"]),
        ("a number", whole(b"7"), ["object", "7"]), ("null", whole(b"null"), ["object", "null"]), ("two objects", whole(b"{}{}"), ["JSON"]),
        ("a byte order mark", whole(b"\xef\xbb\xbf{}"), ["byte order mark"]), ("a NUL byte", whole(b"{}\0"), ["NUL"]),
        ("a comment", whole(b"/**/{}"), ["JSON"]), ("a trailing comma", whole(b'{"__metadata__":{},}'), ["JSON"]),
        ("nesting", whole(b'{"t":{"shape":' + b"[" * 100000), ["shape", "array"]),
        ("metadata that are no object", whole(b'{"__metadata__":[]}'), ["__metadata__", "array"]),
        ("metadata that are null", whole(b'{"__metadata__":null}'), ["__metadata__", "null"]),
        ("a number in the metadata", whole(b'{"__metadata__":{"step":3}}'), ["step", "string", "3"]),
        ("an object in the metadata", whole(b'{"__metadata__":{"x":{}}}'), ["x", "string", "object"]),
        ("metadata twice", whole(b'{"__metadata__":{},"__metadata__":{}}'), ["__metadata__", "twice"]),
        ("a key of the metadata twice", whole(b'{"__metadata__":{"a":"1","a":"1"}}'), ["a", "__metadata__", "twice"]),
        ("a name twice", whole(f'{{"t":{entry % (0, 4)},"t":{entry % (4, 8)}}}'.encode(), bytes(8)), ["t", "twice"]),
        ("a name twice in other letters", whole(f'{{"t":{entry % (0, 4)},"\\u0074":{entry % (4, 8)}}}'.encode(), bytes(8)), ["t", "twice"]),
        ("the same tensor twice", whole(f'{{"t":{entry % (0, 4)},"t":{entry % (0, 4)}}}'.encode(), bytes(4)), ["t", "twice"]),
        ("a tensor that is an array", whole(b'{"t":[]}'), ["t", "object", "array"]),
        ("no dtype", whole(b'{"t":{"shape":[1],"data_offsets":[0,4]}}', bytes(4)), ["t", "dtype"]),
        ("no shape", whole(b'{"t":{"dtype":"F32","data_offsets":[0,4]}}', bytes(4)), ["t", "shape"]),
        ("no offsets", whole(b'{"t":{"dtype":"F32","shape":[1]}}', bytes(4)), ["t", "data_offsets"]),
        ("an unknown field", whole(b'{"t":{"stride":[1]}}'), ["t", "stride"]),
        ("a field twice", whole(b'{"t":{"dtype":"F32","dtype":"F32"}}'), ["t", "dtype", "twice"]),
        ("a type of 4 bits", one('"F4"'), ["t", "dtype", "F4"]), ("an unknown type", one('"F128"'), ["t", "dtype", "F128"]),
        ("a type in small letters", one('"f32"'), ["t", "dtype", "f32"]), ("a type that is a number", one("7"), ["t", "dtype", "7"]),
        ("a type that is an array", one('["F32"]'), ["t", "dtype", "array"]), ("a shape that is a number", one(shape="2"), ["t", "shape", "2"]),
        ("a shape that is a text", one(shape='"2"'), ["t", "shape", "2"]), ("a negative extent", one(shape="[-2]"), ["t", "shape", "-2"]),
        ("an extent with a fraction", one(shape="[2.0]"), ["t", "shape", "2.0"]),
        ("an extent with an exponent", one(shape="[2e0]"), ["t", "shape", "2e0"]),
        ("an extent of 2^64", one(shape=f"[{2**64}]"), ["t", "shape", 2**64]), ("an extent that is true", one(shape="[true]"), ["t", "shape"]),
        ("an extent in an extent", one(shape="[[2]]"), ["t", "shape", "array"]),
        ("65 dimensions", one(shape=text([1] * 65).decode(), offsets="[0,4]", data=bytes(4)), ["t", "shape", "64"]),
        ("a product beyond 2^64", one('"I32"', f"[2,{MOST - 1}]"), ["t", "shape"]),
        ("bytes beyond 2^64", one('"I32"', f"[2,{2**63 - 1}]"), ["t", "shape"]),
        ("a product that wraps to its size", one(shape=f"[{2**32},{2**31},2,2]", offsets="[0,0]", data=b""), ["t", "shape"]),
        ("a negative offset", one(offsets="[0,-8]"), ["t", "data_offsets", "-8"]), ("one offset", one(offsets="[8]"), ["t", "data_offsets", "1"]),
        ("three offsets", one(offsets="[0,8,8]"), ["t", "data_offsets", "more"]), ("offsets that are null", one(offsets="null"), ["t", "null"]),
        ("an end before its begin", one(offsets="[8,0]"), ["t", "data_offsets"]),
        ("an end of 2^64 - 1", one(shape="[0]", offsets=f"[0,{MOST}]"), ["t", str(MOST)]),
        ("a first byte that is not 0", one(shape="[1]", offsets="[4,8]"), ["t", "data_offsets", "[4, 8]"]),
        ("a size of another type", one('"F64"'), ["t", "16", "8"]), ("a hole", two((0, 4), (5, 9), 9), ["b", "[5, 9]"]),
        ("an overlap", two((0, 4), (3, 7), 7), ["b", "[3, 7]"]), ("two tensors in one place", two((0, 4), (0, 4), 4), ["b", "[0, 4]"]),
        ("a byte too few", good[:-1], ["truncated"]), ("a byte too many", good + b"x", ["trailing"]), ("no data", good[:8 + struct.unpack_from("<Q", good)[0]], ["truncated"]),
        ("half the file", good[:len(good) // 2], ["expected", "found"]),
        ("a weight that is no number", good[:-4] + struct.pack("<f", math.nan), ["expected finite numbers", "found nan"]),
        ("a weight that is infinite", good[:-4] + struct.pack("<f", -math.inf), ["expected finite numbers", "found -inf"]),
        ("a name that leads out", changed(good, lambda h: h.update({"../x": h.pop(table)})), ["missing", table, "../x"]),
        ("a tensor that is missing", changed(good, lambda h: h.update({"other": h.pop(norm)})), ["missing", norm, "unexpected", "other"]),
        ("a tensor of a deeper layer", changed(good, lambda h: h.update({"transformer.h.1.ln_1.bias": h.pop(norm)})), ["missing", norm]),
        ("a shape of the same size", changed(good, lambda h: h[table].update(shape=[25, 32])), [table, "[50,16]", "[25,32]"]),
        ("a shape turned round", changed(good, lambda h: h[table].update(shape=[16, 50])), [table, "[50,16]", "[16,50]"]),
        ("a shape of one dimension", changed(good, lambda h: h[table].update(shape=[800])), [table, "[50,16]", "[800]"]),
        ("a type of integers", changed(good, lambda h: h[table].update(dtype="I32")), [table, "dtype", "I32"]),
        ("with and without the prefix", changed(good, lambda h: h.update({"wte.weight": h.pop(norm)})), ["wte.weight", "with and without"]),
        ("a name of control characters", whole(b'{"a\\nb\\u001b":7}'), ["a\\x0ab\\x1b", "object"]),
    ]
    for i, (breaks, content, says) in enumerate(files):
        path = cases.file(f"weights/{i}.safetensors", content)
        cases.add("safetensors", breaks, {"--init": path}, [path.name, *says])
    os.mkfifo(cases.folder / "weights/pipe")
    for breaks, path, says in [("a file that is not there", cases.folder / "none.safetensors", ["No such file"]),
                               ("a pipe", cases.folder / "weights/pipe", ["regular file"]), ("a device", "/dev/zero", ["regular file"]),
                               ("a folder without weights", cases.folder / "folder.bin", ["model.safetensors", "neither"]),
                               ("a name that is too long", cases.folder / ("x" * 300), ["expected a file that can be read"])]:
        cases.add("safetensors", breaks, {"--init": path}, [pathlib.Path(path).name, *says])


def config_cases(cases):
    def model(kind, i, config):
        folder = cases.copy(kind, f"config/{kind}{i}")
        (folder / "config.json").write_bytes(config)
        return folder

    wrong = {"a negative number": -16, "a fraction": 16.5, "a whole number as a fraction": 16.0, "a text": "16", "an array": [16],
             "2^64": 2**64, "0": 0, "2^63": 2**63}
    sizes = {"gpt2": ["n_layer", "n_head", "n_embd", "vocab_size", "n_positions", "n_inner"],
             "llama": ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "intermediate_size", "vocab_size",
                       "max_position_embeddings"]}
    for kind, keys in sizes.items():
        good = (cases.folder / kind / "config.json").read_bytes()
        if kind == "gpt2":
            good = with_key(good, ["n_ctx"], None)  # another name of n_positions
        variants = []
        for key in keys:
            for breaks, value in wrong.items():
                variants.append((f"{key}: {breaks}", with_key(good, [key], value), [] if value in (0, 2**63) else [key]))
            if key not in ("n_inner", "num_key_value_heads"):
                variants.append((f"{key}: nothing", with_key(good, [key], None), [key, "nothing"]))
                variants.append((f"{key}: null", good.replace(b'"%s": %d' % (key.encode(), json.loads(good)[key]), b'"%s": null' % key.encode()),
                                 [key, "null"]))
        changes = {"model_type": ["bert", 7, None], "tie_word_embeddings": [kind != "gpt2", "true"], "quantization_config": [{"bits": 4}]}
        if kind == "gpt2":
            changes |= {"activation_function": ["relu", 7], "layer_norm_epsilon": [0, -1e-5, 1, "x"], "scale_attn_weights": [False],
                        "scale_attn_by_inverse_layer_idx": [True], "add_cross_attention": [True]}
        else:
            changes |= {"hidden_act": ["gelu"], "rms_norm_eps": [0, 2], "rope_theta": [0, -1, "x"], "attention_bias": [True],
                        "mlp_bias": [True], "head_dim": [3, -4, 0], "partial_rotary_factor": [0.5, "x"], "rope_scaling": [{"type": "linear", "factor": 2.0}, {"factor": 2}, 7],
                        "rope_parameters": [{"rope_type": "yarn"}, {"partial_rotary_factor": 0.5}, [], {"rope_theta": 0}]}
        for key, values in changes.items():
            for value in values:
                says = ["rope"] if key.startswith("rope") else ["epsilon"] if "eps" in key and isinstance(value, (int, float)) else [key]
                if key == "rope_theta" and isinstance(value, int):
                    continue  # rope_parameters wins
                variants.append((f"{key}: {json.dumps(value)}", with_key(good, [key], value), says))
        variants += [("nothing", b"", ["JSON"]), ("half of it", good[:len(good) // 2], ["JSON"]), ("an array", b"[1]", ["object"]),
                     ("a key twice", good.replace(b"{", b'{"vocab_size":50,', 1), ["vocab_size", "twice"]), ("a NUL byte", good + b"\0", ["NUL"]),
                     ("nesting", b'{"a":' + b"[" * 5000, ["64"]), ("more than 1 MiB", good + b" " * (1 << 20), ["at most 1048576"]),
                     ("a bad byte", good.replace(b"model_type", b"model\xfftype"), ["JSON"]),
                     ("a number that overflows", good.replace(b'"vocab_size": 50', b'"vocab_size": 1e999'), ["JSON"])]
        for i, (breaks, config, says) in enumerate(variants):
            flags = {"--init": model(kind, i, config), "--arch": kind}
            cases.add(f"config {kind}", breaks, flags, [f"{kind}{i}/config.json", *says], sizes=False)
    good = (cases.folder / "gpt2/config.json").read_bytes()
    for breaks, key, value, says in [("a layer more than there is", "n_layer", 2, ["missing", "h.1."]),
                                     ("60000 layers", "n_layer", 60000, ["missing", "h.1."]),
                                     ("another vocabulary", "vocab_size", 60, ["transformer.wte.weight", "[60,16]", "[50,16]"]),
                                     ("more positions", "n_positions", 9, ["transformer.wpe.weight", "[9,16]", "[8,16]"])]:
        folder = model("gpt2", f"_{key}_{value}", with_key(good, [key], value))
        cases.add("config gpt2", breaks, {"--init": folder}, ["model.safetensors", *says], sizes=False)
    for flag, value, says in [("--layers", 2, "expected 1"), ("--heads", 4, "expected 2"), ("--dim", 32, "expected 16"),
                              ("--ffn", 64, "expected 32"), ("--vocab", 60, "expected 50"), ("--seq", 9, "at most 8"), ("--arch", "llama", "gpt2")]:
        cases.add("config gpt2", f"{flag} {value} beside it", {"--init": cases.folder / "gpt2", flag: value},
                  [f"{flag} {value}", says, "gpt2/config.json"], sizes=False)
    blocked = cases.copy("gpt2", "config/folder")
    (blocked / "config.json").unlink()
    (blocked / "config.json").mkdir()
    away = cases.copy("gpt2", "config/link_out")
    os.rename(away / "config.json", away.parent / "config_outside.json")
    os.symlink("../config_outside.json", away / "config.json")
    cases.add("config gpt2", "a link out of its folder", {"--init": away}, ["config.json", "found a link to"])
    for breaks, target in (("a dangling link of this name", "gone"), ("a link to itself", "config.json")):
        linked = cases.copy("gpt2", f"config/link_{target}")
        (linked / "config.json").unlink()
        os.symlink(target, linked / "config.json")
        cases.add("config gpt2", breaks, {"--init": linked}, ["config.json", "expected a file that can be read"])
    cases.add("config gpt2", "a folder of this name", {"--init": blocked}, ["config.json", "directory"], sizes=False)


def index_cases(cases):
    """A model in two shards."""
    weights = Weights((cases.folder / "gpt2/model.safetensors").read_bytes())
    names = [n for n in weights.header if n != "__metadata__"]
    shards, places = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], {}
    sound = cases.folder / "index/sound"
    sound.mkdir(parents=True)
    shutil.copy(cases.folder / "gpt2/config.json", sound)
    for s, part in enumerate((names[:7], names[7:])):
        header, data = {}, b""
        for name in part:
            begin, end = weights.header[name]["data_offsets"]
            header[name] = {**weights.header[name], "data_offsets": [len(data), len(data) + end - begin]}
            data += weights.data[begin:end]
            places[name] = shards[s]
        (sound / shards[s]).write_bytes(whole(text(header), data))
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (sound / "model.safetensors.index.json").write_bytes(text(index))
    first, last = names[0], names[-1]

    def case(breaks, says, content=None, change=None):
        folder = cases.copy("index/sound", f"index/{len(cases.all)}")
        if content is not None:
            (folder / "model.safetensors.index.json").write_bytes(content)
        if change is not None:
            change(folder)
        cases.add("index", breaks, {"--init": folder}, says, sizes=False)

    def mapped(value, name=first):
        return text({"metadata": {}, "weight_map": {**places, name: value}})

    name = "model.safetensors.index.json"
    outside = cases.file("outside.safetensors", (sound / shards[0]).read_bytes())
    for value in ("../outside.safetensors", "../sound/" + shards[0], str(outside), ".", "..", "", "sub/x.safetensors", "a\\b", "x\0y", "/"):
        case(f"a shard at {value!r}", [name, "directory"], mapped(value))
    for value in (1, None, ["x"], {}, True):
        case(f"a shard that is {json.dumps(value)}", [name, first, "string"], mapped(value))
    case("a shard that is not there", [name, "none.safetensors"], mapped("none.safetensors"))
    case("a shard that is the index", [name, "header"], mapped(name))
    case("a tensor in the other shard", [shards[1], first, name], mapped(shards[1]))
    case("a tensor that is in no shard", [shards[0], "stranger", name], mapped(shards[0], "stranger"))
    case("a tensor that the index does not know", [shards[1], last, name], text({"weight_map": {n: s for n, s in places.items() if n != last}}))
    case("no tensors", [name, "missing"], text({"weight_map": {}}))
    for breaks, content, says in [("nothing", b"", ["JSON"]), ("half of it", text(index)[:100], ["JSON"]), ("an array", b"[]", ["object"]),
                                  ("no map", b"{}", ["weight_map", "nothing"]), ("a map that is an array", b'{"weight_map":[]}', ["weight_map"]),
                                  ("metadata that are a text", text({**index, "metadata": "x"}), ["metadata", "object"]),
                                  ("an unknown key", text({**index, "more": 1}), ["more", "weight_map"]),
                                  ("a tensor twice", text(index).replace(b'"weight_map": {', b'"weight_map": {"%s": "x",' % first.encode()), [first, "twice"]),
                                  ("a map twice", text(index)[:-1] + b',"weight_map":{}}', ["weight_map", "twice"]),
                                  ("a NUL byte", text(index) + b"\0", ["NUL"]), ("trailing text", text(index) + b"x", ["JSON"]),
                                  ("nesting", b'{"weight_map":' + b'{"a":' * 100, ["64"])]:
        case(breaks, [name, *says], content)

    def link(folder, target):
        (folder / shards[0]).unlink()
        os.symlink(target, folder / shards[0])

    case("a shard that is a link out", [name, shards[0], "link"], change=lambda f: link(f, "../../outside.safetensors"))
    case("a shard that is a link to another folder's", [name, shards[0], "link"], change=lambda f: link(f, "../sound/" + shards[0]))
    case("a shard that is a link to a device", [name, shards[0], "link"], change=lambda f: link(f, "/dev/zero"))
    case("a shard that is a dangling link", [name, shards[0]], change=lambda f: link(f, "gone"))
    case("a shard that is a link to itself", [name, shards[0]], change=lambda f: link(f, shards[0]))
    case("a shard that is a folder", [shards[0], "directory"], change=lambda f: ((f / shards[0]).unlink(), (f / shards[0]).mkdir()))
    case("a shard that is a pipe", [shards[0], "regular file"], change=lambda f: ((f / shards[0]).unlink(), os.mkfifo(f / shards[0])))
    case("a shard that is cut", [shards[1], "truncated"], change=lambda f: os.truncate(f / shards[1], (f / shards[1]).stat().st_size - 1))
    case("a shard that is empty", [shards[1], "0 bytes"], change=lambda f: os.truncate(f / shards[1], 0))
    case("a dangling link to a whole model", ["model.safetensors", "expected a file that can be read"], change=lambda f: os.symlink("gone", f / "model.safetensors"))
    case("a dangling link for an index", [name, "expected a file that can be read"], change=lambda f: ((f / name).unlink(), os.symlink("gone", f / name)))
    case("an index of more than 25 MB", [name, "at most 25000000"], change=lambda f: os.truncate(f / name, 25000001))
    case("an index that is a link out", [name, "found a link to"], change=lambda f: (os.rename(f / name, f.parent / "outside.json"), os.symlink("../outside.json", f / name)))
    case("a whole model that is a link out", ["model.safetensors", "found a link to"], change=lambda f: os.symlink("../sound/" + shards[0], f / "model.safetensors"))
    case("an index that is a folder", [name, "directory"], change=lambda f: ((f / name).unlink(), (f / name).mkdir()))
    case("an index that is a pipe", [name, "regular file"], change=lambda f: ((f / name).unlink(), os.mkfifo(f / name)))


def checkpoint_cases(cases):
    sound = cases.folder / "saved"
    step = (sound / "latest").read_text().strip()
    file = "state-00001-of-00001.safetensors"
    index = with_key((sound / step / "index.json").read_bytes(), ["checksum"], None)  # which would see every change

    def case(breaks, says, change, flags=None):
        folder = cases.copy("saved", f"resume/{len(cases.all)}")
        change(folder, folder / step)
        cases.add("checkpoint", breaks, {"--resume": folder, **(flags or {})}, says)

    def indexed(breaks, path, value, says):
        case(f"index: {breaks}", ["index.json", *says], lambda f, s: (s / "index.json").write_bytes(with_key(index, path, value)))

    whole = (sound / step / "index.json").read_bytes()
    case("index: a digit of its position", ["index.json", "checksum"],
         lambda f, s: (s / "index.json").write_bytes(with_key(whole, ["position", "next_sample"], 96)))
    for key in json.loads(index):
        if key not in ("loss_scale", "run"):
            indexed(f"no {key}", [key], None, [key, "nothing"])
    table = "master.wte"
    first = ["tensors", table]
    piece = [*first, "pieces", 0]
    for path, values in {("format",): ["other", 1], ("format_version",): [2, 0, -1, 1.0, "1"], ("written_by",): [7], ("run",): [7, []],
                         ("version",): [-3, 1.5, 2**32, 2**64, "2"], ("seed",): [-1, 1338, 2**64, "x"],
                         ("position",): [[], 7], ("position", "next_sample"): [-1, 1.5, 2**63, MOST - 3, 2**64, "x", 7],
                         ("position", "skipped_in_a_row"): [-1, 2**32, "x"], ("position", "evaluation_due"): [1, "x"],
                         ("checksum_elements",): [1, 0, -1], ("tensors",): [[], 7],
                         ("configuration",): [{}, [["a"]], [[1, 2]], "x"], ("loss_scale",): [7, {}, {"scale": 0, "clean_steps": 0},
                                                                                        {"scale": -1.0, "clean_steps": 0}]}.items():
        for value in values:
            says = [] if path == ("position", "next_sample") and value == 7 else [path[-1]]
            if path == ("position", "next_sample") and value == 7:
                case("index: a position that the batch does not divide", ["--global-batch 4", "7 samples"],
                     lambda f, s: (s / "index.json").write_bytes(with_key(index, ["position", "next_sample"], 7)))
            elif path == ("loss_scale",) and value != 7:
                indexed(f"loss_scale: {json.dumps(value)}", path, value, ["scale"])
            else:
                indexed(f"{path[-1]}: {json.dumps(value)}", path, value, says)
    for breaks, path, value, says in [
        ("an unknown key", ["more"], 1, ["more"]), ("an unknown key of a tensor", [*first, "more"], 1, [table, "more"]),
        ("an unknown key of a piece", [*piece, "more"], 1, [table, "more"]), ("an unknown key of the position", ["position", "more"], 1, ["more"]),
        ("a tensor that is an array", first, [], [table, "object"]), ("a tensor that is missing", first, None, [table]),
        ("a tensor that is too many", ["tensors", "master.more"], json.loads(index)["tensors"][table], ["twice"]),
        ("an unknown dtype", [*first, "dtype"], "F4", [table, "dtype", "F4"]), ("another dtype", [*first, "dtype"], "I32", [table, "dtype I32", "F32"]),
        ("another shape", [*first, "shape"], [16, 50], [table, "[50,16]", "[16,50]"]), ("a shape of fewer", [*first, "shape"], [50, 15], [table, "750", "800"]),
        ("a shape that overflows", [*first, "shape"], [2**63, 4], [table, "shape"]), ("a negative extent", [*first, "shape"], [-50, -16], [table, "shape", "-50"]),
        ("a fraction in a shape", [*first, "shape"], [50.0, 16], [table, "shape", "50.0"]), ("a shape that is a text", [*first, "shape"], "x", [table, "shape"]),
        ("no pieces", [*first, "pieces"], [], [table, "800 elements", "found 0"]), ("pieces that are a number", [*first, "pieces"], 1, [table, "pieces"]),
        ("a hole", [*piece, "range"], [1, 800], [table, "hole"]), ("a range that ends before it begins", [*piece, "range"], [5, 2], [table, "range"]),
        ("a range of three", [*piece, "range"], [0, 1, 2], [table, "range", "3"]), ("a range beyond the tensor", [*piece, "range"], [0, 801], [table]),
        ("a huge range", [*piece, "range"], [0, MOST], [table]), ("a negative range", [*piece, "range"], [-1, 799], [table, "range", "-1"]),
        ("no checksums", [*piece, "checksums"], [], [table, "checksums"]), ("a checksum that is short", [*piece, "checksums"], ["12"], [table, "checksums"]),
        ("a checksum that is a number", [*piece, "checksums"], [12], [table, "checksums"]), ("a checksum of letters", [*piece, "checksums"], ["g" * 16], [table, "checksums"]),
        ("another checksum", [*piece, "checksums"], ["0" * 16], ["checksum", "0" * 16]),
        ("a file in the folder above", [*piece, "file"], "../latest", ["same directory", "../latest"]),
        ("a file by its whole path", [*piece, "file"], "/etc/passwd", ["same directory", "/etc/passwd"]), ("a file that is the folder", [*piece, "file"], ".", ["same directory"]),
        ("a file without a name", [*piece, "file"], "", ["same directory"]), ("a file that is not there", [*piece, "file"], "none", ["none", "No such file"]),
        ("a file that is the index", [*piece, "file"], "index.json", ["header"]), ("a file that is a number", [*piece, "file"], 7, [table, "file"]),
        ("a name that is not there", [*piece, "name"], "none", ["none", "not found"]), ("a name that is a number", [*piece, "name"], 7, [table, "name"]),
        ("the name of another tensor", [*piece, "name"], "master.wpe", ["master.wpe"]),
    ]:
        if breaks == "another dtype":
            case(f"index: {breaks}", [file, *says], lambda f, s: (s / "index.json").write_bytes(with_key(index, [*first, "dtype"], "I32")))
        elif breaks == "a file that is the index":
            case(f"index: {breaks}", ["index.json", *says], lambda f, s: (s / "index.json").write_bytes(with_key(index, piece + ["file"], "index.json")))
        elif breaks == "another checksum":
            case(f"index: {breaks}", [file, *says], lambda f, s: (s / "index.json").write_bytes(with_key(index, [*piece, "checksums"], ["0" * 16])))
        else:
            indexed(breaks, path, value, says)
    damage = {"empty": lambda c: b"", "cut by two bytes": lambda c: c[:-2], "cut in the middle": lambda c: c[:len(c) // 2],
              "other bytes": lambda c: b"\xff" * len(c), "zeros": lambda c: bytes(len(c)), "a byte too many": lambda c: c + b"x"}
    for which, path in (("index", pathlib.Path(step) / "index.json"), ("state", pathlib.Path(step) / file), ("latest", pathlib.Path("latest"))):
        for breaks, change in damage.items():
            case(f"{which}: {breaks}", [path.name], lambda f, s, p=path, c=change: (f / p).write_bytes(c((f / p).read_bytes())))
        case(f"{which}: a folder", [path.name], lambda f, s, p=path: ((f / p).unlink(), (f / p).mkdir()))
        case(f"{which}: a pipe", [path.name, "regular file"], lambda f, s, p=path: ((f / p).unlink(), os.mkfifo(f / p)))
    case("state: missing", ["index.json", file, "No such file"], lambda f, s: (s / file).unlink())
    case("state: a link out", ["index.json", file, "link"], lambda f, s: ((s / file).unlink(), os.symlink(sound / step / file, s / file)))
    case("state: one bit", [file, "checksum"], lambda f, s: flip(s / file))
    case("state: a tensor that the index does not know", [file, "more"],
         lambda f, s: (s / file).write_bytes(changed((s / file).read_bytes(), lambda h: h.update(more={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}))))
    case("latest: a name that is not there", ["latest", "step-0000000007"], lambda f, s: (f / "latest").write_text("step-0000000007\n"))
    case("latest: the folder above", ["latest", "same directory"], lambda f, s: (f / "latest").write_text("../saved\n"))
    case("latest: two lines", ["latest", "\\x0a"], lambda f, s: (f / "latest").write_text(f"{step}\n{step}\n"))
    case("latest: a link out", ["latest", "link"], lambda f, s: (os.symlink(sound / step, f / "step-0000000009"), (f / "latest").write_text("step-0000000009\n")))
    case("latest: itself a link out", ["latest", "link"],
         lambda f, s: ((f / "latest").unlink(), os.symlink(sound / "latest", f / "latest")))
    case("index: a link out", ["index.json", "link"],
         lambda f, s: ((s / "index.json").unlink(), os.symlink(sound / step / "index.json", s / "index.json")))
    case("latest: missing, and the index", ["expected a checkpoint", "none"], lambda f, s: ((f / "latest").unlink(), (s / "index.json").unlink()))
    case("latest: its own name", ["latest"], lambda f, s: (f / "latest").write_text("latest\n"))
    for flag, value, says in [("--layers", 2, "master.h.1."), ("--dim", 32, "shape"), ("--vocab", 60, "[60,16]"), ("--arch", "llama", "expected the tensor"),
                              ("--optimizer", "sgd", "optimizer.1."), ("--seed", 8, "seed")]:
        case(f"{flag} {value} beside it", ["index.json", says], lambda f, s: None, {flag: value})
    case("--steps 1 beside it", ["--steps 1", "at least 2"], lambda f, s: None, {"--steps": 1})
    case("--global-batch 6 beside it", ["--global-batch 6", "8 samples"], lambda f, s: None, {"--global-batch": 6})
    folder = cases.folder
    (folder / "nothing_saved").mkdir()
    for breaks, path, says in [("a folder that is not there", folder / "none", ["nothing"]), ("a file", folder / "data.bin", ["a file"]),
                               ("an empty folder", folder / "nothing_saved", ["none"]), ("a model", folder / "gpt2", ["none"]),
                               ("a device", "/dev/null", ["a file"])]:
        cases.add("checkpoint", breaks, {"--resume": path}, [pathlib.Path(path).name, "expected", *says])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-7] ^= 16
    path.write_bytes(content)


def files_below(folder):
    """What is there, and when it was written; in folders files may have come and gone."""
    return {str(p.relative_to(folder)): (p.lstat().st_mode, not p.is_dir() and (p.lstat().st_size, p.lstat().st_mtime_ns)) for p in folder.rglob("*")}


def run(program, words, place, environment=None):
    return subprocess.run([program, *words], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                          env={**os.environ, **ENVIRONMENT, **(environment or {})})


def fault_of(program, case, place):
    """What is wrong with how the program ended, and its sentence."""
    name, breaks, words, says = case
    place.mkdir()
    outputs = {"--metrics": "m.jsonl", "--export": "e", "--save": "s", "--trace": "t.json", "--report": "r.html"}
    given = {word.partition("=")[0] for word in words}
    for flag, value in outputs.items():
        if flag not in given and not (flag == "--save" and given & {"--save-every", "--keep"}):
            words = [flag, value, *words] if not (flag in ("--trace", "--report") and "--trace-steps" in given) else words
    try:
        ended = run(program, words, place)
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} seconds", ""
    line = ended.stderr.decode(errors="replace")
    if ended.returncode != 2:
        return f"ended with {ended.returncode}", line
    if line.count("\n") != 1 or not line.endswith("\n"):
        return "expected one line", line
    if any(c < " " or c == "\x7f" for c in line[:-1]):
        return "expected no control characters", line
    if ended.stdout:
        return "expected nothing on standard output", line
    for word in says:
        if word not in line:
            return f"expected the word {word!r}", line
    if not re.search(r"expected|must|needs|cannot be", line) or not re.search(r"found|cannot be|No such file|Too many levels|^--\S+ \S+: ", line):
        return "expected what was expected and what was found", line
    left = sorted(p.name for p in place.rglob("*"))
    if left:
        return f"expected nothing to be written, found {left}", line
    return "", line


def main():
    program, wanted = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="lockstep_malformed_", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as made:
        top = pathlib.Path(made)
        folder = top / "in"
        folder.mkdir()
        cases = Cases(folder)
        cases.file("data.bin", shard())
        small = [word for pair in {"--data": folder / "data.bin", **SIZES, **RUN}.items() for word in map(str, pair)]
        llama = ["--arch", "llama", "--kv-heads", "1"]
        # What is changed below is sound before; and what the environment says is never a reason to refuse.
        odd = {"LC_ALL": "\udcff" * 1000, "LANG": "", "TERM": "x" * 5000, "NO_COLOR": "\x1b[2J"}
        for words, environment in (([*small, "--export", folder / "gpt2", "--save", folder / "saved"], None), ([*small, *llama, "--export", folder / "llama"], None),
                                   ([*small, "--init", folder / "gpt2"], odd), ([*small, "--resume", folder / "saved"], None)):
            sound = run(program, list(map(str, words)), folder, environment)
            if sound.returncode != 0 or sound.stderr:
                print(f"a run that is sound ended with {sound.returncode}: {sound.stderr.decode(errors='replace')}")
                return 1
        for add in (flag_cases, combination_cases, place_cases, data_cases, safetensors_cases, config_cases, index_cases, checkpoint_cases):
            add(cases)
        chosen = [case for case in cases.all if not wanted or any(word in case[0] + ": " + case[1] for word in wanted)]
        before = files_below(folder)
        failures = 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = pool.map(lambda item: fault_of(program, item[1], top / str(item[0])), enumerate(chosen))
            for (name, breaks, words, _), (fault, line) in zip(chosen, results):
                failures += fault != ""
                if fault or wanted:
                    print(f"{'FAILS ' if fault else ''}{name}: {breaks}: {fault}\n    {line.rstrip()}", flush=True)
        changed_files = {p for p, facts in files_below(folder).items() if before.get(p) != facts} | (before.keys() - files_below(folder).keys())
        if changed_files:
            print(f"FAILS expected the inputs as they were, found changes of {sorted(changed_files)}")
            failures += 1
        print(f"{len(chosen)} cases, {failures} failures")
        return 1 if failures or len(chosen) == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
