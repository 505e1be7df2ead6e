"""``check``: verify that a table's log is valid and agrees with its files. Read-only.

The whole log is checked, and the files of one version or of all versions. Problems are findings in
the report, not exceptions.
"""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from deltactl.engine.base import Engine
from deltactl.errors import (
    CorruptLogError,
    LogGapError,
    MissingActionError,
    SafetyError,
    UnsupportedFeatureError,
)
from deltactl.log.audit.audited_snapshot import ChecksumWatch
from deltactl.log.audit.checkpoints import Verdict
from deltactl.log.audit.path_texts import PathTextIndex
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.check.catalog import check_catalog_commits, check_entry, check_location
from deltactl.operations.check.checksums import (
    check_checksum,
    check_older_checksums,
    check_read_checksum,
    choose_versions,
    find_unproven,
)
from deltactl.operations.check.clones import check_records
from deltactl.operations.check.commits import CommitChecker
from deltactl.operations.check.files import FileCheck, ResumeFile, read_version
from deltactl.operations.check.findings import Findings, to_table
from deltactl.operations.check.gaps import check_gaps, check_newest
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.path_encoding.pairs import check_path_pairs
from deltactl.operations.check.proofs import ProofCheck, find_states
from deltactl.operations.check.protocol import Readable, check_empty_schema, check_protocol
from deltactl.operations.check.redundant import (
    check_all_checkpoints,
    check_checkpoint_heads,
    check_compacted,
    check_last_checkpoint,
    explain_lost,
    keep_confirmed,
)
from deltactl.operations.check.report import CheckedCounts, CheckReport
from deltactl.operations.check.state import StateChecker
from deltactl.operations.check.tasks import CheckSpec
from deltactl.operations.check.vectors import VectorIndex
from deltactl.operations.check.versions import AllFiles, LiveFiles, find_all_files
from deltactl.operations.optimize.column_rule import ColumnRule
from deltactl.operations.run_context import RunContext
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.stats_columns import find_unknown_names
from deltactl.units import format_count

_BROKEN: Final = frozenset({"FILE_MISSING", "FILE_UNREADABLE", "VECTOR_MISSING"})
_WRONG: Final = "CHECKPOINT_WRONG"


def check_table(log: DeltaLog, options: CheckOptions, context: RunContext) -> CheckReport:
    """Check a table's log, and its files at the requested depth.

    Raises:
        NotATableError: there is no table.
        VersionNotFoundError: the log does not reach the requested version.
        InterruptedRunError: ``cancel`` was set.
    """
    quiet = log.read_only(published_only=True).without_warnings()
    report = _Run(quiet, options, context).check()
    if quiet.is_published_only:
        log.note_published_only()
    return report


@dataclass(slots=True)
class _Run:
    """One check, from the log to the files."""

    log: DeltaLog
    options: CheckOptions
    context: RunContext
    findings: Findings = field(default_factory=Findings)
    counts: CheckedCounts = field(default_factory=CheckedCounts)
    _path_texts: PathTextIndex = field(init=False)
    _vectors: VectorIndex = field(default_factory=VectorIndex)
    _commits: CommitChecker = field(init=False)
    _verdicts: list[Verdict] | None = None

    def __post_init__(self) -> None:
        self._path_texts = PathTextIndex(self.log.uri)
        self._commits = CommitChecker(self.log, self.findings, self._path_texts, self._vectors)

    def check(self) -> CheckReport:
        if not check_location(self.log, self.findings):
            return self._report(None)
        commits = self._commits
        commits.run()
        self.counts.num_commits = len(self.log.commit_files)
        check_gaps(self.log, self.findings)
        broken = self._check_redundant()
        commits.check_unknown_removes(broken)
        snapshot = self._load(broken)
        if snapshot is None:
            return self._report(None)
        readable = check_protocol(
            snapshot.protocol, snapshot.metadata, snapshot.version, self.findings
        )
        if readable is Readable.NOTHING:
            self.findings.note("files were not checked: the schema is invalid")
            return self._report(snapshot)
        if (unknown := find_unknown_names(snapshot.metadata)) is not None:
            command = f"deltactl alter {shlex.quote(self.log.uri)}"
            self.findings.note(f"{unknown}. Correct it with `{command}`")
        check_entry(self.log, snapshot, self.findings, self.context)
        check_catalog_commits(self.log, self.context.clock.now_ms(), self.findings)
        self._limit_depth(readable)
        commits.check_times(snapshot.metadata, self.context.clock.now_ms())
        commits.check_partition_keys(snapshot)
        unsupported = self._find_unsupported(snapshot)
        if unsupported is None:  # otherwise the newest commits may be stored elsewhere
            check_newest(self.log, self.findings)
        snapshot = self._check_state(snapshot, broken)
        if snapshot is None:
            return self._report(None, unsupported=unsupported)
        self._check_vectors(snapshot)
        engine = self._check_files(snapshot)
        return self._report(snapshot, engine, unsupported)

    def _check_redundant(self) -> frozenset[Checkpoint]:
        """Check the log's redundant files; return the unusable checkpoints."""
        self.counts.num_compacted = len(self.log.compacted_files)
        check_compacted(self.log, self.findings)
        before = len(self.findings.rows)
        wrong: frozenset[Checkpoint] = frozenset()
        broken = check_checkpoint_heads(self.log, self.findings)
        self.counts.num_checkpoints = len(self.log.checkpoints)
        if self.options.checkpoints:
            del self.findings.rows[before:]  # the full check reports them again, with more detail
            wrong = self._compare_checkpoints()
        check_last_checkpoint(self.log, broken, self.findings, strict=self.options.checkpoints)
        return broken | wrong

    def _load(self, broken: frozenset[Checkpoint]) -> Snapshot | None:
        """Return the version to check; ``None``, with a finding, if it cannot be rebuilt."""
        version = self.options.version
        if version is None and self.options.resume is not None:
            version = read_version(self.options.resume)
        try:
            snapshot = self.log.snapshot(version, skip=broken)
            if self.options.depth is Depth.DATA and not self.options.published_only:
                self.log.ensure_complete()
            return snapshot
        except LogGapError as error:
            if not self.findings.has("LOG_GAP"):
                first = self._first_missing(broken)
                file = self.log.commit_file(first)
                self.findings.add("LOG_GAP", error.message, version=first, file=file)
        except MissingActionError as error:
            self.findings.add("LOG_ACTION_MISSING", error.message, version=version)
        except CorruptLogError as error:
            if not self.findings.has("COMMIT_UNREADABLE"):
                self.findings.add("LOG_UNREADABLE", error.message, version=version)
        self.findings.waits_for_log = self.options.version is None
        return None

    def _first_missing(self, broken: frozenset[Checkpoint]) -> int:
        """Return the first version after the newest usable checkpoint that has no commit."""
        usable = (it.version for it in self.log.checkpoints if it not in broken)
        version = max(usable, default=-1) + 1
        while version in self.log.commit_files:
            version += 1
        return version

    def _find_unsupported(self, snapshot: Snapshot) -> str | None:
        try:
            ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
        except UnsupportedFeatureError as error:
            self.findings.note(f"the table may contain more than was checked: {error.message}")
            return error.message
        except SafetyError:  # the findings have it
            return None
        return None

    def _check_state(self, snapshot: Snapshot, broken: frozenset[Checkpoint]) -> Snapshot | None:
        """Check the live files as recorded in the log; return the snapshot that was readable.

        If a checkpoint can be opened but is corrupt in a later part, an older one is used. If its
        files or its id are not those of the commits, or a checksum file has other counts, or a
        commit may be damaged, all checkpoints are compared.
        """
        before, disagreeing = len(self.findings.rows), set[int]()
        watch = ChecksumWatch.of(
            self.log, snapshot, lambda v, _: disagreeing.add(v), with_older=True
        )
        if watch is not None:
            watch.judge_metadata()
        state = StateChecker(
            replace(snapshot, watch=watch),
            self.findings,
            self._path_texts,
            self._vectors,
            self._commits.actions,
        )
        try:
            state.run()
        except CorruptLogError as error:
            del self.findings.rows[before:]
            checkpoint = snapshot.segment.checkpoint
            if checkpoint is None:
                self.findings.add("LOG_UNREADABLE", error.message, version=snapshot.version)
                return None
            version, name = checkpoint.version, checkpoint.names[0]
            self.findings.add("CHECKPOINT_UNREADABLE", error.message, version=version, file=name)
            broken |= {checkpoint}
            return self._check_again(broken)
        commits = self._commits
        agree = commits.has_known_id(snapshot) and commits.agree_with_live(snapshot)
        agree = agree and not disagreeing
        if self._verdicts is None and (self.findings.has("COMMIT_DOUBTFUL") or not agree):
            found = self.findings.rows[before:]
            del self.findings.rows[before:]
            broken |= self._compare_checkpoints()
            if snapshot.segment.checkpoint in broken:
                return self._check_again(broken)
            self.findings.rows += found
        check_path_pairs(self.log, snapshot, self._path_texts, broken, self.findings)
        self.counts.num_files, self.counts.size_bytes = state.num_files, state.size_bytes
        check_empty_schema(snapshot.metadata, snapshot.version, state.num_files, self.findings)
        unproven = find_unproven(self.log, self._verdicts, snapshot)
        self.counts.num_checksums += check_checksum(
            self.log,
            snapshot,
            state.num_files,
            state.size_bytes,
            self.findings,
            strict=self.options.checkpoints,
            unproven=unproven,
        )
        check_read_checksum(self.log, snapshot, self._commits, self.findings, unproven)
        versions = choose_versions(self.log, snapshot, disagreeing, self._verdicts, self.options)
        self.counts.num_checksums += check_older_checksums(
            self.log,
            snapshot,
            broken,
            self._verdicts,
            self.findings,
            versions=versions,
            strict=self.options.checkpoints or self.options.all_versions,
        )
        options = self.context.storage_options
        check_records(snapshot, self._commits.source, state.directories, options, self.findings)
        return snapshot

    def _check_vectors(self, snapshot: Snapshot) -> None:
        """Compare the deletion vectors; if the checkpoint lacks some, compare the checkpoints."""
        before = len(self.findings.rows)
        first = self._commits.last_unread(snapshot.version) + 1
        self._vectors.check(snapshot, first, self.findings)
        found = self.findings.rows[before:]
        if self._verdicts is None and any(row[0] == _WRONG for row in found):
            del self.findings.rows[before:]
            self._compare_checkpoints()
            doubted = {row[2] for row in self.findings.rows if row[0] == "CHECKPOINT_DOUBTFUL"}
            found = [it for it in found if it[0] != _WRONG or it[2] not in doubted]
            known = {row[:3] for row in found}
            rows = [it for it in self.findings.rows if it[:3] not in known]
            self.findings.rows = [*rows, *found]

    def _check_again(self, broken: frozenset[Checkpoint]) -> Snapshot | None:
        """Check the live files of the version that is rebuilt without more checkpoints."""
        again = self._load(broken)
        return None if again is None else self._check_state(again, broken)

    def _compare_checkpoints(self) -> frozenset[Checkpoint]:
        """Compare every checkpoint with its version, once; return those proven wrong."""
        # The comparison reports them again.
        rows = [row for row in self.findings.rows if row[0] != "CHECKPOINT_UNREADABLE"]
        self.findings.rows = rows
        self._verdicts = check_all_checkpoints(self.log, self._commits.metadata, self.findings)
        return frozenset(it.checkpoint for it in self._verdicts if it.trust == "bad")

    def _choose_files(self, snapshot: Snapshot) -> LiveFiles | AllFiles:
        """Return the files of all versions if requested and rebuildable, else the live files."""
        if not self.options.all_versions:
            return LiveFiles(snapshot)
        try:
            files, readable = find_all_files(self.log, snapshot, self._commits, self.findings)
        except MissingActionError as error:
            first = self.log.first_commit
            self.findings.add("LOG_ACTION_MISSING", error.message, version=first)
            return LiveFiles(snapshot)
        except CorruptLogError as error:
            self.findings.note(f"files of older versions were not checked: {error.message}")
            return LiveFiles(snapshot)
        self._limit_depth(readable)
        return files

    def _limit_depth(self, readable: Readable) -> None:
        """Skip rows and statistics if the schema does not identify the columns of a file."""
        if readable is Readable.FILES and self.options.depth > Depth.SIZES:
            self.options = replace(
                self.options, depth=Depth.SIZES, vectors=self.options.decodes_vectors
            )
            self.findings.note("rows and statistics were not checked: the schema is invalid")

    def _check_files(self, snapshot: Snapshot) -> Engine:
        files = self._choose_files(snapshot)
        check = FileCheck(files.batches, self.options, snapshot.version)
        proofs = self._plan_proofs(snapshot)
        input_bytes = check.input_bytes + (0 if proofs is None else proofs.input_bytes)
        engine = self.context.engine.sized(input_bytes)
        spec = CheckSpec(
            self.log.uri,
            self.context.storage_options,
            files.metadata,
            self.options.depth,
            self.options.decodes_vectors,
            self._column_rule(snapshot),
        )
        path = self.options.resume
        is_broken = False
        opened = nullcontext() if path is None else ResumeFile(path, self._subject(snapshot))
        with opened as resume:
            for result in check.run(spec, replace(self.context, engine=engine), resume):
                self.counts.take(result)
                self.findings.take(to_table(result.findings))
                is_broken |= any(row[0] in _BROKEN for row in result.findings)
                for note in result.notes:
                    self.findings.note(note)
            if is_broken:
                CommitBase.of(snapshot).ensure_same_table(self.log)
            if proofs is not None:
                proofs.run(replace(self.context, engine=engine))
                self.counts.num_digests += proofs.num_compared
            if resume is not None:
                resume.clear()
        if self.counts.num_gone:
            command = f"deltactl describe-history {shlex.quote(self.log.uri)} --restorable"
            self.findings.note(
                f"{format_count(self.counts.num_gone, 'file')} of older versions cannot be found "
                f"any more, for example after a vacuum. Run `{command}` to see which versions need "
                "them"
            )
        return engine

    def _column_rule(self, snapshot: Snapshot) -> ColumnRule | None:
        if self.options.depth < Depth.FOOTERS or not snapshot.metadata.schema.fields:
            return None
        try:
            return ColumnRule.of(snapshot)
        except CorruptLogError:  # a schema is not valid, which is a finding
            return None

    def _plan_proofs(self, snapshot: Snapshot) -> ProofCheck | None:
        """Return the check of the digests of rows, if it was requested."""
        if not self.options.proofs:
            return None
        commits = self._commits
        stored = {v: found for v, found in commits.digests.items() if v not in commits.broken}
        changes = commits.metadata.keys() | commits.protocols.keys()
        states = find_states(self.log, snapshot, changes, stored, self.findings)
        return ProofCheck(self.log, stored, states, self.findings)

    def _subject(self, snapshot: Snapshot) -> dict[str, object]:
        """Return the values that identify this check in the resume file."""
        return {
            "table": snapshot.metadata.id,
            "version": snapshot.version,
            "depth": self.options.depth.name,
            "sample": self.options.sample,
            "vectors": self.options.decodes_vectors,
            "all_versions": self.options.all_versions,
        }

    def _report(
        self,
        snapshot: Snapshot | None,
        engine: Engine | None = None,
        unsupported: str | None = None,
    ) -> CheckReport:
        engine = engine or self.context.engine
        explain_lost(self.log, snapshot, self.findings)
        keep_confirmed(self._verdicts or (), self.log, self.findings)
        return CheckReport(
            version=None if snapshot is None else snapshot.version,
            options=self.options,
            engine=engine.name,
            engine_reason=engine.reason,
            counts=self.counts,
            findings=self.findings.finish(self.log.store, self.context.storage_options),
            notes=tuple(self.findings.notes),
            unsupported=unsupported,
        )
