#!/usr/bin/env python3
"""make.py: writes the files beside it anew, by the formats' own packages. What is here was written with safetensors 0.8.0,
NumPy 2.4.6 and ml_dtypes 0.6.0 (Python 3). Element k of an array has the bytes of k, k + 1 or k - 3, by the dtype: see the tests."""

import io
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.lib import format as npy
from safetensors import TensorSpec, serialize
from safetensors.numpy import save

here = Path(__file__).resolve().parent


def file(name, data):
    (here / name).write_bytes(bytes(data))


# Every dtype of a byte or more, as bytes 0, 1, 2, ...: the name is the dtype's, the shape (2, 3).
sizes = {"bool": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e8m0fnu": 1, "float8_e4m3fnuz": 1,
         "float8_e5m2fnuz": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4,
         "complex64": 8, "float64": 8, "int64": 8, "uint64": 8}
kept, specs = [], {}
for name, size in sizes.items():
    array = np.arange(6 * size, dtype=np.uint8) % (2 if name == "bool" else 255)
    kept.append(array)
    specs[name] = TensorSpec(dtype=name, shape=[2, 3], data_ptr=array.ctypes.data, data_len=array.nbytes)
file("dtypes.safetensors", serialize(specs))
array = np.arange(3, dtype=np.uint8)
four = {"x": TensorSpec(dtype="float4_e2m1fn_x2", shape=[3], data_ptr=array.ctypes.data, data_len=3)}
file("f4.safetensors", serialize(four))

# Values that a reader of C++ knows, a scalar, an array without elements, names and metadata with escapes.
file("values.safetensors", save({
    "f32": np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 65536.0]], np.float32),
    "f64": np.array([1 / 3], np.float64),
    "i64": np.array([-1, 2**62], np.int64),
    "u16": np.array([1, 65535], np.uint16),
    "i8": np.array([-128, 127], np.int8),
    "bool": np.array([True, False, True]),
    "half": np.array([1.0, -2.0], np.float16),
    "bf16": np.array([1.0, -2.0], ml_dtypes.bfloat16),
    "scalar": np.array(7, np.uint32),
    "empty": np.zeros((0, 4), np.float32),
    "a \"quoted\"\\\nnäme 词": np.array([9], np.uint8),
}, metadata={"format": "np", "line\nbreak \u0001": "\t\u00fc\U0001F600"}))
file("nothing.safetensors", save({}))

# NumPy: every dtype, by its name.
for name in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6).reshape(2, 3).astype(name))
    file(name + ".npy", buffer.getvalue())
for name, array, version in [
    ("scalar", np.array(2.5, "<f4"), (1, 0)),
    ("one", np.array([1, 2, 3], "<i4"), (1, 0)),
    ("none", np.zeros((0, 5), "<f8"), (1, 0)),
    ("version_2", np.array([[1, 2]], "<u2"), (2, 0)),
    ("version_3", np.array([[3], [4]], "<u2"), (3, 0)),
    ("columns_of_one", np.asfortranarray(np.array([5.0, 6.0])), (1, 0)),
    ("columns", np.asfortranarray(np.arange(6.0).reshape(2, 3)), (1, 0)),
    ("big", np.array([1, 2], ">i4"), (1, 0)),
    ("structure", np.array([(1, 2.0)], [("a", "<i4"), ("b", "<f8")]), (1, 0)),
    ("object", np.array([None, {}], dtype=object), (1, 0)),
    ("text", np.array(["ab", "c"]), (1, 0)),
    ("time", np.array(["2020-01-01"], "datetime64[D]"), (1, 0)),
    ("extended", np.array([1], np.longdouble), (1, 0)),
]:
    buffer = io.BytesIO()
    npy.write_array(buffer, array, version=version)
    file(name + ".npy", buffer.getvalue())

# Archives: numpy.savez with a name of its own and by place; the same compressed; an array in columns among them.
arrays = {"rows": np.arange(12, dtype="<f4").reshape(3, 4), "ids": np.array([7, -1], "<i8"), "none": np.zeros((0, 5), "<f8"),
          "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "a/b": np.array(2.5, "<f2")}
np.savez(here / "stored.npz", np.array([1, 2, 3], "<u2"), **arrays)
np.savez_compressed(here / "compressed.npz", **arrays)
