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
    trace = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(trace["distributedInfo"]["world_size"]):
        # HTA looks for `"rank": N` line by line.
        (folder / f"rank{rank}.json").write_text(json.dumps(of_rank(trace, rank), indent=0))


if __name__ == "__main__":
    main()
