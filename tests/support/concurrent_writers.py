"""Writers that work on one table side by side, each a process that notes what it was promised.

``python -m tests.support.concurrent_writers ROLE NUMBER URI SECONDS CONFIG`` runs one until its
time is over and prints a line of JSON for each thing it did. Delta-rs and deltactl are never
imported into the same process: which delta-rs it is depends on ``PYTHONPATH``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_IDS_OF_A_WRITER = 1_000_000
_ROWS_OF_AN_APPEND = 3
# Longer than any writer takes between writing a file and committing it.
_VACUUM_RETAINS_MS = 40_000
_SECONDS_TO_END = 240
_FEWEST_NOTES = 4


@dataclass(frozen=True, slots=True)
class Writers:
    """A table, and how the writers reach it.

    ``ours`` are storage options of deltactl, ``theirs`` of delta-rs, which is found in ``library``
    where that is given; ``log_store`` has table and region of a log store in DynamoDB.
    """

    uri: str
    ours: Mapping[str, str]
    theirs: Mapping[str, str]
    log_store: Sequence[str] = ()
    library: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)

    def run(self, roles: Sequence[str], seconds: float) -> list[dict[str, Any]]:
        """Let one process a role work at once; give what they all noted.

        Raises:
            AssertionError: a process died of something that nobody expects.
        """
        started = [self._start(role, number, seconds) for number, role in enumerate(roles)]
        notes: list[dict[str, Any]] = []
        try:
            for role, process in zip(roles, started, strict=True):
                out, err = process.communicate(timeout=seconds + _SECONDS_TO_END)
                assert process.returncode == 0, f"{role}: {err}"
                notes += [json.loads(line) for line in out.splitlines()]
        finally:
            for process in started:
                process.kill()
                process.wait()
        return notes

    def _start(self, role: str, number: int, seconds: float) -> subprocess.Popen[str]:
        config = {"ours": dict(self.ours), "theirs": dict(self.theirs), "log_store": self.log_store}
        path = [str(Path.cwd())]
        if role in _THEIRS and self.library is not None:
            path.insert(0, str(self.library))
        arguments = [role, str(number), self.uri, str(seconds), json.dumps(config)]
        return subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            env={**os.environ, **self.environ, "PYTHONPATH": os.pathsep.join(path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@dataclass(frozen=True, slots=True)
class Promises:
    """What the writers were told: rows that are in the table, and those that may or may not be."""

    present: Counter[int]
    doubtful: frozenset[int]

    @classmethod
    def of(cls, notes: Sequence[Mapping[str, Any]]) -> Promises:
        """Sum up notes, which are in order for each row: a row is deleted by who appended it."""
        present: Counter[int] = Counter()
        doubtful: set[int] = set()
        for note in notes:
            if note["did"] == "append":
                (present.update if note["ok"] else doubtful.update)(note["ids"])
            elif note["did"] == "delete":
                for number in note["ids"]:
                    del present[number]
                if not note["ok"]:
                    doubtful.update(note["ids"])
        return cls(present, frozenset(doubtful))

    def ensure_kept(self, ids: Sequence[int]) -> None:
        """Raise AssertionError unless every promised row is there once, and no other is."""
        found = Counter(ids)
        missing = [number for number in self.present if found[number] != 1]
        assert not missing, f"promised, but not there once: {missing[:10]}"
        others = [n for n in found if n not in self.present and n not in self.doubtful]
        assert not others, f"there without a promise: {others[:10]}"
        assert all(found[number] <= 1 for number in self.doubtful)


def ensure_linear(commits: Sequence[bytes]) -> None:
    """Raise AssertionError unless each commit builds on the one before.

    What a commit removes was live before it, what it adds was not.
    """
    live: set[str] = set()
    for version, content in enumerate(commits):
        actions = [json.loads(line) for line in content.splitlines()]
        removed = {a["remove"]["path"] for a in actions if "remove" in a}
        added = [a["add"]["path"] for a in actions if "add" in a]
        assert removed <= live, f"version {version} removes what is not there"
        live -= removed
        assert len(added) == len(set(added))
        assert not live & set(added), f"version {version} adds what is there"
        live |= set(added)


def _append(number: int, uri: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    from deltalake import write_deltalake

    first = number * _IDS_OF_A_WRITER
    while True:
        ids = list(range(first, first + _ROWS_OF_AN_APPEND))
        first += _ROWS_OF_AN_APPEND
        ok = _attempt(
            lambda ids=ids: write_deltalake(  # type: ignore[misc]
                uri, pa.table({"id": ids}), mode="append", storage_options=config["theirs"]
            )
        )
        yield {"did": "append", "ids": ids, "ok": ok}


def _delete(number: int, uri: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Append, and delete one row of what was appended."""
    from deltalake import DeltaTable

    for note in _append(number, uri, config):
        yield note
        if note["ok"]:
            table = DeltaTable(uri, storage_options=config["theirs"])
            victim = note["ids"][0]
            ok = _attempt(lambda: table.delete(f"id = {victim}"))  # noqa: B023
            yield {"did": "delete", "ids": [victim], "ok": ok}


def _attempt(call: Callable[[], object]) -> bool:
    """Delta-rs gives up in several ways when it loses too often; none of them is a promise."""
    try:
        call()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return False
    return True


def _optimize(number: int, uri: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from deltactl import ConflictError

    table = _open(uri, config)
    while True:
        try:
            report = table.optimize()
        except ConflictError as error:
            yield {"did": "lose", "why": error.message}
        else:
            yield {"did": "optimize", "versions": list(report.versions)}


def _vacuum(number: int, uri: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from deltactl import VacuumOptions

    table = _open(uri, config)
    options = VacuumOptions(
        retain_ms=_VACUUM_RETAINS_MS, force_retention=True, mode="full", max_orphan_fraction=1.0
    )
    while True:
        report = table.vacuum(options)
        yield {"did": "vacuum", "versions": list(report.versions), "files": report.files_removed}
        time.sleep(1)


def _checkpoint(number: int, uri: str, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    table = _open(uri, config)
    while True:
        report = table.checkpoint()
        yield {"did": "checkpoint", "version": report.plan.version}
        time.sleep(0.5)


def _open(uri: str, config: dict[str, Any]) -> Any:
    from deltactl import DynamoDbLogStore, Table

    log_store = DynamoDbLogStore(*config["log_store"]) if config["log_store"] else None
    return Table(uri, config["ours"], log_store=log_store, warn=lambda _: None)


_THEIRS = {"append": _append, "delete": _delete}
_OURS = {"optimize": _optimize, "vacuum": _vacuum, "checkpoint": _checkpoint}


def main(role: str, number: str, uri: str, seconds: str, config: str) -> None:
    """Work until the time is over, and some of it is done."""
    deadline = time.monotonic() + float(seconds)
    notes = ({**_THEIRS, **_OURS})[role](int(number), uri, json.loads(config))
    for count, note in enumerate(notes, start=1):
        print(json.dumps(note), flush=True)
        if time.monotonic() > deadline and count >= _FEWEST_NOTES:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
