#!/usr/bin/env python3
"""count.py PROGRAM ADDR2LINE INCLUDE WALK=CEILING...: runs the program, which writes the functions that it enters in each walk, and
counts the headers under INCLUDE/parallax with these functions. Fails if a walk passes more of them than its ceiling, and lists them
then. A header and its `-inl` are one, and headers of the room core do not count."""
import os
import re
import subprocess
import sys

program, addr2line, include = sys.argv[1:4]
ceilings = {walk: int(ceiling) for walk, ceiling in (argument.split("=") for argument in sys.argv[4:])}


def header(place):
    """Returns the header of a place `file:line` by its path under parallax/, or None where it does not count."""
    under = re.search(r"/include/parallax/([^:]*)", place)
    if not under:
        return None
    path = re.sub(r"-inl\.hpp$", ".hpp", under[1])
    room, name = os.path.split(path.removeprefix("detail/"))
    if path != under[1]:  # a door's lies in detail/, and doors of transports and of launch in comm/
        places = (path, f"{room}/{name}", f"comm/{name}")
        path = next((place for place in places if os.path.exists(f"{include}/parallax/{place}")), path)
    return None if room.split("/")[0] == "core" else path


lines = [line.split() for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()]
addresses = sorted({address for _, address in lines})
answers = subprocess.run([addr2line, "-f", "-C", "-e", program], check=True, capture_output=True, text=True,
                         input="\n".join(addresses)).stdout.splitlines()
functions = {address: (header(place), name) for address, name, place in zip(addresses, answers[::2], answers[1::2], strict=True)}

high = 0
for walk, ceiling in ceilings.items():
    headers = {}
    for address in (address for name, address in lines if name == walk):
        path, name = functions[address]
        if path:
            headers.setdefault(path, set()).add(name)
    print(f"{walk}: {len(headers)} headers, {ceiling} at most")
    if len(headers) > ceiling:
        high += 1
        for path, names in sorted(headers.items()):
            print(f"  {path}: {len(names)} functions, as {min(names, key=len)}")
    if not headers:
        sys.exit(f"no function of {walk} was found in a header")
sys.exit(1 if high else 0)
