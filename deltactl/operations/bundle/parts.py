"""Collect the parts of a bundle: one for each command or file, or its error."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

from deltactl.errors import DeltactlError, InternalError, InterruptedRunError
from deltactl.log.listing import list_log
from deltactl.log.not_a_table import no_table_error
from deltactl.operations.bundle.log_lines import redact_commit
from deltactl.operations.bundle.pseudonyms import Pseudonyms
from deltactl.operations.bundle.reports import (
    MOST_ROWS,
    redact_check,
    redact_detail,
    redact_history,
    redact_optimize,
    redact_vacuum,
    redact_warnings,
)
from deltactl.operations.check.options import CheckOptions
from deltactl.operations.check.run import check_table
from deltactl.operations.detail import load_detail
from deltactl.operations.history.run import HistoryOptions, load_history
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.store import Store
from deltactl.units import MIB

_MOST_TAIL_BYTES: Final = 64 * MIB
DEFAULT_COMMITS: Final = 100
"""Number of the newest commits in a bundle."""


@dataclass(frozen=True, slots=True)
class PartError:
    """The reason why a part is missing; its message has pseudonyms."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle: its content, or its error.

    ``value`` is the content of its JSON, for the summary; ``None`` for other files.
    """

    name: str
    value: Any = None
    data: bytes = b""
    error: PartError | None = None


@dataclass(frozen=True, slots=True)
class BundleSource:
    """The table of a bundle, and the pseudonyms of its texts; ``store`` opens it.

    ``commits`` is the number of newest commits to include.
    """

    store: Callable[[], Store]
    context: RunContext
    names: Pseudonyms
    commits: int = DEFAULT_COMMITS


Collect = Callable[[BundleSource], Any]


def collect_parts(source: BundleSource) -> Iterator[Part]:
    """Collect each part; if its command fails or was cancelled, the part has an error instead."""
    yield from _collect_tail(source)
    for name, collect in _QUESTIONS.items():
        yield collect_part(f"{name}.json", source, collect)


def collect_part(name: str, source: BundleSource, collect: Collect) -> Part:
    """Collect one part, and return its JSON with warnings, or its error."""
    warnings: list[str] = []
    heard = replace(source, context=replace(source.context, warn=warnings.append))
    try:
        if source.context.is_cancelled:
            raise InterruptedRunError("interrupted before it started")
        value = collect(heard)
    except Exception as error:
        return Part(name, error=describe_error(source.names, error))
    if isinstance(value, dict):
        value = {**value, "warnings": redact_warnings(source.names, warnings)}
    return Part(name, value, dump(value))


def dump(value: Any) -> bytes:
    """Encode a part as JSON."""
    return json.dumps(value, indent=1).encode()


def describe_error(names: Pseudonyms, error: Exception) -> PartError:
    """Return the code and the message of an error; for a bug, also its place in the code."""
    if isinstance(error, DeltactlError):
        return PartError(error.code, names.prose(error.message))
    frames = traceback.extract_tb(error.__traceback__)
    places = " ".join(f"{PurePath(it.filename).name}:{it.lineno}" for it in frames[-8:])
    return PartError(InternalError.code, f"{type(error).__name__} at {places}")


def _collect_tail(source: BundleSource) -> Iterator[Part]:
    """Return the names in the log, and the newest commits, newest first, within a limit of bytes.

    Commits are read first, so that their texts are known when messages are replaced.
    """
    listed = collect_part("log/listing.json", source, _list_log)
    if listed.error is None:
        left = _MOST_TAIL_BYTES
        for commit in listed.value["commits"][: source.commits]:
            left -= commit["bytes"]
            if left < 0:
                break
            yield _read_commit(source, commit["name"])
    yield listed


def _list_log(source: BundleSource) -> Mapping[str, Any]:
    store = source.store()
    listing = list_log(store)
    if listing.latest_version is None:
        raise no_table_error(store)
    newest = sorted(listing.commits.items(), reverse=True)
    return {
        "latest_version": listing.latest_version,
        "first_commit": min(listing.commits, default=None),
        "commits": [
            {"name": info.name, "bytes": info.size_bytes, "modified_ms": info.modified_ms}
            for _, info in newest[:MOST_ROWS]
        ],
        "rows_left_out": max(len(newest) - MOST_ROWS, 0),
        "checkpoints": [
            {"version": it.version, "kind": it.kind, "parts": len(it.files)}
            for it in listing.checkpoints
        ],
        "compacted": sorted(map(list, listing.compacted)),
        "checksums": sorted(listing.checksums)[-MOST_ROWS:],
    }


def _read_commit(source: BundleSource, name: str) -> Part:
    target = f"log/{name.removeprefix(f'{LOG_DIR}/')}"
    try:
        if source.context.is_cancelled:
            raise InterruptedRunError("interrupted before it started")
        return Part(target, data=redact_commit(source.names, source.store().read(name)))
    except Exception as error:
        return Part(target, error=describe_error(source.names, error))


def _history(source: BundleSource) -> Any:
    options = HistoryOptions(limit=MOST_ROWS)
    return redact_history(source.names, load_history(source.store(), options, source.context.warn))


def _detail(source: BundleSource) -> Any:
    return redact_detail(source.names, load_detail(source.store(), source.context.warn))


def _check(source: BundleSource) -> Any:
    return redact_check(source.names, check_table(source.store(), CheckOptions(), source.context))


def _optimize(source: BundleSource) -> Any:
    report = optimize_table(source.store(), OptimizeOptions(), source.context, dry_run=True)
    return redact_optimize(source.names, report)


def _vacuum(source: BundleSource) -> Any:
    report = vacuum_table(source.store(), VacuumOptions(), source.context, dry_run=True)
    return redact_vacuum(source.names, report)


_QUESTIONS: Final[Mapping[str, Collect]] = {
    "detail": _detail,
    "history": _history,
    "check": _check,
    "optimize": _optimize,
    "vacuum": _vacuum,
}
