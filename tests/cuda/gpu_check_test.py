#!/usr/bin/env python3
"""gpu_check_test.py: what benchmarks/gpu_check/run asks of a toolkit, and what it does where things are missing or late, with a
compiler and programs that only say what a device would. Needs no CUDA. Nothing: all is well."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(__file__).resolve().parents[2]

# Takes note of how it is called, and makes a program that says what PROGRAM_SAYS tells it to (JSON: by source and section).
nvcc = f"""#!{sys.executable}
import json, os, sys, time
from pathlib import Path
here, arguments = Path(__file__).resolve().parents[2], sys.argv[1:]
if arguments == ["--help"]:
    print("--split-compile <number>")
elif arguments == ["--version"]:
    print("a compiler\\nof this test")
else:
    source = next(Path(each).stem for each in arguments if each.endswith(".cu"))
    noted = here / f"{{source}}.noted"  # whole before it has its name: a run that ends may end this compiler as it writes
    noted.write_text(json.dumps(arguments))
    noted.rename(here / f"{{source}}.arguments")
    says = json.loads(os.environ["PROGRAM_SAYS"])[source]
    if says == "error":
        sys.exit(f"{{source}}.cu(1): error: it is wrong")
    while says.get("after") and not (here / says["after"]).exists():
        time.sleep(0.05)
    program = Path(arguments[arguments.index("-o") + 1])
    program.write_text(f'''#!{sys.executable}
import sys
from pathlib import Path
section = sys.argv[1] if len(sys.argv) > 1 else ""
Path({{str(here)!r}}, f"{{source}}.{{{{section}}}}.ran".format(section=section)).touch()
text, status = {{says!r}}.get(section, ("", 0))
print(text, end="")
sys.exit(status)
''')
    program.chmod(0o755)
"""


def line(**members):
    return json.dumps(members) + "\n"


times = {"us": 2.0, "us_p10": 1.0, "us_p90": 3.0, "samples": [1.0, 2.0, 3.0]}
of_case = {"ids": 1000, "width": 32, "distribution": "uniform"}
shape = {"over": "threads", "ranks": 1, "rows": 10, "ids": 5, "width": 4, "distribution": "uniform"}
right = {
    "device": {"": (line(gpu="Fake 9", architecture="sm_97", driver=13000, runtime=12080), 0)},
    "check": {"bits": (line(optimizer="Sgd", host_bits=True), 0),
              "copy": (line(kernel="copy", bytes=1000, **of_case, **times), 0),
              "kernels": (line(kernel="gather", bytes=900, **of_case, **times), 0)},
    "step": {"bits": (line(training="of both", host_bits=True, **shape), 0),
             "times": (line(part="pull", indices="device", **shape, **times), 0)},
    "nccl": {"1": (line(nccl=22809) + line(check="all-reduce", ranks=1, right=True), 0)},
}


# All that is judged, and one bar that is missed: scatter's.
million = {**of_case, "ids": 1_000_000, **times}
judged = right | {
    "check": right["check"] | {"kernels": ("".join(
        line(kernel=kernel, bytes=most, **million)
        for kernel, most in (("gather", 900), ("scatter", 10), ("update_sgd", 900), ("update_adagrad", 900), ("group", 0),
                             ("group_and_adagrad", 900), ("thrust_gather", 900), ("thrust_group", 0),
                             ("thrust_update_adagrad", 900))), 0)},
    "step": right["step"] | {"times": (line(part="whole", indices="device", **shape, **times), 0)},
    "nccl": {ranks: (line(nccl=23000) + line(check="all-reduce", ranks=1, right=True), 0) for ranks in ("1", "2", "devices")},
}
peers = {
    "torch": line(name="index_select", beside="gather", **million) +
             line(name="coalesce and index_add_", beside="group_and_adagrad", **million | {"us": 6.0}) +
             line(name="embedding and Adagrad", beside="whole", **shape, **times | {"us": 6.0}) +
             line(name="embedding and SparseAdam", beside="whole", **shape, **times | {"us": 1.0}),
    "cupy": line(name="take", beside="gather", **million) + line(name="unique", beside="group", **million),
}


class Checked:
    """One run of the script, on its own in a folder, with this compiler and no other program but git's and Python's. With
    `peers`, which say this, there is a sanitizer, too."""

    def __init__(self, says, build_time=90, nccl_time=256, with_nvcc=True, peers=None):
        with tempfile.TemporaryDirectory(prefix="gpu-check-test-") as name:
            folder = Path(name)
            script = folder / "benchmarks/gpu_check/run"
            script.parent.mkdir(parents=True)
            text = (root / "benchmarks/gpu_check/run").read_text()
            for what, other in ((r'"build": \d+', f'"build": {build_time}'), (r'"nccl": \d+', f'"nccl": {nccl_time}'),
                                ("/usr/local/cuda/bin", "/nowhere")):
                text, replaced = re.subn(what, other, text)
                assert replaced, f"nothing in the script is as {what}"
            script.write_text(text)
            (folder / "toolkit/bin").mkdir(parents=True)
            (folder / "toolkit/lib64").mkdir()
            (folder / "toolkit/lib64/libnccl.so.2").touch()
            compiler = folder / "toolkit/bin/nvcc"
            if with_nvcc:
                compiler.write_text(nvcc)
                compiler.chmod(0o755)
            if peers:
                (script.parent / "peers.py").write_text(f"import sys\nprint({peers!r}[sys.argv[1]])\n")
                sanitizer = folder / "toolkit/bin/compute-sanitizer"
                sanitizer.write_text(f"#!{sys.executable}\nprint('ERROR SUMMARY: 0 errors')\n")
                sanitizer.chmod(0o755)
            environment = {**os.environ, "PATH": str(compiler.parent), "PROGRAM_SAYS": json.dumps(says)}
            process = subprocess.run([sys.executable, "-S", script, "--out", folder / "results.json"], env=environment,
                                     capture_output=True, text=True, timeout=60)
            self.status, self.text = process.returncode, process.stdout + process.stderr
            self.arguments = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.arguments")}
            self.ran = {path.name.removesuffix(".ran") for path in folder.glob("*.ran")}
            self.results = json.loads((folder / "results.json").read_text()) if (folder / "results.json").exists() else {}
            self.folder = folder

    def bars(self, met):
        return [each["name"] for each in self.results["bars"] if each["met"] == met]


def require(what, checked, message):
    if not what:
        sys.exit(f"{message}\nexit status {checked.status}\n{checked.text}")


def the_first_device_of_cuda_is_compiled_for():
    checked = Checked(right)
    require(checked.status == 0, checked, "a run without nvidia-smi in which all is right does not end well")
    require(not any("-arch" in each for each in checked.arguments["device"]), checked, "the first program is for one device")
    for program in ("check", "step", "nccl"):
        arguments = checked.arguments[program]
        require("-arch=sm_97" in arguments, checked, f"{program} is not for the device that CUDA shows: {arguments}")
        require("--split-compile" in arguments, checked, f"{program} is compiled by one thread: {arguments}")
    require(checked.results["gpu"] == "Fake 9" and checked.results["driver"] == 13000, checked, "the device is not named")


def nccl_is_found_where_the_compiler_finds_it():
    checked = Checked(right)
    arguments = checked.arguments["nccl"]
    folder = str(checked.folder / "toolkit/lib64")
    at = arguments.index(folder) if folder in arguments else 0
    require("-lnccl" in arguments and arguments[at - 3:at] == ["-Xlinker", "-rpath", "-Xlinker"], checked,
            f"the program with NCCL would not find it again: {arguments}")


def where_no_device_answers_it_is_skipped():
    checked = Checked(right | {"device": {"": ("SKIPPED: no device answers: there are none\n", 77)}})
    require(checked.status == 77 and "SKIPPED: no device" in checked.text, checked, "no device is no reason to skip")
    require(set(checked.arguments) == {"device"}, checked, "programs are compiled for a device that is not there")
    checked = Checked(right, with_nvcc=False)
    require(checked.status == 77 and "no nvcc" in checked.text, checked, "no compiler is no reason to skip")


def programs_that_are_late_hold_up_no_others():
    late = right | {"step": right["step"] | {"after": "check.kernels.ran"}}
    checked = Checked(late, build_time=1)
    require(checked.status == 0 and "step.times" in checked.ran, checked, "steps are not run once their program is there")
    require(checked.results["steps"] and checked.results["cases"], checked, "results are missing")
    checked = Checked(right | {"check": right["check"] | {"after": "step.arguments"}}, build_time=0)
    require(checked.status == 0, checked, "a build that takes longer than its time ends the run")
    checked = Checked(right | {"nccl": right["nccl"] | {"after": "never"}}, build_time=1, nccl_time=2)
    require(checked.status == 0 and "NCCL: nccl.cu is not compiled yet" in checked.text, checked, "it waits for ever")


def a_program_that_is_wrong_takes_no_other_along():
    checked = Checked(right | {"step": "error"})
    require(checked.status == 1 and checked.results["cases"] and "nccl.1" in checked.ran, checked, "nothing else is measured")
    require(any("step.cu does not compile: step.cu(1): error" in name for name in checked.bars(False)), checked,
            "it is not said what is missing")
    checked = Checked(right | {"check": "error"})
    require(checked.status == 1 and "check.cu does not compile" in checked.text, checked, "nothing is compared with a copy")


def a_shape_that_fails_loses_itself_only():
    failed = line(failed="out of memory", **{**shape, "ranks": 2})
    checked = Checked(right | {"step": right["step"] | {"times": (right["step"]["times"][0] + failed, 1)}})
    require(checked.status == 1 and "out of memory" in checked.text, checked, "it is not said what failed")
    require(len(checked.results["steps"]) == 1 and len(checked.results["failures"]) == 1, checked, "the others are lost")


def every_bar_is_explained():
    with tempfile.TemporaryDirectory(prefix="gpu-check-test-") as folder:
        process = subprocess.run([sys.executable, "-S", root / "benchmarks/gpu_check/run", "--explain"], env={"PATH": ""},
                                 cwd=folder, capture_output=True, text=True, timeout=60)
        if process.returncode != 0 or process.stderr or os.listdir(folder):
            sys.exit(f"it does not explain its bars, or does more: exit status {process.returncode}\n{process.stderr}")
    explained = {text.split(": ", 1)[0]: " ".join(text.split()) for text in process.stdout.strip().split("\n\n")}
    checked = Checked(judged, peers=peers)
    require(checked.bars(False) == ["scatter, width 32"], checked, f"other bars are missed: {checked.bars(False)}")
    found = set()
    for each in checked.results["bars"]:
        goals = [goal for goal in explained if each["name"] == goal or each["name"].startswith((f"{goal},", f"{goal}:"))]
        require(len(goals) == 1, checked, f"the bar {each['name']} is explained by {goals}")
        for text in (each["reason"], each["if_missed"]):
            require(len(text.split()) > 8 and text in explained[goals[0]], checked, f"the reason of {each['name']} is another")
            require((text in " ".join(checked.text.split())) == (not each["met"]), checked,
                    "reasons are not printed of the bars that are missed, or of others too")
        found |= set(goals)
    require(found == set(explained), checked, f"explained, but not judged here: {sorted(set(explained) - found)}")
    measured = (root / "benchmarks/gpu_check/peers.py").read_text()
    for peer in (goal.split(" beside ")[1] for goal in explained if " beside " in goal):
        require(peer == "Thrust" or f'"{peer}"' in measured, checked, f"peers.py measures no {peer}")


for test in (the_first_device_of_cuda_is_compiled_for, nccl_is_found_where_the_compiler_finds_it,
             where_no_device_answers_it_is_skipped, programs_that_are_late_hold_up_no_others,
             a_program_that_is_wrong_takes_no_other_along, a_shape_that_fails_loses_itself_only,
             every_bar_is_explained):
    test()
