"""Run an operation on a store, as most tests do: warnings are ignored, and nothing waits."""

from collections.abc import Callable
from typing import Any, TypeVar

from deltactl.errors import DeltactlError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from tests.support.stores import opened_as

R = TypeVar("R")


def run_on(
    store: Store,
    operation: Callable[..., R],
    options: Any,
    *,
    dry_run: bool | None = None,
    **context: Any,
) -> R:
    """Call an operation, such as ``optimize_table``, with its options.

    ``context`` are fields of ``RunContext``. Workers, which open the store by its address, get
    ``store`` itself.
    """
    given = {} if dry_run is None else {"dry_run": dry_run}
    chosen = RunContext(**{"warn": ignore_warning, "sleep": lambda seconds: None, **context})
    with opened_as(store):
        return raise_error(operation(DeltaLog(store, chosen.warn), options, chosen, **given))


def raise_error(report: R) -> R:
    """Return a report; raise its error, if it has one, as ``Table`` does."""
    error = getattr(report, "error", None)
    if error is not None:
        raise error
    return report


def report_of(run: Callable[[], R]) -> R:
    """Return the report of a method of ``Table``, also if failures left a part of its work."""
    try:
        return run()
    except DeltactlError as error:
        report: Any = error.report
        if report is None:
            raise
        return report  # type: ignore[no-any-return]
