#!/usr/bin/env python3
"""Verifies tiny simulated runs: verify.py PROGRAM. Results right and bytes as counted (or they are `wrong`), the closed form
within a tenth of the simulated time, and every line the same in a second run."""
import sys

import simulate
import throughput

RUNS = [("hybrid", 4, 2, True), ("hybrid", 4, 2, False), ("all_gather", 4, 2, True), ("naive_parameter_server", 4, 2, True),
        ("all_reduce", 4, 2, True), ("hybrid", 8, 1, False), ("hybrid", 1, 3, True)]
TINY = ["--model", "lm1b", "--scale", "200", "-w", "1", "-n", "1"]


def complaints_about(program, policy, machines, ranks, hosts):
    flags = TINY + ["--policy", policy] + (["--hosts", str(machines)] if hosts else [])
    first, second = (simulate.simulate(program, machines, ranks, throughput.NETWORK, 64, flags) for _ in range(2))
    code, lines, errors = first
    if first != second:
        return f"a second run differs: {first} {second}"
    if len(lines) != 1:
        return f"exit code {code}, {len(lines)} lines\n{errors}"
    row = dict(zip(simulate.COLUMNS, lines[0].split(",")))
    print(policy, f"{machines}x{ranks}", row["topology"], "simulated ms", row["simulated_ms"], "closed form", row["closed_ms"])
    if code != 0 or row["wrong"] != "0":
        return f"exit code {code}, {row['wrong']} results or byte counts are wrong"
    if abs(float(row["error_percent"])) > 10:
        return f"the closed form is off by {row['error_percent']} %"
    return ""


def main():
    failed = 0
    for parameters in RUNS:
        complaint = complaints_about(sys.argv[1], *parameters)
        if complaint:
            print("FAILED:", *parameters, complaint)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
