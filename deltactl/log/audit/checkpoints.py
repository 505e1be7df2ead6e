"""Check checkpoints against replay, and `_last_checkpoint` against the log.

A checkpoint is compared with the same version, rebuilt without this checkpoint. If an older
checkpoint is needed to rebuild the version, it must have passed the check. Before a log cleanup
deletes older files, the checkpoint that remains is compared with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from deltactl.errors import (
    CorruptLogError,
    LogGapError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    ignore_warning,
)
from deltactl.log.audit.checksum import find_contradiction
from deltactl.log.audit.digests import STATE_COLUMNS, STATS_COLUMNS, digest_state, digest_stats
from deltactl.log.audit.evidence import find_evidence, find_foreign_id
from deltactl.log.audit.unseen_commits import find_unseen
from deltactl.log.checkpoint.read import read_head
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME, count_parts, parse_hint, parse_unchecked
from deltactl.log.listing import LogListing
from deltactl.log.rebuildable import is_readable, is_valid
from deltactl.log.segment import LogSegment, find_lost_commits, select_segment
from deltactl.log.snapshot import Snapshot, load_segment, load_snapshot
from deltactl.protocol.action_nodes import encode_protocol
from deltactl.protocol.actions import is_same_metadata
from deltactl.protocol.stats_decoding import parsed_stats_type
from deltactl.storage.store import FileInfo, Store

Trust: TypeAlias = Literal["good", "unproven", "bad", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the check of a checkpoint; ``problem`` is a text if it is not valid.

    ``is_whole``: every file of the checkpoint can be read. Values of ``trust``:

    - ``good`` or ``bad``: the checkpoint is valid, or not valid.
    - ``unproven``: the checkpoint is complete, but cannot be compared, because older log files are
      missing.
    - ``ambiguous``: the checkpoint differs from a replay that starts at an unproven checkpoint, or
      there is evidence that commits were damaged. Either of the two can be wrong. Or it is not
      valid, but a repair could bring rows in a second time: see ``find_unseen``.

    ``before`` is the newest version before lost commits if the checkpoint after them seems to be of
    another table: see ``find_foreign_id``. ``contradicts`` is the name of a file of the same
    version that differs from the checkpoint, if no other files can rebuild the version.
    ``lacks_unseen``: it lacks a commit that the writer of a later one did not see.
    ``uncommitted``: see ``Evidence.files``.
    """

    checkpoint: Checkpoint
    trust: Trust
    problem: str | None = None
    is_whole: bool = True
    before: int | None = None
    contradicts: str | None = None
    lacks_unseen: bool = False
    uncommitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HintVerdict:
    """The result of the check of `_last_checkpoint`: its version and its problem.

    ``is_missing``: the file does not exist. Then readers are slower, but read correct data.
    ``is_ahead``: the newest commits, up to this version, were lost.
    ``stops_readers``: delta-rs or DuckDB cannot open the table.
    """

    version: int | None
    problem: str | None
    is_missing: bool = False
    is_ahead: bool = False
    stops_readers: bool = False


def check_checkpoints(log: DeltaLog) -> list[Verdict]:
    """Check every complete or empty checkpoint of a listing of the whole log, oldest first."""
    verdicts: list[Verdict] = []
    for checkpoint in log.all_checkpoints:
        verdicts.append(_check(log, checkpoint, verdicts))
    return sorted(verdicts, key=lambda v: (v.checkpoint.version, v.checkpoint.names))


def _check(log: DeltaLog, checkpoint: Checkpoint, before: list[Verdict]) -> Verdict:
    store = log.store
    if not all(info.size_bytes for info in checkpoint.files):
        return Verdict(checkpoint, "bad", "the file is empty", is_whole=False)
    if not is_valid(store, checkpoint):
        return Verdict(checkpoint, "bad", "it cannot be read completely", is_whole=False)
    usable = {v.checkpoint for v in before if v.trust in ("good", "unproven")}
    # A checkpoint that is bad, or not checked yet as this one, must not prove anything.
    others = frozenset(c for c in log.listing.checkpoints if c not in usable)
    try:
        # Without warnings: each checkpoint that a replay skips has a verdict of its own.
        replayed = log.without_warnings().snapshot(checkpoint.version, skip=others)
    except (CorruptLogError, ObjectNotFoundError):
        foreign = find_foreign_id(log, checkpoint.version)
        if foreign is not None:
            return Verdict(checkpoint, "ambiguous", foreign[0], before=foreign[1])
        found = next(_find_contradictions(log, checkpoint), None)
        if found is not None:
            return Verdict(checkpoint, "ambiguous", found[1], contradicts=found[0])
        return Verdict(
            checkpoint, "unproven", "the log no longer has the commits to compare it with"
        )
    own = _load_alone(log, checkpoint)
    difference = _describe_difference(own, replayed) or _describe_statistics(own, replayed)
    if difference is None:
        return Verdict(checkpoint, "good")
    return _judge(log, own, replayed, Verdict(checkpoint, "bad", difference), before)


def _judge(
    log: DeltaLog, own: Snapshot, replayed: Snapshot, bad: Verdict, before: list[Verdict]
) -> Verdict:
    """Judge a checkpoint that differs from the rest of the log."""
    checkpoint, base = bad.checkpoint, replayed.segment.checkpoint
    problem = f"it disagrees with the log: {bad.problem}"
    if base is not None and any(v.checkpoint == base and v.trust == "unproven" for v in before):
        problem += f"; or {base.names[0]} is wrong, not this file"
        return Verdict(checkpoint, "ambiguous", problem)
    evidence = find_evidence(log, own, replayed, None)
    if evidence is not None:
        problem += f"; or the commits are wrong, not this file: {evidence.problem}"
        return Verdict(checkpoint, "ambiguous", problem, uncommitted=evidence.files)
    wrong = [v.checkpoint.version for v in before if v.trust in ("bad", "ambiguous")]
    unseen = find_unseen(log, own, replayed, min([*wrong, own.version]))
    if unseen is not None:
        return Verdict(checkpoint, "ambiguous", f"{problem}; but {unseen}", lacks_unseen=True)
    return Verdict(checkpoint, "bad", problem)


def _find_contradictions(log: DeltaLog, checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    """Yield the names of files that disagree with a checkpoint of their version, and how.

    The commits just before it are compared, although older ones are missing.
    """
    version = checkpoint.version
    if log.has_commits(version, version):
        with suppress(CorruptLogError, ObjectNotFoundError):
            problem = _find_older_problem(log, _load_alone(log, checkpoint))
            if problem is not None:
                name = log.commit_file(version)
                yield name, f"it disagrees with the log up to {name}: {problem}"
    if version in log.checksum_files:
        with suppress(CorruptLogError):
            problem = find_contradiction(_load_alone(log, checkpoint))
            if problem is not None:
                yield log.checksum_file(version), problem


def _load_alone(log: DeltaLog, checkpoint: Checkpoint) -> Snapshot:
    """Return the version of a checkpoint, rebuilt only from this checkpoint."""
    alone = LogListing(0, checkpoints=[checkpoint])
    return load_snapshot(log.reader, checkpoint.version, alone, warn=ignore_warning)


def find_base_problem(
    log: DeltaLog, version: int, planned: Snapshot | None, visitors: Sequence[Visitor] = ()
) -> str | None:
    """Return how a checkpoint of a version differs from the older files of the log, or ``None``.

    The older files are the oldest checkpoint and the commits from there on, as far as no commit is
    missing: a later checkpoint may have the same defect. If the oldest commit is not the first and
    there is no older checkpoint, the commits are applied to the checkpoint of the version, and must
    not change it. ``planned`` is the version if its checkpoint is not written yet. The ``visitors``
    get the commits.

    Raises:
        CorruptLogError: a commit cannot be parsed; the message has the file and the line.
    """
    found = [c for c in log.listing.checkpoints if c.version == version]
    for own in [_load_alone(log, c) for c in found] if planned is None else [planned]:
        difference = _find_older_problem(log, own, visitors)
        if difference is not None:
            return difference
    return None


def _find_older_problem(
    log: DeltaLog,
    own: Snapshot,
    visitors: Sequence[Visitor] = (),
    wrong: frozenset[Checkpoint] = frozenset(),
) -> str | None:
    """Return how the version of a checkpoint differs from the older files of the log.

    Checkpoints in ``wrong`` are not used, nor older ones that differ from their own commits.
    """
    store, listing, first, version = log.store, log.listing, own.version, own.version
    while first - 1 in listing.commits:
        first -= 1
    tail = tuple(listing.commits[v] for v in range(first, version + 1))
    # A checkpoint needs no commit of its own version: it may be just before the first commit.
    usable = (c for c in listing.checkpoints if first - 1 <= c.version < version)
    usable = (c for c in usable if c not in wrong and is_readable(store, c))
    oldest = next(usable, None) if first else None
    head = None if oldest is None else read_head(store, oldest)
    base = own.head if first and oldest is None else head
    segment = LogSegment(version, oldest, tail, tail[-1])
    problem = _describe_difference(own, load_segment(log.reader, segment, base, visitors))
    if problem is None or oldest is None or oldest.version < first:
        return problem
    if _find_older_problem(log, _load_alone(log, oldest), wrong=wrong) is None:
        return problem
    return _find_older_problem(log, own, wrong=wrong | {oldest})


def find_problem_since(
    log: DeltaLog, earlier: Snapshot, checkpoint: Checkpoint
) -> tuple[str | None, str | None]:
    """Return how a checkpoint differs from an earlier version and the commits after it.

    Also return what shows that the checkpoint may be right; see ``find_evidence``.

    Raises:
        CorruptLogError: a commit cannot be parsed; the message has the file and the line.
        StorageError: a file cannot be looked up.
    """
    version, base = checkpoint.version, earlier.segment
    commits = [log.commit_files[v] for v in range(earlier.version + 1, version + 1)]
    if not commits:
        return None, None
    segment = LogSegment(version, base.checkpoint, (*base.tail, *commits), commits[-1])
    own, replayed = _load_alone(log, checkpoint), load_segment(log.reader, segment, earlier.head)
    problem = _describe_difference(own, replayed)
    evidence = None if problem is None else find_evidence(log, own, replayed)
    return problem, None if evidence is None else evidence.problem


def _describe_difference(own: Snapshot, replayed: Snapshot) -> str | None:
    # As nodes, an empty list of features and none are equal.
    if encode_protocol(own.protocol) != encode_protocol(replayed.protocol):
        return "its protocol is different"
    if not is_same_metadata(own.metadata, replayed.metadata):
        return "its metaData is different"
    if dict(own.domains) != dict(replayed.domains):
        return "its domain metadata are different"
    # If the table has a retention for transactions, some may have expired before the checkpoint was
    # written.
    expected = replayed.txns
    if replayed.properties.txn_retention_ms is not None:
        expected = {app: txn for app, txn in replayed.txns.items() if app in own.txns}
    if dict(own.txns) != dict(expected):
        return "its transactions are different"
    keys = list(own.metadata.partition_keys)
    found = digest_state(own.file_batches(STATE_COLUMNS), keys)
    wanted = digest_state(replayed.file_batches(STATE_COLUMNS), keys)
    return found.describe_difference(wanted)


def _describe_statistics(own: Snapshot, replayed: Snapshot) -> str | None:
    try:
        type_ = parsed_stats_type(own.metadata, own.protocol)
    except UnsupportedFeatureError:  # a column has an unknown type
        return None
    found = digest_stats(own.file_batches(STATS_COLUMNS), type_)
    wanted = digest_stats(replayed.file_batches(STATS_COLUMNS), type_)
    return found.describe_difference(wanted)


def check_hint(log: DeltaLog, bad: frozenset[Checkpoint]) -> HintVerdict:
    """Check whether ``_last_checkpoint`` refers to a checkpoint that can be used.

    Raises:
        StorageError: the store failed. `_last_checkpoint` may still be valid.
    """
    said: list[str] = []
    version, data = None, b""
    with suppress(ObjectNotFoundError):
        data = log.store.read(HINT_NAME)
        version = parse_hint(data, said.append)
    listing = log.listed  # from the checkpoint of an earlier content of this file on
    usable = [c for c in listing.checkpoints if c not in bad]
    if said:
        version = parse_unchecked(data)
        unusable = None if version is None else _find_unusable(version, data, listing, usable)
        if unusable is None:
            return HintVerdict(version, said[0])
        return replace(unusable, problem=f"{said[0]}; {unusable.problem}")
    if version is None:
        missing = f"{HINT_NAME} is missing" if usable else None
        return HintVerdict(None, missing, is_missing=missing is not None)
    if all(c.version != version for c in listing.checkpoints):
        newer = log.list_from(version)
        if any(c.version == version for c in newer.checkpoints):  # written after the listing
            return HintVerdict(version, None)
    lost = find_lost_commits(listing, version, log.uri)
    if lost is not None and version > (listing.latest_version or 0):
        return HintVerdict(version, lost.message, is_ahead=True)
    return _find_unusable(version, data, listing, usable) or HintVerdict(version, None)


def _find_unusable(
    version: int, data: bytes, listing: LogListing, usable: Sequence[Checkpoint]
) -> HintVerdict | None:
    """Return the problem of readers that use the checkpoint in ``_last_checkpoint``, if any."""
    # delta-rs and DuckDB need a complete checkpoint of this version or a later one.
    newest = max((c.version for c in listing.checkpoints), default=-1)
    sizes = {len(c.files) for c in usable if c.version == version}
    if not sizes:
        problem = f"{HINT_NAME} refers to version {version}, which has no usable checkpoint"
        if newest < version:
            problem += ": delta-rs and DuckDB cannot open the table"
        return HintVerdict(version, problem, stops_readers=newest < version)
    if version == newest and count_parts(data) not in sizes:
        found = " or ".join(map(str, sorted(sizes)))
        problem = (
            f"the number of parts in {HINT_NAME} is wrong: checkpoint {version} has {found}, and "
            "DuckDB cannot open the table"
        )
        return HintVerdict(version, problem, stops_readers=True)
    return None


def find_hint_problem(log: DeltaLog, snapshot: Snapshot) -> str | None:
    """Return why ``_last_checkpoint`` must be replaced, or ``None``.

    ``snapshot`` is of the same listing. Its checkpoint is the newest that can be read, up to its
    version. A file that cannot be read is not replaced, because it may be right.
    """
    newest, listed = snapshot.segment.checkpoint_version, log.listed.checkpoints
    unreadable = frozenset(c for c in listed if newest < c.version <= snapshot.version)
    try:
        verdict = check_hint(log, unreadable)
    except StorageError as error:
        log.warn(f"{HINT_NAME} was not checked: {error.message}")
        return None
    if verdict.is_ahead:  # only this file may show that commits were lost
        return None
    if verdict.problem is None and verdict.version is not None and verdict.version < newest:
        return f"{HINT_NAME} is older than the checkpoint of version {newest}"
    return verdict.problem


def hint_of(store: Store, checkpoint: Checkpoint) -> dict[str, object]:
    """Return the required fields of `_last_checkpoint` for an existing checkpoint."""
    head = read_head(store, checkpoint)
    infos: list[FileInfo] = [*checkpoint.files]
    infos += [info for info in store.stat_many(head.sidecars) if info is not None]
    # The size is the number of actions; -1 is unknown: to count them, all files must be read.
    hint: dict[str, object] = {"version": checkpoint.version, "size": -1}
    if checkpoint.kind == "multipart":
        hint["parts"] = len(checkpoint.files)
    return hint | {"sizeInBytes": sum(info.size_bytes for info in infos)}


def find_lost(log: DeltaLog, wrong: frozenset[Checkpoint]) -> list[Checkpoint]:
    """Return those of the ``wrong`` checkpoints that no other files of the log can rebuild."""
    lost = []
    for checkpoint in wrong:
        try:
            select_segment(log.listing, checkpoint.version, skip=wrong)
        except (LogGapError, VersionNotFoundError):
            lost.append(checkpoint)
    return lost
