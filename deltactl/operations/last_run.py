"""When a command last ran on a table, and how far it got: what makes a cron line idempotent.

    _deltactl/runs/<command>.json

Written at the end of a run that left nothing undone. It is advice: without it a command does all
there is to do.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from deltactl.errors import ObjectNotFoundError
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class LastRun:
    """A run that ended well; times in ms since 1970 UTC.

    ``table_id`` is the id in the table's metadata: another table may stand at the same place by
    now, of which the record says nothing.
    ``caught_up_version`` is the version up to which an ``optimize`` has left no partition to look
    at, by this run or by one before.
    """

    run_id: str
    table_id: str
    started_ms: int
    ended_ms: int
    caught_up_version: int | None = None


def read_last_run(store: Store, command: str) -> LastRun | None:
    """Give what the last run wrote down; ``None`` where there is nothing that can be read.

    Raises:
        StorageError: the store failed.
    """
    try:
        said = json.loads(store.read(_name(command)))
        values = {field.name: said[field.name] for field in fields(LastRun)}
    except (ObjectNotFoundError, ValueError, KeyError, TypeError):
        return None
    numbers = (values["started_ms"], values["ended_ms"], values["caught_up_version"] or 0)
    is_sound = all(type(number) is int for number in numbers)
    return LastRun(**values) if is_sound and isinstance(values["table_id"], str) else None


def write_last_run(store: Store, command: str, run: LastRun) -> None:
    """Write a run down in the place of the one before.

    Raises:
        StorageError: it cannot be written.
    """
    store.put(_name(command), (json.dumps(asdict(run), indent=2) + "\n").encode())


def _name(command: str) -> str:
    return f"{OWN_DIR}/runs/{command}.json"
