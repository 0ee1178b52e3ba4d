#!/usr/bin/env python3
"""What train_gpt writes is read by the format's reference reader, and what that one writes is read by train_gpt, bit for bit.

    tests/io/read_with_python.py build/release/examples/train_gpt mpiexec

Needs the Python packages safetensors and numpy; exit code 77 where one is missing. A third reading, here and by the standard alone,
stands between the two.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)

SMALL = ["--layers", "2", "--heads", "2", "--dim", "32", "--vocab", "61", "--seq", "16", "--global-batch", "12", "--sample", "0", "--threads", "1"]
NUMPY = {"F64": numpy.float64, "F32": numpy.float32, "I64": numpy.int64, "I32": numpy.int32, "U8": numpy.uint8}


def by_the_standard(path):
    """Names to type, shape and bytes."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    assert length % 8 == 0 and content[8:9] == b"{", f"{path}: expected a header that is padded to 8 bytes, found {length} bytes"
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    metadata = header.pop("__metadata__", {})
    assert metadata.get("format") == "pt", f"{path}: expected the metadata format pt, found {metadata}"
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}, metadata


def by_the_reference(path):
    """The same from the package: its raw reading, and its arrays."""
    raw = {name: (t["dtype"], list(t["shape"]), bytes(t["data"])) for name, t in safetensors.deserialize(path.read_bytes())}
    with safetensors.safe_open(path, framework="np") as file:
        metadata = file.metadata()
        for name in file.keys():
            dtype, shape, data = raw[name]
            if dtype in NUMPY:
                array = file.get_tensor(name)
                assert array.dtype == NUMPY[dtype] and list(array.shape) == shape and array.tobytes() == data, f"{path}: {name}: another array"
    return raw, metadata


def check_file(path):
    ours, reference = by_the_standard(path), by_the_reference(path)
    assert ours == reference, f"{path}: expected what the reference reads, found another content"
    return ours[0]


def arrays_of(tensors):
    return {name: numpy.frombuffer(data, NUMPY[dtype]).reshape(shape) for name, (dtype, shape, data) in tensors.items()}


def check_export(run, folder, arch):
    first = folder / f"{arch}_first"
    run(["--arch", arch, "--steps", "3", "--export", first])
    written = first / "model.safetensors"
    tensors = check_file(written)
    arrays = arrays_of(tensors)
    assert all(numpy.isfinite(a).all() for a in arrays.values())

    # The package writes the same bytes, so the layout is that of the reference too.
    again = folder / f"{arch}_rewritten"
    again.mkdir()
    safetensors.numpy.save_file(arrays, again / "model.safetensors", metadata={"format": "pt"})
    assert (again / "model.safetensors").read_bytes() == written.read_bytes(), f"{arch}: expected the bytes of the reference writer"
    (again / "config.json").write_bytes((first / "config.json").read_bytes())

    # As two shards with an index, and with the header's names in another order.
    shards = folder / f"{arch}_shards"
    shards.mkdir()
    (shards / "config.json").write_bytes((first / "config.json").read_bytes())
    names, places = sorted(arrays, reverse=True), {}
    for i, part in enumerate((names[::2], names[1::2])):
        file = f"model-{i + 1:05d}-of-00002.safetensors"
        safetensors.numpy.save_file({name: arrays[name] for name in part}, shards / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    (shards / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": places}))

    # Doubles hold every float, so nothing is lost on the way through them.
    wide = folder / f"{arch}_wide.safetensors"
    safetensors.numpy.save_file({name: array.astype(numpy.float64) for name, array in arrays.items()}, wide)

    for source in (again, again / "model.safetensors", shards, wide):
        exported = folder / f"{arch}_exported_{source.name}"
        run(["--arch", arch, "--steps", "0", "--init", source, "--export", exported])
        found = (exported / "model.safetensors").read_bytes()
        assert found == written.read_bytes(), f"{source}: expected the same weights when they are exported again"
    return tensors


def check_checkpoint(run, folder, ranks, strategy):
    saved, export = folder / f"saved_{ranks}", folder / f"of_saved_{ranks}"
    run(["--steps", "3", "--strategy", strategy, "--save", saved, "--export", export], ranks)
    place = saved / (saved / "latest").read_text().strip()
    index = json.loads((place / "index.json").read_text())
    files = {path.name: check_file(path) for path in sorted(place.glob("*.safetensors"))}
    assert len(files) == ranks, f"{place}: expected {ranks} files, found {sorted(files)}"
    whole, used = {}, 0
    for name, tensor in index["tensors"].items():
        data = b""
        for piece in sorted(tensor["pieces"], key=lambda p: p["range"]):
            dtype, shape, part = files[piece["file"]][piece["name"]]
            assert dtype == tensor["dtype"] and numpy.prod(shape) == piece["range"][1] - piece["range"][0], f"{place}: {name}"
            data += part
            used += 1
        whole[name] = data
    assert used == sum(map(len, files.values())), f"{place}: expected every stored tensor in the index"
    exported = check_file(export / "model.safetensors")
    for ours, theirs in (("wte", "wte.weight"), ("wpe", "wpe.weight"), ("h.1.mlp.c_proj.bias", "h.1.mlp.c_proj.bias")):
        assert whole[f"master.{ours}"] == exported[f"transformer.{theirs}"][2], f"{place}: master.{ours}: expected what was exported"


def main():
    program, mpiexec = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="lockstep_python_") as made:
        folder = pathlib.Path(made)
        (folder / "data.bin").write_bytes(struct.pack("<3i", 20240520, 1, 400).ljust(1024, b"\0") + struct.pack("<400H", *(i * 7 % 61 for i in range(400))))

        def run(flags, ranks=1):
            words = [mpiexec, "-n", ranks, program, "--data", folder / "data.bin", *SMALL, *flags]
            ended = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
            assert ended.returncode == 0 and not ended.stderr, f"{flags}: ended with {ended.returncode}: {ended.stderr}"

        for arch in ("gpt2", "llama"):
            print(f"{arch}: {len(check_export(run, folder, arch))} tensors", flush=True)
        for ranks, strategy in ((1, "single"), (2, "sharded"), (3, "sharded-optimizer")):
            check_checkpoint(run, folder, ranks, strategy)
            print(f"a checkpoint of {ranks} files", flush=True)
    print(f"safetensors {safetensors.__version__} and lockstep read what each other writes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
