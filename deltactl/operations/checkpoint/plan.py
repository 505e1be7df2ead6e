"""Plan which checkpoint to write, if any, from the log alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from deltactl.errors import SafetyError, UnsupportedFeatureError, Warn
from deltactl.log.audit.checkpoints import find_hint_problem
from deltactl.log.checkpoint.read import RowGroupRange, list_action_files, row_group_rows
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.rebuildable import is_readable
from deltactl.log.replay import ReplayPartition
from deltactl.log.snapshot import Snapshot
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.option_names import option
from deltactl.protocol.features import V2_CHECKPOINT, Operation, ensure_supported, has_feature

WrittenKind: TypeAlias = Literal["classic", "v2"]

_WITHOUT_SIDECARS: Final = frozenset({"classic", "multipart"})
_WITH_SIDECARS: Final = frozenset({"uuid"})
# A sidecar task reads whole row groups and splits them into a few sidecars.
_SIDECARS_A_TASK = 4


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The plan of the checkpoint for ``version``.

    ``kind`` is ``None`` if there is nothing to write; ``reason`` explains it. ``actions`` is the
    maximum number of file actions, ``None`` if unknown without reading all.
    ``partitions`` are the tasks of V2 sidecars. ``to_announce`` is the newest checkpoint, if
    ``_last_checkpoint`` must be replaced, as after a run that could not replace it. ``replaced`` is
    an unreadable V2 checkpoint of the version, whose name the new one gets: readers may choose any.
    """

    version: int
    kind: WrittenKind | None
    reason: str | None = None
    actions: int | None = None
    partitions: tuple[ReplayPartition, ...] = ()
    to_announce: Checkpoint | None = None
    replaced: Checkpoint | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return self.kind is None


def is_due(last_checkpoint: int, version: int, interval: int) -> bool:
    """Return whether a multiple of the interval is after the last checkpoint, up to ``version``.

    ``last_checkpoint`` is -1 without one; ``interval``, ``delta.checkpointInterval``, is more than
    zero.
    """
    return version // interval > max(last_checkpoint, 0) // interval


def _is_due_by_interval(snapshot: Snapshot) -> bool:
    interval = snapshot.properties.checkpoint_interval
    return is_due(snapshot.segment.checkpoint_version, snapshot.version, interval)


def may_announce(log: DeltaLog, checkpoint: Checkpoint | None) -> bool:
    """Return whether there is this checkpoint, and none in the listing is newer."""
    return checkpoint is not None and all(
        each.version <= checkpoint.version for each in log.listed.checkpoints
    )


def plan_checkpoint(
    log: DeltaLog, snapshot: Snapshot, options: CheckpointOptions
) -> CheckpointPlan:
    """Decide what to write for the snapshot's version.

    The log lists at least that version.

    Raises:
        UnsupportedFeatureError: the protocol forbids a checkpoint, or one of this kind.
        SafetyError: the commit of the version is missing.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CHECKPOINT)
    kind = _choose_kind(snapshot, options, log.warn)
    existing = _find_existing(log, snapshot, None if options.kind == "auto" else kind)
    if existing is not None:
        name = existing.names[0].rpartition("/")[2]
        reason = f"version {snapshot.version} already has a checkpoint: {name}"
        if options.compat != "default":
            reason += f"; {option('compat', options.compat)} applies to new checkpoints only"
        is_wrong = may_announce(log, existing) and find_hint_problem(log, snapshot) is not None
        return CheckpointPlan(
            snapshot.version, None, reason, to_announce=existing if is_wrong else None
        )
    if options.if_due and not _is_due_by_interval(snapshot):
        problem, newest = find_hint_problem(log, snapshot), snapshot.segment.checkpoint
        if problem is None:
            return CheckpointPlan(snapshot.version, None, "no checkpoint is due")
        if may_announce(log, newest):
            return CheckpointPlan(snapshot.version, None, problem, to_announce=newest)
    if snapshot.segment.commit is None:
        raise SafetyError(
            f"version {snapshot.version} already has a checkpoint of another kind, and its commit "
            "file was deleted. Without this file, deltactl writes no second checkpoint",
            hint=f"Rerun after the next commit, without {option('version')}.",
        )
    plan = plan_files(snapshot, kind, options)
    if kind == "v2":
        same = (c for c in log.listed.checkpoints if c.version == snapshot.version)
        plan = replace(plan, replaced=next((c for c in same if c.kind in _WITH_SIDECARS), None))
    return plan


def _choose_kind(snapshot: Snapshot, options: CheckpointOptions, warn: Warn) -> WrittenKind:
    """Return the kind from the options or the policy of the table (PROTOCOL.md, "Checkpoints")."""
    has_v2 = has_feature(snapshot.protocol, V2_CHECKPOINT)
    if options.kind == "auto":
        wants_v2 = snapshot.properties.checkpoint_policy == "v2"
        if wants_v2 and not has_v2:
            warn(
                "delta.checkpointPolicy is v2, but the protocol does not list v2Checkpoint: "
                "deltactl writes a classic checkpoint"
            )
        return "v2" if wants_v2 and has_v2 else "classic"
    if options.kind == "v2" and not has_v2:
        raise UnsupportedFeatureError(
            "a v2 checkpoint needs the table feature v2Checkpoint, which the table does not have",
            hint=f"Use {option('kind', 'classic')}, or run `deltactl alter TABLE --add-feature "
            f"{V2_CHECKPOINT.name}` first.",
        )
    return options.kind


def _find_existing(
    log: DeltaLog, snapshot: Snapshot, kind: WrittenKind | None
) -> Checkpoint | None:
    """Return a readable checkpoint of the version, of the given kind or of any.

    One file and several parts count as the same kind. Readers built on delta-kernel compare the
    number of parts in ``_last_checkpoint`` with the checkpoint that they chose; if a version has
    both, they may choose the other one and fail.
    """
    kinds = {"classic": _WITHOUT_SIDECARS, "v2": _WITH_SIDECARS}
    wanted_kinds = _WITHOUT_SIDECARS | _WITH_SIDECARS if kind is None else kinds[kind]
    for checkpoint in log.listed.checkpoints:
        wanted = checkpoint.kind in wanted_kinds
        if checkpoint.version == snapshot.version and wanted:
            in_use = checkpoint == snapshot.segment.checkpoint
            if in_use or is_readable(snapshot.store, checkpoint):
                return checkpoint
    return None


def plan_files(snapshot: Snapshot, kind: WrittenKind, options: CheckpointOptions) -> CheckpointPlan:
    """Return the files of a checkpoint of this kind; read footers only."""
    head = snapshot.head
    ranges = () if head is None else list_action_files(head)
    tail_rows = snapshot.tail.add_rows.num_rows + snapshot.tail.remove_rows.num_rows
    sizes = {
        part: None  # of JSON, the number of rows is not known
        if head is None or part.name.endswith(".json")
        else row_group_rows(snapshot.store, head, part.name)
        for part in ranges
    }
    known = all(rows is not None for rows in sizes.values())
    actions = tail_rows + sum(sum(rows or ()) for rows in sizes.values())
    partitions: tuple[ReplayPartition, ...] = ()
    if kind == "v2":
        partitions = _cut(sizes, tail_rows, options.sidecar_rows * _SIDECARS_A_TASK)
    return CheckpointPlan(
        snapshot.version, kind, actions=actions if known else None, partitions=partitions
    )


def _cut(
    sizes: dict[RowGroupRange, list[int] | None], tail_rows: int, rows_a_task: int
) -> tuple[ReplayPartition, ...]:
    """Split into partitions of about that many rows: whole row groups; the tail is in the last."""
    partitions: list[ReplayPartition] = []
    chosen: list[RowGroupRange] = []
    held = 0

    def end_share() -> None:
        nonlocal held
        if chosen:
            partitions.append(ReplayPartition(tuple(chosen), with_tail=False))
            chosen.clear()
            held = 0

    for part, row_groups in sizes.items():
        if row_groups is None:
            chosen.append(part)
            end_share()
            continue
        groups: list[int] = []
        for group, rows in enumerate(row_groups):
            groups.append(group)
            held += rows
            if held >= rows_a_task:
                chosen.append(RowGroupRange(part.name, tuple(groups)))
                groups = []
                end_share()
        if groups:
            chosen.append(RowGroupRange(part.name, tuple(groups)))
    if held + tail_rows >= rows_a_task and tail_rows:
        end_share()
    if chosen or tail_rows:
        partitions.append(ReplayPartition(tuple(chosen), with_tail=True))
    return tuple(partitions)
