"""Print the requirements of pyproject.toml, each in its oldest version; and what the tests need."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# The tests that need no Spark run without these; the linters have a look of their own.
LEFT_OUT = ("pyspark", "ruff", "mypy", "pytest-cov", "types-pyyaml")


def main(path: str) -> None:
    """Print one requirement a line."""
    project = tomllib.loads(Path(path).read_text())["project"]
    for text in project["dependencies"]:
        name, lowest = re.match(r"([a-zA-Z0-9_-]+).*?>=([0-9.]+)", text).groups()
        if name not in LEFT_OUT:
            print(f"{name}=={lowest}")
    for text in project["optional-dependencies"]["dev"]:
        if not text.startswith(LEFT_OUT):
            print(text)


if __name__ == "__main__":
    main(sys.argv[1])
