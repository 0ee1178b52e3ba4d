#!/usr/bin/env python3
"""Turns a trace of train_gpt into files for Holistic Trace Analysis, one a rank.

usage: trace_to_hta.py TRACE.json FOLDER

HTA was made for GPU traces: it takes for device work what names a stream, and for communication what is called ncclKernel.
So compute and update become stream 7, what is on the wire becomes the streams from 20 on, with that word before the collective's name,
and a step is called ProfilerStep#N. A wait inside compute is cut out of it: then "idle" is what the step's thread waited.
HTA leaves the last step out unless it is told to include it.
"""

import json
import pathlib
import sys

COMPUTE, WIRE = 7, 20
FIRST_WIRE_ROW = 1000  # as lockstep/report/trace.hpp numbers the rows of a process


def without(begin, end, holes):
    """The pieces of [begin, end) outside the holes, which are sorted and may overlap."""
    for hole_begin, hole_end in holes:
        if hole_end <= begin or hole_begin >= end:
            continue
        if hole_begin > begin:
            yield begin, hole_begin
        begin = max(begin, hole_end)
    if begin < end:
        yield begin, end


def of_rank(trace, rank):
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == rank]
    waits = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if e["cat"] == "communication")
    events = []

    def device(e, stream, begin, end, name):
        args = dict(e["args"], stream=stream, device=rank)
        events.append({"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": stream, "ts": begin, "dur": end - begin, "args": args})

    for e in slices:
        begin, end = e["ts"], e["ts"] + e["dur"]
        if e["cat"] in ("compute", "update"):
            for piece in without(begin, end, waits):
                device(e, COMPUTE, *piece, e["name"])
        elif e["cat"] == "transfer":
            device(e, WIRE + e["tid"] - FIRST_WIRE_ROW, begin, end, "ncclKernel " + e["name"])
        elif e["cat"] == "user_annotation":
            events.append(dict(e, name=e["name"].replace("step ", "ProfilerStep#")))
        else:
            events.append(dict(e, cat="cpu_op"))
    info = dict(trace["distributedInfo"], rank=rank)
    return {"schemaVersion": 1, "distributedInfo": info, "deviceProperties": [], "traceEvents": sorted(events, key=lambda e: e["ts"])}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, folder = map(pathlib.Path, sys.argv[1:])
    try:
        trace = json.loads(source.read_text())
        ranks = trace["distributedInfo"]["world_size"]
        files = {folder / f"rank{rank}.json": of_rank(trace, rank) for rank in range(ranks)}
    except (OSError, ValueError, KeyError, TypeError) as fault:
        sys.exit(f"{source}: expected a trace of train_gpt, found {type(fault).__name__}: {fault}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("rank*.json"):
            old.unlink()
        for path, content in files.items():
            path.write_text(json.dumps(content, indent=0))  # HTA looks for `"rank": N` line by line
    except OSError as fault:
        sys.exit(f"{folder}: cannot be written: {fault}")


if __name__ == "__main__":
    main()
