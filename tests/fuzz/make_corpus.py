#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small inputs that are right, and some that are wrong in one place each.

    tests/fuzz/make_corpus.py           into tests/fuzz/corpus, one folder a target
    tests/fuzz/make_corpus.py --check   only whether each is there as this script would write it

What a fuzzer found is beside them, and left alone: found_* reach what the seeds do not, finding_* did what they must not.
"""

import json
import pathlib
import struct
import sys

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
MASK = (1 << 64) - 1


def mix64(index, bits):
    """kernel/mixed_sum.hpp"""
    z = bits + (index + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def text(value):
    return json.dumps(value, separators=(",", ":")).encode()


def safetensors(header, data=b""):
    body = header if isinstance(header, bytes) else text(header)
    return struct.pack("<Q", len(body)) + body + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def model(tensors):
    """A file of F32 tensors (name, shape), in the order given."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        size = 4
        for extent in shape:
            size *= extent
        header[name] = entry("F32", shape, end, end + size)
        end += size
    return safetensors(header, bytes(i * 37 % 61 for i in range(end)))


def gpt2(prefix="transformer."):
    block = [("ln_1.weight", [2]), ("ln_1.bias", [2]), ("attn.c_attn.weight", [2, 6]), ("attn.c_attn.bias", [6]),
             ("attn.c_proj.weight", [2, 2]), ("attn.c_proj.bias", [2]), ("ln_2.weight", [2]), ("ln_2.bias", [2]),
             ("mlp.c_fc.weight", [2, 3]), ("mlp.c_fc.bias", [3]), ("mlp.c_proj.weight", [3, 2]), ("mlp.c_proj.bias", [2])]
    root = [("wte.weight", [5, 2]), ("wpe.weight", [2, 2]), ("ln_f.weight", [2]), ("ln_f.bias", [2])]
    return [(prefix + n, s) for n, s in root] + [(prefix + "h.0." + n, s) for n, s in block]


def llama():
    block = [("input_layernorm.weight", [4]), ("post_attention_layernorm.weight", [4]), ("self_attn.q_proj.weight", [4, 4]),
             ("self_attn.k_proj.weight", [2, 4]), ("self_attn.v_proj.weight", [2, 4]), ("self_attn.o_proj.weight", [4, 4]),
             ("mlp.gate_proj.weight", [3, 4]), ("mlp.up_proj.weight", [3, 4]), ("mlp.down_proj.weight", [4, 3])]
    root = [("model.embed_tokens.weight", [5, 4]), ("model.norm.weight", [4]), ("lm_head.weight", [5, 4])]
    return root + [("model.layers.0." + n, s) for n, s in block]


GPT2_CONFIG = {"model_type": "gpt2", "vocab_size": 50, "n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_inner": 32,
               "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
LLAMA_CONFIG = {"model_type": "llama", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "hidden_act": "silu", "max_position_embeddings": 8,
                "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
                "tie_word_embeddings": False}


def with_keys(base, **changed):
    return text({**base, **changed})


SHARD = "state-00001-of-00001.safetensors"
SHARD_DATA = b"aaaabbbbcccc"


def checksum(data):
    """kernel/mixed_sum.hpp, of elements of 4 bytes from index 0."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return f"{sum(mix64(i, word) for i, word in enumerate(words)) & MASK:016x}"


def index(**changed):
    piece = lambda name, count, data: {"file": SHARD, "name": name, "range": [0, count], "checksums": [checksum(data)]}
    whole = {"format": "lockstep checkpoint", "format_version": 1, "written_by": "make_corpus.py", "run": "a run", "version": 1, "seed": 7,
             "loss_scale": {"scale": 1024.0, "clean_steps": 7}, "position": {"next_sample": 12, "skipped_in_a_row": 0, "evaluation_due": False},
             "configuration": [["--lr", "0.1"]], "checksum_elements": 1 << 20,
             "tensors": {"a": {"dtype": "F32", "shape": [1, 2], "pieces": [piece("a", 2, SHARD_DATA[:8])]},
                         "b": {"dtype": "F32", "shape": [1], "pieces": [piece("b", 1, SHARD_DATA[8:])]}}}
    for key, value in changed.items():
        at = whole
        *path, last = key.split("__")
        for part in path:
            at = at[int(part)] if part.isdigit() else at[part]
        if value is None and last in at:
            del at[last]
        else:
            at[last] = value
    return text(whole)


def llmc(magic, version, count, body, length=1024):
    return struct.pack("<3i", magic, version, count).ljust(length, b"\0") + body


def seeds():
    two = {"a": entry("F32", [2], 0, 8), "b": entry("BF16", [2, 1], 8, 12)}
    yield "safetensors", {
        "two": safetensors(two, b"x" * 12),
        "none": safetensors(b"{}"),
        "padded": safetensors(b"{}\r \t\n"),
        "scalar": safetensors({"s": entry("F64", [], 0, 8)}, b"x" * 8),
        "zero": safetensors({"z": entry("I32", [2, 0], 0, 0)}),
        "metadata": safetensors({"__metadata__": {"format": "pt", "k": "v"}, **two}, b"x" * 12),
        "types": safetensors({t: entry(t, [8 // w], 8 * i, 8 * i + 8) for i, (t, w) in enumerate(
            [("F64", 8), ("I64", 8), ("U64", 8), ("F32", 4), ("I32", 4), ("U32", 4), ("BF16", 2), ("F16", 2), ("U16", 2), ("I16", 2),
             ("U8", 1), ("I8", 1), ("BOOL", 1)])}, b"y" * 104),
        "supported": safetensors({t: entry(t, [8 // w], 8 * i, 8 * i + 8) for i, (t, w) in enumerate(
            [("F64", 8), ("F32", 4), ("I32", 4), ("BF16", 2), ("F16", 2), ("U8", 1)])}, b"y" * 48),
        "not_utf8": safetensors(b"\xff"),
        "too_large": struct.pack("<Q", 100_000_001) + b"{}",
        "too_long": struct.pack("<Q", 9) + b"{}",
        "huge": struct.pack("<Q", MASK) + b"{}",
        "duplicate": safetensors(b'{"a":' + text(two["a"]) + b',"a":' + text(two["a"]) + b"}", b"x" * 8),
        "hole": safetensors({"a": entry("F32", [1], 4, 8)}, b"x" * 8),
        "overlap": safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, b"x" * 12),
        "overflow": safetensors({"a": entry("I32", [2, 18446744073709551614], 0, 8)}, b"x" * 8),
        "product": safetensors({"a": entry("I32", [2, 9223372036854775807], 0, 8)}, b"x" * 8),
        "negative": safetensors({"a": entry("F32", [-2], 0, 8)}, b"x" * 8),
        "fraction": safetensors({"a": entry("F32", [2.0], 0, 8)}, b"x" * 8),
        "truncated": safetensors(two, b"x" * 11),
        "trailing": safetensors(two, b"x" * 13),
        "sub_byte": safetensors({"a": entry("F4", [3], 0, 2)}, b"x" * 2),
        "deep": safetensors(b'{"a":{"shape":' + b"[" * 100),
    }
    yield "json", {
        "all": text({"a": 1, "b": -1, "c": 1.5, "d": True, "e": None, "f": "x", "g": [], "h": {"i": 1e300}}),
        "large": b'{"a":18446744073709551616,"b":18446744073709551615}',
        "escapes": b'{"\\u0041\\ud83d\\ude00\\n":"\\u0000\\\\"}',
        "duplicate": b'{"a":1,"a":1}',
        "deep": b"[" * 70 + b"]" * 70,
        "mark": b"\xef\xbb\xbf{}",
        "nul": b"{}\0",
        "surrogate": b'{"a":"\\ud800"}',
        "comment": b"/* c */ {}",
        "infinite": b'{"a":1e999}',
    }
    yield "escape", {
        "text": "plain text, \u00e4\u20ac\U0001f600".encode(),
        "controls": bytes(range(32)) + b"\x7f",
        "broken": b"\xc0\x80\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xff\xc3",
        "turned": "\u202e\u2066\u2028\u200f\ufeff".encode(),
    }
    yield "hugging_face_config", {
        "gpt2": text(GPT2_CONFIG),
        "llama": text(LLAMA_CONFIG),
        "gpt2_short": text({k: GPT2_CONFIG[k] for k in ("model_type", "vocab_size", "n_embd", "n_layer", "n_head")} | {"n_ctx": 8}),
        "inner_null": with_keys(GPT2_CONFIG, n_inner=None),
        "scaled": with_keys(LLAMA_CONFIG, rope_scaling={"type": "linear", "factor": 2.0}),
        "partial": with_keys(LLAMA_CONFIG, rope_parameters={"rope_theta": 5e5, "partial_rotary_factor": 0.5}),
        "no_heads": with_keys(LLAMA_CONFIG, num_attention_heads=0),
        "huge": with_keys(GPT2_CONFIG, n_embd=MASK),
        "fraction": with_keys(GPT2_CONFIG, n_layer=1.0),
        "quantized": with_keys(LLAMA_CONFIG, quantization_config={}),
        "other": with_keys(GPT2_CONFIG, model_type="bert"),
        "epsilon": with_keys(GPT2_CONFIG, layer_norm_epsilon=0),
    }
    places = {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}
    yield "hugging_face_index", {
        "whole": text({"metadata": {"total_size": 6}, "weight_map": places}),
        "bare": text({"weight_map": {}}),
        "missing": text({"weight_map": {"a": "1.safetensors"}}),
        "stranger": text({"weight_map": {**places, "d": "1.safetensors"}}),
        "up": text({"weight_map": {"d": "../out.safetensors"}}),
        "link": text({"weight_map": {"d": "link"}}),
        "absolute": text({"weight_map": {"a": "/dev/zero"}}),
        "dot": text({"weight_map": {"a": ".", "b": ""}}),
        "self": text({"weight_map": {"a": "model.safetensors.index.json"}}),
        "broken": text({"weight_map": {"a": "broken"}}),
        "gone": text({"weight_map": {"a": "3.safetensors"}}),
        "number": text({"weight_map": {"a": 1}}),
        "key": text({"weight_map": places, "more": 1}),
        "nul": b'{"weight_map":{"a":"1.safetensors\\u0000"}}',
        "duplicate": b'{"weight_map":{"a":"1.safetensors","a":"2.safetensors"}}',
    }
    yield "hugging_face_weights", {
        "gpt2": b"\0" + model(gpt2()),
        "gpt2_bare": b"\0" + model(gpt2("")),
        "gpt2_tied": b"\0" + model([("wte.weight", [5, 2]), ("lm_head.weight", [5, 2])] + gpt2("")[1:]),
        "gpt2_buffers": b"\0" + model(gpt2() + [("transformer.h.0.attn.bias", [1, 1, 2, 2]), ("transformer.h.0.attn.masked_bias", [])]),
        "gpt2_twice": b"\0" + model(gpt2() + [("wte.weight", [5, 2])]),
        "llama": b"\1" + model(llama()),
        "llama_missing": b"\1" + model(llama()[:-1]),
        "llama_shape": b"\1" + model(llama()[:-1] + [("model.layers.0.mlp.down_proj.weight", [3, 4])]),
        "no_layer": b"\0" + model(gpt2()[:4]),
        "other": b"\1" + model(gpt2()),
    }
    yield "checkpoint_index", {
        "whole": index(),
        "unscaled": index(loss_scale=None),
        "null_scale": index().replace(b'{"scale":1024.0,"clean_steps":7}', b"null"),
        "pieces": index(tensors__a__pieces=[
            {"file": "x", "name": "a", "range": [1, 2], "checksums": ["0" * 16]},
            {"file": "y", "name": "a", "range": [0, 1], "checksums": ["f" * 16]}]),
        "hole": index(tensors__a__pieces__0__range=[1, 2]),
        "overlap": index(tensors__a__pieces=[{"file": "x", "name": "a", "range": [0, 2], "checksums": ["0" * 16]}] * 2),
        "huge_range": index(tensors__a__pieces__0__range=[0, MASK]),
        "huge_shape": index(tensors__a__shape=[MASK, MASK]),
        "no_elements": index(tensors__a__shape=[0], tensors__a__pieces=[]),
        "negative": index(version=-1),
        "beyond": index(version=1 << 32),
        "format": index(format="other"),
        "format_version": index(format_version=2),
        "unknown": index(more=1),
        "scale": index(loss_scale__scale=1e300),
        "sum": index(tensors__a__pieces__0__checksums=["0123"]),
        "dtype": index(tensors__a__dtype="F4"),
        "pair": index(configuration=[["a"]]),
    }
    shard = safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 8, 12)}, SHARD_DATA)
    yield "checkpoint", {
        "index": b"\0" + index(),
        "index_other_file": b"\0" + index(tensors__a__pieces__0__file="index.json"),
        "index_up": b"\0" + index(tensors__a__pieces__0__file="../latest"),
        "index_link": b"\0" + index(tensors__a__pieces__0__file="link"),
        "index_twice": b"\0" + index(tensors__a__pieces__0__name="b"),
        "index_shape": b"\0" + index(tensors__a__shape=[3]),
        "index_dtype": b"\0" + index(tensors__a__dtype="I32"),
        "index_fewer": b"\0" + index(tensors__b=None),
        "shard": b"\1" + shard,
        "shard_changed": b"\1" + shard[:-1] + b"d",
        "shard_cut": b"\1" + shard[:-1],
        "shard_empty": b"\1",
        "latest": b"\2step-0000000001\n",
        "latest_aside": b"\2step-0000000002\n",
        "latest_link": b"\2step-0000000003\n",
        "latest_up": b"\2../out\n",
        "latest_itself": b"\2.\n",
        "latest_empty": b"\2",
        "latest_file": b"\2latest",
        "latest_long": b"\2" + b"x" * 5000,
    }
    ids = struct.pack("<20H", *range(20))
    yield "tokens", {
        "gpt2": b"\6" + llmc(20240520, 1, 20, ids),
        "llama": b"\6" + llmc(20240801, 7, 10, ids),
        "beyond": b"\2" + llmc(20240520, 1, 20, ids),
        "narrow": b"\x0c" + llmc(20240520, 1, 20, ids),
        "negative_id": b"\x0e" + llmc(20240801, 7, 2, b"\xff" * 8),
        "text": b"\7She sells sea shells by the sea shore.",
        "text_beyond": b"\5\x60\x61",
        "text_short": b"\7abc",
        "empty": b"\7",
        "magic": b"\0" + llmc(7, 1, 20, ids),
        "swapped": b"\0" + struct.pack(">3i", 20240520, 1, 20).ljust(1024, b"\0") + ids,
        "weights": b"\0" + llmc(20240326, 3, 20, ids),
        "version": b"\0" + llmc(20240520, 7, 20, ids),
        "none": b"\0" + llmc(20240520, 1, 0, b""),
        "negative": b"\0" + llmc(20240520, 1, -1, ids),
        "truncated": b"\0" + llmc(20240520, 1, 21, ids),
        "trailing": b"\0" + llmc(20240520, 1, 19, ids),
        "header": b"\0" + llmc(20240520, 1, 20, b"", 1000),
        "most": b"\0" + llmc(20240801, 7, 0x7FFFFFFF, b""),
    }
    lines = lambda *words: "\n".join(words).encode()
    yield "flags", {
        "none": b"",
        "help": lines("--help"),
        "sizes": lines("--layers", "2", "--heads=2", "--dim", "32", "--ffn", "64", "--vocab", "61", "--seq", "16", "--kv-heads", "2"),
        "llama": lines("--arch", "llama", "--heads", "4", "--kv-heads", "2", "--preset", "shakespeare-cpu"),
        "preset": lines("--preset", "gpt2-124m"),
        "files": lines("--data", "x.bin", "--val-data", "y", "--init", "z/w", "--metrics", "m", "--trace", "t", "--report", "r"),
        "steps": lines("--steps", "10", "--warmup", "3", "--trace", "t", "--trace-steps", "2:5", "--schedule", "wsd"),
        "numbers": lines("--lr", "1e-3", "--beta1", ".9", "--beta2", "0.95", "--eps", "1e-8", "--momentum", "0", "--weight-decay", "0.1",
                         "--clip", "1", "--dropout", "0.5", "--min-lr-ratio", "1", "--temperature", "0", "--bucket-mb", "0.5"),
        "words": lines("--precision", "fp16", "--reduce-dtype", "bf16", "--optimizer", "sgd", "--reshard", "never", "--overlap", "off",
                       "--reduction", "ordered", "--accumulate", "sharded", "--recompute", "block", "--order", "sequential"),
        "hybrid": lines("--strategy", "hybrid", "--shard-group", "2", "--prefetch", "0", "--timeout", "5", "--threads", "1"),
        "saving": lines("--save", "s", "--save-every", "2", "--keep", "3", "--resume", "s", "--export", "e"),
        "sample": lines("--sample", "3", "--prompt", "two words", "--seed", "18446744073709551615", "--ignore-label", "-100"),
        "reproducible": lines("--reproducible", "on", "--reduction", "vendor"),
        "isa": lines("--isa", "scalar"),
        "unknown": lines("--lrr=1", "-x", "word", "--"),
        "twice": lines("--lr", "1", "--lr", "2"),
        "no_value": lines("--lr"),
        "wrong": lines("--lr", "nan", "--dim", "-1", "--steps", "1e3", "--trace-steps", "5:2"),
        "controls": lines("--data", "a\tb"),
    }


def main():
    wrong = 0
    for target, inputs in seeds():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in inputs.items():
            path = folder / name
            if sys.argv[1:] != ["--check"]:
                path.write_bytes(content)
            elif not path.exists() or path.read_bytes() != content:
                print(f"{path}: expected what {sys.argv[0]} writes, found another content")
                wrong += 1
        left = {p.name for p in folder.iterdir() if not p.name.startswith(("found_", "finding_"))} - inputs.keys()
        for name in sorted(left):
            print(f"{folder / name}: expected a seed of {sys.argv[0]}, found another file")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
