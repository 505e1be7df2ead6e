"""Check commits: each can be read, and none is ambiguous.

Source: PROTOCOL.md, "Delta Log Entries", "Action Reconciliation", "In-Commit Timestamps".
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import MALFORMED, CorruptLogError
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.audit.commit_repeats import (
    find_file_repeats,
    find_repeats,
    find_shared_lines,
    list_partition_keys,
)
from deltactl.log.audit.path_actions import NameActions, PathActions, describe_unknown
from deltactl.log.audit.path_texts import PATH_COLUMNS, PathTextIndex
from deltactl.log.audit.restores import Restores
from deltactl.log.checkpoint.read import read_file_actions, read_head
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.contents import (
    CommitBytes,
    SharedLineError,
    find_actions,
    in_commit_timestamp,
)
from deltactl.log.commits.file_actions import ADD_MEMBERS, REMOVE_MEMBERS, find_incomplete
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.clones import ShallowSource, find_source
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.proofs import Stored
from deltactl.operations.check.protocol import check_missing_schemas, describe_lacking
from deltactl.operations.check.vectors import VectorIndex
from deltactl.operations.row_proofs import read_proof
from deltactl.protocol.actions import Metadata, Protocol, parse_metadata, parse_protocol
from deltactl.protocol.arrow_schemas import JSON_NAMES
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store
from deltactl.units import HOUR_MS, format_count

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CLOCK_DIFFERENCE_MS: Final = 60_000  # clocks of sound machines differ by less
_EMPTY = (
    "it is empty: a truncated write, or lost content. Delta on Spark, delta-rs and DuckDB "
    "continue as if it had no actions. Data files that it added look like orphans. A vacuum "
    "deletes these files: do not vacuum before you restore the commit"
)
_RESTORE_REPLACED: Final = (
    "cannot be repaired by deltactl: compare this commit and the earlier ones with a backup, and "
    "restore the commit that was replaced, with its modification time (`cp -p`). If its changes "
    "were written again, keep the commits, or undo the new changes first: otherwise, rows are "
    "there twice. Until then, do not vacuum, and keep all checkpoints and .crc files. `deltactl "
    "explain COMMIT_DOUBTFUL` says what helps without a backup"
)
_RESTORE_AGAIN: Final = (
    "cannot be repaired by one command: if an earlier commit was replaced since, such as by its "
    "original from a backup, put it back as it was. Or run `deltactl restore {table} --to-version "
    "{target}` again: this undoes all changes since, which must be written again"
)
UNTIL_DELETED: Final = (
    "`vacuum` and log cleanup stay refused (on a terminal, they ask) until the commit is deleted: "
    "when `delta.logRetentionDuration` has passed, confirm `deltactl checkpoint {table} "
    "--cleanup-only` on a terminal"
)
_KEEP_UNDONE: Final = (
    "keep the commit as it is, also if a backup has the original. {undo}: with the original, rows "
    "would be there twice, or would be lost. If the rows of the latest version are right, confirm "
    "`deltactl checkpoint {table}` on a terminal: this ends the refusals of commands that need "
    f"only later commits, such as `optimize`. {UNTIL_DELETED}"
)
_COMPARE_UNDONE: Final = (
    "compare the commit with its original in a backup. {undo}: if only this part of the original "
    "is lost, keep the commit, else rows would be there twice, or would be lost. If other parts "
    "are lost too, restore the original, with its modification time (`cp -p`), and then correct "
    "the restored part. Until then, do not vacuum, and keep all checkpoints and .crc files"
)
_REPAIRED: Final = (
    "keep the commit as it is. {undo}: do not restore it again, because this undoes newer changes"
)


class CommitChecker(Visitor):
    """Read every commit once; keep the data for checks of all commits together.

    ``broken`` are versions whose commit cannot be parsed; ``protocols`` and ``metadata`` are these
    actions of the other commits by version, and ``digests`` are row digests of layout runs;
    ``actions`` has their file actions. ``source`` is that of a shallow clone.
    """

    def __init__(
        self, log: DeltaLog, findings: Findings, path_texts: PathTextIndex, vectors: VectorIndex
    ) -> None:
        super().__init__()
        self._log, self._findings = log, findings
        self._path_texts, self._vectors = path_texts, vectors
        self.actions, self._names = PathActions(), NameActions(log.uri)
        self._times: dict[int, int | None] = {}
        self._dates: dict[int, int] = {}
        self._keys: dict[int, frozenset[frozenset[str]]] = {}
        self._empty: set[int] = set()
        self._restores = Restores()
        self.broken: set[int] = set()
        self.digests: dict[int, Stored] = {}
        self.protocols: dict[int, Protocol] = {}
        self.metadata: dict[int, Metadata] = {}
        self.source: ShallowSource | None = None

    def run(self) -> None:
        """Parse all commits.

        Raises:
            StorageError: one cannot be read.
        """
        doubts = CommitDoubts()
        self._restores = doubts.restores
        self._log.scan(sorted(self._log.commit_files), self, doubts, on_broken=self._add_broken)
        for version, problem in doubts.found.items():
            self._add("COMMIT_DOUBTFUL", problem, version)
            if version in doubts.copies:  # each of the two may be the copy
                self._findings.repairs[self._log.commit_file(version)] = _RESTORE_REPLACED
            if (undo := doubts.restores.find_undo(version)) is not None:
                name = self._log.commit_files[version].name
                self._findings.repairs[name] = self._keep_undone(undo)
        self._check_restores()
        check_missing_schemas(self._log, self.metadata, self._findings)
        for version, earlier, count in self.actions.find_repeated_removes(self._read):
            problem = (
                f"it removes {format_count(count, 'file')} that version {earlier} had already "
                f"removed ({self._vectors.say_writer(version)})"
            )
            self._add("REMOVE_REPEATED", problem, version)
            if (undo := doubts.restores.find_undo(version)) is not None:
                name = self._log.commit_files[version].name
                repair = _REPAIRED.format(undo=doubts.restores.describe(undo))
                self._findings.repairs.setdefault(name, repair)

    def _keep_undone(self, undo: int) -> str:
        """Return what to do about a commit that a later version undid, or undid in part."""
        text = _COMPARE_UNDONE if undo in self._restores.parts else _KEEP_UNDONE
        return text.format(undo=self._restores.describe(undo), table=shlex.quote(self._log.uri))

    def _check_restores(self) -> None:
        """Find restores that left or lack files, if all commits up to them can be read."""
        read = self._read
        unread = min(set(range(len(read) + 1)) - read)
        targets = {v: it for v, it in self._restores.targets.items() if v < unread}
        found = self._names.find_unrestored(targets) if targets else {}
        for version, left in found.items():
            problem = (
                f"it restored version {targets[version]}, but left "
                f"{format_count(left, 'later file')}: a checkpoint was wrong, or a commit was "
                "changed later"
            )
            self._add("RESTORE_INCOMPLETE", problem, version)
        counts = {v: count for v, count in self._restores.counts.items() if v < unread}
        for version, live in (self._names.count_live(counts) if counts else {}).items():
            if live < counts[version] and self._restores.find_undo(version) is None:
                problem = (
                    f"it restored {format_count(counts[version], 'file')} of version "
                    f"{targets[version]}, but by the commits, {live:,} are live in this version: a "
                    "commit was changed later"
                )
                self._add("RESTORE_INCOMPLETE", problem, version)

    def check_unknown_removes(self, broken: Collection[Checkpoint]) -> None:
        """Find removes of files that neither the commits nor the oldest checkpoint have.

        Without all commits from version 0 on, the oldest checkpoint after which no commit is
        unread has the older files. ``broken`` checkpoints are not used.
        """
        last, base = self.last_unread(max(self._log.commit_files, default=-1)), None
        if last >= 0:
            usable = (it for it in self._log.checkpoints if it not in broken)
            base = next((it for it in usable if it.version >= last), None)
            if base is None:
                return
        try:
            batches = () if base is None else _read_names(self._log.store, base)
            after = -1 if base is None else base.version
            found = self._names.find_unknown_removes(after, batches)
        except CorruptLogError:  # the check of the checkpoint reports it
            return
        for version, count in found.items():
            problem = describe_unknown(count)
            if base is not None:
                problem += f", or {base.names[0]} lacks the files or their tombstones"
            self._add("COMMIT_DOUBTFUL", problem, version)
            undo, repair = self._restores.find_undo(version), _RESTORE_REPLACED
            if undo is not None:
                repair = self._keep_undone(undo)
            elif (target := self._restores.targets.get(version)) is not None:
                repair = _RESTORE_AGAIN.format(table=shlex.quote(self._log.uri), target=target)
            self._findings.repairs[self._log.commit_files[version].name] = repair

    def see(self, commit: CommitBytes) -> bool:
        """Check the content of a commit, and take its actions that are not file actions."""
        version = commit.version
        assert version is not None
        try:
            self._inspect(version, commit)
        except (CorruptLogError, *MALFORMED):
            self._times[version] = None  # parsing reports it
        return True

    def visit(self, commits: ParsedCommits) -> None:
        """Check file actions, and take them for later checks."""
        for version, problem in find_file_repeats(commits):
            who = self._vectors.say_writer(version)
            self._add("COMMIT_AMBIGUOUS", f"{problem} ({who})", version)
        for version, problem in _find_incomplete(commits):
            self._add("COMMIT_UNREADABLE", problem, version)
        self._path_texts.take_removed(commits.removes)
        self._vectors.take(commits)
        self.actions.take(commits)
        self._names.take(commits)

    def _add_broken(self, commit: CommitBytes, error: CorruptLogError) -> None:
        version = commit.version
        assert version is not None
        self.broken.add(version)
        if not isinstance(error, SharedLineError):  # it has its own finding
            problem = _EMPTY if version in self._empty else error.message
            self._add("COMMIT_UNREADABLE", problem, version)

    @property
    def _read(self) -> Set[int]:
        return self._log.commit_files.keys() - self.broken

    def last_unread(self, version: int) -> int:
        """Return the last version up to ``version`` whose commit cannot be read; -1 for none.

        A missing commit may be that of ``version`` itself, of which only a checkpoint is left.
        """
        read = self._read
        while version in read:
            version -= 1
        return version

    def agree_with_live(self, snapshot: Snapshot) -> bool:
        """Return whether the live files of a checkpoint are those of the commits.

        Only commits after the last one that cannot be read are compared.
        """
        version = snapshot.version
        first = self.last_unread(version) + 1
        return snapshot.head is None or self.actions.agree(first, version)

    def has_known_id(self, snapshot: Snapshot) -> bool:
        """Return whether the id of the checkpoint is that of a commit before lost ones.

        If no commit is lost before the checkpoint, no older commit has an id, or a commit after the
        checkpoint changed it, it is known.
        """
        head = snapshot.head
        metadata = None if head is None else head.non_file_actions.metadata
        if head is None or metadata is None or metadata.id != snapshot.metadata.id:
            return True
        lost = self.last_unread(head.version)
        ids = {it.id for version, it in self.metadata.items() if version <= head.version}
        return metadata.id in ids or all(version >= lost for version in self.metadata)

    def check_times(self, metadata: Metadata, now_ms: int) -> None:
        """Check in-commit timestamps, if enabled: each is present, and they increase."""
        self._note_dates(now_ms)
        since = TableProperties(metadata.configuration).in_commit_since
        if since is None:
            return
        newest: int | None = None
        for version, time in self._times.items():
            if version < since or version in self.broken:
                continue
            if time is None:
                problem = "it has no inCommitTimestamp, but the table enables in-commit timestamps"
                self._add("COMMIT_TIME", problem, version)
                if version == max(self._times):
                    self._findings.repairs[self._log.commit_file(version)] = (
                        "commands that commit fail until a later commit: run `deltactl alter "
                        f"{shlex.quote(self._log.uri)} --set delta.enableInCommitTimestamps=false`"
                    )
            elif newest is not None and time <= newest:
                self._add(
                    "COMMIT_TIME", f"its inCommitTimestamp {time} is not after {newest}", version
                )
            newest = time if newest is None or time is None else max(newest, time)

    def _note_dates(self, now_ms: int) -> None:
        """Note commits that are older than the first, later than the next, or in the future.

        Clocks of writers may cause this too.
        """
        dates, created = self._dates, self._dates.get(0)
        self._note_odd(
            [v for v, date in dates.items() if date - dates.get(v + 1, date) > HOUR_MS],
            "more than an hour after the next one",
            "a tool copied a later file over the commit. Compare the rows with what you expect",
        )
        self._note_odd(
            [v for v, date in dates.items() if date > now_ms + HOUR_MS],
            "more than an hour in the future",
            "that of this machine is: vacuum keeps files that these commits removed for longer",
        )
        if created is not None:
            self._note_odd(
                [v for v, date in dates.items() if date < created - _CLOCK_DIFFERENCE_MS],
                "before commit 0",
                "the log has commits of two tables. This is so if a table was created again and "
                "then copied by a tool that deletes nothing. Compare the log with that of the "
                "original table",
            )

    def _note_odd(self, versions: list[int], when: str, cause: str) -> None:
        if versions:
            many = format_count(len(versions), "commit is", "commits are")
            self._findings.note(
                f"{many} dated {when}, such as commit {min(versions)}: the clock of a writer was "
                f"wrong, or {cause}"
            )

    def check_partition_keys(self, snapshot: Snapshot) -> None:
        """Check that every add has a value for each partition column, and no other.

        A commit that cannot be read may have changed the columns. Later ones are then compared with
        the ``snapshot`` if no commit since has a metaData action, and else only from this one on.
        """
        read = self._read
        changed = max(self.last_unread(max(read, default=-1)), *self.metadata, -1)
        valid = None
        for version, found in self._keys.items():
            if version in self.metadata:
                valid = _partition_names(self.metadata[version])
            elif version - 1 not in read:
                is_latest = changed < version <= snapshot.version
                valid = _partition_names(snapshot.metadata) if is_latest else None
            if version in self.broken or valid is None:
                continue
            for keys in sorted(found - {valid}, key=sorted):
                self._add("PARTITION_VALUE", _describe_keys(keys, valid), version)

    def _inspect(self, version: int, commit: CommitBytes) -> None:
        if not commit.data or commit.data.isspace():
            self._empty.add(version)
        if commit.data.startswith(_BYTE_ORDER_MARK):
            problem = "it begins with a byte order mark, which only Delta on Spark ignores"
            self._add("COMMIT_UNREADABLE", problem, version)
            commit = CommitBytes(commit.name, commit.data.removeprefix(_BYTE_ORDER_MARK))
        name, data, info = commit.name, commit.data, commit.info
        self._times[version] = in_commit_timestamp(info)
        if isinstance(date := (info or {}).get("timestamp"), int):
            self._dates[version] = date
        self.source = find_source(info) or self.source
        if (proof := read_proof(info)) is not None and info is not None:
            self.digests[version] = Stored(proof, _read_version(info, version))
        self._vectors.take_writer(version, (info or {}).get("engineInfo"))
        for problem in (*find_repeats(name, data), *find_shared_lines(data, info)):
            self._add("COMMIT_AMBIGUOUS", problem, version)
        self._keys[version] = list_partition_keys(data)
        for protocol in find_actions(name, data, "protocol"):
            self.protocols[version] = parse_protocol(protocol)
        for metadata in find_actions(name, data, "metaData"):
            self.metadata[version] = parse_metadata(metadata)
            if (lack := describe_lacking(metadata)) is not None:
                self._add("SCHEMA_INVALID", lack, version)

    def _add(self, code: str, problem: str, version: int) -> None:
        name = self._log.commit_files[version].name
        self._findings.add(code, problem, version=version, file=name)


def _read_names(store: Store, checkpoint: Checkpoint) -> Iterator[pa.Table]:
    """Yield the names of the files and tombstones of a checkpoint."""
    head = read_head(store, checkpoint)
    for action in ("add", "remove"):
        yield from read_file_actions(store, head, action, PATH_COLUMNS)


def _read_version(info: Mapping[str, Any], version: int) -> int:
    """Return the version whose schema the rows of a commit had."""
    claimed = info.get("readVersion")
    return claimed if isinstance(claimed, int) and 0 <= claimed < version else version - 1


def _find_incomplete(parsed: ParsedCommits) -> Iterator[tuple[int, str]]:
    """Yield commits, by version, and a member that some of their file actions do not have."""
    actions = (("add", parsed.adds, ADD_MEMBERS), ("remove", parsed.removes, REMOVE_MEMBERS))
    for action, files, members in actions:
        for name in find_incomplete(files, members):
            for version in pc.unique(files["version"].filter(files[name].is_null())).to_pylist():
                yield version, f"one of its {action} actions has no {JSON_NAMES[name]}"


def _partition_names(metadata: Metadata) -> frozenset[str] | None:
    try:
        return frozenset(field.physical_name for field in metadata.partition_fields)
    except CorruptLogError:
        return None  # checking the schema reports it


def _describe_keys(found: frozenset[str], valid: frozenset[str]) -> str:
    parts = []
    if lacking := sorted(valid - found):
        parts.append(f"no value for the partition column {', '.join(map(repr, lacking))}")
    if foreign := sorted(found - valid):
        parts.append(
            f"a value for {', '.join(map(repr, foreign))}, which is not a partition column"
        )
    return f"adds have {' and '.join(parts)}"
