"""Refuse to remove rows from append-only tables."""

from __future__ import annotations

from typing import Final

from deltactl.errors import SafetyError
from deltactl.log.writing.commit_base import CommitBase
from deltactl.protocol.features import APPEND_ONLY, has_feature
from deltactl.protocol.properties import TableProperties

_APPEND_ONLY: Final = "delta.appendOnly"


def find_append_only_refusal(base: CommitBase) -> SafetyError | None:
    """Return the error if the table is append-only; ``None`` if rows may be removed."""
    is_set = TableProperties(base.metadata.configuration).flag(_APPEND_ONLY)
    if not (is_set and has_feature(base.protocol, APPEND_ONLY)):
        return None
    return SafetyError(
        f"the table is append-only ({_APPEND_ONLY}): its rows must not be removed",
        hint="Ask the owner of the table to run `deltactl alter TABLE --set "
        f"{_APPEND_ONLY}=false`.",
    )
