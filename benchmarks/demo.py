"""`make demo`: compact hundreds of small files into a few, without losing a row."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.demo_table import SCHEMA, write_sample_table
from benchmarks.readers import checksum, installed_readers
from benchmarks.sides import deltactl
from deltactl.engine.spark.facts import has_java

_WIDTH = 80
_NAME = "orders"

Checks = Mapping[str, tuple[int, str]]


def main() -> int:
    """Show the commands on a sample table; 0 when every reader sees the same rows as before."""
    folder = Path(tempfile.mkdtemp(prefix="deltactl-demo-"))
    table = folder / _NAME
    _say("A sample table: orders of 12 days, loaded 25 times, then some deleted")
    write_sample_table(table)
    print(f"written to {table}")
    before = _check(table)
    _run(folder, "What is it?", "describe-detail", _NAME)
    _run(folder, "What would optimize do?", "optimize", _NAME, "--dry-run")
    if has_java(os.environ):
        # Not --engine spark: where Spark cannot start after all, the work is done all the same.
        why = "Do it, on Spark (which by default takes over at 1 GiB)"
        _run(folder, why, "optimize", _NAME, "--spark-threshold", "1B")
    else:
        _run(folder, "Do it (without Java, so without Spark)", "optimize", _NAME)
    _run(folder, "What happened to the table?", "describe-history", _NAME, "--limit", "5")
    _say("Is anything lost?")
    return _compare(before, _check(table), table)


def _run(folder: Path, why: str, *arguments: str) -> None:
    """Run the real command where the table lies, as a user would."""
    _say(why)
    print(_bold(f"$ {shlex.join(['deltactl', *arguments])}"), flush=True)
    environ = {**os.environ, "COLUMNS": str(_WIDTH)}
    done = subprocess.run(deltactl(*arguments), cwd=folder, env=environ, check=False)
    if done.returncode:
        sys.exit(f"deltactl {arguments[0]} ended with {done.returncode}: the demo stops here")


def _check(table: Path) -> Checks:
    found = {}
    for name, read in installed_readers().items():
        rows = read(table)
        found[name] = rows.num_rows, checksum(rows, SCHEMA, "order_id")
    return found


def _compare(before: Checks, after: Checks, table: Path) -> int:
    print(f"{'read by':<10}  {'rows before':>11}  {'rows after':>11}  checksums before and after")
    same = len({*before.values(), *after.values()}) == 1
    for name, (rows, digest) in before.items():
        now, new_digest = after[name]
        print(f"{name:<10}  {rows:>11,}  {now:>11,}  {digest} {new_digest}")
    print()
    if not same:
        print(_bold("The rows differ. That must never happen: please report it."))
        return 1
    print(_bold(f"Nothing was lost: every reader sees the same rows ({', '.join(after)})."))
    print(f"You can try other commands on this table. To remove it: rm -r {table.parent}")
    return 0


def _say(text: str) -> None:
    print(f"\n{_bold(f'== {text} ')}{_bold('=' * max(0, _WIDTH - len(text) - 4))}", flush=True)


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


if __name__ == "__main__":
    sys.exit(main())
