"""Name the program and the run in ``commitInfo``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deltactl import __version__

RUN_TAG: Final = "deltactl.runId"

_PROGRAM: Final = "deltactl/"


def run_tags(run_id: str | None) -> Mapping[str, str]:
    """Return the tag with the id of a run. The log lines of the run have the same id."""
    return {} if run_id is None else {RUN_TAG: run_id}


def find_run(info: Mapping[str, Any]) -> str | None:
    """Return the id of the run that wrote a commit, from its ``commitInfo``."""
    tags = info.get("tags")
    return tags.get(RUN_TAG) if isinstance(tags, dict) else None


def is_by_deltactl(info: Mapping[str, Any]) -> bool:
    """Return whether deltactl wrote a commit, from its ``commitInfo``."""
    return str(info.get("engineInfo")).startswith(_PROGRAM)


def engine_info(engine: str, reason: str = "") -> str:
    """Return the ``engineInfo``: deltactl, its version, the engine, why it was chosen."""
    return f"{_PROGRAM}{__version__} ({engine} engine{reason and f': {reason}'})"
