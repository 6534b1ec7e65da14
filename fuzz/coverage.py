#!/usr/bin/env python3
"""Replays the corpora and adds up which of the library's code they reach.

    ci/fuzz 1                # builds the targets
    fuzz/coverage.py         # by directory of src/, and of tables; with --uncovered, also the functions that no target enters

Counted are the edges that the sanitizer has numbered, by function. Of a function that several targets have, the best
counts: that is at most what they reach together. Code that no target links does not count.
"""

import argparse
import collections
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
BINARIES = HERE / "target" / "x86_64-unknown-linux-gnu" / "release"
FUNCTION = re.compile(r"^(?:UN)?COVERED_FUNC: matches: \d+ edges: (\d+)/(\d+) (.+) (\S+):\d+$")


def functions(target, corpus):
    """Edges entered, and all, of each of the library's functions in a target."""
    command = [BINARIES / target, "-runs=1", "-print_coverage=1", corpus]
    output = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
    for line in output.stderr.splitlines():
        match = FUNCTION.match(line)
        path = pathlib.Path(match[4]).relative_to(HERE.parent) if match and match[4].startswith(f"{HERE.parent}/") else None
        if path and (path.parts[0] == "src" or path.parts[:3] == ("crates", "table", "src")):
            # Generic functions come once for each type.
            yield (path, match[3]), int(match[1]), int(match[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=pathlib.Path, default=HERE / "corpus")
    parser.add_argument("--uncovered", action="store_true", help="list functions that no target enters")
    options = parser.parse_args()
    best = {}
    for corpus in sorted(path for path in options.corpora.iterdir() if path.is_dir()):
        entered = total = 0
        for function, hit, edges in functions(corpus.name, corpus):
            entered, total = entered + hit, total + edges
            known = best.get(function, (0, 1))
            best[function] = max(known, (hit, edges), key=lambda counts: counts[0] / counts[1])
        print(f"{corpus.name:<18} {entered:>6} of {total:>6} edges of the library, {entered / max(total, 1):.1%}")
    rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
    for (path, name), (hit, edges) in sorted(best.items()):
        room = "/".join(path.parts[1:-1][:2]) or path.name
        for key in (room, "all"):
            for index, more in enumerate((hit, edges, hit > 0, 1)):
                rooms[key][index] += more
        if options.uncovered and hit == 0:
            print(f"never entered: {path}: {name}")
    for room, (hit, edges, entered, count) in rooms.items():
        print(f"{room:<28} {hit:>6} of {edges:>6} edges {hit / edges:>6.1%}, {entered:>4} of {count:>4} functions")


if __name__ == "__main__":
    main()
