"""The steps that delta-rs takes."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from tests.histories.facts import APPLICATIONS
from tests.histories.plan import History
from tests.histories.rows import arrow_schema, random_rows, rows_for_merge, settable_columns
from tests.histories.state import (
    DATA_FUSION,
    RefusedError,
    State,
    first_line,
    key_range,
    new_rows,
    random_condition,
)

_NEW_TYPES: Final = ("long", "string", "double", "date")


def create(history: History, path: str) -> None:
    """Make the table."""
    from deltalake import DeltaTable

    DeltaTable.create(
        path,
        arrow_schema(history.columns),
        partition_by=list(history.partition_by) or None,
        configuration=history.properties(),
    )


def take_step(kind: str, chance: random.Random, number: int, state: State) -> str:
    """Take a step; gives what was done.

    Raises:
        RefusedError: delta-rs says no.
    """
    try:
        return _STEPS[kind](chance, number, state)
    except (KeyboardInterrupt, SystemExit, RefusedError):
        raise
    except BaseException as error:  # panics of Rust are no Exceptions
        raise RefusedError(f"{type(error).__name__}: {first_line(error)}") from error


def _table(state: State) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(state.path))


def _append(chance: random.Random, number: int, state: State) -> str:
    from deltalake import write_deltalake

    rows = new_rows(chance, number, state)
    write_deltalake(str(state.path), rows, mode="append")
    return f"{rows.num_rows} rows"


def _append_once(chance: random.Random, number: int, state: State) -> str:
    from deltalake import CommitProperties, Transaction, write_deltalake

    rows, name = new_rows(chance, number, state), chance.choice(APPLICATIONS)
    done = CommitProperties(app_transactions=[Transaction(name, number)])
    write_deltalake(str(state.path), rows, mode="append", commit_properties=done)
    return f"{rows.num_rows} rows as transaction {number} of {name}"


def _overwrite(chance: random.Random, number: int, state: State) -> str:
    from deltalake import write_deltalake

    rows = new_rows(chance, number, state)
    write_deltalake(str(state.path), rows, mode="overwrite")
    return f"{rows.num_rows} rows"


def _overwrite_where(chance: random.Random, number: int, state: State) -> str:
    from deltalake import write_deltalake

    low = chance.choice((0, number // 2)) * 1000
    rows = new_rows(chance, number, state)
    condition = f"k >= {low}"
    write_deltalake(str(state.path), rows, mode="overwrite", predicate=condition)
    return f"{rows.num_rows} rows where {condition}"


def _delete(chance: random.Random, _: int, state: State) -> str:
    condition = None if chance.random() < 0.05 else random_condition(chance, state, DATA_FUSION)
    _table(state).delete(condition)
    return f"where {condition}"


def _update(chance: random.Random, _: int, state: State) -> str:
    condition = random_condition(chance, state, DATA_FUSION)
    field = chance.choice(settable_columns(state.schema))
    value = random_rows(chance, pa.schema([field]), 0, 1, state.pools)[0][0].as_py()
    literal = DATA_FUSION.literal(value, field.type)
    name = DATA_FUSION.name(field.name)
    _table(state).update({name: literal}, predicate=condition)
    return f"set {name} = {literal} where {condition}"


def _merge(chance: random.Random, number: int, state: State) -> str:
    low, high = key_range(chance, state)
    old = rows_for_merge(chance, state.rows, low, high, state.pools)
    source = pa.concat_tables([old, new_rows(chance, number, state)])
    merger = _table(state).merge(
        source, "t.k = s.k", source_alias="s", target_alias="t", error_on_type_mismatch=False
    )
    clauses = chance.choice(("update", "delete", "insert"))
    if clauses == "update":
        merger = merger.when_matched_update_all().when_not_matched_insert_all()
    elif clauses == "delete":
        merger = merger.when_matched_delete().when_not_matched_insert_all()
    else:
        merger = merger.when_not_matched_insert_all()
    merger.execute()
    return f"{clauses} keys {low} to {high}, {source.num_rows} rows"


def _add_column(chance: random.Random, number: int, state: State) -> str:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    name, kind = f"ädd {number}" if state.is_mapped else f"ädd{number}", chance.choice(_NEW_TYPES)
    _table(state).alter.add_columns([Field(name, PrimitiveType(kind))])
    return f"{name} {kind}"


def _restore(chance: random.Random, _: int, state: State) -> str:
    version = max(0, state.version - chance.randint(1, 4))
    _table(state).restore(version)
    return f"to version {version}"


def _compact(chance: random.Random, _: int, state: State) -> str:
    size = chance.choice((None, 2_000, 100_000))
    _table(state).optimize.compact(target_size=size)
    return f"to {size}"


def _z_order(chance: random.Random, _: int, state: State) -> str:
    _table(state).optimize.z_order(["k"])
    return "by k"


def _checkpoint(chance: random.Random, _: int, state: State) -> str:
    _table(state).create_checkpoint()
    return ""


def _vacuum(chance: random.Random, _: int, state: State) -> str:
    is_full = chance.random() < 0.5
    gone = _table(state).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=is_full
    )
    return f"full={is_full}: {len(gone)} files"


def _set_property(chance: random.Random, _: int, state: State) -> str:
    key, value = chance.choice(
        (
            ("delta.checkpointInterval", "2"),
            ("delta.dataSkippingNumIndexedCols", "3"),
            ("delta.enableChangeDataFeed", "true"),
            ("delta.enableChangeDataFeed", "false"),
            ("delta.checkpoint.writeStatsAsStruct", "true"),
            ("delta.deletedFileRetentionDuration", "interval 1 days"),
        )
    )
    _table(state).alter.set_table_properties({key: value})
    return f"{key} = {value}"


def _add_constraint(chance: random.Random, number: int, state: State) -> str:
    _table(state).alter.add_constraint({f"c{number}": "k >= 0"})
    return "k >= 0"


_STEPS: Final[Mapping[str, Callable[[random.Random, int, State], str]]] = {
    "append": _append,
    "append-once": _append_once,
    "overwrite": _overwrite,
    "overwrite-where": _overwrite_where,
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "add-column": _add_column,
    "restore": _restore,
    "compact": _compact,
    "z-order": _z_order,
    "checkpoint": _checkpoint,
    "vacuum": _vacuum,
    "set-property": _set_property,
    "add-constraint": _add_constraint,
}
