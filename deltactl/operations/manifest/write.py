"""Write the manifests of a plan, then delete those of partitions that are gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from deltactl.errors import InterruptedRunError, StorageError
from deltactl.operations.manifest.plan import ManifestPlan
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store

_log: Final = logging.getLogger(__name__)


def write_manifests(plan: ManifestPlan, output: Store, context: RunContext) -> int | None:
    """Write, then delete; give how long that took, ``None`` where nothing was to be done."""
    left = output.delete_many(plan.leftovers) if plan.leftovers else {}
    if left:
        context.warn(
            f"{len(left)} hidden files of killed runs could not be removed, such as {min(left)!r}"
        )
    if plan.is_empty:
        return None
    started = context.clock.monotonic()
    _log.info("%s: writing manifests of version %d", output.uri, plan.version)
    output.put_many(_until_cancelled(plan.iter_writes(), context))
    # Last: until then readers of a vanished partition find its files, which a vacuum still spares.
    failed = output.delete_many(plan.stale)
    if failed:
        name, error = next(iter(failed.items()))
        raise StorageError(
            f"{len(failed)} manifests of vanished partitions could not be deleted, such as "
            f"{name!r}: {error.message}",
            hint="Readers still find the files that they name. Delete them, or run again.",
        )
    return round((context.clock.monotonic() - started) * 1000)


def _until_cancelled(
    files: Iterator[tuple[str, bytes]], context: RunContext
) -> Iterator[tuple[str, bytes]]:
    """The files; raises before the next, or after the last, once the run is cancelled."""
    for file in files:
        _ensure_wanted(context)
        yield file
    _ensure_wanted(context)


def _ensure_wanted(context: RunContext) -> None:
    if context.is_cancelled:
        raise InterruptedRunError(
            "interrupted; each manifest is new or as it was", hint="Run again."
        )


def is_begun(plan: ManifestPlan, output: Store) -> bool:
    """Whether the first manifest to be written is new already: a disk shows none for long."""
    first = next(plan.iter_writes(), None)
    if first is None:
        return False
    name, content = first
    with suppress(StorageError):
        return output.read(name) == content
    return False
