"""Plan a vacuum from a listing of all files, or from the log alone (lite)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError, VersionNotFoundError
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.audit.compactions import check_compactions
from deltactl.log.audit.gaps import find_gaps
from deltactl.log.commits.events import CommitScan, EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.physical_names import event_names
from deltactl.log.snapshot import Snapshot
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info, trusted_version
from deltactl.operations.clone_notes import CloneNote
from deltactl.operations.converted import is_marked_converted, names_in_actions, was_converted
from deltactl.operations.leases import LEASES_DIR, read_leases
from deltactl.operations.losses import NO_NAMES, Losses
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import Listing, list_files
from deltactl.operations.vacuum.candidates import (
    CONVERTED,
    DOUBTFUL,
    HIDDEN,
    INCOMPLETE,
    UNATTENDED,
    UNKNOWN,
    Filters,
    Sorting,
    empty_directories,
    find_link_targets,
    find_links,
    find_tables,
    follow_links,
)
from deltactl.operations.vacuum.horizon import Absent, find_horizon
from deltactl.operations.vacuum.kept_files import (
    KeepRules,
    Kept,
    OtherTables,
    keep_names,
    reads_iceberg,
)
from deltactl.operations.vacuum.kept_versions import warn_of_lost_versions
from deltactl.operations.vacuum.lost_adds import find_lost_adds
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.plan import (
    NO_FILES,
    VacuumPlan,
    describe_orphans,
    limit_files,
    sum_up_reasons,
)
from deltactl.operations.vacuum.removes import (
    change_files,
    has_late_tombstones,
    missing_removes,
    removed_until,
    strange_removes,
)
from deltactl.operations.vacuum.retention import Retention
from deltactl.operations.vacuum.spellings import (
    distinct_names,
    ensure_not_moved,
    ensure_not_needed,
    find_missing,
    find_named,
    find_roles,
    without_few,
)
from deltactl.operations.vacuum.undo import read_undone
from deltactl.option_names import option
from deltactl.protocol.path_columns import parent_directories
from deltactl.protocol.vacuum_names import HiddenRule, below_mask, foreign_roots
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store
from deltactl.units import HOUR_MS, format_count, format_timestamp


@dataclass(frozen=True, slots=True)
class _Log:
    """Facts from the log: commits, version at the cutoff, ``_last_vacuum_info``."""

    scan: CommitScan
    current: int | None
    vacuumed_version: int | None
    complete_since: int | None = None


@dataclass(slots=True)
class Planner:
    """Plan one vacuum of a snapshot.

    ``events`` and ``doubts`` visited the commits that were read for it.
    """

    log: DeltaLog
    snapshot: Snapshot
    options: VacuumOptions
    retention: Retention
    context: RunContext
    clones: tuple[CloneNote, ...]
    events: EventCollector
    orphans: Orphans = "keep"
    # Read by the caller; without it, the plan reads them.
    read_others: Callable[[], Iterable[pa.ChunkedArray]] | None = None
    doubts: CommitDoubts = field(default_factory=CommitDoubts)
    _misdated: int | None = field(default=None, init=False)

    def plan(self) -> VacuumPlan:
        """Choose the mode, and find the removable files.

        Raises:
            SafetyError: lite was requested but is incomplete, or a file cannot be located.
            TableError: a version to keep cannot be rebuilt, or the log is damaged.
        """
        recorded = read_last_vacuum_info(self.store)
        vacuumed_version = self._trusted(recorded)
        start = 0 if vacuumed_version is None else vacuumed_version + 1
        oldest = self.log.first_commit
        covered = start >= oldest
        if self.options.mode == "lite" and not covered:
            raise SafetyError(
                f"{option('mode', 'lite')} cannot find the files that were removed before version "
                f"{oldest}. "
                + (
                    "The older commits were deleted from the log, and no vacuum read them before"
                    if vacuumed_version is None
                    else (
                        f"The last vacuum read the log up to version {vacuumed_version}, and some "
                        "later commits were deleted from the log"
                    )
                ),
                hint=f"Rerun once with {option('mode', 'full')}, which lists the files. After "
                f"this run, {option('mode')} lite works.",
            )
        if self._lists(vacuumed_version):
            plan = self._plan_full(vacuumed_version)
        else:
            plan = self._plan_lite(start, vacuumed_version)
        return replace(plan, drops_record=recorded != vacuumed_version)

    def kept_names(self) -> Iterator[Kept]:
        """Yield the names of all files that a vacuum keeps because something needs them.

        Raises:
            DeltactlError: as ``plan``.
        """
        scan = self._scan(self.log.first_commit)
        return self._keep_batches(scan, self._current_at_cutoff(), self._first_rebuildable())

    def find_lost_adds(self, removed: pa.ChunkedArray) -> Losses:
        """Return lost live files that commits added since they removed files.

        Raises:
            DeltactlError: as ``plan``.
        """
        scan = self._scan(self.log.first_commit)
        return find_lost_adds(self.store, scan, removed, self.context)

    @property
    def lists(self) -> bool:
        """Return whether a plan needs a listing of all files; reads ``_last_vacuum_info``."""
        return self._lists(self._trusted(read_last_vacuum_info(self.store)))

    def _lists(self, vacuumed_version: int | None) -> bool:
        first = self.log.first_commit
        covered = vacuumed_version is not None and vacuumed_version + 1 >= first
        return self.options.needs_listing or not (covered or self.options.mode == "lite")

    def _trusted(self, recorded: int | None) -> int | None:
        return trusted_version(self.log, recorded, latest=self.snapshot.version)

    @property
    def store(self) -> Store:
        """Return the table's store."""
        return self.snapshot.store

    def _current_at_cutoff(self) -> int | None:
        """Return the newest version that was committed before the cutoff, if the log has one.

        It is older if a later commit may have been written after the cutoff, against its date.
        """
        cutoff_ms = self.retention.cutoff_ms
        try:
            found = self.log.version_at(self.snapshot.metadata, cutoff_ms, allow_later=True)
        except VersionNotFoundError:
            return None
        # Object stores date files by their own clock; --force-retention trusts that of writers.
        if not self.options.force_retention:
            is_local = is_local_uri(self.store.uri)
            span = (cutoff_ms, self.retention.now_ms) if is_local else None
            self._misdated = self.log.find_misdated(self.snapshot.metadata, found, span)
        return found if self._misdated is None else self._misdated - 1

    def _scan(self, first: int) -> CommitScan:
        """Return the events since a version; read only commits that were not read before."""
        return self.log.events(self.snapshot, first, self.events, self.doubts)

    def _plan_lite(self, start: int, vacuumed_version: int | None) -> VacuumPlan:
        """Plan from the files that commits removed since ``start``, without a listing."""
        current = self._current_at_cutoff()
        if current is None or start > current:
            self._warn_of_misdated()
            return VacuumPlan(
                self.snapshot.version,
                self.snapshot.metadata.id,
                "lite",
                self.retention,
                NO_FILES,
                # There may be no commit since the run that wrote `_last_vacuum_info`.
                complete_since=min(start, self.snapshot.version),
                vacuumed_version=vacuumed_version,
                vacuumed_before=vacuumed_version,
                current_at_cutoff=current,
                clones=self.clones,
            )
        scan = self._scan(start)
        removed = removed_until(scan, current)
        named = event_names(self.store, removed)
        names = distinct_names(named, change_files(self.store, scan, current))
        found, filters, first = NO_FILES, self._filters(scan), start
        if len(names):
            first = self._first_rebuildable()
            found = self._select_named(names, filters, self._keep_batches(scan, current, first))
        plan = self._finish("lite", found, filters, _Log(scan, current, vacuumed_version, start))
        if not found.num_rows:
            return plan
        losses = find_lost_adds(self.store, scan, found["path"], self.context)
        whole = self._scan(min(start, max(first, self.log.first_commit)))
        plan = replace(plan, losses=losses)
        return self._with_horizon(plan, whole, first, filters.absent)

    def select_removed(self, names: pa.ChunkedArray) -> pa.Table:
        """Return those of some removed files that a vacuum would remove, without a listing.

        Raises:
            DeltactlError: as ``plan``.
        """
        scan = self._scan(self.log.first_commit)
        keep = self._keep_batches(scan, self._current_at_cutoff(), self._first_rebuildable())
        return self._select_named(names, self._filters(scan), keep)

    def _select_named(
        self, names: pa.ChunkedArray, filters: Filters, keep: Iterator[Kept]
    ) -> pa.Table:
        """Return the removable ones of names in the log; other tables and links are requested."""
        names, alike = without_few(names, keep)
        self._find_tables_and_links(filters, parent_directories(names))
        self._spare_runs(filters)
        is_named = pa.repeat(pa.scalar(True), len(names))
        found = filters.select(pa.table({"path": names, "is_named": is_named}))
        ensure_not_needed(self.store, found, alike)
        return found

    def _plan_full(self, vacuumed_version: int | None) -> VacuumPlan:
        """Plan from a listing of all files under the root."""
        hidden = HiddenRule(self.snapshot.metadata)
        listing = self._list(hidden)
        if self.options.inventory is None:  # else each removed file would need a request
            self._warn_of_lost_versions(listing.files)
        mode = "full" if self.options.inventory is None else "inventory"
        found, filters, log, absent = self._select_listed(listing, hidden)
        log = replace(log, vacuumed_version=vacuumed_version)
        plan = self._finish(mode, found, filters, log)
        plan = self._with_directories(plan, listing, filters)
        if not found.num_rows:
            return replace(plan, losses=Losses(absent))
        listed = listing if self.options.inventory is None else None
        more = find_lost_adds(self.store, log.scan, found["path"], self.context, listed)
        plan = replace(plan, losses=replace(more, missing=distinct_names(absent, more.missing)))
        # An inventory may have files that a vacuum has deleted since.
        gone = missing_removes(self.store, log.scan, listing, hidden)
        missing = distinct_names(gone, filters.absent)
        return self._with_horizon(plan, log.scan, self._first_rebuildable(), missing)

    def _warn_of_lost_versions(self, listed: pa.ChunkedArray) -> None:
        """Warn of versions that the options keep, and that lack files; those ``listed`` exist."""
        kept = {*self.options.keep_versions}
        oldest = self._oldest_kept(self._first_rebuildable())
        if oldest is not None:
            kept |= {*range(oldest, self.snapshot.version)}
        known = {version for version in kept if version + 1 >= self.log.first_commit}
        if known:
            scan = self._scan(max(min(known), self.log.first_commit))
            warn_of_lost_versions(self.store, scan, known, self.context, listed)

    def _oldest_kept(self, first: int) -> int | None:
        """Return the oldest of the last versions to keep, if any are."""
        if self.options.keep_last is None:
            return None
        return max(self.snapshot.version - self.options.keep_last + 1, first)

    def _with_horizon(
        self, plan: VacuumPlan, scan: CommitScan, first: int, missing: pa.ChunkedArray
    ) -> VacuumPlan:
        horizon = find_horizon(
            self.store,
            scan,
            first,
            Absent(plan.files, missing, plan.losses.names),
            current=plan.current_at_cutoff,
            doubt=self.doubts.first,
            has_feed=self.snapshot.properties.change_feed_enabled,
        )
        return replace(plan, horizon=horizon)

    def sort_files(self, listing: Listing) -> Sorting:
        """Find why each file of a listing with facts is kept, and which are removable.

        Raises:
            DeltactlError: as ``plan``.
        """
        sorting = Sorting()
        hidden = HiddenRule(self.snapshot.metadata)
        found, filters, _, _ = self._select_listed(listing, hidden, sorting)
        sorting.foreign, sorting.removable = filters.foreign, sum_up_reasons(found)
        return sorting

    def _select_listed(
        self, listing: Listing, hidden: HiddenRule, sorting: Sorting | None = None
    ) -> tuple[pa.Table, Filters, _Log, pa.ChunkedArray]:
        """Return the removable files of a listing, and live files that do not exist."""
        current = self._current_at_cutoff()
        scan = self._scan(self.log.first_commit)
        keep = self._keep_batches(scan, current, self._first_rebuildable())
        kept_directories: set[str] = set()
        # An inventory may lack files and links. That harms only if files are removed by it.
        is_partial = self.options.inventory is not None and sorting is None
        if is_partial:
            keep = _note_directories(keep, kept_directories)
        roles, unlisted = find_roles(listing.files, keep)
        files = listing.rows().filter(pc.is_null(roles))
        names = files["path"]
        filters = self._filters(scan)
        if not is_partial and filters.find_targets is not None:
            # The listing has all links but those in hidden directories.
            outside = distinct_names(*unlisted.values())
            filters.find_targets = lambda _: follow_links(self.store, outside)
        if sorting is not None:
            sorting.roles, filters.sorting = roles, sorting
        filters.spared = self._find_reason_to_spare(scan)
        filters.foreign = frozenset(
            foreign_roots(
                names, [*listing.directories, *listing.links], iceberg=not hidden.hides_metadata
            )
        )
        filters.linked = frozenset(
            name for name in self.store.real_names(listing.links) if name is not None
        )
        if is_partial:
            self._find_tables_and_links(filters, parent_directories(names), kept_directories)
        filters.kept[UNKNOWN] += listing.unusable
        self._spare_runs(filters)
        is_named = find_named(names, names_in_actions(self.snapshot, scan))
        found = filters.select(files.append_column("is_named", is_named))
        lost = NO_NAMES
        if self.options.inventory is None:  # it may be older than some live files
            lost = find_missing(
                self.store, unlisted["live"], listing, hidden, removes=found.num_rows > 0
            )
        ensure_not_needed(self.store, found, distinct_names(*unlisted.values()))
        if sorting is None:  # else nothing is planned to be removed
            ensure_not_moved(found, lost)
        return found, filters, _Log(scan, current, None), lost

    def _first_rebuildable(self) -> int:
        return self.log.first_rebuildable(self.snapshot.segment.checkpoint)

    def _list(self, hidden: HiddenRule) -> Listing:
        if self.options.inventory is not None:
            # Readers of other formats are slow to import.
            from deltactl.operations.vacuum.inventory import read_inventory

            return read_inventory(self.store, self.options.inventory, self.context.storage_options)
        if self.options.dump_listing is None:
            return list_files(self.store, hidden)
        from deltactl.operations.vacuum.inventory import dump_listing, open_dump

        place, name = open_dump(self.options.dump_listing, self.context.storage_options)
        listing = list_files(self.store, hidden)
        dump_listing(self.store, listing, place, name)
        return listing

    def _find_tables_and_links(
        self, filters: Filters, folders: set[str], kept: Iterable[str] = frozenset()
    ) -> None:
        """Find other tables and links by requests, because there is no listing.

        ``filters`` receives them; ``folders`` are directories of candidates. The targets of links
        among the directories of ``kept`` names are kept too.
        """
        iceberg = not filters.hidden.hides_metadata
        filters.foreign |= find_tables(self.store, folders, iceberg=iceberg)
        filters.linked |= find_links(self.store, folders.union(kept))

    def _keep_batches(self, scan: CommitScan, current: int | None, first: int) -> Iterator[Kept]:
        oldest_kept = self._oldest_kept(first)
        if oldest_kept is not None and oldest_kept + 1 < scan.first:
            scan = self._scan(max(oldest_kept + 1, self.log.first_commit))
        rules = KeepRules(
            self.log,
            self.snapshot,
            scan,
            self.retention,
            current,
            self.options,
            self.names_of_others(),
            self.context,
        )
        return keep_names(rules, oldest_kept)

    def names_of_others(self) -> Iterable[pa.ChunkedArray]:
        """Return the names that other tables need.

        Raises:
            DeltactlError: one of them cannot be read, or references only files elsewhere.
        """
        if self.read_others is not None:
            return self.read_others()
        tables = OtherTables(self.snapshot, self.context)
        iceberg = reads_iceberg(self.snapshot)
        return tables.names(self.options.also_keep_for, self.clones, iceberg=iceberg)

    def _spare_runs(self, filters: Filters) -> None:
        """Find other runs: those that hold a lease may write files of no commit yet; undone ones.

        Their files are kept.
        """
        infos = [*self.store.list_from(LEASES_DIR)]
        leases = read_leases(self.store, infos, self.retention.now_ms)
        holders = [holder for holder in leases if holder.run_id != self.context.run_id]
        filters.restored = read_undone(self.store, infos, self.retention.cutoff_ms)
        filters.runs = [holder.run_id for holder in holders]
        # The clocks of their machines may differ from that of the store.
        filters.runs_since_ms = min((it.since_ms - HOUR_MS for it in holders), default=None)

    def _filters(self, scan: CommitScan) -> Filters:
        is_marked = is_marked_converted(self.snapshot, scan)
        is_local = is_local_uri(self.store.uri)
        return Filters(
            self.store,
            HiddenRule(self.snapshot.metadata),
            self.retention.cutoff_ms,
            self.orphans == "all",
            self.options.ignore_manifests,
            change_files(self.store, scan, scan.last),
            partial(strange_removes, self.snapshot, scan) if is_marked else None,
            find_targets=partial(find_link_targets, self.snapshot, scan) if is_local else None,
        )

    def _find_reason_to_spare(self, scan: CommitScan) -> str | None:
        """Return why all files that no action names are kept; ``None`` if they may be removed."""
        if self.orphans == "keep":
            return UNATTENDED
        if self.doubts.found or any(it.problem for it in check_compactions(self.log)):
            return DOUBTFUL
        if any(find_gaps(self.log)):  # a checkpoint may lack what they added
            return INCOMPLETE
        return CONVERTED if was_converted(self.snapshot, scan) else None

    def _finish(self, mode: str, found: pa.Table, filters: Filters, log: _Log) -> VacuumPlan:
        self._warn_of_future(filters.young_ms)
        self._warn_of_misdated()
        files, left_over = limit_files(found, self.options.max_files)
        orphans, orphan_folders = describe_orphans(found)
        chosen = self.options
        holds_back = (
            left_over
            or filters.held_back
            or mode == "inventory"
            or chosen.keep_versions
            or chosen.keep_last is not None
            or chosen.also_keep_for
            or self.clones
            or log.current is None
            or has_late_tombstones(log.scan, log.current, self.retention.cutoff_ms)
        )
        return VacuumPlan(
            self.snapshot.version,
            self.snapshot.metadata.id,
            mode,
            self.retention,
            files,
            left_over=left_over,
            orphans=orphans,
            orphan_folders=orphan_folders,
            max_orphan_fraction=chosen.max_orphan_fraction,
            kept={reason: count for reason, count in sorted(filters.kept.items()) if count},
            foreign=tuple(sorted(folder or "." for folder in filters.foreign)),
            complete_since=log.complete_since,
            vacuumed_version=log.vacuumed_version if holds_back else log.current,
            vacuumed_before=log.vacuumed_version,
            current_at_cutoff=log.current,
            clones=self.clones,
            doubt=self.doubts.first,
            covers_unknown=self.orphans == "all",
        )

    def _warn_of_misdated(self) -> None:
        """Warn of a commit whose date does not show that the retention of its files has passed."""
        if self._misdated is not None:
            self.context.warn(
                f"commit {self._misdated} may be newer than its date: the clock of its writer was "
                "behind an earlier commit by more than an hour, or the earlier one is a copy. "
                "Files that it or a later commit removed are kept until the retention has passed "
                f"since the next commit; {option('force_retention', True)} removes them now"
            )

    def _warn_of_future(self, times: pa.ChunkedArray) -> None:
        """Warn of files that wait longer than the retention, because of a wrong clock."""
        future = times.filter(pc.greater(times, self.retention.now_ms + HOUR_MS))
        if len(future):  # the trusted time may be earlier than that of the clock
            future = future.filter(pc.greater(future, self.context.clock.now_ms() + HOUR_MS))
        if len(future):
            until_ms = pc.max(future).as_py() + self.retention.retain_ms
            self.context.warn(
                f"{format_count(len(future), 'unneeded file is', 'unneeded files are')} kept, the "
                f"last until {format_timestamp(until_ms)}: the storage dates them in the future"
            )

    def _with_directories(self, plan: VacuumPlan, listing: Listing, filters: Filters) -> VacuumPlan:
        """Add the number of files under the root, and the directories that become empty."""
        planned = plan.files["path"]
        plan = replace(
            plan,
            listed_files=len(listing.files) - filters.kept[HIDDEN],
            listed_folders=len(listing.directories),
        )
        if not listing.directories or plan.mode != "full":
            return plan
        kept = listing.files.filter(pc.invert(pc.is_in(listing.files, value_set=planned)))
        empty = empty_directories(listing, kept, filters.hidden)
        directories = self.store.directories
        if not empty or directories is None:
            return plan
        names = pa.chunked_array([pa.array(empty, pa.string())])
        spared = below_mask(
            pc.binary_join_element_wise(names, "", "/"), filters.foreign | filters.linked
        )
        hidden = filters.hidden.mask(names)
        empty = names.filter(pc.invert(pc.or_(spared, hidden))).to_pylist()
        emptied = parent_directories(planned)
        before = [folder for folder in empty if folder not in emptied]
        return replace(
            plan,
            folders=tuple(folder for folder in empty if folder in emptied),
            old_folders=tuple(directories.old_directories(before, self.retention.cutoff_ms)),
        )


def _note_directories(batches: Iterator[Kept], directories: set[str]) -> Iterator[Kept]:
    """Yield the same batches of names; add their parent directories to ``directories``."""
    for names, role in batches:
        directories |= parent_directories(names)
        yield names, role
