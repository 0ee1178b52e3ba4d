#!/usr/bin/env python3
"""Writes the reference cases of this folder: small models trained for a few steps by PyTorch in float64 (python3-torch).

  make_golden.py              writes all cases and prints how far PyTorch's own float32 run is from them

A case is a folder:
  flags.json          flags of train_gpt with their values; the test adds --data, --init, --precision, --strategy, --micro-batch, --metrics, --export
  data.bin            llm.c token shard, uint16
  init.safetensors    initial weights, fp32, Hugging Face names and orientation
  expected.json       per step: loss, gradient norm before clipping, valid tokens, learning rate; elements without a true gradient
  final.safetensors   weights after the last step, rounded from float64 to fp32
tied_tiny has batch.json (tokens and labels) instead of data.bin and flags.json: its labels are not its tokens shifted by one.

Legend: B sequences, T tokens, C channels, H heads, K key/value heads, D head size, F feed-forward, V vocabulary.
"""
import json
import math
import pathlib
import random
import struct

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
IGNORED = -100


# ---------------------------------------------------------------------------------------------------- models
# Parameters are a dict by Hugging Face name. gpt2 linear weights lie [in, out], llama ones [out, in].

def gpt2_shapes(m):
    C, F_ = m["dim"], m["ffn"]
    shapes = {"transformer.wte.weight": (m["vocab"], C), "transformer.wpe.weight": (m["seq"], C)}
    for layer in range(m["layers"]):
        h = f"transformer.h.{layer}."
        shapes |= {h + "ln_1.weight": (C,), h + "ln_1.bias": (C,),
                   h + "attn.c_attn.weight": (C, 3 * C), h + "attn.c_attn.bias": (3 * C,),
                   h + "attn.c_proj.weight": (C, C), h + "attn.c_proj.bias": (C,),
                   h + "ln_2.weight": (C,), h + "ln_2.bias": (C,),
                   h + "mlp.c_fc.weight": (C, F_), h + "mlp.c_fc.bias": (F_,),
                   h + "mlp.c_proj.weight": (F_, C), h + "mlp.c_proj.bias": (C,)}
    return shapes | {"transformer.ln_f.weight": (C,), "transformer.ln_f.bias": (C,)}


def llama_shapes(m):
    C, F_, D = m["dim"], m["ffn"], m["dim"] // m["heads"]
    shapes = {"model.embed_tokens.weight": (m["vocab"], C)}
    for layer in range(m["layers"]):
        h = f"model.layers.{layer}."
        shapes |= {h + "input_layernorm.weight": (C,),
                   h + "self_attn.q_proj.weight": (m["heads"] * D, C),
                   h + "self_attn.k_proj.weight": (m["kv-heads"] * D, C),
                   h + "self_attn.v_proj.weight": (m["kv-heads"] * D, C),
                   h + "self_attn.o_proj.weight": (C, m["heads"] * D),
                   h + "post_attention_layernorm.weight": (C,),
                   h + "mlp.gate_proj.weight": (F_, C), h + "mlp.up_proj.weight": (F_, C),
                   h + "mlp.down_proj.weight": (C, F_)}
    return shapes | {"model.norm.weight": (C,), "lm_head.weight": (m["vocab"], C)}


def attention(q, k, v):
    """Causal softmax attention; q (B,H,T,D), k and v (B,K,T,D). Query head h reads key/value head h // (H / K)."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)      # (B,H,T,D)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])                  # (B,H,T,T)
    future = torch.triu(torch.ones(scores.shape[-2:], dtype=torch.bool), 1)
    return scores.masked_fill(future, -math.inf).softmax(-1) @ v               # (B,H,T,D)


def split_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)                        # (B,H,T,D)


def join_heads(x):
    return x.transpose(1, 2).flatten(2)                                        # (B,T,C)


def gpt2_logits(p, m, tokens):
    norm = lambda x, n: F.layer_norm(x, (m["dim"],), p[n + ".weight"], p[n + ".bias"], 1e-5)
    linear = lambda x, n: x @ p[n + ".weight"] + p[n + ".bias"]
    gelu = lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][: tokens.shape[1]]  # (B,T,C)
    for layer in range(m["layers"]):
        h = f"transformer.h.{layer}."
        q, k, v = (split_heads(z, m["heads"]) for z in linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(m["dim"], -1))
        x = x + linear(join_heads(attention(q, k, v)), h + "attn.c_proj")
        x = x + linear(gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ p["transformer.wte.weight"].t()       # (B,T,V)


def rotate(x):
    """Rotary positions, half rotation, theta 10000; x (B,H,T,D)."""
    T, D = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    angles = torch.outer(torch.arange(T, dtype=x.dtype), frequencies)          # (T,D/2)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    half = torch.cat([-x[..., D // 2:], x[..., : D // 2]], -1)
    return x * cos + half * sin


def llama_logits(p, m, tokens):
    norm = lambda x, n: p[n + ".weight"] * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5))
    linear = lambda x, n: x @ p[n + ".weight"].t()
    x = p["model.embed_tokens.weight"][tokens]                                 # (B,T,C)
    for layer in range(m["layers"]):
        h = f"model.layers.{layer}."
        y = norm(x, h + "input_layernorm")
        q = rotate(split_heads(linear(y, h + "self_attn.q_proj"), m["heads"]))
        k = rotate(split_heads(linear(y, h + "self_attn.k_proj"), m["kv-heads"]))
        v = split_heads(linear(y, h + "self_attn.v_proj"), m["kv-heads"])
        x = x + linear(join_heads(attention(q, k, v)), h + "self_attn.o_proj")
        y = norm(x, h + "post_attention_layernorm")
        x = x + linear(F.silu(linear(y, h + "mlp.gate_proj")) * linear(y, h + "mlp.up_proj"), h + "mlp.down_proj")
    return linear(norm(x, "model.norm"), "lm_head")                            # (B,T,V)


MODELS = {"gpt2": (gpt2_shapes, gpt2_logits), "llama": (llama_shapes, llama_logits)}


# ---------------------------------------------------------------------------------------------------- training

def multiplier(o, version):
    """The learning rate's course, as a function of the version."""
    warmup, total, least = o.get("warmup", 0), o["steps"], o.get("min-lr-ratio", 0.0)
    if version < warmup:
        return (version + 1) / warmup
    if o.get("schedule", "constant") == "constant":
        return 1.0
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * (version - warmup) / (total - warmup)))  # cosine


def optimizer(o, parameters):
    decay = o["weight-decay"]
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    if o["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=o["lr"], momentum=o["momentum"])
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[o["optimizer"]]
    return kind(groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])


def train(model, options, initial, batch_of_step, dtype):
    """Trains from fp32 weights in `dtype`. batch_of_step(s) gives tokens and labels (G,T)."""
    logits = MODELS[model["arch"]][1]
    p = {name: value.to(dtype, copy=True).contiguous().requires_grad_() for name, value in initial.items()}
    steps = optimizer(options, list(p.values()))
    record = {"loss": [], "grad_norm": [], "valid_tokens": [], "learning_rate": []}
    loss_of = lambda x, y: F.cross_entropy(logits(p, model, x).flatten(0, 1), y.flatten(), ignore_index=IGNORED, reduction="sum")
    for step in range(options["steps"]):
        x, y = batch_of_step(step)
        valid = int((y != IGNORED).sum())
        rate = options["lr"] * multiplier(options, step)
        steps.zero_grad()
        loss = loss_of(x, y) / valid
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), options["clip"] or math.inf)
        for group in steps.param_groups:
            group["lr"] = rate
        steps.step()
        for key, value in zip(record, (loss.item(), norm.item(), valid, rate)):
            record[key].append(value)
    with torch.no_grad():
        x, y = batch_of_step(options["steps"])
        record["next_loss"] = (loss_of(x, y) / int((y != IGNORED).sum())).item()
    return record, {name: value.detach() for name, value in p.items()}


# ---------------------------------------------------------------------------------------------------- files

def write_safetensors(path, tensors):
    """All fp32. 8 bytes of header length, JSON header padded to 8 bytes, data without gaps in the order of names."""
    header, begin = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        end = begin + 4 * tensors[name].numel()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            values = tensors[name].float().flatten().tolist()
            file.write(struct.pack(f"<{len(values)}f", *values))


def write_shard(path, tokens):
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253))
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))


def write_json(path, value):
    """One key a line."""
    lines = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(item)}" for key, item in value.items())
    path.write_text("{\n  " + lines + "\n}\n")


# ---------------------------------------------------------------------------------------------------- cases

def initial_weights(model, seed):
    """Large enough that every path of the model carries a gradient worth comparing."""
    draw = random.Random(seed)
    weights = {}
    for name, shape in MODELS[model["arch"]][0](model).items():
        normal = torch.tensor([draw.gauss(0, 1) for _ in range(math.prod(shape))], dtype=torch.float32).reshape(shape)
        is_norm = "ln_" in name or "norm" in name
        weights[name] = 0.12 * normal if len(shape) == 2 else 1 + 0.1 * normal if is_norm and name.endswith("weight") else 0.05 * normal
    return weights


def token_stream(model, options, windows, seed):
    """Tokens that a model can learn something from. With an ignore label, windows of very different numbers of valid labels."""
    draw, V, T = random.Random(seed), model["vocab"], model["seq"]
    tokens = [1]
    while len(tokens) < windows * T + 1:
        tokens.append((5 * tokens[-1] + 3) % V if draw.random() < 0.6 else draw.randrange(V))
    if "ignore-label" in options:
        for window in range(windows):
            share = (0.0, 0.1, 1.0, 1.0, 1.0, 0.9, 0.5, 0.3)[window % 8]  # of labels to ignore
            for t in range(T):
                if draw.random() < share:
                    tokens[window * T + t + 1] = options["ignore-label"]
    return tokens


def without_gradient(model):
    """A bias of keys shifts all scores of a query alike, so its true gradient is zero and Adam steps along rounding noise."""
    if model["arch"] != "gpt2":
        return []
    C = model["dim"]
    return [{"tensor": f"transformer.h.{layer}.attn.c_attn.bias", "begin": C, "end": 2 * C} for layer in range(model["layers"])]


def compare(reference, weights, own, own_weights, model, rate):
    """How far PyTorch's float32 run is from its float64 run."""
    relative = lambda key: max(abs(a - b) / abs(a) for a, b in zip(reference[key], own[key]))
    aside = {r["tensor"]: (r["begin"], r["end"]) for r in without_gradient(model)}
    beyond, most, count = 0, 0.0, 0
    for name, value in weights.items():
        error = (own_weights[name].double() - value).abs().flatten()
        bound = 2e-5 * (1 + value.abs().flatten())
        if name in aside:
            begin, end = aside[name]
            error[begin:end] = 0
        beyond += int((error > bound).sum())
        most = max(most, error.max().item())
        count += error.numel()
    return {"loss": relative("loss"), "grad_norm": relative("grad_norm"), "weights_beyond": beyond, "weights": count,
            "largest_weight_error": most, "largest_over_learning_rate": most / rate}


def run_case(name, model, options, initial, batch_of_step):
    reference, weights = train(model, options, initial, batch_of_step, torch.float64)
    own, own_weights = train(model, options, initial, batch_of_step, torch.float32)
    rates = max(reference["learning_rate"])
    reference["without_gradient"] = without_gradient(model)
    reference["pytorch_fp32"] = compare(reference, weights, own, own_weights, model, rates)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "init.safetensors", initial)
    write_safetensors(folder / "final.safetensors", weights)
    write_json(folder / "expected.json", reference)
    return reference


def cli_case(name, seed, model, options, windows):
    tokens = token_stream(model, options, windows, seed)
    T, G = model["seq"], options["global-batch"]

    def batch_of_step(step):
        rows = [(step * G + i) % windows * T for i in range(G)]
        x = torch.tensor([tokens[r: r + T] for r in rows])
        y = torch.tensor([tokens[r + 1: r + T + 1] for r in rows])
        return x, y.masked_fill(y == options.get("ignore-label", -1), IGNORED)

    reference = run_case(name, model, options, initial_weights(model, seed), batch_of_step)
    write_shard(HERE / name / "data.bin", tokens)
    flags = {**model, **options, "order": "sequential", "val-fraction": 0}
    write_json(HERE / name / "flags.json", {f"--{key}": str(value) for key, value in flags.items()})
    return reference


def tied_tiny():
    """The case of formulas: weights by sine, tokens and labels by arithmetic, one row without a valid label."""
    V, C, T, B = 17, 8, 6, 4
    model = {"arch": "gpt2", "layers": 2, "heads": 2, "kv-heads": 2, "dim": C, "ffn": 32, "vocab": V, "seq": T}
    options = {"global-batch": B, "steps": 4, "optimizer": "adamw", "lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8,
               "weight-decay": 0.1, "clip": 1.0}
    linear = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    initial = {}
    for k, (name, shape) in enumerate(gpt2_shapes(model).items()):
        is_norm = "ln_" in name and name.endswith("weight")
        transposed = name.endswith(linear)  # the formula counts elements of [out, in]
        wave = torch.sin(0.37 * torch.arange(math.prod(shape), dtype=torch.float64) + 1.1 * k + 0.5)
        wave = 0.2 * wave if len(shape) == 2 else 1 + 0.1 * wave if is_norm else 0.05 * wave
        initial[name] = wave.reshape(shape[::-1]).t() if transposed else wave.reshape(shape)
    token = lambda b, t: (7 * b + 3 * t + b * t) % V
    tokens = [[token(b, t) for t in range(T)] for b in range(B)]
    valid = lambda b, t: not ((b == 1 and t < 4) or b == 3 or (b == 2 and t == 0))
    labels = [[token(b, t + 1) if valid(b, t) else IGNORED for t in range(T)] for b in range(B)]
    reference = run_case("tied_tiny", model, options, initial, lambda step: (torch.tensor(tokens), torch.tensor(labels)))
    write_json(HERE / "tied_tiny" / "batch.json", {"model": model, "options": options, "tokens": tokens, "labels": labels})
    return reference


def sizes(arch, layers, heads, kv_heads, dim, ffn, vocab, seq):
    return {"arch": arch, "layers": layers, "heads": heads, "kv-heads": kv_heads, "dim": dim, "ffn": ffn, "vocab": vocab, "seq": seq}


ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
RUN = {"global-batch": 48, "steps": 6}  # 48 divides into 1, 2, 3, 4 ranks x 1, 2, 4 micro-steps


def main():
    torch.set_num_threads(1)
    cases = {
        "gpt2_odd_adamw": cli_case("gpt2_odd_adamw", 1, sizes("gpt2", 2, 3, 3, 60, 240, 101, 37),
                                   {**RUN, "optimizer": "adamw", **ADAM, "weight-decay": 0.1, "clip": 0.8}, 150),
        "gpt2_mask_adamw": cli_case("gpt2_mask_adamw", 2, sizes("gpt2", 2, 4, 4, 24, 96, 53, 16),
                                    {**RUN, "ignore-label": 0, "optimizer": "adamw", **ADAM, "lr": 3e-3, "weight-decay": 0.1, "clip": 0.5,
                                     "schedule": "cosine", "warmup": 2, "min-lr-ratio": 0.1}, 301),
        "gpt2_sgd": cli_case("gpt2_sgd", 3, sizes("gpt2", 2, 2, 2, 36, 100, 61, 19),
                             {**RUN, "optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "weight-decay": 0.1, "clip": 0.7}, 288),
        "gpt2_adam": cli_case("gpt2_adam", 4, sizes("gpt2", 1, 1, 1, 28, 112, 101, 23),
                              {**RUN, "optimizer": "adam", **ADAM, "weight-decay": 0.1, "clip": 0}, 200),
        "llama_gqa_adamw": cli_case("llama_gqa_adamw", 5, sizes("llama", 2, 6, 2, 48, 80, 101, 37),
                                    {**RUN, "optimizer": "adamw", **ADAM, "weight-decay": 0.1, "clip": 0.5,
                                     "schedule": "cosine", "warmup": 3, "min-lr-ratio": 0.1}, 150),
        "llama_odd_sgd": cli_case("llama_odd_sgd", 6, sizes("llama", 2, 3, 1, 42, 77, 67, 21),
                                  {**RUN, "optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "weight-decay": 0.1, "clip": 0.5}, 288),
        "llama_mask_adam": cli_case("llama_mask_adam", 7, sizes("llama", 2, 4, 4, 40, 60, 59, 17),
                                    {**RUN, "ignore-label": 7, "optimizer": "adam", **ADAM, "weight-decay": 0.1, "clip": 0.5}, 301),
        "tied_tiny": tied_tiny(),
    }
    print(f"{'case':16} {'weights':>8} {'valid':>6}   {'loss':>17} {'norm':>15}   fp32 of PyTorch: loss, norm (relative), weights beyond, largest / lr")
    for name, r in cases.items():
        own = r["pytorch_fp32"]
        print(f"{name:16} {own['weights']:8} {r['valid_tokens'][0]:6}   {r['loss'][0]:8.5f} {r['loss'][-1]:8.5f} {min(r['grad_norm']):7.3f} "
              f"{max(r['grad_norm']):7.3f}   {own['loss']:.1e} {own['grad_norm']:.1e} {own['weights_beyond']:4} {own['largest_over_learning_rate']:.1e}")


if __name__ == "__main__":
    main()
