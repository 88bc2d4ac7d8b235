#!/usr/bin/env python3
"""page_test.py PARALLAX_BENCH SAMPLES THROUGHPUT FOLDER: shows pages in headless Chromium, on a narrow and on a wide screen, and
says what is wrong with them.

The pages of PARALLAX_BENCH, the one that the program SAMPLES writes, and that of THROUGHPUT (throughput.py) from the simulations
that are committed must have nothing wrong; each page that is broken on purpose must be told of. All are made in FOLDER, and stand
in one document, a frame each. Exit code 77: there is no Chromium.

$MPIEXEC runs `peers`; where it is not set, or the program was built without a command, the page of that one is left out, which is
said. Every other command that the program's help names must have a page, and its text must say what its page opens with."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

WIDTHS = [420, 1200]
HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "../../benchmarks/results")
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]

# Pages of parallax-bench: the flags of each command. Threads, so that there are ranks everywhere; but `peers` wants MPI.
PAGES = {
    "report": "report --smoke --ranks 2",
    "partition": "partition --smoke",
    "count": "count --smoke --rows 2000 --alpha-sweep .01,.1,1",
    "kernels": "kernels --smoke",
    "auto": "auto --smoke --alpha-sweep .01",
    "converge": "converge --smoke --ranks 2",
    "async": "async --smoke",
    "staleness": "staleness --smoke --ranks 2",
    "crossing": "crossing --smoke --ranks 2",
    "ps": "ps --smoke --comm threads --ranks 3",
    "peers": "peers --smoke",
    "compare": "compare --smoke --model lm1b --comm threads --ranks 4 --hosts 2 --alpha-sweep .01,.1,1",
    "allreduce": "allreduce --smoke -b 1K -e 1M --comm threads --ranks 3",
    "collectives": "collectives --smoke -b 1K -e 64K --comm threads --ranks 3",
}

# The page of samples, broken: what is replaced by what, and what must be said of it on a narrow screen.
BREAKS = [
    (r"</h1>", r"</h1><p style='width:1300px'>wide</p>", "the document is 1\\d\\d\\d wide: P"),
    (r"\.wide\{overflow-x:auto;", ".wide{", "the box of a wide table does not scroll"),
    (r"background:linear-gradient[^}]*scroll\}", "}", "a table goes on behind the edge, and nothing shows it"),
    (r"\.wide\{overflow-x:auto;", ".facts{overflow:hidden;white-space:nowrap;max-width:9em}.wide{overflow-x:auto;",
     "something is cut: P date"),
    (r"<title>M{100}</title>", "", "the end of a name is nowhere: M"),
    (r"<div class='wide' tabindex='0'>", "<div>", "a table stands in no box that scrolls"),
    (r"<p class='found'>", "<p class='lost'>", "the page does not open with what was found"),
    (r"</h1>", "</h1><p>Words before.</p>", "the page does not open with what was found"),
    (r"(<p class='found'>).*?(</p>)", r"\1\2", "it does not open with one sentence"),
    (r"(<p class='found'>).*?(</p>)", r"\g<1>12 results, 0 of them wrong.\2", "it does not open with one sentence"),
    (r"(<p class='found'>.*?)(</p>)", r"\1 12 results, 0 of them wrong.\2", "it does not open with one sentence"),
    (r"(<p class='found'>).*?(</p>)", r"\1All policies were measured.\2", "it does not open with one sentence"),
    (r"(<p class='found'>.*?)\.(</p>)", r"\1\2", "it does not open with one sentence"),
    (r"(<p class='line'>.*?) --flag", r"\1", "the command line is not there"),
    (r"date: 2026-01-02", "date: today", "the date is not there"),
    (r"1\.2\.3, commit", "1.2, commit", "not the version and commit"),
    (r", commit 0123456", "", "not the version and commit"),
    (r"cpu: some CPU", "cpu: unknown", "not the CPU"),
    (r"<li>.*?</li>", "", "the contents have 1 links, the page has 2 sections"),
    (r"(?s)<li>.*</li>", "", "the contents have 0 links, the page has 2 sections"),
    (r"<section id='s2'>", "<section>", "a link of the contents leads nowhere: #s2"),
    (r"(href='#s2'>)wide", r"\1narrow", "a link is called otherwise than its target: narrow"),
    (r"<td class='words'>tie</td></tr>\n(.*>slower<.*)>tie<", r"<td class='words'>tie</td></tr>\n\1><",
     "not marked as fastest or as a tie: slower"),
    (r"(.*>slow<.*)(</td></tr>)", r"\1tie\2", "marked as fastest without being it: slow "),
    (r"<td class='words'>tie<", "<td class='words'>yes<", "a tie is not called one"),
    (r"(<figcaption>)", r"\1Not ", "a chart is not called what stands above it"),
    (r"figure\{max-width:600px", "figure{width:1500px", "a chart is cut"),
    (r"viewBox='0 0 560\.0", "viewBox='0 0 450.0", "text leaves its chart: "),
    (r"<text x='[\d.]*'([^<>]*>0W)", r"<text x='200'\1", "text leaves its chart: "),
    (r"(<text x='[\d.]*' y=')[\d.]*('[^<>]*>)slower<", r"\g<1>23\2slower<",
     'texts lie on each other: "naive_parameter_server", "slower"'),
    (r"svg text\{font:13px", "svg text{font:9px", r"letters of \d.\d px"),
    (r"(<g class='key'>.*?)7 4", r"\g<1>7 5", "the legend shows another line than line 2"),
    (r"(<g class='key'><polyline [^>]*>)<circle [^>]*>", r"\1", "the legend shows another line than line 1 of"),
    (r"<g class='key'>.*?</g>", "", "40 lines and 39 entries of the legend"),
    (r"stroke-dasharray='[^']*'", "", 'only colour tells lines apart: "policy_0", "policy_8"'),
    (r"<polygon [^>]*>", "<circle r='3'/>", 'only colour tells lines apart: "policy_0", "policy_5"'),
    (r"<text [^<>]*'end' >1[0e]*\d*</text>", "", "a scale of 0 numbers"),
    (r">policy_7<", "><", "a line without a name"),
]


def made_by(program, name, flags, folder):
    """The page of a command, what it must tell, and whether its text ends otherwise; or None: the command cannot be had."""
    path = os.path.join(folder, f"{name}.html")
    command = [program, *flags.split(), "--html", path]
    run = []
    if name == "peers":
        if not os.environ.get("MPIEXEC"):
            print("left out: the page of peers, without MPIEXEC")
            return None
        run = [os.environ["MPIEXEC"], "-n", "2"]
    done = subprocess.run(run + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 2 and "was built without" in done.stderr:
        print(f"left out: the page of {name}: {done.stderr.strip()}")
        return None
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    with open(path, encoding="utf-8") as file:
        sentence = re.search(r"<p class='found'>(.*?)</p>", file.read())
    found = "# " + (html.unescape(sentence[1]) if sentence else "no sentence")
    unlike = [] if found in done.stdout.splitlines() else [f"the text of {name} does not say {found!r}"]
    with open("/proc/cpuinfo") as file:
        cpu = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split(None, 1)[1]
    expected = {"kind": "bench", "line": " ".join(command), "version": version.strip(), "cpu": cpu[1] if cpu else "unknown"}
    return path, expected, unlike


def simulated(program, folder):
    """The page of what is committed, and whether it and its neighbours are as they are committed."""
    shutil.copy(os.path.join(RESULTS, "simulation.csv"), folder)
    text = subprocess.run([sys.executable, program, "none", folder], stdout=subprocess.PIPE, text=True, check=True).stdout
    stale = []
    for name in ("throughput.txt", "throughput.csv", "throughput.html"):
        with open(os.path.join(RESULTS, name)) as file:
            committed = file.read()
        if name.endswith(".txt"):
            made = text
        else:
            with open(os.path.join(folder, name)) as file:
                made = file.read()
        if made != committed:
            stale.append(f"benchmarks/results/{name} is not what throughput.py makes of simulation.csv")
    return os.path.join(folder, "throughput.html"), {"kind": "simulated"}, stale


def show(browser, pages, good, folder):
    """What is wrong with each page: `pages` are the texts, and what each must tell. The first `good` are shown at each width."""
    with open(os.path.join(HERE, "checks.js")) as file:
        checks = file.read()
    frames = ""
    for number, (text, expected) in enumerate(pages):
        script = (f"<script>{checks}\nconst tell = (words) => parent.postMessage([{number}, innerWidth, words], '*');\n"
                  f"try {{ tell(complaints({json.dumps(expected)})) }} catch (error) {{ tell([String(error)]) }}</script>")
        with open(os.path.join(folder, f"frame_{number}.html"), "w") as file:
            file.write(text.replace("</body>", script + "</body>"))
        frames += "".join(f"<iframe src='frame_{number}.html' width={width} height=900 style='border:0'></iframe>\n"
                          for width in (WIDTHS if number < good else WIDTHS[:1]))
    outer = os.path.join(folder, "frames.html")
    with open(outer, "w") as file:
        file.write("<!DOCTYPE html><meta charset='utf-8'><pre id='told'></pre><script>const told = [];\n"
                   "onmessage = (e) => { told.push(e.data); document.getElementById('told').textContent = JSON.stringify(told); };"
                   f"</script>\n{frames}")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   f"--user-data-dir={profile}", "--hide-scrollbars", "--window-size=1300,1000", "--virtual-time-budget=20000",
                   "--dump-dom", "file://" + os.path.abspath(outer)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    if done.returncode != 0 or not told:
        sys.exit(f"FAILED: {' '.join(command)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    found = {}
    for number, width, words in json.loads(html.unescape(told[1]) or "[]"):
        found[number, width] = words
    return found


def main():
    program, samples, throughput, folder = sys.argv[1:]
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("SKIPPED: there is no Chromium (Debian: chromium)")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

    names, pages, wrong = [], [], []

    def add(name, text, expected):
        names.append(name)
        pages.append((text, expected))

    def add_file(name, path, expected):
        with open(path, encoding="utf-8") as file:
            add(name, file.read(), expected)

    listed = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    commands = re.findall(r"^  (\w+) ", listed, re.MULTILINE)
    if len(commands) < 11:
        wrong.append(f"the help lists {len(commands)} commands")
    wrong += [f"{command} has no page here" for command in commands if command not in PAGES]
    for name, flags in PAGES.items():
        made = made_by(program, name, flags, folder)
        if made:
            add_file(name, *made[:2])
            wrong += made[2]
    path, expected, stale = simulated(throughput, folder)
    add_file("throughput.py", path, expected)
    wrong += stale
    path = os.path.join(folder, "samples.html")
    subprocess.run([samples, path], check=True)
    line = "samples " + 200 * "a" + " --flag 'quoted'"
    expected = {"kind": "bench", "line": line, "version": "1.2.3, commit 0123456", "cpu": "some CPU"}
    add_file("samples", path, expected)
    sample, good = pages[-1][0], len(pages)
    for before, after, sentence in BREAKS:
        count = 0 if before.startswith(("stroke", "<polygon", "<text [^<>]*'end")) else 1  # all of them
        broken, times = re.subn(before, after, sample, count=count)
        if times == 0 or broken == sample:
            wrong.append(f"there is nothing to break: {before}")
        add(f"samples, broken: {before} -> {after}", broken, expected)

    found = show(browser, pages, good, folder)
    for number, name in enumerate(names):
        for width in WIDTHS if number < good else WIDTHS[:1]:
            if (number, width) not in found:
                wrong.append(f"{name}: nothing was told of it at a width of {width}")
            elif number < good:
                wrong += [f"{name}, {width} wide: {words}" for words in found[number, width]]
        if number >= good:
            sentence, told = BREAKS[number - good][2], found.get((number, WIDTHS[0]), [])
            if not any(re.search(sentence, words) for words in told):
                wrong.append(f"{name}: nobody said «{sentence}», but: {told[:4]}")
    for words in wrong:
        print("FAILED:", words)
    print(f"{good} pages at {len(WIDTHS)} widths, {len(BREAKS)} broken ones, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
