#!/usr/bin/env python3
"""Runs parallax-simulation under SimGrid's smpirun: simulate PROGRAM MACHINESxRANKS [flags of the program]

Writes the platform that the flags --latency, --bandwidth, --local-latency, --local-bandwidth and --payload describe, and prints
the program's lines. Simulated time depends on nothing but these flags."""
import argparse
import os
import subprocess
import sys
import tempfile

# Alpha-beta without corrections or cross traffic; computing takes no time; a test of a request takes what smpi.cpp says.
MODEL = {
    "network/model": "CM02", "network/crosstraffic": "0", "smpi/simulate-computation": "no", "smpi/test": "0",
    "smpi/iprobe": "0", "smpi/wtime": "1e-9",
}


def platform(machines, network, payload):
    """Every machine has a link of its own to a switch that never blocks, the same each way, and one link among its ranks."""
    lines = ['<?xml version="1.0"?>', '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
             '<platform version="4.1">', '<zone id="cluster" routing="Full">']
    for m in range(machines):
        lines.append(f'<host id="h{m}" speed="1Gf"/>')
    for m in range(machines):
        wire = f'bandwidth="{network["bandwidth"] * 1e9 / payload}Bps" latency="{network["latency"] / 2}us"'
        memory = f'bandwidth="{network["local_bandwidth"] * 1e9 / payload}Bps" latency="{network["local_latency"]}us"'
        lines.append(f'<link id="out{m}" {wire}/><link id="in{m}" {wire}/><link id="memory{m}" {memory}/>')
    for a in range(machines):
        for b in range(machines):
            links = [f"memory{a}"] if a == b else [f"out{a}", f"in{b}"]
            hops = "".join(f'<link_ctn id="{link}"/>' for link in links)
            lines.append(f'<route src="h{a}" dst="h{b}" symmetrical="NO">{hops}</route>')
    return "\n".join(lines + ["</zone>", "</platform>"])


def simulate(program, machines, ranks, network, payload, flags, smpirun="smpirun", precision=1e-12):
    """The program's exit code, lines and complaints. Messages that end within `precision` seconds end at once."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {"platform": os.path.join(folder, "platform.xml"), "hostfile": os.path.join(folder, "hosts")}
        with open(paths["platform"], "w") as file:
            file.write(platform(machines, network, payload))
        with open(paths["hostfile"], "w") as file:
            file.write("".join(f"h{m}\n" * ranks for m in range(machines)))
        command = [smpirun, "-np", str(machines * ranks), "-platform", paths["platform"], "-hostfile", paths["hostfile"]]
        command += [f"--cfg={name}:{value}" for name, value in MODEL.items()]
        command += [f"--cfg=surf/precision:{precision}", "--log=root.thres:warning", program, "compare"]
        command += ["--machines", f"{machines}x{ranks}", "--payload", str(payload)] + flags
        for name, value in network.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()  # of a program that fails smpirun has something to say as well
    return done.returncode, [line for line in lines if line.count(",") + 1 == len(COLUMNS)], done.stderr


# Of a line. Milliseconds and MB of a step at 1/payload of the bytes; `whole`: at the model's own size, for the same ids.
COLUMNS = ["model", "policy", "machines", "ranks", "topology", "partition", "payload", "simulated_ms", "closed_ms",
           "error_percent", "closed_whole_ms", "sent_MB_mean", "link_MB_busiest", "local_MB_busiest", "whole_sent_MB_mean",
           "whole_link_MB_busiest", "rounds", "messages", "wrong"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("program")
    parser.add_argument("layout", help="machines x ranks of each, such as 8x6")
    parser.add_argument("--latency", type=float, default=2.0, help="us of a message between machines")
    parser.add_argument("--bandwidth", type=float, default=12.5, help="GB/s of a machine's link, each way")
    parser.add_argument("--local-latency", type=float, default=0.5, help="us of a message within a machine")
    parser.add_argument("--local-bandwidth", type=float, default=30.0, help="GB/s that its ranks hand to each other in all")
    parser.add_argument("--payload", type=int, default=1, help="1/s of the bytes, on 1/s of the bandwidths")
    given, flags = parser.parse_known_args()
    machines, ranks = (int(n) for n in given.layout.split("x"))
    network = {name: getattr(given, name) for name in ("latency", "bandwidth", "local_latency", "local_bandwidth")}
    code, lines, complaints = simulate(given.program, machines, ranks, network, given.payload, flags)
    print("\n".join([",".join(COLUMNS)] + lines))
    if code != 0:
        sys.stderr.write(complaints)
    return code


if __name__ == "__main__":
    sys.exit(main())
