#!/usr/bin/env python3
"""Checks envoy/deploy: `tests/deploy/check.py [PART...]`, all parts without an argument. tests/README.md says what with."""

import sys

import clusters
import images
import meshes
import observe
import units

PARTS = {"observe": observe.check, "units": units.check, "images": images.check, "clusters": clusters.check, "meshes": meshes.check}


def main():
    failed = False
    for name in sys.argv[1:] or PARTS:
        if name not in PARTS:
            sys.exit(f"there is no part '{name}': {', '.join(PARTS)}")
        problems = list(PARTS[name]())
        failed |= bool(problems)
        print(f"{name}: {'as it should be' if not problems else ''}")
        for problem in problems:
            print(f"  {problem}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
