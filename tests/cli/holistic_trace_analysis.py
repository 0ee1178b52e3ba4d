#!/usr/bin/env python3
"""Holistic Trace Analysis reads what examples/trace_to_hta.py makes of a trace of two ranks, and finds compute, communication and overlap.

usage: holistic_trace_analysis.py MPIEXEC TRAIN_GPT CONVERTER DATA FOLDER. Exit code 77: HTA is not installed (pip install HolisticTraceAnalysis).
"""

import json
import pathlib
import shutil
import subprocess
import sys

try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def check(holds, what):
    if not holds:
        sys.exit(f"failed: {what}")


def main():
    mpiexec, train_gpt, converter, data, folder = sys.argv[1:]
    place = pathlib.Path(folder)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    trace = place / "trace.json"
    flags = ["--data", data, "--steps", "6", "--sample", "0", "--strategy", "sharded", "--trace", str(trace)]
    subprocess.run([mpiexec, "-n", "2", train_gpt, *flags], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, converter, str(trace), str(place / "hta")], check=True)

    analysis = TraceAnalysis(trace_dir=str(place / "hta"), include_last_profiler_step=True)
    times = analysis.get_temporal_breakdown(visualize=False)
    check(sorted(times["rank"]) == [0, 1], "a row for each rank")
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    for rank in (0, 1):
        check(0 <= float(overlap[overlap["rank"] == rank]["comp_comm_overlap_pctg"].iloc[0]) <= 100, "communication is recognised")
    # HTA counts what lies inside of its iterations.
    ours = sum(e["dur"] for e in json.loads((place / "hta/rank0.json").read_text())["traceEvents"] if e.get("tid") == 7)
    theirs = float(times[times["rank"] == 0]["compute_time(us)"].iloc[0])
    check(0.75 * ours < theirs <= ours, f"compute: expected at most {ours} us and most of it, found {theirs}")
    print(times.to_string())
    print(overlap.to_string())


if __name__ == "__main__":
    main()
