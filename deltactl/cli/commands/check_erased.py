"""``deltactl check --erased``: call the search, print its report."""

from __future__ import annotations

from deltactl.cli.session import Session
from deltactl.errors import InterruptedRunError


def search(session: Session, table: str, predicate: str, *, versions: bool, redact: bool) -> None:
    """Search everything that is still stored. The exit status is 3 if something was found.

    Raises:
        DeltactlError: the table cannot be searched, or not everything of it.
    """
    from deltactl.cli.pages.erased import describe_erased
    from deltactl.operations.erased.run import search_erased

    log = session.open_log(table)
    with session.run_context("search", session.engine()) as context:
        try:
            report = search_erased(log, predicate, context, versions=versions, redact=redact)
        except InterruptedRunError as error:
            session.raise_if_cancelled(error.message, hint="Rerun: nothing was changed.")
            raise
    result = report.to_dict()
    session.present(
        lambda: describe_erased(report),
        error=report.find_error(),
        is_work_needed=report.is_found,
        version_before=report.version,
        version_after=report.version,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=result,
    )
