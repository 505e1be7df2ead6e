"""Worker: check that files exist and have the sizes in the log.

Runs on any engine: a task is a small picklable value, and the worker opens the store by URI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltactl.log.find_files import find_files, find_path_problem, is_placed
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes


@dataclass(frozen=True, slots=True)
class PresenceSpec:
    """The values that all batches share."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PresenceTask:
    """A batch of files by decoded name, with the size of each, if it is known.

    If ``at_least``, a file may be larger: deletion vectors share files.
    """

    names: tuple[str, ...]
    sizes: tuple[int | None, ...] = field(repr=False)
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class PresenceResult:
    """The problems of files, by name; ``elsewhere``: files on other storage, not checked."""

    problems: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()


def look_for_files(spec: PresenceSpec, task: PresenceTask, attempt: int) -> PresenceResult:
    """Check that the files of a batch exist."""
    return look_up(refuse_changes(open_store(spec.uri, spec.storage_options)), task)


def look_up(store: Store, task: PresenceTask) -> PresenceResult:
    """Check that the files of a batch exist in an open store."""
    found, elsewhere = find_files(store, [name for name in task.names if is_placed(name)])
    problems: dict[str, str] = {}
    for name, size in zip(task.names, task.sizes, strict=True):
        info = found.get(name)
        if name in elsewhere:
            continue
        if info is None:
            problem = None if name in found else find_path_problem(name)
            problems[name] = problem or "it does not exist"
        elif size is not None and (
            info.size_bytes < size if task.at_least else info.size_bytes != size
        ):
            least = "at least " if task.at_least else ""
            problems[name] = f"it has {info.size_bytes} bytes, but the log has {least}{size}"
    return PresenceResult(problems, elsewhere)
