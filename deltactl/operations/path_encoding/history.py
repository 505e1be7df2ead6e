"""What writers meant with the texts of one file, from the commits that name it. Pure.

Readers keep an ``add`` live until a ``remove`` with the same text comes. A ``remove`` with another
text of the same file was meant for it all the same: its writer compared decoded names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Event:
    """An ``add`` or ``remove`` of a file. ``key`` is what readers compare, ``vector`` its DV id."""

    version: int
    is_add: bool
    key: str
    text: str
    vector: str | None
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class Miss:
    """A ``remove`` with another text: at ``version``, of ``text``; without change of data or not.

    ``version`` is ``None`` where its commit is gone.
    """

    version: int | None
    text: str
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class LiveText:
    """A text that readers take for a live file.

    ``miss`` is a ``remove`` that was meant for it; ``doubt`` says why that may not hold any more;
    ``restored`` is the RESTORE that went back to before it, so that the file is wanted.
    """

    key: str
    text: str
    vector: str | None
    added: int | None = None
    miss: Miss | None = None
    doubt: str | None = None
    restored: int | None = None

    @property
    def is_missed(self) -> bool:
        """Whether a ``remove`` was meant for it, and no RESTORE is known to want it since."""
        return self.miss is not None and self.restored is None


Texts = Mapping[str, LiveText]
"""By their keys."""


def judge(
    events: Iterable[Event],
    restores: Mapping[int, int | None],
    start: Texts,
    start_version: int = -1,
) -> Texts:
    """Follow the commits of one file.

    Args:
        events: of the file, by version.
        restores: versions of RESTORE commits, and the version that each went back to, if known.
        start: what was live at ``start_version``, before the first event.
        start_version: -1 where the log is whole.

    Returns:
        What is live for readers after the last commit.
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
            _miss(live, event)
    for event in events:
        if event.is_add:
            found = _find_before(before, event)
            added = LiveText(event.key, event.text, event.vector, version)
            if found is not None and found.is_missed:
                doubt = f"version {version} added the file again by the same text"
                added = replace(added, miss=found.miss, doubt=doubt)
            live[event.key] = added


def _find_before(before: Texts, event: Event) -> LiveText | None:
    """The text as it was before a commit that gives it another deletion vector."""
    return next((it for it in before.values() if it.text == event.text), None)


def _miss(live: dict[str, LiveText], event: Event) -> None:
    """Take in a ``remove`` that no reader finds a file for."""
    if any(it.text == event.text for it in live.values()):
        return  # of another deletion vector, long gone
    for key, it in live.items():
        doubt = None
        if it.vector != event.vector:
            doubt = f"the remove of version {event.version} names another deletion vector"
        miss = Miss(event.version, event.text, event.data_change)
        live[key] = replace(it, miss=miss, doubt=doubt, restored=None)


def _restore(
    live: dict[str, LiveText],
    version: int,
    target: int | None,
    states: Sequence[tuple[int, Texts]],
) -> None:
    """Take in that the table went back: a file that was wanted then is wanted again."""
    then = _state_at(target, states)
    for key, it in live.items():
        if it.miss is None:
            continue
        was = None if then is None else then.get(key)
        is_own = it.miss.version == version
        if was is not None and not was.is_missed and not is_own:
            live[key] = replace(it, doubt=None, restored=version)
        elif not is_own or was is not None:
            back = "an older version" if target is None else f"version {target}"
            doubt = f"version {version} (RESTORE) took the table back to {back} since"
            live[key] = replace(it, doubt=doubt, restored=None)


def _state_at(target: int | None, states: Sequence[tuple[int, Texts]]) -> Texts | None:
    if target is None:
        return None
    return next((texts for version, texts in reversed(states) if version <= target), None)
