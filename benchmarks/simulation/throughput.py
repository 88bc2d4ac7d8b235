#!/usr/bin/env python3
"""Redraws the throughput figure of the Parallax paper from SIMULATED communication: throughput.py PROGRAM FOLDER

PROGRAM is parallax-simulation.so. Writes FOLDER/simulation.csv, one line a run, and FOLDER/throughput.{csv,html}. Runs that the
first file has are not repeated. What is drawn is a simulation: 100 Gb/s Ethernet or InfiniBand at its nominal speed and memory at
30 GB/s a machine, no overlap with computing, and computing as long as the paper's own throughput on one machine says."""
import argparse
import csv
import os
import sys

import simulate

NETWORK = {"latency": 2.0, "bandwidth": 12.5, "local_latency": 0.5, "local_bandwidth": 30.0}

# Units (words, images) of a step of a rank, and units per second of one machine of six GPUs with the hybrid, as published: the
# chart of the paper's repository for LM1B and ResNet-50, its release notes for NMT. LM1B: 128 sequences of 20 words, ResNet-50: 64
# images; NMT's words are not published: 128 pairs of sentences are taken to have 50 words.
COMPUTE = {"lm1b": (2560, 88_200, "words"), "nmt": (6400, 41_800, "words"), "resnet50": (64, 1_068, "images")}

# Published throughput at 1, 2, 4, 8 machines, in thousands: hybrid, Horovod, TF-PS. For NMT only what is known of one, four and
# eight machines.
PUBLISHED = {
    "lm1b": {"hybrid": [88.2, 150.0, 250.3, 277.7], "all_gather": [67.9, 46.6, 42.6, 39.5],
             "naive_parameter_server": [88.2, 127.7, 147.0, 101.4]},
    "nmt": {"hybrid": [41.8, None, 127.0, 204.0], "all_gather": [None, None, None, 68.3],
            "naive_parameter_server": [None, None, None, 102.0]},
    "resnet50": {"hybrid": [1.068, 2.041, 3.959, 7.554], "all_gather": [1.068, 2.068, 4.041, 7.527],
                 "naive_parameter_server": [0.959, 1.824, 3.473, 5.959]},
}
NAMES = {"hybrid": "hybrid", "all_gather": "all-gather (Horovod's way)", "naive_parameter_server": "naive PS (TF-PS's way)"}
MACHINES = [1, 2, 4, 8]


def payload_of(model, policy):
    """So that all ranks fit into the memory of one machine: a replica of LM1B's tables has 3.2 GB."""
    if policy == "all_reduce":
        return {"lm1b": 128, "nmt": 32, "resnet50": 16}[model]
    return {"lm1b": 64 if policy == "all_gather" else 16, "nmt": 32 if policy == "all_gather" else 16, "resnet50": 16}[model]


def all_runs():
    """(model, policy, machines, ranks, topology): those of the figure first."""
    figure = [(model, policy, machines, 6, "hosts") for machines in MACHINES for model in PUBLISHED for policy in NAMES
              if not (model == "resnet50" and policy == "all_gather")]  # without tables the same as hybrid
    flat = [(model, policy, machines, 1, "flat") for model in ("lm1b", "nmt") for machines in (2, 4, 8)
            for policy in ("hybrid", "all_gather", "naive_parameter_server", "all_reduce")]
    flat += [("resnet50", "hybrid", machines, 1, "flat") for machines in (2, 4, 8)]
    wide = [("nmt", "all_reduce", 8, 6, "hosts"), ("lm1b", "all_reduce", 8, 6, "hosts"), ("nmt", "hybrid", 8, 6, "flat"),
            ("lm1b", "hybrid", 8, 6, "flat"), ("lm1b", "hybrid", 32, 1, "flat"), ("lm1b", "hybrid", 128, 1, "flat")]
    return figure + flat + wide


def run(program, model, policy, machines, ranks, topology):
    flags = ["--model", model, "--policy", policy, "-w", "1", "-n", "1"] + (["--hosts", str(machines)] if topology == "hosts" else [])
    code, lines, complaints = simulate.simulate(program, machines, ranks, NETWORK, payload_of(model, policy), flags)
    if code != 0 or len(lines) != 1:
        raise SystemExit(f"{model} {policy} {machines}x{ranks} {topology}: exit code {code}\n" + "\n".join(lines) + complaints)
    return dict(zip(simulate.COLUMNS, lines[0].split(",")))


def key(row):
    return row["model"], row["policy"], int(row["machines"]), int(row["ranks"]), row["topology"]


def collect(program, path, wanted):
    """Rows of all wanted runs; those that are missing in the file are simulated and added."""
    rows = {}
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = {key(row): row for row in csv.DictReader(file)}
    for number, parameters in enumerate(wanted):
        if parameters in rows:
            continue
        print(f"# {number + 1} of {len(wanted)}:", *parameters, file=sys.stderr, flush=True)
        rows[parameters] = run(program, *parameters)
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, simulate.COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[p] for p in wanted if p in rows)
    return rows


def seconds_of(row):
    """Of a step at the paper's sizes: what was simulated at 1/payload, corrected by what the closed form says of that."""
    return float(row["simulated_ms"]) / 1e3 * float(row["closed_whole_ms"]) / float(row["closed_ms"])


def throughput(rows, model, policy, compute):
    """Thousands of units per second at each number of machines."""
    units, one_machine, _ = COMPUTE[model]
    per_step = units * 6 / one_machine if compute else 0.0
    row_policy = "hybrid" if model == "resnet50" and policy == "all_gather" else policy
    alone = seconds_of(rows[(model, "hybrid", 1, 6, "hosts")]) if compute else 0.0
    result = []
    for machines in MACHINES:
        seconds = seconds_of(rows[(model, row_policy, machines, 6, "hosts")])
        result.append(units * 6 * machines / (max(per_step - alone, 0.0) + seconds) / 1e3)
    return result


def table(rows):
    """Lines of the figure: simulated with and without computing, beside what was published."""
    lines = []
    for model in PUBLISHED:
        for policy in NAMES:
            for basis in ("with compute", "compute 0", "published"):
                values = PUBLISHED[model][policy] if basis == "published" else throughput(rows, model, policy, basis != "compute 0")
                lines.append((model, policy, basis, values))
    return lines


def ratios(lines):
    """Hybrid over the others at eight machines: (model, other, simulated with compute, with compute 0, published)."""
    at_8 = {(model, policy, basis): values[-1] for model, policy, basis, values in lines}
    return [(model, other, *(at_8[model, "hybrid", basis] / at_8[model, other, basis]
                             for basis in ("with compute", "compute 0", "published")))
            for model in PUBLISHED for other in ("naive_parameter_server", "all_gather")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder")
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    collected = collect(given.program, os.path.join(given.folder, "simulation.csv"), all_runs())
