"""Replay the adds and removes of one file with several path texts. No I/O.

Readers keep an ``add`` live until a ``remove`` with the same text. The writer of a ``remove`` with
another text of the same file compared decoded names: it intended to remove that ``add``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Event:
    """An ``add`` or ``remove``: ``key`` is the text that readers compare, ``vector`` the DV id."""

    version: int
    is_add: bool
    key: str
    text: str
    vector: str | None
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class UnmatchedRemove:
    """A ``remove`` whose path text matches no live ``add`` of the file.

    ``version`` is ``None`` if its commit is no longer in the log.
    """

    version: int | None
    text: str
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class LiveText:
    """A path text under which readers see a live file.

    Attributes:
        key: the text that readers compare.
        text: the path as in the log.
        vector: the id of the deletion vector.
        added: the version that added it.
        unmatched: a ``remove`` that was intended for it.
        doubt: the reason why the intent may no longer be valid.
        restored: the version of the RESTORE that undid the ``remove``: the file is wanted.
    """

    key: str
    text: str
    vector: str | None
    added: int | None = None
    unmatched: UnmatchedRemove | None = None
    doubt: str | None = None
    restored: int | None = None

    @property
    def removal_intended(self) -> bool:
        """Return whether a ``remove`` was intended for it and no known RESTORE undid that."""
        return self.unmatched is not None and self.restored is None


Texts = Mapping[str, LiveText]
"""Live path texts by key."""


def find_live_texts(
    events: Iterable[Event],
    restores: Mapping[int, int | None],
    start: Texts,
    start_version: int = -1,
) -> Texts:
    """Return the texts that are live for readers after the last commit.

    Args:
        events: adds and removes of one file, ordered by version.
        restores: versions of RESTORE commits, each with its target version if known.
        start: texts that are live at ``start_version``, before the first event.
        start_version: -1 if the log is complete.
    """
    live = dict(start)
    states: list[tuple[int, Texts]] = [(start_version, start)]
    by_version = {v: list(group) for v, group in groupby(events, key=lambda event: event.version)}
    for version in sorted(by_version.keys() | restores.keys()):
        _apply(live, by_version.get(version, []), version)
        if version in restores:
            _restore(live, version, restores[version], states)
        states.append((version, dict(live)))
    return live


def _apply(live: dict[str, LiveText], events: Sequence[Event], version: int) -> None:
    before = dict(live)
    removes = [event for event in events if not event.is_add]
    for event in removes:
        live.pop(event.key, None)
    for event in removes:
        if event.key not in before:
            _apply_unmatched(live, event)
    for event in events:
        if event.is_add:
            found = _find_before(before, event)
            added = LiveText(event.key, event.text, event.vector, version)
            if found is not None and found.removal_intended:
                doubt = f"version {version} added the file again with the same path text"
                added = replace(added, unmatched=found.unmatched, doubt=doubt)
            live[event.key] = added


def _find_before(before: Texts, event: Event) -> LiveText | None:
    """Return the text before a commit that gives it another deletion vector."""
    return next((it for it in before.values() if it.text == event.text), None)


def _apply_unmatched(live: dict[str, LiveText], event: Event) -> None:
    """Record a ``remove`` that removes nothing for readers."""
    if any(it.text == event.text for it in live.values()):
        return  # it names an earlier deletion vector of the same text
    for key, it in live.items():
        doubt = None
        if it.vector != event.vector:
            doubt = f"the remove of version {event.version} refers to another deletion vector"
        unmatched = UnmatchedRemove(event.version, event.text, event.data_change)
        live[key] = replace(it, unmatched=unmatched, doubt=doubt, restored=None)


def _restore(
    live: dict[str, LiveText],
    version: int,
    target: int | None,
    states: Sequence[tuple[int, Texts]],
) -> None:
    """Record a RESTORE: files that were wanted at its target version are wanted again."""
    then = _state_at(target, states)
    for key, it in live.items():
        if it.unmatched is None:
            continue
        was = None if then is None else then.get(key)
        is_own = it.unmatched.version == version
        if was is not None and not was.removal_intended and not is_own:
            live[key] = replace(it, doubt=None, restored=version)
        elif not is_own or was is not None:
            back = "an older version" if target is None else f"version {target}"
            doubt = f"a later RESTORE in version {version} set the table back to {back}"
            live[key] = replace(it, doubt=doubt, restored=None)


def _state_at(target: int | None, states: Sequence[tuple[int, Texts]]) -> Texts | None:
    if target is None:
        return None
    return next((texts for version, texts in reversed(states) if version <= target), None)
