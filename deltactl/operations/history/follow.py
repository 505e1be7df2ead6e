"""``describe-history --follow``: commits as they appear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import HistoryRow
from deltactl.log.history.read import Selection


def follow_history(
    log: DeltaLog, first_version: int | None, wait: Callable[[], bool]
) -> Iterator[HistoryRow]:
    """Yield each commit once, oldest first, as soon as it appears; from ``first_version`` on.

    ``None`` begins with the next commit. ``wait`` pauses before each further listing and returns
    whether to continue. Each listing covers only new versions. A commit that is missing or broken
    may be incomplete: it is read twice, and then yielded with its ``problem``.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the first version was cleaned up, so that commits would be missed.
        StorageError: the log cannot be listed.
    """
    latest = log.latest_version if log.exists else None
    following = (-1 if latest is None else latest) + 1 if first_version is None else first_version
    if latest is None or following <= latest:
        log.ensure_has(following)
    doubted: int | None = None
    while True:
        rows = _read_new(log, following)
        for row in rows:
            if row["problem"] is not None and doubted != row["version"]:
                doubted = row["version"]
                break
            yield row
            following = row["version"] + 1
        if not wait():
            return


def _read_new(log: DeltaLog, following: int) -> Sequence[HistoryRow]:
    """Return rows from a version on, oldest first; list the whole log only if there are any."""
    if not log.has_versions_from(following):
        return []
    log.update()
    return log.history(Selection(first_version=following)).rows[::-1]
