"""Build the commit of a clone, and find the latest commit of a clone in a target.

Source: the operation CLONE of Delta on Spark; ``predicate`` and ``properties`` are only in commits
of deltactl.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deltactl.errors import MALFORMED
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.run_tags import engine_info, run_tags
from deltactl.operations.clone.plan import ClonePlan
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import Txn

CLONE: Final = "CLONE"
APP_ID: Final = "deltactl.clone"
_SOURCE_ID_TAG: Final = "deltactl.cloneSourceId"
_KIND_TAG: Final = "deltactl.cloneKind"


@dataclass(frozen=True, slots=True)
class PastClone:
    """A commit of a clone by deltactl, in ``version`` of the target."""

    version: int
    deep: bool
    source_table_id: str
    source_version: int
    predicate: str | None
    properties: Mapping[str, str] = field(default_factory=dict)


def app_id(source_table_id: str) -> str:
    """Return the application whose ``txn`` in a deep clone is the version of the source."""
    return f"{APP_ID}:{source_table_id}"


def clone_txn(plan: ClonePlan, now_ms: int) -> Txn | None:
    """Return the ``txn`` of a deep clone; shallow clones have none, as in Delta on Spark."""
    return Txn(app_id(plan.source_table_id), plan.version, now_ms) if plan.deep else None


def describe_clone(
    plan: ClonePlan,
    properties: Mapping[str, str],
    context: RunContext,
    copied: tuple[int, int] = (0, 0),
    removed: tuple[int, int] = (0, 0),
) -> Description:
    """Return the description of a commit; ``copied`` and ``removed``: files and bytes."""
    parameters: dict[str, Any] = {"source": plan.source_name, "sourceVersion": plan.version}
    if plan.predicate is not None:
        parameters["predicate"] = json.dumps([plan.predicate], ensure_ascii=False)
    if properties:
        parameters["properties"] = json.dumps(dict(properties), ensure_ascii=False)
    kind = "deep" if plan.deep else "shallow"
    return Description(
        operation=CLONE,
        parameters=parameters,
        metrics={
            "removedFilesSize": str(removed[1]),
            "numRemovedFiles": str(removed[0]),
            "sourceTableSize": str(plan.size_bytes),
            "numCopiedFiles": str(copied[0]),
            "copiedFilesSize": str(copied[1]),
            "sourceNumOfFiles": str(plan.num_files),
        },
        engine_info=engine_info(context.engine.name),
        tags={
            **run_tags(context.run_id),
            _SOURCE_ID_TAG: plan.source_table_id,
            _KIND_TAG: kind,
        },
        user_metadata=f"{kind} clone of version {plan.version} of {plan.source_uri}",
    )


def find_past_clone(target: DeltaLog) -> PastClone | None:
    """Return the latest commit of a clone by deltactl in the target's log, if there is one."""
    for version in sorted(target.commit_files, reverse=True):
        [commit] = target.commits([version])
        found = _parse(version, commit.info)
        if found is not None:
            return found
    return None


def _parse(version: int, info: Mapping[str, Any] | None) -> PastClone | None:
    if info is None or info.get("operation") != CLONE:
        return None
    try:
        tags, parameters = info["tags"], info["operationParameters"]
        predicate = parameters.get("predicate")
        return PastClone(
            version,
            tags[_KIND_TAG] == "deep",
            str(tags[_SOURCE_ID_TAG]),
            int(parameters["sourceVersion"]),
            None if predicate is None else str(json.loads(predicate)[0]),
            {str(k): str(v) for k, v in json.loads(parameters.get("properties", "{}")).items()},
        )
    except (*MALFORMED, IndexError):
        return None
