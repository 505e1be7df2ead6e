"""Wrap a store so that a function is called before each change, for example to refuse it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from deltactl.errors import SafetyError
from deltactl.storage.store import Store

# Any other method counts as a change, also a new one.
_READS: Final = frozenset({
    "abandoned_files", "engine_uri", "facts_of", "foreign_directories", "list_directories",
    "list_from", "list_old", "old_directories", "open_input", "open_old", "origin_of", "read",
    "read_many", "read_ranges", "read_tail", "real_names", "stat_many", "term", "uri", "walk",
    "walk_tree",
})  # fmt: skip
_CAPABILITIES: Final = frozenset({
    "directories", "file_copies", "range_copies", "uploads", "versions",
})  # fmt: skip
_VERBS: Final = {
    "abort_upload": "abort the upload of",
    "copy_files": "copy to",
    "delete_many": "delete",
    "ensure_put_if_absent": "prepare a commit",
    "move_many": "move",
    "open_assembly": "create",
    "open_output": "create",
    "open_replacement": "replace",
    "put": "write",
    "put_if_absent": "create",
    "put_many": "write files",
    "remove_directories": "remove",
    "sync_directories": "sync the directories of",
    "undelete_many": "restore",
}


def guarded(store: Store, before_change: Callable[[str], None]) -> Store:
    """Return a store that calls ``before_change`` before each method that may change something.

    If ``before_change`` raises an error, nothing is changed. Its argument says what is changed.
    """
    return cast("Store", _Guard(store, before_change))


def refuse_changes(store: Store) -> Store:
    """Return a store for dry runs: its writing methods raise ``SafetyError`` and change nothing.

    If a dry run calls one of them, this is a bug in deltactl.
    """
    return guarded(store, _refuse)


def _refuse(change: str) -> None:
    raise SafetyError(
        f"a dry run tried to {change}", hint="Report this bug in deltactl. Nothing was changed."
    )


class _Guard:
    """A store, or one of its capabilities."""

    def __init__(self, inner: Any, before_change: Callable[[str], None]) -> None:
        self._inner, self._before_change = inner, before_change

    def __repr__(self) -> str:
        return f"guarded({self._inner!r})"

    def __getattr__(self, name: str) -> Any:
        # `copy` asks for such names before `_inner` exists: this would call itself without end.
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if name in _CAPABILITIES:
            return None if found is None else _Guard(found, self._before_change)
        if name in _READS:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            if name == "observed":
                return _Guard(found(*arguments, **options), self._before_change)
            # With this option, a method changes nothing.
            if not options.get("dry_run"):
                self._before_change(_describe(name, *arguments[:1]))
            return found(*arguments, **options)

        return call


def _describe(method: str, what: object = None) -> str:
    if isinstance(what, Sequence) and not isinstance(what, str):
        what = [getattr(item, "target_path", item) for item in what[:3]]
    verb = _VERBS.get(method, method)
    return f"{verb} {what!r}" if isinstance(what, str | list) else verb
