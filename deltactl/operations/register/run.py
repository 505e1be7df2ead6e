"""``register``: make a table known to a catalog, or bring its entry up to date.

snapshot -> what the catalog should say -> compare with what it says -> create or change the entry
-> compare again, because an answer can be lost -> change its partitions, and compare them again.
Data and log are only read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from deltactl.catalog.base import Catalog, Partitions, TableAddress, register_anew
from deltactl.catalog.kinds import KINDS
from deltactl.catalog.names import TableName
from deltactl.errors import (
    ConflictError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    UsageError,
    say_what_is_left,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.register.compare import Difference, compare, normal_place, say
from deltactl.operations.register.describe import describe_table, list_partitions
from deltactl.operations.register.options import RegisterOptions
from deltactl.operations.run_context import RunContext
from deltactl.operations.short_repr import ShortRepr
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported


@dataclass(frozen=True, slots=True, repr=False)
class RegisterReport(ShortRepr):
    """The result.

    ``existed``: the catalog had a table of this name before. ``lacks_manifests``: a check found
    partitions without manifests, so the table cannot be registered yet.
    """

    name: str
    catalog: str
    location: str
    version: int
    existed: bool
    is_symlink: bool
    dry_run: bool
    differences: tuple[Difference, ...] = ()
    gone: tuple[tuple[str, ...], ...] = ()
    new: Partitions = field(default_factory=dict)
    lacks_manifests: bool = False

    @property
    def is_done(self) -> bool:
        """Return whether the catalog already said what it should say."""
        differs = self.differences or self.gone or self.new or self.lacks_manifests
        return self.existed and not differs

    @property
    def needs(self) -> Literal["sync", "replace"] | None:
        """Return the option without which the catalog is not changed."""
        if not self.existed or self.is_done:
            return None
        return "sync" if all(it.is_small for it in self.differences) else "replace"

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        return {
            "name": self.name,
            "catalog": self.catalog,
            "location": self.location,
            "kind": "symlink" if self.is_symlink else "delta",
            "existed": self.existed,
            "differences": [
                {"what": it.what, "catalog": it.catalog, "table": it.table}
                for it in self.differences
            ],
            "partitions_added": len(self.new),
            "partitions_removed": len(self.gone),
        }


def register_table(
    log: DeltaLog,
    name: TableName,
    catalog: Catalog,
    options: RegisterOptions,
    context: RunContext,
    *,
    dry_run: bool = False,
) -> RegisterReport:
    """Register a table; with ``dry_run`` or ``options.check``, only compare.

    Raises:
        UsageError: the name is a pattern, or the catalog has no symlink tables.
        UnsupportedFeatureError: a type or feature that the catalog lacks, or a change that it
            cannot make.
        SafetyError: another table is registered, or there are no manifests.
        ConflictError: another program changed the partitions at the same time.
        AccessDeniedError, StorageError: the catalog or the storage refuses or fails; there is no
            such database.
    """
    if name.is_pattern:
        raise UsageError(f"{name} is a pattern", hint="Give the name of one table.")
    snapshot = log.snapshot()
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CHECKPOINT)
    wanted = describe_table(snapshot, name, catalog.title, is_symlink=options.manifest)
    partitions, refusal = (
        list_partitions(log, snapshot, wanted, context) if options.manifest else ({}, None)
    )
    if refusal is not None and not options.check:
        raise refusal
    context.warn_of_refusal(refusal)
    existing = catalog.find(name)
    report = RegisterReport(
        str(name), catalog.title, wanted.place, snapshot.version, existing is not None,
        options.manifest, dry_run or options.check, new=partitions,
        lacks_manifests=refusal is not None,
    )  # fmt: skip
    if existing is not None:
        report = _compare(report, existing, wanted, partitions, catalog)
        _ensure_possible(report, existing, wanted, name)
    elif not catalog.has_database(name):
        raise _no_database(catalog, name)
    if not (report.dry_run or report.is_done):
        _ensure_allowed(report, options)
        left = _apply(report, wanted, catalog, name)
        if report.gone or report.new:
            _apply_partitions(report, wanted, partitions, catalog)
        if left:
            context.warn(f"{catalog.title} does not keep everything: {say(left)}")
    return report


def _compare(
    report: RegisterReport,
    existing: TableAddress,
    wanted: TableAddress,
    partitions: Partitions,
    catalog: Catalog,
) -> RegisterReport:
    """Return the report with all that differs from the entry of the catalog."""
    # Of Delta tables, engines take the partitions from the log.
    is_delta = existing.is_delta and not existing.is_symlink
    known = {} if is_delta and not wanted.is_symlink else catalog.partitions(existing)
    places = _normal_places(known)
    new = {
        values: place
        for values, place in partitions.items()
        if places.get(values) != normal_place(place)
    }
    gone = tuple(values for values in known if values in new or values not in partitions)
    return replace(report, differences=tuple(compare(wanted, existing)), gone=gone, new=new)


def _normal_places(partitions: Partitions) -> dict[tuple[str, ...], str]:
    return {values: normal_place(place) for values, place in partitions.items()}


def _no_database(catalog: Catalog, name: TableName) -> ObjectNotFoundError:
    database = ".".join(name.parts[:-1])
    return ObjectNotFoundError(
        f"{catalog.title} has no database {database!r}",
        hint="Check the name, or create the database in the catalog. Then rerun.",
    )


def _apply(
    report: RegisterReport, wanted: TableAddress, catalog: Catalog, name: TableName
) -> list[Difference]:
    """Write the entry, and compare again: the outcome of a failed request is not known.

    Return what the catalog does not keep.
    """
    failure: StorageError | None = None
    try:
        if not report.existed:
            catalog.create(wanted)
        elif report.differences:
            catalog.change(wanted, replace=report.needs == "replace")
    except StorageError as error:
        failure = error
    after = catalog.find(name)
    left = [] if after is None else list(compare(wanted, after))
    if failure is not None and (after is None or left):
        raise failure
    return left


def _apply_partitions(
    report: RegisterReport, wanted: TableAddress, partitions: Partitions, catalog: Catalog
) -> None:
    """Write the partitions after the entry, and compare them: others may register them too."""
    try:
        catalog.change_partitions(wanted, report.gone, report.new)
        known = catalog.partitions(wanted)
    except StorageError as error:
        say_what_is_left(
            error,
            f"the entry of {report.name} is written, but maybe not all partitions, without which "
            "engines do not find all rows",
            option("sync", True),
        )
        raise
    if _normal_places(known) != _normal_places(partitions):
        raise ConflictError(
            f"another program changed the partitions of {report.name} in {report.catalog} at the "
            "same time",
            hint=f"Rerun with {option('sync', True)}.",
        )


def _ensure_possible(
    report: RegisterReport, existing: TableAddress, wanted: TableAddress, name: TableName
) -> None:
    """Refuse other partition keys, if the catalog never changes those of a table."""
    is_view = existing.table_type.endswith("VIEW")
    if not KINDS[name.scheme].keeps_keys or report.needs != "replace" or is_view:
        return
    before, after = (", ".join(it.partition_columns) or "none" for it in (existing, wanted))
    if before != after:
        raise UnsupportedFeatureError(
            f"{report.catalog} cannot replace {report.name}: its partition keys are {before}, not "
            f"{after}, and a metastore never changes them",
            hint=register_anew(existing),
        )


def _ensure_allowed(report: RegisterReport, options: RegisterOptions) -> None:
    needed = report.needs
    if needed is None or options.replace or (options.sync and needed == "sync"):
        return
    large = [difference for difference in report.differences if not difference.is_small]
    what = say(large or report.differences) or "its partitions are others"
    raise SafetyError(
        f"{report.name} is registered in {report.catalog}, and differs: {what}",
        hint=f"Compare them with {option('check')}. Then use {option(needed, True)}, or another "
        "name.",
    )
