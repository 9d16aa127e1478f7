#!/usr/bin/env python3
"""Writes regexes.json and crawlers.txt from what is published (see README.md). Needs PyYAML.

usage: update.py path/to/uap-core/regexes.yaml path/to/crawler-user-agents.json
"""
import json
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).parent

# Patterns of crawler-user-agents that people's browsers, devices and apps match as well.
OF_PEOPLE = {
    r"008\/",  # versions of Opera Mini
    r"Adventurer",
    r"AP3A\.240617\.008",  # a build of Android 15
    r"Butterfly",  # a phone of HTC
    r"BW\/",  # ends other names; ^BW\/ stays
    r"Code\/1\.",  # Visual Studio Code
    r"Disqus",
    r"Fever",
    r"fluffy",
    r"Fluid",  # a browser for macOS
    r"Goodreads",
    r"Grammarly\/",
    r"Hello World",
    r"Instapaper\/",
    r"Magellan",
    r"mail\.ru",
    r"Make\/",
    r"MetaIAB Facebook",  # the browser in Facebook's apps
    r"Notion\/",
    r"Operator\/",
    r"Overcast\/",
    r"PayPal\/",
    r"PocketCasts\/",
    r"Podimo",
    r"Readable\/",
    r"RED\/",  # WIRED
    r"^Silk\/",
    r"Sonic",  # a phone
    r"speedy",  # a phone of HTC
    r"Trae\/",  # an editor
    r"Tumblr\/",
    r"upday\/",
    r"WSM\/",
}


def main(regexes, crawlers):
    parts = []
    for name, parsers in yaml.load(open(regexes, encoding="utf-8"), Loader=yaml.CSafeLoader).items():
        rows = ",\n".join(json.dumps(parser, ensure_ascii=False) for parser in parsers)
        parts.append(f'"{name}": [\n{rows}\n]')
    (HERE / "regexes.json").write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    patterns = [crawler["pattern"] for crawler in json.load(open(crawlers, encoding="utf-8"))]
    missing = OF_PEOPLE.difference(patterns)
    if missing:
        sys.exit(f"not in the list any more, take them out here: {sorted(missing)}")
    kept = [pattern for pattern in patterns if pattern not in OF_PEOPLE]
    (HERE / "crawlers.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
