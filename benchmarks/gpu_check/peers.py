#!/usr/bin/env python3
"""peers.py torch|cupy [--tiny]: what PyTorch and CuPy need for the work of check.cu and step.cu, on the same shapes.

Prints one JSON object a line: the package, its times in microseconds, or why there are none. The bars are in `run`, by the
names of both sides. --tiny: a few small shapes, by PyTorch without a device too.
"""

import json
import sys
import time

tiny = "--tiny" in sys.argv
widths, counts = ((8,), (50,)) if tiny else ((32, 64, 128, 512, 1024), (2_500, 40_000, 250_000, 1_000_000))
rows_ids_width = ((1000, 50, 8),) if tiny else ((800_000, 2_560, 128), (1_000_000, 100_000, 64))
layer_size = 50 if tiny else 1 << 18


def report(**members):
    print(json.dumps(members), flush=True)


def report_times(name, beside, samples, **shape):
    ordered = sorted(samples)
    n = len(ordered)
    report(name=name, beside=beside, **{"distribution": "uniform", **shape}, us=ordered[n // 2], us_p10=ordered[n // 10],
           us_p90=ordered[n * 9 // 10], samples=samples)


def shapes():
    for width in widths:
        rows = 1000 if tiny else min((4 << 30) // (width * 4), 1 << 25)
        for ids in counts:
            yield rows, width, ids


def measure_torch():
    try:
        import torch
    except ImportError:
        return report(skipped="PyTorch: it is not installed")
    on_device = torch.cuda.is_available()
    if not on_device and not tiny:
        return report(skipped=f"PyTorch {torch.__version__}: it finds no device")
    report(package="torch", version=torch.__version__)
    device = "cuda" if on_device else "cpu"

    def wait():
        if on_device:
            torch.cuda.synchronize()

    def microseconds(run, samples=20):
        times = []
        for i in range(-3, samples):
            if on_device:
                first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                first.record()
                run()
                last.record()
                last.synchronize()
                us = 1000 * first.elapsed_time(last)
            else:
                since = time.perf_counter()
                run()
                us = 1e6 * (time.perf_counter() - since)
            if i >= 0:
                times.append(us)
        return times

    def drawn_ids(n, rows, distribution):
        x = torch.rand(n, dtype=torch.float64)
        at = (1 - x * (1 - rows ** -0.05)) ** -20.0 - 1 if distribution == "zipf" else x * rows
        return at.long() * 2654435761 % rows

    def whole_steps(rows, ids, width, distribution, make):
        """A table and a layer as step.cu trains them: batches in the host's memory, steps in rows of eight."""
        table = torch.nn.Parameter(torch.full((rows, width), 0.5, device=device))
        layer = torch.nn.Parameter(torch.zeros(layer_size, device=device))
        layer_gradient = torch.ones_like(layer)
        gradient = torch.randn(ids, width, device=device)
        batches = [drawn_ids(ids, rows, distribution) for _ in range(4)]
        of_table, of_layer = make([table]), torch.optim.SGD([layer], lr=0.01)

        def step(k):
            of_table.zero_grad(set_to_none=True)
            index = batches[k % 4].to(device)
            pulled = torch.nn.functional.embedding(index, table, sparse=True)
            pulled.backward(gradient)
            layer.grad = layer_gradient
            of_table.step()
            of_layer.step()

        times, block = [], 2 if tiny else 8
        for i in range(-1, 3 if tiny else 15):
            wait()
            since = time.perf_counter()
            for k in range(block):
                step(k)
            wait()
            if i >= 0:
                times.append(1e6 * (time.perf_counter() - since) / block)
        return times

    for rows, ids, width in rows_ids_width:
        for distribution in ("uniform", "zipf"):
            for name, make in (("embedding and Adagrad", lambda of: torch.optim.Adagrad(of, lr=0.01)),
                               ("embedding and SparseAdam", lambda of: torch.optim.SparseAdam(of, lr=0.01))):
                times = whole_steps(rows, ids, width, distribution, make)
                report_times(name, "whole", times, rows=rows, ids=ids, width=width, distribution=distribution)
    for rows, width, ids in shapes():
        table = torch.zeros(rows, width, device=device)
        index = torch.randint(rows, (ids,), device=device)
        gradient = torch.ones(ids, width, device=device)
        shape = {"ids": ids, "width": width}
        report_times("index_select", "gather", microseconds(lambda: torch.index_select(table, 0, index)), **shape)

        def step():
            sparse = torch.sparse_coo_tensor(index[None], gradient, (rows, width), check_invariants=False).coalesce()
            table.index_add_(0, sparse.indices()[0], sparse.values(), alpha=-0.01)

        report_times("coalesce and index_add_", "group_and_adagrad", microseconds(step, 10), **shape)
        del table, index, gradient
        if on_device:
            torch.cuda.empty_cache()


def measure_cupy():
    try:
        import cupy
        import cupyx
    except ImportError:
        return report(skipped="CuPy: it is not installed")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return report(skipped=f"CuPy {cupy.__version__}: it finds no device: {error}")
    report(package="cupy", version=cupy.__version__)

    scatter_add = getattr(cupyx, "scatter_add", None) or cupy.add.at

    def microseconds(run, samples=10):
        times = []
        for i in range(-2, samples):
            first, last = cupy.cuda.Event(), cupy.cuda.Event()
            first.record()
            run()
            last.record()
            last.synchronize()
            if i >= 0:
                times.append(1000 * cupy.cuda.get_elapsed_time(first, last))
        return times

    for rows, width, ids in shapes():
        table = cupy.zeros((rows, width), dtype=cupy.float32)
        index = cupy.random.randint(0, rows, ids).astype(cupy.int32)
        gradient, out = cupy.ones((ids, width), dtype=cupy.float32), cupy.empty((ids, width), dtype=cupy.float32)
        shape = {"ids": ids, "width": width}
        report_times("take", "gather", microseconds(lambda: cupy.take(table, index, axis=0, out=out)), **shape)
        # Adds to rows in any order, by atomic operations, and trains by plain SGD at that: `run` has no bar for it.
        report_times("scatter_add", "group_and_adagrad", microseconds(lambda: scatter_add(table, index, gradient)), **shape)
        report_times("unique", "group", microseconds(lambda: cupy.unique(index, return_inverse=True, return_counts=True)),
                     **shape)
        del table, index, gradient, out
        cupy.get_default_memory_pool().free_all_blocks()


measures = {"torch": measure_torch, "cupy": measure_cupy}
if len(sys.argv) < 2 or sys.argv[1] not in measures:
    sys.exit(__doc__)
try:
    measures[sys.argv[1]]()
except Exception as error:  # a peer that breaks off is no failure of what it is held against
    report(skipped=f"{sys.argv[1]} from there on: {type(error).__name__}: {error}")
