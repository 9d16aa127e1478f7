#!/usr/bin/env python3
"""Figures of how the product is built. Prints each beside its limit, and fails where one is above it.

A limit is what was reached: lower it together with the figure, and raise none (lines of code were: by the heads of crates, and by a third host
with connections of its own, reads side by side and changes in lanes, which the store had to know;
and by reading the files of sixteen systems, which also name the fields of a link). `tests/house.py --arrows ROOM` prints what a
room imports and what imports it.

knots           groups of rooms that import each other in a circle. A room is a file or folder right under `src/` of a crate
crates          groups of crates of the workspace that depend on each other in a circle, by their Cargo.toml
largest crate   code lines of the largest crate below control-plane/, without tests, comments and blank lines
product lines   code lines of all crates
names           names of more than one struct, enum or trait: anywhere, and within a crate
property        files that name `crawlable`: what one property of a link touches
doors           files of the front doors (http, console, public) that know the store
loop            requests that the process sends to its own router
clauses         doc comments, in thousandths, that begin with a question word or with "Those"
"The same"      doc comments that begin so
match bool      `match` whose arms are true and false
document        bytes of the largest document that is not generated
"""

import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LIMITS = {
    "knots": 0,
    "crates": 0,
    "largest crate": 11_277,
    "product lines": 94_950,
    "names": 22,
    "names within a crate": 0,
    "property": 9,
    "doors": 0,
    "loop": 0,
    "clauses": 18,
    '"The same"': 0,
    "match bool": 0,
    "document": 15_000,
}
# Fewer files than these mean that files were not found, rather than that the product has become so small.
EXPECTED_FILES = 400

TESTS = re.compile(r"^tests/|/tests/|/tests?\.rs$|_tests?\.rs$|/fake\.rs$|/matrix\.rs$|/benches/|/examples/")
DOORS = re.compile(r"/(http|console|public|web|shlink)/")
QUESTION = {"What", "Whether", "How", "Why", "Where", "Who", "Whose", "Those", "Which", "When"}
GENERATED = re.compile(r"generated|not to be edited", re.I)
FILE_OF_TESTS = re.compile(r"#\[cfg\(test\)\]\n\s*(?:pub(?:\(.*\))? )?mod (\w+);")
MODULE_OF_TESTS = re.compile(r"(pub(\(.*\))? )?mod \w+ \{")


def listed(pattern):
    out = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in out.split() if (ROOT / name).is_file()]


def without_tests(text):
    """The lines of a file without its `#[cfg(test)] mod ... {}`."""
    lines, kept, end = text.split("\n"), [], None
    for number, line in enumerate(lines):
        if end is None and line.strip() == "#[cfg(test)]":
            rest = [after.strip() for after in lines[number + 1 : number + 4] if not after.strip().startswith("#[")]
            if rest and MODULE_OF_TESTS.match(rest[0]):
                end = line[: len(line) - len(line.lstrip())] + "}"
        if end is None:
            kept.append(line)
        elif line.rstrip() == end:
            end = None
    return kept


def files_of_tests():
    """The files that `#[cfg(test)] mod NAME;` declares, and their folders."""
    for name in listed("*.rs"):
        path = ROOT / name
        folder = path.parent if path.stem in ("lib", "main", "mod") else path.with_suffix("")
        for module in FILE_OF_TESTS.findall(path.read_text()):
            place = (folder / module).relative_to(ROOT).as_posix()
            yield from (f"{place}.rs", f"{place}/")


def crate_of(name):
    folder = (ROOT / name).parent
    while not (folder / "Cargo.toml").exists():
        folder = folder.parent
    return folder.relative_to(ROOT).as_posix()


def is_code(line):
    return line.strip() and not line.strip().startswith("//")


def paths_in(text):
    """The paths that a file imports or names, relative ones as they are written."""
    for found in re.finditer(r"\buse ((?:crate|super|self)(?:::[^;]*)?);", text):
        yield from expanded(re.sub(r"\s+", "", re.sub(r"\bas \w+", "", found[1])))
    for found in re.finditer(r"\bcrate::[A-Za-z_0-9:]+", re.sub(r"\buse [^;]*;", "", text)):
        yield found[0]


def expanded(path):
    """`a::{b, c::{d, e}}` as single paths."""
    group = re.fullmatch(r"(.*?)\{(.*)\}", path)
    if not group:
        return [path]
    parts, depth = [""], 0
    for letter in group[2]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [single for part in parts if part for single in expanded(group[1] + part)]


def rooms_of(crate, sources):
    """Which room of a crate imports which, and by what: {room: {room: [file: path]}}."""
    arrows = defaultdict(lambda: defaultdict(list))
    for name, lines in sources.items():
        place = list(Path(name).relative_to(crate, "src").with_suffix("").parts) if name.startswith(f"{crate}/src/") else []
        if place and place[-1] in ("mod", "lib", "main"):
            place.pop()
        if not place:
            continue
        for path in paths_in(re.sub(r"//.*", "", "\n".join(lines))):
            first, *rest = path.split("::")
            base = [] if first == "crate" else list(place)
            rest = [first, *rest] if first == "super" else rest
            while rest and rest[0] == "super":
                base, rest = base[:-1], rest[1:]
            full = base + rest
            if full and full[0] != place[0]:
                arrows[place[0]][full[0]].append(f"{name}: {'::'.join(full)}")
    return arrows


def knots_of(arrows):
    """Groups of nodes that reach each other."""
    reached = {}
    for start in arrows:
        seen, todo = set(), [start]
        while todo:
            for after in arrows.get(todo.pop(), ()):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        reached[start] = seen
    groups = {frozenset(other for other in seen if start in reached.get(other, ())) for start, seen in reached.items()}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def crates_of_workspace():
    """Which crate of the workspace depends on which, by their folders; dependencies of tests do not count."""
    names, needs = {}, {}
    for manifest in listed("*Cargo.toml"):
        folder, text = Path(manifest).parent.as_posix(), (ROOT / manifest).read_text()
        if named := re.search(r'^\[package\][^\[]*?^name = "(.*?)"', text, re.M | re.S):
            names[named[1]] = folder
            tables = re.findall(r"^\[(?:target\..*\.)?dependencies\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S)
            needs[folder] = re.findall(r"^([\w-]+)(?:\.\w+)? *=", "\n".join(tables), re.M)
    return {folder: {names[name]: [] for name in of if name in names} for folder, of in needs.items()}


def docs_of(sources):
    """The first lines of doc comments."""
    for lines in sources.values():
        before = False
        for line in lines:
            is_doc = line.strip().startswith("///")
            if is_doc and not before and line.strip() != "///":
                yield line.strip()[3:].strip()
            before = is_doc


def main():
    of_tests = tuple(files_of_tests())
    product = [name for name in listed("*.rs") if not TESTS.search(name) and not name.startswith(of_tests)]
    sources = {name: without_tests((ROOT / name).read_text()) for name in product}
    if len(sources) < EXPECTED_FILES:
        sys.exit(f"only {len(sources)} files of the product were found")
    texts = {name: "\n".join(lines) for name, lines in sources.items()}
    crates = sorted({crate_of(name) for name in sources})
    rooms = {crate: rooms_of(crate, sources) for crate in crates}
    if sys.argv[1:2] == ["--arrows"]:
        return print_arrows(rooms, sys.argv[2])

    lines, names, within = Counter(), Counter(), Counter()
    for name, of in sources.items():
        lines[crate_of(name)] += sum(1 for line in of if is_code(line))
        for defined in re.findall(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait) (\w+)", texts[name], re.M):
            names[defined] += 1
            within[crate_of(name), defined] += 1
    docs = list(docs_of(sources))
    knots = [(crate, group) for crate in crates for group in knots_of(rooms[crate])]
    circles = knots_of(crates_of_workspace())
    documents = [name for name in listed("*.md") if not GENERATED.search((ROOT / name).read_text()[:200])]

    figures = {
        "knots": len(knots),
        "crates": len(circles),
        "largest crate": max(count for crate, count in lines.items() if crate.startswith("control-plane")),
        "product lines": sum(lines.values()),
        "names": sum(count > 1 for count in names.values()),
        "names within a crate": sum(count > 1 for count in within.values()),
        "property": sum(bool(re.search(r"\bcrawlable\b", text)) for text in texts.values()),
        "doors": sum(bool(DOORS.search(name) and re.search(r"crate::store|edgelink_(?:click_)?store|edgelink_database", text)) for name, text in texts.items()),
        "loop": sum(len(re.findall(r"\.oneshot\(", text)) for name, text in texts.items() if DOORS.search(name)),
        "clauses": round(1000 * sum(doc.split()[0] in QUESTION for doc in docs) / len(docs)),
        '"The same"': sum(doc.startswith("The same") for doc in docs),
        "match bool": sum(len(re.findall(r"match [^{;]+\{\s*(?:true|false) =>", text)) for text in texts.values()),
        "document": max((ROOT / name).stat().st_size for name in documents),
    }
    for crate, group in knots:
        print(f"a knot in {crate}: {' '.join(group)}")
    for group in circles:
        print(f"a circle of crates: {' '.join(group)}")
    above = [name for name, figure in figures.items() if figure > LIMITS[name]]
    for name, figure in figures.items():
        print(f"{name:21}{figure:>8}  at most {LIMITS[name]:>8}{'  ABOVE' if name in above else ''}")
    sys.exit(1 if above else 0)


def print_arrows(rooms, room):
    for crate, arrows in rooms.items():
        for start, of in arrows.items():
            for end, by in of.items():
                if room in (start, end):
                    print(f"{crate}: {start} -> {end}", *sorted(set(by)), sep="\n    ")


if __name__ == "__main__":
    main()
