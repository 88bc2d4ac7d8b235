#!/usr/bin/env python3
"""python_opens.py PROGRAM: lets PROGRAM write files, and reads them as others do: by a reader of the published formats that is written
out here with Python's own library, by NumPy, and by the package `safetensors` where there is one. Ends with 77 where NumPy is missing."""

import ast
import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16,
        "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
SHAPES = [(2, 3), (), (3,), (0, 4), (1, 2, 1, 3)]
DTYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
NAME = 'a "quoted" \\ name\n\x01 of 词 \U0001F600'


def pattern(i, count, boolean):
    return bytes((i + k) % (2 if boolean else 251) for k in range(count))


def unique(pairs):
    assert len(dict(pairs)) == len(pairs), "a key is there twice"
    return dict(pairs)


def read_safetensors(path):
    """Tensors by name, each its dtype, shape and bytes, and the metadata: the README of huggingface/safetensors, line by line."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    text = data[8:8 + size].decode("utf-8")
    assert text[0] == "{" and size % 8 == 0
    header = json.loads(text, object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    tensors, end = {}, 0
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = info["data_offsets"]
        assert begin == end and set(info) == {"dtype", "shape", "data_offsets"}, "the data have no holes and do not overlap"
        assert stop - begin == math.prod(info["shape"]) * BITS[info["dtype"]] // 8
        assert begin * 8 % BITS[info["dtype"]] == 0, "tensors are aligned"
        tensors[name] = info["dtype"], info["shape"], data[8 + size + begin:8 + size + stop]
        end = stop
    assert 8 + size + end == len(data)
    return tensors, metadata


def check_safetensors(tensors, metadata):
    expected = {f"of {dtype}": (dtype, [2, 3]) for dtype in BITS}
    expected |= {"scalar": ("F32", []), "empty": ("F64", [3, 0, 2]), NAME: ("U8", [1])}
    assert set(tensors) == set(expected)
    for i, (name, (dtype, shape)) in enumerate(expected.items()):
        assert tensors[name][:2] == (dtype, shape), name
        assert tensors[name][2] == pattern(i, math.prod(shape) * BITS[dtype] // 8, dtype == "BOOL"), name
    assert metadata == {"made by": "parallax", "\t": '"\\\x1f\u00fc'}


def check_npy(path, i):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    size, = struct.unpack("<H", data[8:10])
    assert (10 + size) % 64 == 0 and data[9 + size] == ord("\n")
    order = "|" if DTYPES[i][1:] == "1" else "<"
    assert ast.literal_eval(data[10:10 + size].decode("ascii")) == {
        "descr": order + DTYPES[i], "fortran_order": False, "shape": SHAPES[i % 5]}
    assert data[10 + size:] == pattern(i, math.prod(SHAPES[i % 5]) * int(DTYPES[i][1:]), DTYPES[i] == "b1")


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], folder], check=True)
    folder = Path(folder)
    check_safetensors(*read_safetensors(folder / "ours.safetensors"))
    assert read_safetensors(folder / "nothing.safetensors") == ({}, {})
    for i, name in enumerate(DTYPES):
        check_npy(folder / f"{name}.npy", i)
    print("read by what the formats say")
    try:
        import numpy
    except ImportError:
        print("SKIPPED: Python has no NumPy")
        sys.exit(77)
    for i, name in enumerate(DTYPES):
        for mapping in (None, "r") if math.prod(SHAPES[i % 5]) else (None,):
            array = numpy.load(folder / f"{name}.npy", mmap_mode=mapping, allow_pickle=False)
            assert array.dtype == numpy.dtype(name) and array.shape == SHAPES[i % 5], name
            assert array.tobytes() == pattern(i, array.nbytes, name == "b1"), name
    print(f"read by NumPy {numpy.__version__}")
    try:
        import safetensors
        from safetensors.numpy import load_file
    except ImportError:
        print("without the package safetensors")
        sys.exit(0)
    found = safetensors.deserialize((folder / "ours.safetensors").read_bytes())
    with safetensors.safe_open(folder / "ours.safetensors", framework="np") as file:
        check_safetensors({name: (tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"])) for name, tensor in found},
                          file.metadata())
        half = file.get_tensor("of F16")
        assert half.dtype == numpy.float16 and half.tobytes() == found[[name for name, _ in found].index("of F16")][1]["data"]
    assert load_file(folder / "nothing.safetensors") == {}
    print(f"read by safetensors {safetensors.__version__}")
