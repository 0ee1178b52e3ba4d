#!/usr/bin/env python3
"""Training steps of GPT-2 by PyTorch's plain modules, forward, backward and AdamW, for comparison with bench_step.

Usage: pytorch.py OUT.json [NAME...]      names: shakespeare-cpu shakespeare gpt2-124m (default: all)
Times bf16 autocast and fp32 on all cores, random tokens and weights; medians. Each case is a process of its own, whose largest resident
set is its peak. Writes Google Benchmark's JSON form: name "pytorch/step/gpt2-124m/B:4/T:1024/bf16", real_time in ms, tokens_per_s,
peak_bytes.
"""
import json
import resource
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

# name: layers, heads, dim, vocabulary, batch, tokens, steps that are timed
CASES = {
    "shakespeare-cpu": (4, 4, 128, 256, 12, 64, 30),
    "shakespeare": (6, 6, 384, 256, 64, 256, 3),
    "gpt2-124m": (12, 12, 768, 50257, 4, 1024, 2),
}


class Block(nn.Module):
    """Pre-norm block: causal attention and a GELU feed-forward layer of four times the width, both residual."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, future):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=2))
        scores = (q @ k.transpose(2, 3)) / (c // self.heads) ** 0.5
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=3)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, heads, dim, vocabulary, tokens):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, dim), nn.Embedding(tokens, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("future", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))

    def forward(self, ids):
        x = self.token(ids) + self.position.weight
        for block in self.blocks:
            x = block(x, self.future)
        return self.norm(x) @ self.token.weight.T


def seconds_per_step(case, bf16):
    layers, heads, dim, vocabulary, batch, tokens, steps = case
    torch.manual_seed(1)
    model = Gpt2(layers, heads, dim, vocabulary, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    ids = torch.randint(vocabulary, (batch, tokens + 1))
    times = []
    for _ in range(steps + 1):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().reshape(-1, vocabulary), ids[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def run_case(name, precision):
    """In the process of the case: prints its result."""
    case = CASES[name]
    seconds = seconds_per_step(case, precision == "bf16")
    print(json.dumps({
        "name": f"pytorch/step/{name}/B:{case[4]}/T:{case[5]}/{precision}",
        "real_time": 1e3 * seconds,
        "time_unit": "ms",
        "tokens_per_s": case[4] * case[5] / seconds,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }))


def main():
    if sys.argv[1:2] == ["--case"]:
        return run_case(*sys.argv[2:])
    if len(sys.argv) < 2 or any(name not in CASES for name in sys.argv[2:]):
        sys.exit(__doc__)
    results, failed = [], False
    for name in sys.argv[2:] or CASES:
        for precision in ("bf16", "fp32"):
            child = subprocess.run([sys.executable, __file__, "--case", name, precision], stdout=subprocess.PIPE, text=True)
            if child.returncode != 0:
                print(f"pytorch.py: {name} {precision} failed with {child.returncode}", file=sys.stderr)
                failed = True
                continue
            result = json.loads(child.stdout)
            results.append(result)
            print(f"{result['name']}  {result['real_time']:.1f} ms  {result['tokens_per_s']:.0f} tokens/s"
                  f"  {result['peak_bytes'] / 1e6:.0f} MB", flush=True)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"context": {"torch": torch.__version__, "threads": torch.get_num_threads()}, "benchmarks": results}, out)
    return failed


if __name__ == "__main__":
    sys.exit(main())
