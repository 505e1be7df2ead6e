"""Fail when a test was skipped, or expected to fail, for a reason that is not allowed."""

from __future__ import annotations

import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree as ET  # a file that deltactl's own tests wrote


def load_patterns(path: Path) -> list[str]:
    """Return the patterns of allowed reasons, without comments and blank lines."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_skips(report: Path) -> list[tuple[str, str]]:
    """Return the name and the reason of every skipped test in a JUnit report."""
    return [
        (f"{case.get('classname')}::{case.get('name')}", skipped.get("message", ""))
        for case in ET.parse(report).iter("testcase")
        for skipped in case.iter("skipped")
    ]


def main(report: str, allowed: str) -> int:
    """Print allowed skips by reason and refused ones by test; return 1 if any was refused."""
    patterns = load_patterns(Path(allowed))
    skips = read_skips(Path(report))
    refused = [s for s in skips if not any(fnmatchcase(s[1], p) for p in patterns)]
    for reason, count in Counter(reason for _, reason in skips).items():
        print(f"skipped {count}: {reason}")
    for test, reason in refused:
        print(f"not an allowed skip: {test}: {reason}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
