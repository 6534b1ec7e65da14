"""Makes a table of the summary that llvm-cov exports: coverage.py SUMMARY SOURCES PERCENT."""

import json
import os
import re
import sys

# Code that runs only on CPUs with these instructions.
OTHER_CPUS = ("avx512.rs", "neon.rs")


def percent(covered, count):
    return 100 * covered / count if count else 100.0


def main(summary, sources, least):
    with open(summary, encoding="utf-8") as file:
        files = json.load(file)["data"][0]["files"]
    modules, other, poor = {}, [], []
    for entry in files:
        # src/ is the library's; other packages have theirs in crates/NAME/src.
        path = os.path.relpath(entry["filename"], sources)
        if not re.match(r"(crates/\w+/)?src/", path):
            continue
        path = path.replace("src/", "", 1)
        lines = entry["summary"]["lines"]
        parts = path.split(os.sep)
        module = os.path.join(*parts[:2]) if parts[0] in ("filter", "kernel", "crates") and len(parts) > 2 else parts[0]
        count, covered = modules.get(module, (0, 0))
        modules[module] = (count + lines["count"], covered + lines["covered"])
        if parts[-1] in OTHER_CPUS:
            other.append((path, lines["count"], lines["covered"]))
        elif lines["count"] and percent(lines["covered"], lines["count"]) < least:
            poor.append((path, lines["count"], lines["covered"]))
    if not modules:
        sys.exit("COVERAGE FAILED: no file of the library is in the summary")
    print(f"{'module':<28} {'lines':>7} {'run':>7} {'percent':>8}")
    for module, (count, covered) in sorted(modules.items()):
        print(f"{module:<28} {count:>7} {covered:>7} {percent(covered, count):>7.1f}%")
    count, covered = (sum(column) for column in zip(*modules.values()))
    share = percent(covered, count)
    print(f"{'all':<28} {count:>7} {covered:>7} {share:>7.1f}%")
    for title, rows in ((f"files below {least:g} %", poor), ("for other CPUs, counted all the same", other)):
        print(f"\n{title}:" if rows else f"\n{title}: none")
        for path, lines, run in sorted(rows):
            print(f"  {path:<40} {lines:>5} lines, {lines - run:>4} not run")
    without = sum(lines for _, lines, _ in other), sum(run for _, _, run in other)
    print(f"\nwithout them: {percent(covered - without[1], count - without[0]):.1f} %")
    if share < least:
        sys.exit(f"COVERAGE FAILED: {share:.1f} % of the lines are run, expected at least {least:g} %")


main(sys.argv[1], os.path.realpath(sys.argv[2]), float(sys.argv[3]))
