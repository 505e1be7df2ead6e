"""Which run made a commit: a tag of its ``commitInfo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RUN_TAG: Final = "deltactl.runId"


def run_tags(run_id: str | None) -> Mapping[str, str]:
    """The tag for a run that has an id of its own, by which its log is found."""
    return {} if run_id is None else {RUN_TAG: run_id}
