"""Record when a command last ran on a table, and up to which version.

    _deltactl/runs/<command>.json

Written at the end of a complete run. It is advisory: without it a command processes everything.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from deltactl.errors import ObjectNotFoundError
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class LastRun:
    """A successful run; times in ms since 1970 UTC.

    ``table_id`` is the id in the table's metadata: the record does not apply if another table has
    replaced this one.
    ``caught_up_version`` is the version up to which ``optimize`` has processed all partitions, in
    this run or an earlier one.
    """

    run_id: str
    table_id: str
    started_ms: int
    ended_ms: int
    caught_up_version: int | None = None


def read_last_run(store: Store, command: str) -> LastRun | None:
    """Return the record of the last run; ``None`` if there is no readable one.

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
    """Write the record of a run, replacing the previous one.

    Raises:
        StorageError: it cannot be written.
    """
    store.put(_name(command), (json.dumps(asdict(run), indent=2) + "\n").encode())


def _name(command: str) -> str:
    return f"{OWN_DIR}/runs/{command}.json"
