"""Checks what `cargo metadata` says of all packages against deny.toml, where cargo-deny is not installed: licences.py DENY."""

import json
import re
import sys
import tomllib

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def is_allowed(expression, allowed):
    """Evaluates an SPDX expression: a licence counts as true when it is allowed."""
    words = re.findall(r"[()]|[^\s()]+(?:\s+WITH\s+\S+)?", expression.replace("/", " OR "))
    parts = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    known = " ".join(parts.get(word) or str(re.sub(r"\s+", " ", word) in allowed) for word in words)
    return bool(eval(known, {"__builtins__": {}}))  # Of True, False, and, or, and parentheses alone.


def main(deny):
    with open(deny, "rb") as file:
        allowed = set(tomllib.load(file)["licenses"]["allow"])
    metadata = json.load(sys.stdin)
    own, problems = set(metadata["workspace_members"]), []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        if not is_allowed(package["license"] or "none", allowed):
            problems.append(f"{name}: licence {package['license']}")
        if package["id"] not in own and package["source"] != REGISTRY:
            problems.append(f"{name}: from {package['source']}")
    if problems:
        sys.exit("SUPPLY CHAIN FAILED:\n  " + "\n  ".join(problems))
    print(f"{len(metadata['packages'])} packages: licences and sources are as deny.toml has them")


main(sys.argv[1])
