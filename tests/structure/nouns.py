"""nouns.py <sources>: the glossary of docs/architecture.md has a type for each noun, or none, and this type alone bears the name.
Fails with one line for each type of the table that is not defined once in include/, and for each type named as a noun that the
table does not give it.

A type is a class, struct, union, enum or concept, nested ones included, or an alias at namespace scope. Declarations are none,
specializations belong to their template. Aliases within a class or function are none: they shorten the name of a type there."""

import re
import sys
from collections import defaultdict
from pathlib import Path

HEAD = re.compile(r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[.*?\]\]\s*|alignas\s*\([^)]*\)\s*|[A-Z]+_[A-Z_]+\s+)*"
                  r"(?:\w+(?:<[^;{}]*>)?::)*(\w+)\s*(<[^;{}]*>)?(?:\s+final)?\s*(?::[^:;{][^;{]*)?\{")
CONCEPT = re.compile(r"\bconcept\s+(\w+)\s*=")
ALIAS = re.compile(r"^using\s+(\w+)\s*=", re.MULTILINE)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
ROW = re.compile(r"^\| ([a-z ]+) \| (.*?) \| .* \|$")


def types(include):
    """The headers of each type's definitions, by its name."""
    defined, specialized = defaultdict(list), defaultdict(list)
    for header in sorted(path for path in include.rglob("*") if path.suffix in (".hpp", ".cuh", ".cpp", ".cu")):
        text = COMMENT_OR_TEXT.sub("", header.read_text(encoding="utf-8"))
        name = header.relative_to(include).as_posix()
        for found in HEAD.finditer(text):
            (specialized if found[2] else defined)[found[1]].append(name)
        for found in (*CONCEPT.finditer(text), *ALIAS.finditer(text)):
            defined[found[1]].append(name)
    for one, headers in specialized.items():  # of a template that is only declared
        defined.setdefault(one, headers[:1])
    return defined


def glossary(page):
    """The types of each noun, as the table has them; and how many rows it has."""
    section = page.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return {match[1]: re.findall(r"`(\w+)`", match[2]) for match in map(ROW.match, rows) if match}, len(rows)


def complaints(source):
    """What is wrong, a line each."""
    nouns, rows = glossary((source / "docs/architecture.md").read_text(encoding="utf-8"))
    if not nouns or len(nouns) != rows:
        yield f"{rows} rows of the glossary have {len(nouns)} nouns with a type or none"
    defined = types(source / "include")
    for noun, given in nouns.items():
        for name in given:
            if len(defined[name]) != 1:
                yield f"{noun}: {name} names {len(defined[name])} types: {', '.join(defined[name])}"
        name = "".join(map(str.capitalize, noun.split()))
        if name not in given and defined[name]:
            yield f"{noun}: the glossary does not name {name}: {', '.join(defined[name])}"


if __name__ == "__main__":
    found = list(complaints(Path(sys.argv[1])))
    print(*found, sep="\n")
    sys.exit(f"{len(found)} nouns name no type, or several" if found else 0)
