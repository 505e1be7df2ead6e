"""Check before the first task that the executors can run tasks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from deltactl.engine.spark.jobs import functions_of
from deltactl.errors import EngineUnavailableError
from deltactl.storage.providers import PROVIDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED: Final[Mapping[str, str]] = {
    "pyarrow": "22",
    "numpy": "1.26",
    "pandas": "2.2",
    "fsspec": "2026.6",
    "pyroaring": "1.1",
    **{provider.package: provider.oldest for provider in PROVIDERS.values()},
}
"""Packages that tasks may import, with the oldest version allowed (as in pyproject.toml)."""

ALWAYS: Final = ("pyarrow", "numpy", "pandas", "fsspec", "pyroaring")
"""Packages that every task needs. Each of the other packages is for one kind of storage."""

_MOST_PROBES: Final = 64
_LONGEST: Final = 300

_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor")
_PYTHON_DIFFERS: Final = re.compile(r"different version:? \(?(\d+[.,] ?\d+)\)?")
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE: Final = re.compile(r"No module named '([^']+)'")
_RECENT_FAILURE: Final = re.compile(r"most recent failure: (.*)")
_SHIP: Final = "or ship an environment with spark.archives (see docs/spark.md)"


def ensure_executors(session: SparkSession, slots: int, packages: Iterable[str] = ()) -> None:
    """Run one small Python task in each slot, which also checks its host for ``packages``.

    Raises:
        EngineUnavailableError: the message names host, package and remedy.
    """
    wanted = {name: REQUIRED[name] for name in (*ALWAYS, *packages)}
    # The rows are pickled, not sent with Arrow, because the probe also checks whether Arrow is
    # installed.
    from pyspark.sql.types import StringType

    look = functions_of(session).udf(make_probe(wanted), StringType(), useArrow=False)
    probes = min(slots, _MOST_PROBES)
    frame = session.range(0, probes, 1, probes).select(look("id").alias("found"))
    try:
        answers = [json.loads(row[0]) for row in frame.collect()]
    except Exception as error:
        raise explain_failure(str(error)) from error
    for answer in answers:
        if answer["problems"]:
            raise _lacking(answer["host"], answer["python"], answer["problems"])


def make_probe(wanted: Mapping[str, str]) -> Callable[[object], str]:
    """Return the function that checks a host. It is pickled with its code, without deltactl."""
    required = dict(wanted)

    def deltactl_probe(_row: object) -> str:
        import json
        import re
        import socket
        import sys
        from importlib import import_module
        from importlib.metadata import version

        def numbers(text: str) -> list[int]:
            return [int(digits) for digits in re.findall(r"\d+", text)[:3]]

        problems = []
        for name, oldest in required.items():
            try:
                found = version(name)
            except Exception:
                try:
                    found = str(import_module(name).__version__)
                except Exception:
                    problems.append([name, oldest, None])
                    continue
            if numbers(found) < numbers(oldest):
                problems.append([name, oldest, found])
        return json.dumps(
            {"host": socket.gethostname(), "python": sys.executable, "problems": problems}
        )

    return deltactl_probe


def _lacking(
    host: str, python: str, problems: list[tuple[str, str, str | None]]
) -> EngineUnavailableError:
    said = ", ".join(
        f"{name} is missing" if found is None else f"{name} is {found}, older than {oldest}"
        for name, oldest, found in problems
    )
    packages = " ".join(f"'{name}>={oldest}'" for name, oldest, _ in problems)
    return EngineUnavailableError(
        f"executors cannot run deltactl: on host {host}, {said}",
        hint=f"Run `{python} -m pip install {packages}` on that host, {_SHIP}.",
    )


def explain_failure(text: str) -> EngineUnavailableError:
    """Return the error for a message of Spark, if no Python task could run."""
    found = _HOST.search(text)
    host = f"host {found[1]}" if found else "the executors"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if differs := _PYTHON_DIFFERS.search(text):
        theirs = re.sub(r"[, ]+", ".", differs[1])
        return EngineUnavailableError(
            f"Python {theirs} runs on {host}, but deltactl runs with Python {ours} on this "
            "machine: the minor versions must be equal",
            hint=f"Set PYSPARK_PYTHON or spark.pyspark.python to a Python {ours} on {host}, "
            f"{_SHIP}.",
        )
    if program := _NO_PYTHON.search(text):
        return EngineUnavailableError(
            f"there is no program {program[1]!r} on {host}",
            hint=f"Set PYSPARK_PYTHON or spark.pyspark.python to a Python {ours} on {host}, "
            f"{_SHIP}.",
        )
    if module := _NO_MODULE.search(text):
        return EngineUnavailableError(
            f"executors cannot run deltactl: on {host}, the Python package {module[1]} is missing",
            hint=f"Install the package on the executors, {_SHIP}.",
        )
    return EngineUnavailableError(
        f"no Python task could be run on {host}: {describe_failure(text)}",
        hint="Rerun with -v for the output of Spark.",
    )


def describe_failure(text: str) -> str:
    """Return the most informative line of a Spark error, without stack traces."""
    if found := _RECENT_FAILURE.search(text):
        return found[1].strip()[:_LONGEST]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (messages or lines or ["no reason given"])[0].removeprefix(": ")[:_LONGEST]
