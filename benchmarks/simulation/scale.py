#!/usr/bin/env python3
"""Steps of LM1B on many machines of one rank, SIMULATED: scale.py PROGRAM FOLDER

Writes FOLDER/scale.csv, a line for each run, and prints a table. Runs that the file has are not repeated; delete it to simulate
all of them again, which gives the same bytes. A run takes seconds of a core on 16 machines, two minutes on 64, and some ten on
128."""
import os
import sys

import throughput

RUNS = [("lm1b", policy, machines, 1, "flat") for policy, most in (("hybrid", 128), ("all_gather", 32))
        for machines in (16, 32, 64, 128) if machines <= most]


def precision(machines):
    """SimGrid shares all links anew whenever a message ends, of 4,032 at a time on 64 machines and of 16,256 on 128: there, those
    that end within a microsecond end at once. On 64 machines that takes 0.5 % from the simulated time."""
    return 1e-6 if machines > 64 else 1e-12


def payload_of(model, policy):
    """What all ranks have gathered lies on every one of them."""
    return 256 if policy == "all_gather" else 64


def main():
    program, folder = sys.argv[1:]
    rows = throughput.collect(program, os.path.join(folder, "scale.csv"), RUNS, RUNS, payload_of, precision)
    print("# SIMULATED: a step of LM1B, machines of one rank; ms, and MB sent by a machine, at 1/payload of bytes and",
          "bandwidths; whole ms: corrected to the model's own size by the closed form; whole MB: counted for it")
    print(f"{'machines':>8} {'policy':12}{'payload':>8}{'simulated ms':>14}{'closed form':>13}{'error %':>9}{'MB':>12}"
          f"{'rounds':>8}{'messages':>10}{'whole ms':>11}{'whole MB':>12}{'#wrong':>8}")
    for row in (rows[run] for run in RUNS):
        print(f"{row['machines']:>8} {row['policy']:12}{row['payload']:>8}{row['simulated_ms']:>14}{row['closed_ms']:>13}"
              f"{row['error_percent']:>9}{row['sent_MB_mean']:>12}{row['rounds']:>8}{row['messages']:>10}"
              f"{1e3 * throughput.seconds_of(row):>11.3f}{row['whole_sent_MB_mean']:>12}{row['wrong']:>8}")
    return any(row["wrong"] != "0" for row in rows.values())


if __name__ == "__main__":
    sys.exit(main())
