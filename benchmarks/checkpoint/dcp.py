#!/usr/bin/env python3
"""dcp.py [--parallax PROGRAM] [--rounds N] [--smoke] [--folder FOLDER]: torch.distributed.checkpoint (DCP) saves and loads the
state of benchmarks/checkpoint.cpp.

Needs PyTorch (pip install torch numpy safetensors). Two ranks, processes with Gloo, save and load two tables that are sharded
by rows, with the two slots of Adam, and 1,000 small tensors that both ranks have alike, each with one slot. PROGRAM is
bench_checkpoint: it runs before DCP and after it, and the table sets DCP's times against the mean of both. Without it, the
table has DCP's alone.

A time is rank 0's, between two barriers; the median of N rounds (10) after one that is not counted. A save makes a folder of
its own, with fsync, and then removes the one before, as `save` does with `keep = 1`; both count. Saves are made in several
ways, in turn; of those that count the fastest does. Before a load that reads the disk, posix_fadvise takes the files out of
memory. The files lie below FOLDER, or below the folder that TMPDIR names; it should be on a disk.

Exit status 1: what was loaded is not what was saved, by either of both. Goals that are missed do not decide."""
import argparse
import contextlib
import datetime
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing
import warnings

RANKS = 2
CALL_BYTES = 1 << 20
TABLES, TENSORS = "two tables", "tensors"
GOALS = {TABLES: 1.2, TENSORS: 2.0}
SAVE, COLD, HOT = "save", "restore", "restore, files in memory"  # as bench_checkpoint calls them


class Way(typing.NamedTuple):
    """How DCP saves, with so many threads of a rank, each of which writes a file."""

    threads: int = 1
    kept: bool = True  # plans, from one save to the next
    sums: bool = True  # checksums, by torch.save
    safetensors: bool = False

    def __str__(self):
        return (f"{'safetensors' if self.safetensors else f'{self.threads} thread' + 's' * (self.threads > 1)}"
                f"{', plans kept' if self.kept else ''}{'' if self.sums else ', no checksums'}")


DEFAULT = Way(kept=False)
SAFETENSORS = Way(sums=False, safetensors=True)
# What has no checksums does not count: a checkpoint of parallax has them.
WAYS = [DEFAULT, Way(), Way(2), Way(4), Way(sums=False), Way(2, sums=False), SAFETENSORS]


class Rank:
    """One of the processes: its rank, and what it has measured and found wrong."""

    def __init__(self, rank, options, folder):
        import torch
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        from torch.distributed.device_mesh import init_device_mesh

        self.torch, self.dist, self.dcp = torch, dist, dcp
        self.rank, self.options, self.folder = rank, options, folder
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
        self.mesh = init_device_mesh("cpu", (RANKS,))
        self.results = {}

    def run(self):
        for case, state in ((TABLES, self.tables), (TENSORS, self.tensors)):
            self.results[case] = self.measure(os.path.join(self.folder, case), state)
        self.dist.destroy_process_group()
        return self.results

    def tables(self, first):
        """Two tables with two slots each: every rank has half of the rows. `first`: what the values begin with."""
        from torch.distributed.tensor import DTensor, Shard

        rows = 1_000 if self.options.smoke else 300_000
        local = rows // RANKS
        return {f"{table}/{array}": DTensor.from_local(
                    self.torch.arange(local * 64, dtype=self.torch.float32).mul_(0.25).add_(first + number).reshape(local, 64),
                    self.mesh, [Shard(0)])
                for number, (table, array) in enumerate((t, a) for t in ("words", "softmax") for a in ("values", "m", "v"))}

    def tensors(self, first):
        """Small tensors with a slot of the same size, on all ranks alike: DCP has each written by one of them."""
        return {f"tensor {i}/{array}": self.torch.arange(4_096, dtype=self.torch.float32).add_(first + i + slot)
                for i in range(20 if self.options.smoke else 1_000) for slot, array in enumerate(("values", "momentum"))}

    def measure(self, folder, state):
        saved, loaded = state(self.rank + 1 if state == self.tables else 1), state(-7)
        local = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in saved.values()]
        payload = sum(tensor.nbytes for tensor in local) * (RANKS if state == self.tables else 1)
        plain = self.torch.arange(payload // RANKS // 4, dtype=self.torch.float32).numpy()
        file = os.path.join(folder, f"plain-{self.rank}")
        generations = {way: 0 for way in WAYS}
        if self.rank == 0:
            os.makedirs(folder)

        def path(way, number):
            return os.path.join(folder, str(way), str(number))

        def save(way):
            self.torch.serialization.set_crc32_options(way.sums)
            planner = self.dcp.DefaultSavePlanner(enable_plan_caching=way.kept)
            planner._cached_plans_key = f"{folder} {way}"
            generations[way] += 1
            if way.safetensors:
                writer = self.dcp.HuggingFaceStorageWriter(path(way, generations[way]), save_distributed=True)
            else:
                writer = self.dcp.FileSystemWriter(path(way, generations[way]), thread_count=way.threads)
            self.dcp.save(saved, storage_writer=writer, planner=planner)
            done = time.perf_counter()
            if self.rank == 0 and generations[way] > 1:
                shutil.rmtree(path(way, generations[way] - 1))
            return done

        def load(way):
            reader = self.dcp.HuggingFaceStorageReader if way.safetensors else self.dcp.FileSystemReader
            self.dcp.load(loaded, storage_reader=reader(path(way, generations[way])))

        def is_right(way):
            """Loads what was saved so, into tensors that have something else."""
            for tensor in loaded.values():
                tensor.fill_(-7)
            load(way)
            return self.equal(saved, loaded)

        times = self.rounds(lambda: None, {"plain": lambda: self.write(file, plain),
                                           **{way: (lambda way=way: save(way)) for way in WAYS}})
        files = sum(os.path.getsize(os.path.join(where, each))
                    for where, _, names in os.walk(path(DEFAULT, generations[DEFAULT])) for each in names)
        buffer = self.torch.empty(len(plain), dtype=self.torch.float32).numpy()
        loads = {"plain": lambda: self.read(file, buffer),
                 DEFAULT: lambda: load(DEFAULT), SAFETENSORS: lambda: load(SAFETENSORS)}
        cold, hot = self.rounds(lambda: self.forget(folder), loads), self.rounds(lambda: None, loads)
        found = [None] * RANKS
        self.dist.all_gather_object(found, not all([is_right(way) for way in WAYS]))
        return {"save": times, "cold": cold, "hot": hot, "wrong": any(found), "payload": payload, "files": files}

    def rounds(self, before, runs):
        """The medians of rank 0's seconds, and of those up to the time that a run returns, if it returns one."""
        took, parts = {name: [] for name in runs}, {name: [] for name in runs}
        for number in range(-1, self.options.rounds):
            for name, run in runs.items():
                if self.rank == 0:
                    before()
                self.dist.barrier()
                begin = time.perf_counter()
                done = run()
                self.dist.barrier()
                end = time.perf_counter()
                if number >= 0:
                    took[name].append(end - begin)
                    parts[name].append((done or end) - begin)
        return {name: (statistics.median(took[name]), statistics.median(parts[name])) for name in runs}

    def equal(self, saved, loaded):
        def local(tensor):
            return tensor.to_local() if hasattr(tensor, "to_local") else tensor

        return all(self.torch.equal(local(saved[key]), local(loaded[key])) for key in saved)

    @staticmethod
    def write(path, array):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        file, view = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), memoryview(array).cast("B")
        for at in range(0, len(view), CALL_BYTES):
            assert os.pwrite(file, view[at:at + CALL_BYTES], at) == len(view[at:at + CALL_BYTES])
        os.fsync(file)
        os.close(file)

    @staticmethod
    def read(path, array):
        file, view = os.open(path, os.O_RDONLY), memoryview(array).cast("B")
        for at in range(0, len(view), CALL_BYTES):
            assert os.preadv(file, [view[at:at + CALL_BYTES]], at) == len(view[at:at + CALL_BYTES])
        os.close(file)

    @staticmethod
    def forget(folder):
        for where, _, names in os.walk(folder):
            for name in names:
                file = os.open(os.path.join(where, name), os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)


def start(rank, options, folder, queue):
    warnings.simplefilter("ignore")
    results = Rank(rank, options, folder).run()
    if rank == 0:
        queue.put(results)


def run_dcp(options):
    import torch.multiprocessing as multiprocessing

    folder = tempfile.mkdtemp(prefix="dcp-", dir=options.folder)
    try:
        queue = multiprocessing.get_context("spawn").SimpleQueue()
        multiprocessing.spawn(start, (options, folder, queue), nprocs=RANKS)
        return queue.get()
    finally:
        shutil.rmtree(folder)


def run_parallax(options):
    """By case and operation: milliseconds, those of plain calls, and the MB of the files. Or None, where results are wrong."""
    command = [options.parallax, *(["--smoke"] if options.smoke else []), f"--rounds={options.rounds}"]
    ran = subprocess.run(command, env={**os.environ, "TMPDIR": options.folder}, stdout=subprocess.PIPE, text=True)
    line = re.compile(r"(.*?), (\d+) MB: (.*?)  +([\d.]+)  \S.*?  +([\d.]+) +[\d.]+ ")
    found = [line.match(text) for text in ran.stdout.splitlines()]
    times = {(TABLES if TABLES in each[1] else TENSORS, each[3]): (float(each[4]), float(each[5]), int(each[2]))
             for each in found if each}
    if ran.returncode != 0 or any((case, what) not in times for case in GOALS for what in (SAVE, COLD, HOT)):
        print(ran.stdout)
        return None
    return times


def head(options):
    import torch

    with open("/proc/cpuinfo") as lines:
        model = next((text.split(":")[1].strip() for text in lines if text.startswith("model name")), platform.machine())
    compiler = b""
    if options.parallax:
        with open(options.parallax, "rb") as program:  # compilers leave their names in what they make
            compiler = re.search(rb"GCC: \([^)]*\) [0-9.]+|clang version [0-9.]+", program.read())
    versions = [f"torch {torch.__version__}", f"Python {platform.python_version()}"]
    versions += [compiler[0].decode()] if compiler else []
    return f"# {', '.join(versions)}; {os.cpu_count()} cores of {model}; {datetime.date.today()}; {options.rounds} rounds"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallax", metavar="PROGRAM", help="bench_checkpoint")
    parser.add_argument("--rounds", type=int, default=None, metavar="N")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes and one round: are the results right?")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    options.rounds = max(1, options.rounds or (1 if options.smoke else 10))

    print(head(options))
    before = run_parallax(options) if options.parallax else None
    dcp = run_dcp(options)
    after = run_parallax(options) if options.parallax else None
    wrong = sum(each["wrong"] for each in dcp.values()) + (options.parallax is not None) * ((before is None) + (after is None))
    missed = 0

    both = before is not None and after is not None
    print(f"{'ms':46}{'DCP':>10}" + (f"{'parallax':>10}{'and again':>10}{'DCP/parallax':>14}{'goal':>6}" if both else ""))

    def line(what, seconds, ours=None, goal=None):
        nonlocal missed
        text = f"{what:46}{seconds * 1e3:>10.1f}"
        if both and ours:
            ratio = seconds * 1e3 / ((ours[0] + ours[1]) / 2)
            text += f"{ours[0]:>10.1f}{ours[1]:>10.1f}{ratio:>14.2f}"
            if goal:
                missed += not options.smoke and ratio < goal
                text += f"{goal:>6.1f}" + ("" if options.smoke else " met" if ratio >= goal else " MISSED")
        print(text)

    for case, each in dcp.items():
        ours = {what: (before[case, what], after[case, what]) for what in (SAVE, COLD, HOT)} if both else {}
        name = case if case == TABLES else f"{20 if options.smoke else '1,000'} {case}"

        def of(what, column):
            return [run[column] for run in ours[what]] if both else None

        counted = min((way for way in WAYS if way.sums), key=lambda way: each["save"][way][0])
        line(f"{name}: save", each["save"][counted][0], of(SAVE, 0), GOALS[case])
        line(f"{name}: load", each["cold"][DEFAULT][0], of(COLD, 0), GOALS[case])
        line(f"{name}: load, files in memory", each["hot"][DEFAULT][0], of(HOT, 0), GOALS[case])
        for way in WAYS:
            line(f"  save, {way}", each["save"][way][0], of(SAVE, 0))
        line("  save, DCP without the removal", each["save"][counted][1], of(SAVE, 0))
        line("  load, safetensors", each["cold"][SAFETENSORS][0], of(COLD, 0))
        line("  load, safetensors, files in memory", each["hot"][SAFETENSORS][0], of(HOT, 0))
        line("  plain pwrite and fsync", each["save"]["plain"][0], of(SAVE, 1))
        line("  plain pread", each["cold"]["plain"][0], of(COLD, 1))
        line("  plain pread, files in memory", each["hot"]["plain"][0], of(HOT, 1))
        sizes = f"  MB: {each['payload'] / 1e6:.1f} of arrays, {each['files'] / 1e6:.1f} in DCP's files"
        print(sizes + (f", {ours[SAVE][0][2]} to {ours[SAVE][0][2] + 1} in those of parallax" if both else ""))
        if each["wrong"]:
            print(f"{name}: WRONG RESULT of DCP")
    print(f"{missed} goals missed, {wrong} results wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
