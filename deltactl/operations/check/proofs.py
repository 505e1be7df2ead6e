"""Compare the rows of files with the digests that layout runs stored in their commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.tasks import LazyTasks
from deltactl.errors import (
    CorruptLogError,
    DataFileError,
    InterruptedRunError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.find_files import find_files, is_placed
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.row_proofs import FileDigester, Proof, proven_mask, stored_reader
from deltactl.operations.run_context import RunContext
from deltactl.parquet.data_file import DataFile, iter_data_files
from deltactl.parquet.digest import RowDigest
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.storage.open import open_store
from deltactl.storage.write_guard import refuse_changes

_BYTES_A_TASK: Final = 256 << 20
_FILES_A_TASK: Final = 512

Definition = tuple[Protocol, Metadata]


@dataclass(frozen=True, slots=True)
class Stored:
    """A digest in a commit, and the version whose schema its rows had."""

    proof: Proof
    read_version: int


@dataclass(frozen=True, slots=True)
class ProofSpec:
    """The values that all tasks share; ``states`` are the protocols and schemas of the commits."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    states: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class ProofTask:
    """Files of one commit; ``state`` is an index into the spec's."""

    version: int
    state: int
    files: tuple[DataFile, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProofResult:
    """The digest of the files; ``None`` and a file if one is missing or cannot be read."""

    digest: RowDigest | None
    file: str | None = None
    problem: str | None = None
    note: str | None = None


def _digest_files(spec: ProofSpec, task: ProofTask, attempt: int) -> ProofResult:
    store = refuse_changes(open_store(spec.uri, spec.storage_options))
    infos, _ = find_files(store, [file.path for file in task.files if is_placed(file.path)])
    for file in task.files:
        if infos.get(file.path) is None:
            return ProofResult(None, file.path)
    protocol, metadata = spec.states[task.state]
    digester = FileDigester(stored_reader(metadata, protocol, for_rewrite=False))
    total = RowDigest()
    for file in task.files:
        try:
            total += digester.digest_file(store, file)
        except DataFileError as error:
            return ProofResult(None, file.path, problem=error.message)
        except UnsupportedFeatureError as error:
            return ProofResult(None, file.path, note=error.message)
    return ProofResult(total)


class ProofCheck:
    """The digests of a log, and the tasks that calculate them again."""

    def __init__(
        self,
        log: DeltaLog,
        stored: Mapping[int, Stored],
        state_of: Mapping[int, Definition],
        findings: Findings,
    ) -> None:
        """Set the digests by version, and the protocol and schema of each needed version."""
        self._log, self._findings = log, findings
        self._stored = {v: found for v, found in stored.items() if found.read_version in state_of}
        for version in [v for v, found in self._stored.items() if not found.proof.is_known]:
            algorithm = self._stored.pop(version).proof.algorithm
            findings.note(
                f"the digest of version {version} was not compared: {algorithm!r} is not known "
                f"to this version of deltactl"
            )
        self._states = tuple(dict.fromkeys(found.read_version for found in self._stored.values()))
        self._state_of = state_of
        self._plan = [
            (task.version, sum(file.size_bytes for file in task.files)) for task in self._tasks()
        ]
        self.num_compared = 0

    @property
    def input_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(size_bytes for _, size_bytes in self._plan)

    def run(self, context: RunContext) -> None:
        """Compare the digests; report differences.

        Raises:
            InterruptedRunError: ``cancel`` was set.
        """
        results: dict[int, list[ProofResult]] = {version: [] for version in self._stored}
        spec = ProofSpec(
            self._log.uri,
            context.storage_options,
            tuple(self._state_of[version] for version in self._states),
        )
        waiting = self._tasks()
        tasks = LazyTasks([size for _, size in self._plan], lambda _: next(waiting))
        for number, result in context.results(partial(_digest_files, spec), tasks):
            results[self._plan[number][0]].append(result)
        if context.is_cancelled:
            raise InterruptedRunError("interrupted")
        for version, found in results.items():
            self._compare(version, found)

    def _tasks(self) -> Iterator[ProofTask]:
        """Yield the tasks, the same each time."""
        for version, stored in self._stored.items():
            state = self._states.index(stored.read_version)
            keys = self._state_of[stored.read_version][1].partition_keys
            for parsed in self._log.parsed_commits([version], keys):
                adds = parsed.adds.filter(pa.array(proven_mask(parsed.adds)))
                sizes = pc.fill_null(adds["size_bytes"], 0).to_numpy()
                for start, stop in cut_files(sizes, _FILES_A_TASK, _BYTES_A_TASK):
                    files = tuple(iter_data_files(adds.slice(start, stop - start)))
                    yield ProofTask(version, state, files)

    def _compare(self, version: int, results: Sequence[ProofResult]) -> None:
        name = self._log.commit_file(version)
        for result in results:
            if result.problem is not None:
                self._findings.add(
                    "FILE_UNREADABLE", result.problem, version=version, file=result.file
                )
            elif result.digest is None:
                why = result.note or f"{result.file!r} does not exist any more"
                self._findings.note(f"the digest of version {version} was not compared: {why}")
        digests = [result.digest for result in results if result.digest is not None]
        if len(digests) < len(results):
            return
        total = reduce(add, digests, RowDigest())
        self.num_compared += 1
        proof = self._stored[version].proof
        problem = None
        if total.rows != proof.rows:
            problem = (
                f"the files of this commit have {total.rows} rows, but the commit recorded "
                f"{proof.rows}"
            )
        elif total.hex != proof.sum:
            problem = (
                f"the digest of the rows in its files is {total.hex}, but the commit recorded "
                f"{proof.sum}"
            )
        if problem is not None:
            self._findings.add("ROWS_CHANGED", problem, version=version, file=name)


def find_states(
    log: DeltaLog,
    snapshot: Snapshot,
    changes: Iterable[int],
    stored: Mapping[int, Stored],
    findings: Findings,
) -> Mapping[int, Definition]:
    """Return the protocol and schema of the versions whose schemas the rows had.

    ``changes`` are the versions that changed protocol or schema. ``findings`` takes notes of
    versions that cannot be rebuilt.
    """
    states, changed = {}, sorted(changes)
    for version in sorted({found.read_version for found in stored.values()}):
        first, last = sorted((version, snapshot.version))
        try:
            if any(first < change <= last for change in changed):
                at = log.without_warnings().snapshot(version)
            else:
                at = snapshot
            stored_reader(at.metadata, at.protocol, for_rewrite=False)
        except (CorruptLogError, VersionNotFoundError, UnsupportedFeatureError) as error:
            findings.note(
                f"rows that were written with the schema of version {version} were not compared: "
                f"{error.message}"
            )
            continue
        states[version] = (at.protocol, at.metadata)
    return states
