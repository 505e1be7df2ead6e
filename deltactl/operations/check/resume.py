"""A file beside the table that keeps which batches of a check are done, so that it can go on.

JSON lines: first what is checked, then a line for each batch as it ends. A torn last line, as a
kill leaves it, is a batch that is checked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from deltactl.errors import UsageError
from deltactl.operations.check.tasks import BatchResult

_FORMAT = 1


class ResumeFile:
    """What was done before, and what is done now. Use as a context manager."""

    def __init__(self, path: str, subject: Mapping[str, Any]) -> None:
        """Read the file, or begin it.

        Args:
            path: on this machine.
            subject: what is checked and how, as JSON values; a file about anything else is refused.

        Raises:
            UsageError: the file is about another table, version or depth, or cannot be read.
        """
        self._path = Path(path)
        self._head = {"format": _FORMAT, **subject}
        self.done: dict[str, BatchResult] = {}
        self._file: TextIO | None = None
        try:
            self._load()
            self._file = self._path.open("a", encoding="utf-8")
            if not self._path.stat().st_size:
                self._write(self._head)
        except OSError as error:
            raise UsageError(f"--resume {path!r} cannot be used: {error.strerror}") from error

    def __enter__(self) -> ResumeFile:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def note(self, digest: str, result: BatchResult) -> None:
        """Keep the result of a batch."""
        self._write({"batch": digest, **asdict(result)})

    def _write(self, node: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(node) + "\n")
        self._file.flush()

    def _tell_differences(self, head: object) -> str:
        if not isinstance(head, dict):
            return "it does not say which"
        return "; ".join(
            f"its {name.replace('_', ' ')} is {_tell(head.get(name))}, this one's {_tell(value)}"
            for name, value in self._head.items()
            if head.get(name) != value
        )

    def _load(self) -> None:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with self._path.open("r+b") as torn:
                torn.truncate(len(whole))
        lines = whole.decode("utf-8", "replace").splitlines()
        if not lines:
            return
        try:
            head, *batches = map(json.loads, lines)
            found = {node.pop("batch"): _to_result(node) for node in batches}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{self._path} was not written by a check: {error}") from error
        if head != self._head:
            raise UsageError(
                f"{self._path} is about another check: {self._tell_differences(head)}",
                hint="check as before, name another file, or delete it to begin anew",
            )
        self.done = found


def _tell(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case None:
            return "not told"
        case str():
            return value.lower() if value.isupper() else value  # a depth, or the table's id
        case _:
            return str(value)


def _to_result(node: dict[str, Any]) -> BatchResult:
    findings = tuple(tuple(row) for row in node.pop("findings"))
    return BatchResult(**node | {"findings": findings, "notes": tuple(node["notes"])})


def read_version(path: str) -> int | None:
    """The version that a file of an earlier run is about; ``None`` where there is no such file."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            version = json.loads(file.readline())["version"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return version if isinstance(version, int) else None
