"""Read the commit files of one table, and keep what was read: each is read once.

A command needs a commit several times: to rebuild one or more versions, for its ``commitInfo``, for
the events of files. Commits never change, so their content is kept, up to a limit.

Source of the ``commitInfo``: PROTOCOL.md, "Commit Provenance Information" and "In-Commit
Timestamps".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from deltactl.errors import CorruptLogError
from deltactl.protocol.names import commit_version
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import FileInfo, Store

if TYPE_CHECKING:  # Arrow is not needed to read a commitInfo
    from deltactl.protocol.actions import Metadata

_KEPT_BYTES: Final = 8 << 20


class SharedLineError(CorruptLogError):
    """A line of a log file has several actions."""


class UnreadableFileError(CorruptLogError):
    """A commit or log compaction file was truncated or edited; ``version`` is that of a commit."""

    version: int | None = None

    def hint_at_version_before(self) -> None:
        """Advise to copy the version before the commit: the latest cannot be rebuilt without it."""
        self.hint = "Restore the file from a backup."
        if self.version:  # not for version 0, which has no version before it
            self.hint += (
                " Or copy the last version before it to a new table: "
                f"`deltactl clone TABLE NEW --deep --version {self.version - 1}`."
            )


_UNPARSED: Final = object()


@dataclass(slots=True)
class CommitBytes:
    """A log file's name and content."""

    name: str
    data: bytes
    # A log compaction file should have one action for each key. If it has several, the newest is
    # written first, and readers that use Delta Kernel take the first one.
    newest_first: bool = False
    version: int | None = field(init=False, compare=False)
    """The version of a commit; ``None`` for a log compaction file."""
    _info: Any = field(default=_UNPARSED, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.version = commit_version(self.name)

    @property
    def info(self) -> dict[str, Any] | None:
        """Return the first ``commitInfo``, parsed once; ``None`` if there is none.

        Other lines are not parsed. Numbers with a fraction are :class:`RawFloat`.

        Raises:
            CorruptLogError: the line with the ``commitInfo`` is not JSON.
        """
        if self._info is _UNPARSED:
            self._info = next(find_actions(self.name, self.data, "commitInfo"), None)
        found: dict[str, Any] | None = self._info
        return found

    @property
    def in_commit_timestamp(self) -> int:
        """Return the in-commit timestamp (ms).

        Raises:
            CorruptLogError: there is none, although the table requires one.
        """
        timestamp = in_commit_timestamp(self.info)
        if not self.data:
            raise unreadable(self.name, EMPTY)
        if timestamp is None:
            raise CorruptLogError(
                f"{self.name} has no inCommitTimestamp, although the table enables in-commit "
                "timestamps",
                hint="Run `deltactl alter TABLE --set delta.enableInCommitTimestamps=false`, then "
                "rerun. The rows are not affected. Another `--set` can enable them again.",
            )
        return timestamp


EMPTY: Final = " is empty: the write was truncated, or the content was lost"


def unreadable(name: str, problem: str) -> UnreadableFileError:
    """Return the error for a file of the log that was truncated or edited."""
    error = UnreadableFileError(
        f"{name}{problem}",
        hint="Restore the file from a backup. If you have none, and a checkpoint of a later "
        "version has its changes, only older versions need the file. A checkpoint that was "
        "written after the damage may lack them: compare the rows. Then copy the latest version "
        "to a new table with `deltactl clone TABLE NEW --deep`, or move the file out of "
        "`_delta_log`, keep it, and rerun.",
    )
    error.version = commit_version(name)
    return error


def not_json(name: str, number: int, line: bytes, error: Exception) -> UnreadableFileError:
    """Return the error for a line that is not JSON; a power loss can leave zeros in its place."""
    is_zeros = not line.strip(b"\0")
    why = "it contains only zero bytes" if is_zeros else f"not valid JSON ({error})"
    return unreadable(name, f", line {number}: {why}")


class CommitReader:
    """Reads commits and log compaction files of one table.

    The files that were read last are kept in memory, up to ``_KEPT_BYTES``. A kept file with
    another size or time is read again: another table may have taken the address.

    With ``checks_sidecars``, no version is rebuilt from a checkpoint that lacks a sidecar.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.checks_sidecars = False
        self._kept: dict[str, tuple[FileInfo, bytes]] = {}
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def read(self, files: Sequence[FileInfo]) -> Iterator[CommitBytes]:
        """Yield the files with their content, in the given order.

        Raises:
            ObjectNotFoundError: a file does not exist any more.
        """
        found = [(file, self._find(file)) for file in files]
        # One call for all of them, because stores read several files at the same time.
        contents = self.store.read_many([file.name for file, data in found if data is None])
        for file, kept in found:
            data = next(contents) if kept is None else kept
            if kept is None:
                self._keep(file, data)
            yield CommitBytes(file.name, data, file.name.endswith(".compacted.json"))

    def read_one(self, file: FileInfo) -> CommitBytes:
        """Return one file with its content.

        Raises:
            ObjectNotFoundError: it does not exist any more.
        """
        [commit] = self.read([file])
        return commit

    def read_named(self, name: str) -> CommitBytes:
        """Return a commit on which this run bases its own, by its name alone.

        Raises:
            ObjectNotFoundError: it does not exist any more.
        """
        kept = self._kept.get(name)
        return CommitBytes(name, self.store.read(name) if kept is None else kept[1])

    def _find(self, file: FileInfo) -> bytes | None:
        kept = self._kept.get(file.name)
        return kept[1] if kept is not None and kept[0] == file else None

    def _keep(self, file: FileInfo, data: bytes) -> None:
        with self._lock:  # threads may share a snapshot
            self._drop(file.name)
            self._kept[file.name] = file, data
            self._kept_bytes += len(data)
            while self._kept_bytes > _KEPT_BYTES:
                self._drop(next(iter(self._kept)))

    def _drop(self, name: str) -> None:
        _, data = self._kept.pop(name, (None, b""))
        self._kept_bytes -= len(data)


# A history shows numbers as the writer wrote them, as in Delta on Spark: 1.0E7, not 10000000.0.
class RawFloat(float):
    """A number with a fraction or exponent that keeps its text."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> RawFloat:
        """Create the number from its text."""
        number = super().__new__(cls, text)
        number.text = text
        return number


_DECODER = json.JSONDecoder(parse_float=RawFloat)


def find_actions(name: str, data: bytes, action: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of one kind of action in a commit. Only lines with its name are parsed.

    Raises:
        CorruptLogError: such a line is not JSON; the message has the file and the line.
    """
    needle = f'"{action}"'.encode()
    found = data.find(needle)
    while found >= 0:
        start, end = data.rfind(b"\n", 0, found) + 1, data.find(b"\n", found)
        end = len(data) if end < 0 else end
        try:
            node = parse_json_line(data[start:end])
        except (ValueError, RecursionError) as error:
            number = data.count(b"\n", 0, start) + 1
            raise not_json(name, number, data[start:end], error) from error
        # The name can also be a part of a text, such as a path.
        value = node.get(action) if isinstance(node, dict) else None
        if isinstance(value, dict):
            yield value
        found = data.find(needle, end)


def parse_json_line(line: bytes) -> Any:
    """Parse one line of a log file as a JSON value.

    Raises:
        ValueError, RecursionError: the line is not JSON, or is nested too deep.
    """
    text = line.strip().decode()
    value, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError(f"text follows the object: char {end}")
    return value


def in_commit_timestamp(info: dict[str, Any] | None) -> int | None:
    """Return the ``inCommitTimestamp`` of a commit in ms; ``None`` if it has none."""
    value = None if info is None else info.get("inCommitTimestamp")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def uses_in_commit_timestamp(metadata: Metadata, version: int) -> bool:
    """Return whether the time of a version is its in-commit timestamp.

    The properties of the latest version decide this.
    """
    since = TableProperties(metadata.configuration).in_commit_since
    return since is not None and version >= since
