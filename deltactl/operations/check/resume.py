"""Record the finished batches of a check in a local file, so that it can resume.

The file has JSON lines: the first line describes the check, then there is one line per finished
batch. A truncated last line, left by a killed process, is dropped and its batch is checked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from deltactl.errors import UsageError
from deltactl.operations.check.tasks import BatchResult
from deltactl.operations.output_files import ensure_outside_tables
from deltactl.option_names import option
from deltactl.storage.local.store import LocalStore

_FORMAT = 1


class ResumeFile:
    """The results of earlier and current runs. Use as a context manager."""

    def __init__(self, path: str, subject: Mapping[str, Any]) -> None:
        """Read the file, or create it.

        ``subject`` is the table and the options of the check, as JSON values; a file with other
        values is refused.

        Raises:
            UsageError: the file is about another table, version or depth, in a table, or
                cannot be read.
        """
        self._path = Path(path)
        self._head = {"format": _FORMAT, **subject}
        self.done: dict[str, BatchResult] = {}
        self._file: TextIO | None = None
        # Its real place: a link may lead into a table.
        ensure_outside_tables(option("resume"), path, LocalStore(str(self._path.resolve().parent)))
        try:
            self._load()
            self._file = self._path.open("a", encoding="utf-8")
            if not self._path.stat().st_size:
                self._write(self._head)
        except OSError as error:
            raise UsageError(
                f"{option('resume')} {path!r} cannot be read or written: {error.strerror}",
                hint="Give a file that you can read and write.",
            ) from error

    def __enter__(self) -> ResumeFile:
        """Return this file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def note(self, digest: str, result: BatchResult) -> None:
        """Record the result of a batch."""
        self._write({"batch": digest, **asdict(result)})

    def _write(self, node: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(_to_line(node))
        self._file.flush()

    def _describe_differences(self, head: object) -> str:
        if not isinstance(head, dict):
            return "its first line does not describe a check"
        return "; ".join(
            f"its {name.replace('_', ' ')} is {_describe(head.get(name))}, but this check has "
            f"{_describe(value)}"
            for name, value in self._head.items()
            if head.get(name) != value
        )

    def _load(self) -> None:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        end = data.rfind(b"\n") + 1
        # Killed while it wrote the first line. Any other text is not ours to cut.
        if end or not _to_line(self._head).encode().startswith(data):
            self.done = self._parse(data[:end])
        if end < len(data):
            with self._path.open("r+b") as file:
                file.truncate(end)

    def _parse(self, data: bytes) -> dict[str, BatchResult]:
        try:
            head, *batches = map(json.loads, data.decode("utf-8", "replace").splitlines())
            found = {node.pop("batch"): _to_result(node) for node in batches}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{self._path} is not a file that {option('resume')} wrote: {error}",
                hint=f"Give {option('resume')} another FILE.",
            ) from error
        if head != self._head:
            raise UsageError(
                f"{self._path} belongs to another check: {self._describe_differences(head)}",
                hint=f"Rerun with the options of that check, or give {option('resume')} another "
                "FILE.",
            )
        return found


def _to_line(node: Mapping[str, Any]) -> str:
    return json.dumps(node) + "\n"


def _describe(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case None:
            return "unknown"
        case str():
            return value.lower() if value.isupper() else value  # a depth, or the table's id
        case _:
            return str(value)


def _to_result(node: dict[str, Any]) -> BatchResult:
    findings = tuple(tuple(row) for row in node.pop("findings"))
    return BatchResult(**node | {"findings": findings, "notes": tuple(node["notes"])})


def read_version(path: str) -> int | None:
    """Return the version in the file of an earlier run; ``None`` if there is no such file."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            version = json.loads(file.readline())["version"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return version if isinstance(version, int) else None
