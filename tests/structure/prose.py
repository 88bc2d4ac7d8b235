#!/usr/bin/env python3
"""prose.py SOURCE [--show GROUP...]: counts the words of comments, pages and errors that make a first reading hard.

Three counts of each group, a page or a room: relative and question words, and bare demonstratives, for 100 words, and sentences that
begin with a question word, for 100 sentences. A group is a page, the doors of a room (`door comm`) or its back (`back comm`); groups
of one kind with fewer than 200 words are counted together. Fails for a figure above the group's goal, and for a sentence of an error
with two relative clauses or with a question word at its beginning. --show: every place that counts, of these groups.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

RELATIVE = re.compile(r"\b(?:that|which|who|whose|whom|what|where|whether)\b", re.I)
BARE = re.compile(r"\b(?:that|those|these|it|the same)(?=\.(?:\s|$)| of\b)", re.I)
OPENING = re.compile(r"(?:What|Whether|Who|Where|Which|How|The same|That|Those)\b")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
# Relative words and bare demonstratives for 100 words, openings for 100 sentences.
GOALS = {"page": (2.5, 0.5, 0.0), "door": (2.5, 0.5, 0.0), "back": (3.5, 0.5, 0.4)}
NAMES = ("relative", "bare", "openings")
FEW = 200  # words


def prose_of_page(text):
    """Yields (line, text) for each piece of a page that is read as one: a paragraph, an item, a cell."""
    inside, piece, start = False, [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.lstrip().startswith("```"):
            inside = not inside
            line = ""
        elif inside:
            continue
        begins = re.match(r"\s*(?:[-*] |\d+\. |#+ |\||>)", line)
        if piece and (not line.strip() or begins):
            yield start, " ".join(piece)
            piece = []
        if not line.strip() or re.fullmatch(r"[|:\s-]+", line):
            continue
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, cell.strip()
            continue
        if not piece:
            start = number
        piece.append(re.sub(r"^\s*(?:[-*] |\d+\. |#+ |> ?)", "", line).strip())


def prose_of_header(text):
    """Yields (line, text) for each comment: whole lines above each other, or what stands behind code."""
    piece, start = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        whole = re.match(r"\s*//(?!/?\s*(?:NOLINT|clang-format))\s?(.*)", line)
        behind = None if whole else re.search(r"[;{},)\w]\s+// (.*)", line)
        if piece and (not whole or not whole[1].strip()):
            yield start, " ".join(piece)
            piece = []
        if whole and whole[1].strip():
            if not piece:
                start = number
            piece.append(whole[1].strip())
        elif behind:
            yield number, behind[1].strip()


def plain(text):
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"https?://\S+", "X", text)


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*\[])|(?<=\.\))\s+", text) if s.strip()]


def groups_of(source):
    """{(kind, name): [(place, text)]}"""
    found = defaultdict(list)
    include = source / "include/parallax"
    for path in sorted([*include.rglob("*.hpp"), *include.rglob("*.cuh")]):
        parts = path.relative_to(include).parts
        back = parts[0] == "detail"
        room = parts[1] if back else parts[0] if len(parts) > 1 else "umbrella"
        for line, text in prose_of_header(path.read_text()):
            found["back" if back else "door", room].append((f"{path.relative_to(source)}:{line}", text))
    for path in sorted([*source.glob("*.md"), *source.glob("docs/*.md")]):
        if path.name != "CHANGELOG.md":
            for line, text in prose_of_page(path.read_text()):
                found["page", str(path.relative_to(source))].append((f"{path.relative_to(source)}:{line}", text))
    words = {group: sum(len(WORD.findall(plain(text))) for _, text in pieces) for group, pieces in found.items()}
    for group in [group for group in found if words[group] < FEW]:
        if found[group] and len([other for other in found if other[0] == group[0]]) > 1:
            found[group[0], "small ones"] += found.pop(group)
    return found


def places(pieces):
    """Of each count, the places where it counts."""
    for place, text in pieces:
        text = plain(text)
        for which, found in enumerate((RELATIVE.finditer(text), BARE.finditer(text))):
            for one in found:
                yield which, place, text[max(0, one.start() - 40):one.end() + 30]
        for sentence in sentences(text):
            if OPENING.match(sentence.lstrip("*_([\"")):
                yield 2, place, sentence[:70]


def figures_of(pieces):
    words = sum(len(WORD.findall(plain(text))) for _, text in pieces)
    said = sum(len(sentences(plain(text))) for _, text in pieces)
    counts = [0, 0, 0]
    for which, _, _ in places(pieces):
        counts[which] += 1
    return [100 * counts[0] / max(words, 1), 100 * counts[1] / max(words, 1), 100 * counts[2] / max(said, 1)]


def error_texts(include):
    """Yields (place, sentence) for each sentence of an error, in the string literals of the headers."""
    literal = r'"((?:[^"\\\n]|\\.)*)"'
    for path in sorted([*include.rglob("*.hpp"), *include.rglob("*.cuh")]):
        text = re.sub(r"(?m)^\s*(?://|#).*$", "", path.read_text())
        for chain in re.finditer(rf"{literal}(?:\s*{literal})*", text):
            said = "".join(re.findall(literal, chain[0]))
            for sentence in re.split(r"(?<=[.:;])\s|\\n", said):
                yield f"{path}:{text[:chain.start()].count(chr(10)) + 1}", sentence


def refuse_errors(include):
    """Prints the sentences of errors with a second relative clause, or with a question word at the beginning. Returns their count."""
    wrong = [(place, sentence) for place, sentence in error_texts(include)
             if len(RELATIVE.findall(sentence)) > 1 or OPENING.match(sentence)]
    for place, sentence in wrong:
        print(f"{place}: one relative clause a sentence, and no question word at the beginning of an error: {sentence}")
    return len(wrong)


def main(source, *more):
    found = groups_of(Path(source))
    if more[:1] == ("--show",):
        for kind, name in found:
            if f"{kind} {name}" in more[1:]:
                for which, place, text in places(found[kind, name]):
                    print(f"{place}: {NAMES[which]}: {text}")
                print(f"{kind} {name}: " + ", ".join(f"{n} {f:.2f}" for n, f in zip(NAMES, figures_of(found[kind, name]))))
        return 0
    wrong = refuse_errors(Path(source) / "include/parallax")
    over = 0
    for group, pieces in sorted(found.items()):
        above = [(n, f, goal) for n, f, goal in zip(NAMES, figures_of(pieces), GOALS[group[0]]) if f > goal]
        over += bool(above)
        for name, figure, goal in above:
            print(f"{' '.join(group)}: {figure:.2f} {name} for 100, {goal:.2f} at most")
    print(f"{len(found)} groups, {over} of them above their goals")
    return wrong + over > 0 or not found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
