"""The plan of an alter, as data: the commits, and the state after them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.features import Feature

_ROW_IDS: Final = "delta.enableRowTracking"
_ONLY_ROW_IDS: Final = "rowTrackingEnablementOnly"
"""A tag with which Delta on Spark lets other writers commit beside a commit."""


class StepKind(Enum):
    """What a step of an alter does."""

    STATE = "change metadata, protocol or domains"
    BACKFILL = "give row ids to files"
    UNBACKFILL = "remove the row ids of files"
    PURGE = "rewrite files with what is dropped"
    TOMBSTONES = "mark the files of deletion vectors as removed"
    TRUNCATE = "delete the history that checkpoint protection protects; no commit"


@dataclass(frozen=True, slots=True)
class Step:
    """One or more commits with an operation of Delta on Spark.

    ``num_files``: that it changes or deletes; ``num_bytes``: that it rewrites or deletes;
    ``rewrite``: how. The rest is about the commit of a state: what it changes; ``needs_row_ids``:
    each file must have row ids; ``drops``: no file may use this feature; ``writes_checkpoint``: a
    checkpoint follows.
    """

    kind: StepKind
    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    num_files: int = 0
    num_bytes: int = 0
    rewrite: OptimizeOptions | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    domains: tuple[DomainMetadata, ...] = ()
    enables_timestamps: bool = False
    needs_row_ids: bool = False
    drops: Feature | None = None
    writes_checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """The plan of an alter of ``version``.

    ``properties`` are those that change, with the values before and after. ``risks`` say what
    cannot simply be undone. ``protected_until_ms``: when a feature that protects the history can be
    dropped, at the earliest.
    """

    version: int
    table_id: str
    properties: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    risks: tuple[str, ...] = ()
    protected_until_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the table has the wanted state already."""
        return not self.steps


def changed_keys(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of the properties that differ."""
    return sorted(key for key in before.keys() | after if before.get(key) != after.get(key))


def spellings(configuration: Mapping[str, str], key: str) -> list[str]:
    """Return the names that mean a property: those of Delta ignore case. The exact comes first."""
    names = [key] if key in configuration else []
    if key.lower().startswith("delta."):
        names += [name for name in configuration if name.lower() == key.lower() and name != key]
    return names


def property_step(
    after: Metadata, changed: Iterable[str], features: Iterable[str] = (), **state: Any
) -> Step:
    """Return the commit that changes properties, with the parameters of Delta on Spark.

    ``features`` are added by name; ``state`` are further fields of the step.
    """
    configuration, keys = after.configuration, list(changed)
    is_set = {key: configuration[key] for key in keys if key in configuration}
    is_set |= {f"delta.feature.{name}": "supported" for name in features}
    removed = [key for key in keys if key not in configuration]
    if not is_set:
        parameters = {"properties": to_json(removed), "ifExists": True}
        return Step(StepKind.STATE, "UNSET TBLPROPERTIES", parameters, metadata=after, **state)
    parameters = {"properties": to_json(is_set), **({"unset": to_json(removed)} if removed else {})}
    tags = {_ONLY_ROW_IDS: "true"} if is_set == {_ROW_IDS: "true"} and not removed else {}
    return Step(StepKind.STATE, "SET TBLPROPERTIES", parameters, tags=tags, metadata=after, **state)


def to_json(value: Any) -> str:
    """Return JSON as Delta on Spark writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
