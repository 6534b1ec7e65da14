"""For `ci/layers` and `ci/packages`: the file of limits, and Rust code without comments and without tests."""

import re

# A line comment, a block comment, a string, a raw string, a character (not a lifetime).
COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?"(?:\\.|[^"\\])*"|b?r(#*)".*?"\1|b?\'(?:\\.[^\']*|[^\'\\])\'', re.S)
TEST_ATTRIBUTE = re.compile(r"#\[(?:cfg\((?:all\()?(?:test|loom|doctest)\b[^\]]*|test)\]\s*(?:#\[[^\]]*\]\s*)*")
MODULE = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")


def limits(text):
    """{folder: (lines, all lines)} of `ci/limits`."""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {folder: (int(lines), int(all_lines)) for folder, lines, all_lines in rows}


def without_comments(text):
    """Code without comments, with underscores for the characters of literals. Line breaks stay."""
    def replacement(found):
        visible = "" if found.group().startswith("/") else "_"
        return re.sub(r"\S", visible, found.group())
    return COMMENT_OR_LITERAL.sub(replacement, text)


def end_of_item(text, start):
    """The position after the semicolon or closing brace of the item or statement that begins at `start`."""
    depth = 0
    for end in range(start, len(text)):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(text[end], 0)
        if depth < 0:
            return end
        if depth == 0 and text[end] in ";}":
            return end + 1
    return len(text)


def without_tests(text):
    """Code without the items under cfg(test), and the names of the modules under it."""
    test_modules = set()
    while found := TEST_ATTRIBUTE.search(text):
        if module := MODULE.match(text, found.end()):
            test_modules.add(module.group(1))
        text = text[: found.start()] + text[end_of_item(text, found.end()) :]
    return text, test_modules


def shipped(sources):
    """{module: (path, code without comments and tests)} of `sources` ({path: text}), without test files."""
    files, tests = {}, set()
    for path, text in sorted(sources.items()):
        parts = path.with_suffix("").parts
        module = parts[:-1] if parts[-1] in ("mod", "lib") else parts
        code, test_modules = without_tests(without_comments(text))
        files[module] = path, code
        tests |= {module + (name,) for name in test_modules}
    is_test = lambda module: any(module[:depth] in tests for depth in range(1, len(module) + 1))
    return {module: file for module, file in files.items() if not is_test(module)}


def use_paths(tree, prefix=()):
    """The paths of a use tree: a::{b, c::d} gives (a, b) and (a, c, d)."""
    tree = re.sub(r"\s+as\s+\w+", "", tree.strip())
    if "{" not in tree:
        yield prefix + tuple(part.strip() for part in tree.split("::") if part.strip())
        return
    head, rest = tree.split("{", 1)
    prefix += tuple(part.strip() for part in head.split("::") if part.strip())
    depth, piece = 0, ""
    for character in rest[: rest.rindex("}")] + ",":
        if character == "," and depth == 0:
            if piece.strip():
                yield from use_paths(piece, prefix)
            piece = ""
        else:
            depth += {"{": 1, "}": -1}.get(character, 0)
            piece += character
