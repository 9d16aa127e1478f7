#!/usr/bin/env python3
"""Circles of imports among the files of the product: prints them and fails if there are any.

A file imports the files that define the names it uses: by `use`, or by a path in its code. A name is followed through
`pub use` to the file that defines it. Neither `mod` nor the re-export of a child's name is an import, unless the file
uses the name itself. A child belongs to its parent where it adds methods to a type of the parent, or uses what is private
to the parent: that is no import either. What is compiled for tests only is left out.

`tests/circles.py --arrows FILE` prints what a file imports, and by what names.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ["control-plane/src", "filter/src", "filter/core/src", "filter/wire/src", "filter/resp-bridge/src"]
ROOTS = ["lib.rs", "main.rs"]
# Fewer files than these mean that files were not found, rather than that the product has become so small.
EXPECTED_FILES = 200

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<block>/\*)
      | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)")
      | (?P<string>(?:\b[bc])?"(?:[^"\\]|\\.)*")
      | (?P<char>(?:\bb)?'(?:[^'\\]|\\(?:x..|u\{[^}]*\}|.))')
      | (?P<lifetime>'\w+)
      | (?P<word>(?:r\#)?[A-Za-z_]\w*)
      | (?P<number>\d[\w.]*?(?=\.\.|[^\w.]|\.[A-Za-z_]))
      | (?P<path>::)
      | (?P<other>.)""",
    re.X | re.S,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
DEFINING = {"struct", "enum", "trait", "fn", "type", "const", "static", "union"}
MODIFIERS = {"unsafe", "async", "extern", "default", "mut", "pub"}
KEYWORDS = {"crate", "self", "super", "Self"}


def tokens_of(text):
    """The tokens of Rust source, without comments; a literal is one token without content."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        kind, at = match.lastgroup, match.end()
        if match["block"]:
            depth = 1
            while depth:
                edge = re.compile(r"/\*|\*/").search(text, at)
                depth, at = depth + (1 if edge[0] == "/*" else -1), edge.end()
        elif match["raw"]:
            end = '"' + match["hashes"]
            at = text.index(end, at) + len(end)
            found.append('"')
        elif match["string"] or match["char"]:
            found.append('"')
        elif kind in ("word", "path", "other"):
            found.append(match[0].removeprefix("r#"))
    return found


def after_group(tokens, at):
    """The position after the group that is opened at `at`."""
    depth = 0
    while True:
        if tokens[at] in "([{":
            depth += 1
        elif tokens[at] in ")]}":
            depth -= 1
        at += 1
        if depth == 0:
            return at


class Module:
    """A module: what it defines and imports, and the tokens of its code."""

    def __init__(self, file, folder, parent):
        self.file, self.folder, self.parent = file, folder, parent
        self.children, self.names, self.globs = {}, {}, []
        self.defined, self.private, self.uses, self.code = set(), set(), [], []

    def root(self):
        return self.parent.root() if self.parent else self

    def is_within(self, other):
        return self is other or (self.parent is not None and self.parent.is_within(other))


def read_module(module, tokens, files):
    """Reads the items of a module, and the files of its children."""
    at = 0
    while at < len(tokens):
        of_test, path = False, None
        while tokens[at] == "#":
            start = at + (2 if tokens[at + 1] == "!" else 1)
            at = after_group(tokens, start)
            words = tokens[start + 1 : at - 1]
            of_test |= words[:3] == ["cfg", "(", "test"] or words[:5] == ["cfg", "(", "any", "(", "test"]
            if at == len(tokens):
                return
        start, is_public = at, tokens[at] == "pub"
        if is_public:
            at += 1
            if tokens[at] == "(":
                at = after_group(tokens, at)
        end = end_of_item(tokens, at)
        if not of_test:
            read_item(module, tokens[at:end], is_public, files)
        at = end


def end_of_item(tokens, at):
    only_semicolon = tokens[at] in ("use", "static", "type") or (tokens[at] == "const" and tokens[at + 1] not in DEFINING | MODIFIERS)
    while at < len(tokens):
        if tokens[at] == ";":
            return at + 1
        if tokens[at] in "([{":
            is_end = tokens[at] == "{" and not only_semicolon
            at = after_group(tokens, at)
            if is_end:
                return at
        else:
            at += 1
    return at


def read_item(module, item, is_public, files):
    if item[0] == "mod":
        read_child(module, item, files)
    elif item[0] == "use":
        for path, alias in paths_of_use(item[1:-1]):
            module.uses.append((path, alias, is_public))
            if alias == "*":
                module.globs.append(path)
            elif alias != "_":
                module.names[alias] = path
    else:
        head = 0
        while item[head] in MODIFIERS or item[head] == '"' or (item[head] == "const" and item[head + 1] in DEFINING | MODIFIERS):
            head += 1
        if item[head] in DEFINING:
            module.defined.add(item[head + 1])
            if not is_public:
                module.private.add(item[head + 1])
        elif item[:2] == ["macro_rules", "!"]:
            module.defined.add(item[2])
        else:
            read_macro_call(module, item)
        module.code.append(item)


def read_macro_call(module, item):
    """What a macro makes is defined where it is called: types, and constants like `REQUESTS: Counter "requests";`."""
    if "!" not in item or item.index("!") > item.index(next(token for token in item if token in CLOSING)):
        return
    for before, token, after in zip(item, item[1:], item[2:]):
        if token in ("struct", "enum"):
            module.defined.add(after)
            if before not in ("pub", ")"):
                module.private.add(after)
        elif before in "{;" and after == ":" and token.isupper():
            module.defined.add(token)


def read_child(module, item, files):
    name = item[1]
    if item[2] == "{":
        child = Module(module.file, module.folder / name, module)
        module.children[name] = child
        read_module(child, item[3:-1], files)
        return
    for file, folder in ((module.folder / f"{name}.rs", module.folder / name), (module.folder / name / "mod.rs", module.folder / name)):
        if file.exists():
            module.children[name] = read_file(file, folder, module, files)
            return
    sys.exit(f"{module.file}: no file for `mod {name}`")


def read_file(file, folder, parent, files):
    module = Module(file, folder, parent)
    files.append(file)
    read_module(module, tokens_of(file.read_text()), files)
    return module


def paths_of_use(tree, prefix=()):
    """Each path of a `use`, with the name by which it is imported: `*` for all that is there."""
    path, at = list(prefix), 0
    while at < len(tree):
        token = tree[at]
        if token == "{":
            part, depth = [], 0
            for inner in tree[at + 1 : after_group(tree, at) - 1] + [","]:
                depth += {"{": 1, "}": -1}.get(inner, 0)
                if inner == "," and depth == 0:
                    if part:
                        yield from paths_of_use(part, path)
                    part = []
                else:
                    part.append(inner)
            return
        if token == "as":
            yield tuple(path), tree[at + 1]
            return
        if token == "*":
            yield tuple(path), "*"
            return
        if token == "self" and path:
            pass
        elif token != "::":
            path.append(token)
        at += 1
    yield tuple(path), path[-1]


def look_up(module, name, wants_module, seen):
    """What a name means in a module: a module, or a module and a name that it defines; `None` if it is of another crate."""
    if (module, name) in seen:
        return None
    seen = seen | {(module, name)}
    if name in module.children and (wants_module or name not in module.defined):
        return module.children[name], None
    if name in module.defined:
        return module, name
    if name in module.names:
        return resolve(module, module.names[name], seen, wants_module)
    for path in module.globs:
        target = resolve(module, path, seen, True)
        if target and target[1] is None:
            found = look_up(target[0], name, wants_module, seen)
            if found:
                return found
    return None


def resolve(module, path, seen=frozenset(), wants_module=False):
    """What a path means in a module, as `look_up` says it."""
    here = {"crate": module.root(), "self": module, "super": module.parent}.get(path[0])
    target = (here, None) if here else look_up(module, path[0], wants_module or len(path) > 1, seen)
    for at, name in enumerate(path[1:], 2):
        if target is None or target[1] is not None:
            return target
        if name == "super":
            target = (target[0].parent, None)
            continue
        # What no item defines is what a macro of that module makes.
        target = look_up(target[0], name, wants_module or at < len(path), seen) or (None if seen else (target[0], name))
    return target


def modules_below(module):
    yield module
    for child in module.children.values():
        yield from modules_below(child)


def paths_in(item):
    """Each path in the code of an item, those of `use` within functions included."""
    at = 0
    while at < len(item):
        # Not the `use<'_>` of a type.
        if item[at] == "use" and item[at + 1] != "<":
            end = item.index(";", at)
            yield from (path for path, _ in paths_of_use(item[at + 1 : end]))
            at = end + 1
            continue
        path = [item[at]]
        if item[at][0].isalpha() or item[at][0] == "_":
            while at + 2 < len(item) and item[at + 1] == "::" and re.match(r"[A-Za-z_]", item[at + 2]):
                path.append(item[at + 2])
                at += 2
            if len(path) > 1:
                yield tuple(path)
        at += 1


def extended_type(item):
    """The type to which an item adds methods, if it does."""
    if item[0] == "impl":
        at, depth = 1, 0
        while item[at] == "<" or depth > 0:
            depth += {"<": 1, ">": -1}.get(item[at], 0) if item[at - 1] != "-" else 0
            at += 1
        head = item[at : item.index("{", at)]
        return head[0] if "for" not in head else None
    return None


def imports_of(module):
    """The files whose names a module uses, with the names."""
    extended = {extended_type(item) for item in module.code}
    words = {token for item in module.code for token in item}
    found = []
    for path, alias, is_public in module.uses:
        target = resolve(module, path)
        if target is None:
            continue
        if alias == "*" and target[1] is None:
            used = (look_up(target[0], word, False, frozenset()) for word in words)
            found.extend(definition for definition in used if definition)
        elif not (is_public and target[0].is_within(module) and alias not in words):
            found.append(target)
    for item in module.code:
        found.extend(target for target in (resolve(module, path) for path in paths_in(item)) if target)
    found = {(target, name) for target, name in found if name and target.file != module.file}
    belongs = {(target, name) for target, name in found if module.is_within(target) and (name in target.private or name in extended)}
    return [(target.file, name) for target, name in found - belongs]


def circles_of(arrows):
    """The strongly connected components of more than one file (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in sorted(arrows[file]):
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            at = stack.index(file)
            circle = stack[at:]
            del stack[at:]
            if len(circle) > 1:
                found.append(sorted(circle))

    for file in sorted(arrows):
        if file not in index:
            visit(file)
    return found


def main():
    sys.setrecursionlimit(10_000)
    files, arrows = [], defaultdict(lambda: defaultdict(set))
    for crate in CRATES:
        roots = [ROOT / crate / root for root in ROOTS if (ROOT / crate / root).exists()]
        if not roots:
            sys.exit(f"{crate}: neither {' nor '.join(ROOTS)}")
        for root in roots:
            for part in modules_below(read_file(root, ROOT / crate, None, files)):
                arrows[part.file].update()
                for file, name in imports_of(part):
                    arrows[part.file][file].add(name)
    arrows = {file: dict(targets) for file, targets in arrows.items()}
    if sys.argv[1:2] == ["--arrows"]:
        for file, names in sorted(arrows[ROOT / sys.argv[2]].items()):
            print(f"{file.relative_to(ROOT)} ({', '.join(sorted(names))})")
        return
    circles = circles_of(arrows)
    for circle in circles:
        print(f"a circle of {len(circle)} files:")
        for file in circle:
            for other, names in sorted(arrows[file].items()):
                if other in circle:
                    print(f"  {file.relative_to(ROOT)} -> {other.relative_to(ROOT)} ({', '.join(sorted(names))})")
    count = sum(len(targets) for targets in arrows.values())
    print(f"{len(files)} files, {count} arrows, {len(circles)} circles of imports")
    if len(files) < EXPECTED_FILES or count < len(files):
        sys.exit(f"fewer than {EXPECTED_FILES} files, or fewer arrows than files: something was not read")
    sys.exit(1 if circles else 0)


if __name__ == "__main__":
    main()
