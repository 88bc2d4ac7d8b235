#!/usr/bin/env python3
"""Redraws the throughput figure of the Parallax paper from SIMULATED communication: throughput.py PROGRAM FOLDER

Writes FOLDER/simulation.csv, a line for each run, and FOLDER/throughput.{csv,html}. Runs that the first file has are not
repeated; delete it to simulate all of them again, which gives the same bytes."""
import argparse
import csv
import math
import os
import sys

import simulate

NETWORK = {"latency": 2.0, "bandwidth": 12.5, "local_latency": 0.5, "local_bandwidth": 30.0}

ASSUMPTIONS = (
    "These are simulations, not measurements. The library runs unmodified on SimGrid's MPI; a machine has a link of 12.5 GB/s "
    "(100 Gb/s) each way and 2 us a message, and its six ranks hand 30 GB/s to each other in all, 0.5 us a message. Bytes and "
    "bandwidths are scaled down alike so that all ranks fit into one machine's memory; what that changes is corrected by the "
    "closed form. Communication does not overlap with computing. A step computes as long as the published throughput of one "
    "machine says, less its communication within that machine. All-gather and naive PS are this library's own, both with dense "
    "gradients summed on two levels, and all-gather's rows summed within machines first: neither is the Horovod or the "
    "TensorFlow of 2018.")

WHY_ABOVE = (
    "Simulated throughput on several machines lies above the published one, because communication alone is simulated: a step "
    "computes as long on eight machines as on one, summing and updating take no time, and nothing is added that TensorFlow does "
    "once there are several machines. Links also give all of their bandwidth, without congestion or protocols, and the library "
    "sends fewer bytes than Parallax did; only that nothing overlaps works the other way.")

# Units (words, images) of a rank's step, and units per second of one machine of six GPUs with the hybrid: for LM1B and
# ResNet-50 by the chart in the repository of the paper, for NMT by its pull request 11. LM1B: 128 sequences of 20 words;
# ResNet-50: 64 images. NMT's words are not published: 128 pairs of sentences are taken to have 50 words.
COMPUTE = {"lm1b": (2560, 88_200, "words"), "nmt": (6400, 41_800, "words"), "resnet50": (64, 1_068, "images")}

# Published throughput at 1, 2, 4, 8 machines, in thousands: of hybrid, Horovod and TF-PS. Of NMT's not all is known: the
# paper's table has eight machines.
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


def figure_runs():
    """(model, policy, machines, ranks, topology). ResNet-50 has no tables: all-gather is the same as hybrid."""
    return [(model, policy, machines, 6, "hosts") for machines in MACHINES for model in PUBLISHED for policy in NAMES
            if (model, policy) != ("resnet50", "all_gather")]


def all_runs():
    """One rank a machine, flat exchanges and 32 machines as well: for the closed form and the bytes."""
    flat = [(model, policy, machines, 1, "flat") for model in ("lm1b", "nmt") for machines in (2, 4, 8)
            for policy in ("hybrid", "all_gather", "naive_parameter_server", "all_reduce")]
    flat += [("resnet50", "hybrid", machines, 1, "flat") for machines in (2, 4, 8)]
    wide = [("nmt", "all_reduce", 8, 6, "hosts"), ("lm1b", "all_reduce", 8, 6, "hosts"), ("nmt", "hybrid", 8, 6, "flat"),
            ("lm1b", "hybrid", 8, 6, "flat"), ("lm1b", "hybrid", 32, 1, "flat")]
    return figure_runs() + flat + wide


def run(program, payload, model, policy, machines, ranks, topology, precision=1e-12):
    flags = ["--model", model, "--policy", policy, "-w", "1", "-n", "1"]
    flags += ["--hosts", str(machines)] if topology == "hosts" else []
    code, lines, complaints = simulate.simulate(program, machines, ranks, NETWORK, payload, flags, precision=precision)
    if code != 0 or len(lines) != 1:
        raise SystemExit(f"{model} {policy} {machines}x{ranks} {topology}: exit code {code}\n" + "\n".join(lines) + complaints)
    return dict(zip(simulate.COLUMNS, lines[0].split(",")))


def key(row):
    return row["model"], row["policy"], int(row["machines"]), int(row["ranks"]), row["topology"]


def collect(program, path, wanted, known, payload, precision=lambda machines: 1e-12):
    """Rows of all wanted runs, each at 1/payload(model, policy) and with the simulator's precision(machines); those that are missing in the file are simulated and added, in
    the order of the known runs."""
    rows = {}
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = {key(row): row for row in csv.DictReader(file)}
    for number, parameters in enumerate(wanted):
        if parameters in rows:
            continue
        print(f"# {number + 1} of {len(wanted)}:", *parameters, file=sys.stderr, flush=True)
        rows[parameters] = run(program, payload(*parameters[:2]), *parameters, precision(parameters[2]))
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, simulate.COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[p] for p in known if p in rows)
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
                simulated = throughput(rows, model, policy, basis == "with compute")
                lines.append((model, policy, basis, PUBLISHED[model][policy] if basis == "published" else simulated))
    return lines


def ratios(lines):
    """Hybrid over the others at eight machines: (model, other, simulated with compute, with compute 0, published)."""
    at_8 = {(model, policy, basis): values[-1] for model, policy, basis, values in lines}
    return [(model, other, *(at_8[model, "hybrid", basis] / at_8[model, other, basis]
                             for basis in ("with compute", "compute 0", "published")))
            for model in PUBLISHED for other in ("naive_parameter_server", "all_gather")]


COLORS = ["#0b6e99", "#c4491d", "#3f7d20"]
MARKS = ["<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{color}'/>",
         "<polygon points='{0:.1f},{1:.1f} {2:.1f},{1:.1f} {2:.1f},{3:.1f} {0:.1f},{3:.1f}' fill='{color}'/>",
         "<polygon points='{x:.1f},{1:.1f} {2:.1f},{3:.1f} {0:.1f},{3:.1f}' fill='{color}'/>"]
STYLE = """body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:60em;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:2.5em}
figure{max-width:600px;margin:1.2em 0}figcaption{font-size:.95em;font-weight:600;margin-bottom:.4em}
svg{width:100%;height:auto;display:block}
svg text{font:13px system-ui,sans-serif;fill:#333}.grid{stroke:#e4e4e4}.axis{stroke:#888}
.wide{overflow-x:auto;background:
linear-gradient(to right,#fff 50%,#fff0) 0 0/3em 100% no-repeat local,
linear-gradient(to left,#fff 50%,#fff0) 100% 0/3em 100% no-repeat local,
linear-gradient(to right,#0003,#0000) 0 0/1em 100% no-repeat scroll,
linear-gradient(to left,#0003,#0000) 100% 0/1em 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.85em;font-variant-numeric:tabular-nums}
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}.words{text-align:left}"""


def tick_step(high):
    power = 10 ** math.floor(math.log10(high / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if high / (power * factor) <= 9)


def mark(number, x, y, color):
    return MARKS[number % 3].format(x - 3.5, y - 3.5, x + 3.5, y + 3.5, x=x, y=y, color=color)


def chart(title, unit, lines):
    """Lines over the number of machines, which differ in their marks; what was published is dashed."""
    left, right, top, bottom = 78, 532, 10, 290
    high = 1.05 * max(v for _, _, values in lines for v in values if v)
    x = lambda machines: left + (right - left) * (machines - 1) / 7
    y = lambda value: bottom - (bottom - top) * value / high
    out = [f"<figure><figcaption>{title}</figcaption><svg viewBox='0 0 560 {bottom + 60 + 20 * len(lines)}' role='img' "
           f"aria-label='{title}'>"]
    for machines in MACHINES:
        out.append(f"<text x='{x(machines):.1f}' y='{bottom + 20}' text-anchor='middle'>{machines}</text>")
    for tick in range(int(high / tick_step(high)) + 1):
        value = tick * tick_step(high)
        out.append(f"<line x1='{left}' x2='{right}' y1='{y(value):.1f}' y2='{y(value):.1f}' class='grid'/>")
        out.append(f"<text x='{left - 6}' y='{y(value) + 4:.1f}' text-anchor='end'>{value:g}</text>")
    for number, (name, dashed, values) in enumerate(lines):
        color, style = COLORS[number % 3], "stroke-dasharray='5 4'" if dashed else ""
        points = " ".join(f"{x(m):.1f},{y(v):.1f}" for m, v in zip(MACHINES, values) if v)
        stroke = f"fill='none' stroke='{color}' stroke-width='2' {style}/>"
        out += ["<g class='line'>"] + [mark(number, x(m), y(v), color) for m, v in zip(MACHINES, values) if v]
        out.append(f"<polyline points='{points}' {stroke}</g>")
        row = bottom + 64 + 20 * number
        out.append(f"<g class='key'><polyline points='{left},{row} {left + 32},{row}' {stroke}{mark(number, left + 16, row, color)}")
        out.append(f"<text x='{left + 38}' y='{row + 4}'>{name}</text></g>")
    out.append(f"<line x1='{left}' x2='{right}' y1='{bottom}' y2='{bottom}' class='axis'/>")
    out.append(f"<text x='{(left + right) / 2}' y='{bottom + 40}' text-anchor='middle'>machines of 6 ranks</text>")
    out.append(f"<text text-anchor='middle' transform='translate(14,{(top + bottom) / 2}) rotate(-90)'>{unit}</text></svg></figure>")
    return "\n".join(out)


def cell(value):
    return "-" if value is None else f"{value:.4g}"


def page(lines, proportions):
    out = ["<!DOCTYPE html>", "<html lang='en'><head><meta charset='utf-8'><title>Throughput, simulated</title>",
           "<meta name='viewport' content='width=device-width, initial-scale=1'>",
           f"<style>{STYLE}</style></head><body><h1>Throughput, simulated</h1>", f"<p>{ASSUMPTIONS}</p>",
           f"<p>{WHY_ABOVE}</p>"]
    for model in PUBLISHED:
        unit = f"thousand {COMPUTE[model][2]} per second"
        out.append(f"<h2>{model}</h2>")
        for basis, title in (("with compute", "with computing, beside what was published (dashed)"),
                             ("compute 0", "communication alone")):
            drawn = [(NAMES[p] + ", simulated", False, v) for m, p, b, v in lines if (m, b) == (model, basis)]
            if basis == "with compute":
                drawn += [(NAMES[p] + ", published", True, v) for m, p, b, v in lines if (m, b) == (model, "published")]
            out.append(chart(f"{model}: {title}", unit, drawn))
    out.append("<h2>All numbers, thousands per second, by machines</h2><div class='wide' tabindex='0'><table><tr><th class='words'>model"
               "<th class='words'>scheme<th class='words'>basis" + "".join(f"<th>{m}" for m in MACHINES) + "</tr>")
    for model, policy, basis, values in lines:
        out.append(f"<tr><td class='words'>{model}<td class='words'>{NAMES[policy]}<td class='words'>{basis}"
                   + "".join(f"<td>{cell(v)}" for v in values) + "</tr>")
    out.append("</table></div><h2>Hybrid over the others at 8 machines</h2><div class='wide' tabindex='0'><table><tr><th class='words'>model<th class='words'>over"
               "<th>simulated<th>simulated, compute 0<th>published</tr>")
    for model, other, *values in proportions:
        cells = "".join(f"<td>{value:.2f}" for value in values)
        out.append(f"<tr><td class='words'>{model}<td class='words'>{NAMES[other]}{cells}</tr>")
    return "\n".join(out + ["</table></div></body></html>", ""])


def write(folder, lines, proportions):
    with open(os.path.join(folder, "throughput.csv"), "w") as file:
        file.write("model,scheme,basis," + ",".join(f"machines_{m}" for m in MACHINES) + "\n")
        for model, policy, basis, values in lines:
            cells = ["" if value is None else f"{value:.4f}" for value in values]
            file.write(",".join([model, policy, basis.replace(" ", "_")] + cells) + "\n")
    with open(os.path.join(folder, "throughput.html"), "w") as file:
        file.write(page(lines, proportions))


def tell(lines, proportions):
    print("# SIMULATED. " + ASSUMPTIONS)
    print("# " + WHY_ABOVE)
    print(f"{'model':9} {'scheme':27} {'basis, thousands per s':23}" + "".join(f"{m:9}" for m in MACHINES))
    for model, policy, basis, values in lines:
        print(f"{model:9} {NAMES[policy]:27} {basis:23}" + "".join(f"{cell(v):>9}" for v in values))
    print("# hybrid over the others at 8 machines: simulated, simulated with compute 0, published.",
          "The paper's abstract: 2.8 over TF-PS, 6.02 over Horovod; the chart of its repository: 2.7 and 7")
    for model, other, *values in proportions:
        print(f"{model:9} {NAMES[other]:27}" + "".join(f"{v:9.2f}" for v in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="parallax-simulation.so")
    parser.add_argument("folder", help="where simulation.csv and throughput.{csv,html} are")
    parser.add_argument("--figure-only", action="store_true", help="only the runs that the figure shows")
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    wanted = figure_runs() if given.figure_only else all_runs()
    rows = collect(given.program, os.path.join(given.folder, "simulation.csv"), wanted, all_runs(), payload_of)
    lines = table(rows)
    write(given.folder, lines, ratios(lines))
    tell(lines, ratios(lines))


if __name__ == "__main__":
    main()
