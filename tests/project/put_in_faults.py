#!/usr/bin/env python3
"""Puts the fault of each row of the table of right values into a copy of the headers, and looks whether the case of that row fails.

    tests/project/put_in_faults.py             all rows, some twenty minutes
    tests/project/put_in_faults.py 4 19        these rows
    tests/project/put_in_faults.py --check     only whether each fault finds its place

Needs build/release to be configured, for the flags. A fault is a line of a header and what stands there instead; each must be found
exactly as written, so that this list stays true. Exit code 1 where a case does not notice its fault, or does not pass without one.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BF16 = '#include "lockstep/precision/bfloat16.hpp"\n'

# row, header, what stands there, the fault, test, ranks
FAULTS = [
    (1, "train/trainer.hpp", "passes_.backward(batch, m, x, loss_factor());",
     "passes_.backward(batch, m, x, loss_factor() * static_cast<typename StepPasses::Factor>(totals_.valid_tokens()) / static_cast<typename StepPasses::Factor>(data::valid_tokens(batch.labels.subspan(m * (batch.labels.size() / passes_.micro_steps(batch)), batch.labels.size() / passes_.micro_steps(batch)))));",
     "train/verdict", 2),
    (2, "train/step_totals.hpp", "loss.value() / static_cast<double>(valid_tokens())", "loss.value() / static_cast<double>(tokens())", "train/verdict", 2),
    (3, "train/step_totals.hpp", "valid_tokens() == 0 ? 0.0 : loss", "valid_tokens() == 0 ? NAN : loss", "train/verdict", 2),
    (4, "optim/moments.hpp", "multiply_add(std::sqrt(square), unbias2_, least_)", "std::sqrt(square * unbias2_ * unbias2_ + least_)", "optim/adamw", 0),
    (5, "optim/adamw.hpp", "T const decayed  = keep * slice.values[i];\n            slice.values[i]  = moments.step(decayed, gradient, means[i], squares[i]);",
     "slice.values[i] = keep * moments.step(slice.values[i], gradient, means[i], squares[i]);", "optim/adamw", 0),
    (6, "optim/loss_scale.hpp", "{state_.scale * options_.backoff, 0}", "{state_.scale * options_.backoff, state_.clean_steps}", "optim/loss_scale", 0),
    (7, "optim/clipping.hpp", "clip_coefficient(result.norm, max_norm)", "clip_coefficient(raw_norm, max_norm)", "optim/clipping", 0),
    (8, "train/masters.hpp", "intersect(parameter.range(), owned_[u].counted)", "intersect(parameter.range(), owned_[u].range)", "train/verdict", 2),
    (9, "optim/clipping.hpp", "if (!std::isfinite(norm)) return std::nullopt;", "if (std::isnan(norm)) return 1.0;", "optim/clipping", 0),
    (10, "train/passes.hpp", "[&](Pass& pass) { model_.embed_backward(pass, dx, saved_); });\n",
     "[&](Pass& pass) { model_.embed_backward(pass, dx, saved_); });\n        for (Master& g : strategy_.gradients(root)) g = static_cast<Master>(static_cast<Compute>(g));\n",
     "train/verdict", 2),
    (11, "comm/ordered_sum.hpp", "pair[i] = static_cast<T>(even[i]) + static_cast<T>(odd[i]);",
     "pair[i] = static_cast<T>(precision::bfloat16(static_cast<float>(even[i]) + static_cast<float>(odd[i])));", "comm/ordered_reduction", 4),
    (12, "comm/ordered_sum.hpp", "for (int subtree = rank / 2; subtree % 2 == 1; subtree /= 2, --top)",
     "for (std::size_t i = 0; i < size && rank + 1 < ranks; ++i) pair[i] = static_cast<T>(odd_first(even, leaf(rank + 1) + begin)[i]);\n            for (int subtree = rank / 2; subtree % 2 == 1; subtree /= 2, --top)",
     "comm/ordered_sum", 0),
    (13, "precision/bfloat16.hpp", "(random & 0xFFFFu)", "(random & 0x7FFFu)", "precision/bfloat16", 0),
    (14, "precision/bfloat16.hpp", "if ((u & 0x7FFFFFFFu) > 0x7F800000u)", "if (u == 0)", "precision/bfloat16", 0),
    (15, "kernel/embedding.hpp", "detail::add_to_rows(tag, dy, dtable, begin, end, [&](std::size_t n) { return static_cast<std::size_t>(tokens[n]); });", "", "nn/embedding_and_head", 0),
    (16, "state/shard.hpp", "std::size_t const  chunk = (whole.size() + ranks - 1) / ranks;\n    std::vector<Range> result(ranks);\n    std::size_t        begin", "std::size_t const  chunk = whole.size() / ranks;\n    std::vector<Range> result(ranks);\n    std::size_t        begin", "state/shard", 0),
    (17, "train/trainer.hpp", "version_ += result.applied;", "++version_;", "train/verdict", 2),
    (18, "optim/sgd.hpp", "T const moved = multiply_add(keep, buffer[i], take * gradient);", "T const moved = multiply_add(keep, buffer[i], take * rate * gradient);", "optim/sgd", 0),
    (19, "optim/groups.hpp", "parameter.dimensions >= 2", "parameter.dimensions >= 1", "optim/groups", 0),
    (20, "kernel/arch/scalar_cross_entropy.hpp", "    A sum = 0;\n", "    largest = 0;\n    A sum = 0;\n", "kernel/cross_entropy", 0),
    (21, "kernel/cross_entropy.hpp", "row = arch::cross_entropy_row(tag, logits.row(n).data(), vocab,", "row = arch::cross_entropy_row(tag, logits.row(n).data(), logits.extent(1),", "kernel/cross_entropy", 0),
    (22, "optim/schedule.hpp", "(v - start) / (end - start)", "v / end", "optim/schedule", 0),
    (23, "kernel/arch/scalar_normalize.hpp", "square / count + static_cast<A>(eps)", "square / (count - 1) + static_cast<A>(eps)", "kernel/normalize", 0),
    (23, "kernel/arch/scalar_activation.hpp", "0.044715;", "0.044;", "kernel/activation", 0),
    (24, "train/masters.hpp", "            write_weights(piece);\n            std::fill_n", "            write_weights(piece);\n            for (std::size_t j = 0; j < n; ++j) piece.values[j] = static_cast<Master>(static_cast<Compute>(piece.values[j]));\n            std::fill_n", "train/verdict", 2),
    (25, "optim/moments.hpp", "least_(static_cast<T>(epsilon))", "least_(0 * static_cast<T>(epsilon))", "optim/adam", 0),
    (26, "train/trainer.hpp", "agree(strategy_, checksum, \"checksum of the parameters\", strategy_.shards());", "static_cast<void>(checksum);", "train/agreement", 2),
    (27, "comm/communicator.hpp", "in_place ? MPI_IN_PLACE : from.data()", "in_place && chunk.empty() ? MPI_IN_PLACE : from.data()", "comm/collectives", 2),
    (28, "train/trainer.hpp", "loss_scale_.update(result.applied);", "loss_scale_.update(result.applied || rank() != 0);", "train/verdict", 2),
    (29, "kernel/rotary.hpp", "cosine[t * half + j] = static_cast<A>(c);",
     "cosine[t * half + j] = static_cast<A>(std::cos(static_cast<double>(static_cast<T>(static_cast<A>(begin + t))) * rate[j]));", "kernel/rotary", 0),
    (30, "nn/recompute.hpp", "body.forward(pass, saved.x, again);", "++pass.version;\n        body.forward(pass, saved.x, again);\n        --pass.version;", "nn/blocks", 0),
]

# What a fault needs besides: includes, a function.
BESIDES = {
    11: BF16,
    12: "namespace lockstep::comm {\ntemplate <class E, class O>\nO const* odd_first(E const*, O const* odd) { return odd; }\n}\n",
}
MORE_SOURCES = {"train/verdict": ["train/run_scripted.cpp"], "train/agreement": ["train/run_scripted.cpp", "train/run_gpt2_fp32.cpp", "train/run_gpt2_fp64.cpp", "train/run_llama_bf16.cpp"]}


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


class Bench:
    """A folder in which tests are compiled against some copy of the headers."""

    def __init__(self, folder):
        self.folder = folder
        build = ROOT / "build/release"
        flags = (build / "compile_flags.txt").read_text().split("\n")
        own = f"-I{ROOT}/include"
        self.flags = [f for f in flags if f and f != own and not f.startswith("-O")] + ["-O1", "-Wno-error", "-w"]
        cache = dict(line.split("=", 1) for line in (build / "CMakeCache.txt").read_text().split("\n") if "=" in line)
        self.compiler = next(v for k, v in cache.items() if k.startswith("CMAKE_CXX_COMPILER:"))
        self.mpiexec = next(v for k, v in cache.items() if k.startswith("MPIEXEC_EXECUTABLE:"))
        self.mains = {}
        self.programs = {}

    def compiled(self, source, include, *definitions):
        out = self.folder / (source.name + ".o")
        done = run([self.compiler, *self.flags, f"-I{include}", *definitions, "-DLOCKSTEP_SCALAR_KERNELS=1", "-c", source, "-o", out])
        if done.returncode != 0:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr[:3000]}")
        return out

    def main(self, ranks):
        kind = ["-DLOCKSTEP_TEST_WITH_MPI"] if ranks else []
        name = "mpi_main.o" if ranks else "main.o"
        if name not in self.mains:
            self.mains[name] = self.compiled(ROOT / "tests/main.cpp", ROOT / "include", *kind).rename(self.folder / name)
        return self.mains[name]

    def program(self, test, ranks, include, name):
        sources = [ROOT / f"tests/{test}_test.cpp"] + [ROOT / "tests" / s for s in MORE_SOURCES.get(test, [])]
        objects = [self.compiled(s, include) for s in sources] + [self.main(ranks)]
        program = self.folder / name
        linked = run([self.compiler, *objects, "-o", program, "-ltbb", "-lmpichcxx", "-lmpich"])
        if linked.returncode != 0:
            raise RuntimeError(f"{test} does not link:\n{linked.stderr[:3000]}")
        return program

    def passes(self, program, test, ranks, row):
        launch = [self.mpiexec, "-n", ranks] if ranks else []
        ended = run([*launch, program, f"--test-case=*TRAPS {row}:*"], timeout=300)
        if re.search(r"test cases: +0 ", ended.stdout):
            raise RuntimeError(f"{test} has no case of row {row}")
        return ended.returncode == 0

    def sound(self, test, ranks):
        """The program without a fault."""
        if test not in self.programs:
            self.programs[test] = self.program(test, ranks, ROOT / "include", test.replace("/", "."))
        return self.programs[test]


def faulty(header, row, right, fault):
    text = (ROOT / "include/lockstep" / header).read_text()
    if text.count(right) != 1:
        raise RuntimeError(f"row {row}: {header} holds {text.count(right)} times: {right}")
    head, body = text.replace(right, fault).split("#pragma once\n", 1)
    return head + "#pragma once\n" + BESIDES.get(row, "") + body


def main():
    if sys.argv[1:] == ["--check"]:
        for row, header, right, fault, _, _ in FAULTS:
            faulty(header, row, right, fault)
        print(f"{len(FAULTS)} faults of {len({f[0] for f in FAULTS})} rows find their place")
        return 0
    wanted = {int(word) for word in sys.argv[1:]}
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder))
        for row, header, right, fault, test, ranks in FAULTS:
            if wanted and row not in wanted:
                continue
            include = bench.folder / "include"
            shutil.rmtree(include, ignore_errors=True)
            shutil.copytree(ROOT / "include", include)
            if not bench.passes(bench.sound(test, ranks), test, ranks, row):
                print(f"row {row:2}: {test} FAILS WITHOUT A FAULT", flush=True)
                unnoticed += 1
                continue
            (include / "lockstep" / header).write_text(faulty(header, row, right, fault))
            noticed = not bench.passes(bench.program(test, ranks, include, "faulty"), test, ranks, row)
            unnoticed += not noticed
            print(f"row {row:2}: {header}: {'noticed by ' + test if noticed else 'NOT NOTICED by ' + test}", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
