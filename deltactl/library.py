"""The functions of the library that are not methods of one table: ``convert`` and ``maintain``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from deltactl.errors import UsageError, Warn, naming_table
from deltactl.keywords import build_options
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.convert.run import convert_directory
from deltactl.operations.maintain.options import MaintainOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.run import maintain_tables
from deltactl.operations.run_context import RunContext
from deltactl.storage.open import canonical_uri
from deltactl.table import issue_warning
from deltactl.value_types import ensure_type

if TYPE_CHECKING:
    from typing import Unpack

    from deltactl.commit_options import CommitOptions
    from deltactl.engine.base import CancelToken, Engine, OnProgress
    from deltactl.keyword_types import ConvertKeywords, MaintainKeywords
    from deltactl.operations.convert.report import ConvertReport
    from deltactl.operations.maintain.report import MaintainReport
    from deltactl.storage.log_store import DynamoDbLogStore


def convert(
    directory: str | os.PathLike[str],
    options: ConvertOptions | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    log_store: DynamoDbLogStore | None = None,
    commit: CommitOptions | None = None,
    warn: Warn | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
    cancel: CancelToken | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[ConvertKeywords],
) -> ConvertReport:
    """Make a directory of Parquet files a table, in place. No data file is changed.

    Args:
        directory: a local path, ``file:`` URI or object store URI.
        options: the options of the conversion.
        storage_options: settings for the file system; never shown or logged.
        log_store: the DynamoDB table in which all writers of a table on S3 agree on commits.
        commit: what to add to the commitInfo of the commit.
        warn: receives warnings; ``None``: a ``TableWarning`` each.
        engine: reads the footers.
        dry_run: only plan.
        cancel: stops the run, if its commit was not written yet.
        on_progress: called whenever a task ends.
        keywords: those of ``ConvertKeywords``, instead of those of ``options``.

    Raises:
        InterruptedRunError: ``cancel`` was set before the commit.
        DeltactlError: files cannot be part of a table, a safety rule refused the run, or the
            store failed.
    """
    ensure_type("directory", directory, str | os.PathLike)
    address = os.fspath(directory)
    warn = warn or naming_table(issue_warning, canonical_uri(address))
    log = DeltaLog.open(address, storage_options, log_store, warn=warn, read_only=dry_run)
    log.commit_options = commit or log.commit_options
    return convert_directory(
        log,
        build_options(ConvertOptions, options, keywords),
        RunContext.of(warn, engine, storage_options, cancel, on_progress),
        dry_run=dry_run,
    )


def maintain(
    tables: Sequence[str | os.PathLike[str]],
    policy: MaintainPolicy
    | Mapping[str, MaintainPolicy]
    | Callable[[str], MaintainPolicy]
    | None = None,
    options: MaintainOptions | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    warn: Warn = issue_warning,
    engine: Engine | None = None,
    dry_run: bool = False,
    cancel: CancelToken | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[MaintainKeywords],
) -> MaintainReport:
    """Do the most useful work on some tables, within a budget.

    A table that fails does not stop the others: its error is in ``MaintainReport.errors``.

    Args:
        tables: addresses or local paths, each table once; no patterns.
        policy: for all tables, by address, or a function of the address; ``None``: the defaults.
            A table without a policy of its address has the defaults.
        options: of the run.
        storage_options: settings of the tables' storage; never shown or logged.
        warn: receives warnings, which begin with the table.
        engine: runs the tasks of all actions.
        dry_run: observe and decide only; write nothing.
        cancel: starts no more work; what was committed stays. See ``MaintainReport.interrupted``.
        on_progress: called whenever a task ends.
        keywords: those of ``MaintainKeywords``, instead of those of ``options``.

    Raises:
        UsageError: there is no table, a table is given twice, or a policy is of no table.
    """
    ensure_type("tables", tables, Sequence[str | os.PathLike[str]])
    addresses = [os.fspath(table) for table in tables]
    return maintain_tables(
        addresses,
        _policy_function(policy, addresses),
        build_options(MaintainOptions, options, keywords),
        RunContext.of(warn, engine, storage_options, cancel, on_progress),
        dry_run=dry_run,
    )


def _policy_function(
    policy: MaintainPolicy | Mapping[str, MaintainPolicy] | Callable[[str], MaintainPolicy] | None,
    tables: Sequence[str],
) -> Callable[[str], MaintainPolicy]:
    match policy:
        case None:
            return lambda _: MaintainPolicy()
        case MaintainPolicy():
            return lambda _: policy
        case Mapping():
            return _find_in(policy, tables)
        case _ if callable(policy):
            return lambda table: _ensure_policy(table, policy(table))
        case _:
            raise UsageError(f"policy must be MaintainPolicy or have one for a table; got {policy}")


def _find_in(
    policies: Mapping[str, MaintainPolicy], tables: Sequence[str]
) -> Callable[[str], MaintainPolicy]:
    """Return the policy of each table, by any address of it; the default for other tables."""
    ensure_type("addresses in policy", [*policies], Sequence[str])
    places = {canonical_uri(table) for table in tables}
    found: dict[str, MaintainPolicy] = {}
    for address, policy in policies.items():
        place = canonical_uri(address)
        if place not in places or place in found:
            problem = "that is no table of this call"
            if place in found:
                problem = "the same table has another policy under another address"
            raise UsageError(
                f"policy has a value for {address!r}, but {problem}",
                hint="Give each table of the call one policy at most, under its address.",
            )
        found[place] = _ensure_policy(address, policy)
    return lambda table: found.get(canonical_uri(table), MaintainPolicy())


def _ensure_policy(table: str, policy: MaintainPolicy) -> MaintainPolicy:
    ensure_type(f"policy of {table}", policy, MaintainPolicy)
    return policy
