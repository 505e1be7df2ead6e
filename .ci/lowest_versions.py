"""Print the oldest allowed version of each requirement, and the packages of the tests."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# The tests without Spark do not need these, and no test needs the linters.
LEFT_OUT = ("deltactl", "pyspark", "ruff", "mypy", "pytest-cov", "types-pyyaml")


def main(path: str) -> None:
    """Print one requirement per line."""
    project = tomllib.loads(Path(path).read_text())["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["spark"]]:
        name, lowest = re.match(r"([a-zA-Z0-9_-]+)(?:.*?>=([0-9.]+))?", text).groups()
        if name not in LEFT_OUT:
            print(f"{name}=={lowest}" if lowest else name)
    for text in extras["dev"]:
        if not text.startswith(LEFT_OUT):
            print(text)


if __name__ == "__main__":
    main(sys.argv[1])
