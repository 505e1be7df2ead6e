"""The operator for Airflow and the asset for Dagster, on tables, with the parts of both they use.

Neither is installed here: their classes are stand-ins with the arguments that the pages use.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deltactl.errors import ConflictError, DeltactlError, SafetyError, StorageError
from deltactl.operations.optimize.report import BinFailure
from deltactl.table import Table
from tests.docs.blocks import find_blocks, read_page
from tests.support.table_builder import Column, TableBuilder


class BaseOperator:
    def __init__(self, *, task_id: str, retries: int = 0) -> None:
        self.task_id = task_id


class AirflowException(Exception):
    pass


class AirflowFailException(AirflowException):
    pass


class AirflowSkipException(AirflowException):
    pass


class RetryRequested(Exception):
    def __init__(self, *, max_retries: int, seconds_to_wait: int) -> None:
        super().__init__()


class Failure(Exception):
    def __init__(self, description: str, *, allow_retries: bool = True) -> None:
        super().__init__(description)
        self.allow_retries = allow_retries


class MaterializeResult:
    def __init__(self, *, metadata: dict[str, Any]) -> None:
        self.metadata = metadata


class MetadataValue:
    json = staticmethod(json.dumps)


def asset(*, output_required: bool) -> Callable[[Any], Any]:
    assert not output_required  # else nothing to do would be a failure
    return lambda function: function


MODULES: dict[str, tuple[Any, ...]] = {
    "airflow": (),
    "airflow.sdk": (BaseOperator,),
    "airflow.sdk.exceptions": (AirflowException, AirflowFailException, AirflowSkipException),
    "dagster": (RetryRequested, Failure, MaterializeResult, MetadataValue, asset),
}


@pytest.fixture
def table(tmp_path: Path) -> str:
    builder = TableBuilder(tmp_path / "t", [Column("id")])
    builder.append(*([{"id": n}] for n in range(3)))
    return str(tmp_path / "t")


def load(page: str, monkeypatch: pytest.MonkeyPatch, table: str) -> dict[str, Any]:
    """The definitions of a page's block, under 40 lines."""
    for name, contents in MODULES.items():
        module = ModuleType(name)
        vars(module).update({it.__name__: it for it in contents})
        monkeypatch.setitem(sys.modules, name, module)
    (block,) = (b for b in find_blocks(page, read_page(page)) if b.language == "python")
    assert len(block.text.splitlines()) < 40
    found: dict[str, Any] = {"__name__": "page"}
    exec(compile(block.text.replace("s3://lake/events", table), page, "exec"), found)
    return found


def failing(monkeypatch: pytest.MonkeyPatch, error: DeltactlError) -> None:
    def optimize(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Table, "optimize", optimize)


def losing(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """The run commits a part of the work only."""
    report = Table(table).optimize()
    lost = BinFailure(1, 1, "another writer took it")
    monkeypatch.setattr(
        Table, "optimize", lambda *_: type(report)(**{**fields_of(report), "conflicts": (lost,)})
    )


def fields_of(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in type(report).__slots__}


def test_airflow_done_then_skipped(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    operator = load("docs/airflow.md", monkeypatch, table)["OptimizeTable"]
    task = operator(task_id="optimize", table=table, retries=3)
    assert operator.template_fields == ("table",)
    said = json.loads(json.dumps(task.execute({})))  # XCom keeps JSON
    assert (said["files_removed"], said["files_added"]) == (3, 1)
    with pytest.raises(AirflowSkipException):
        task.execute({})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConflictError("x"), AirflowException),
        (StorageError("x"), AirflowException),
        (SafetyError("x", hint="y"), AirflowFailException),
        (DeltactlError("x"), AirflowFailException),
    ],
    ids=lambda it: getattr(it, "code", ""),
)
def test_airflow_retries_only_errors_that_may_pass(
    monkeypatch: pytest.MonkeyPatch, table: str, error: DeltactlError, kind: type[Exception]
) -> None:
    task = load("docs/airflow.md", monkeypatch, table)["OptimizeTable"](task_id="o", table=table)
    failing(monkeypatch, error)
    with pytest.raises(AirflowException) as raised:
        task.execute({})
    assert type(raised.value) is kind


def test_airflow_retries_partial_success(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    task = load("docs/airflow.md", monkeypatch, table)["OptimizeTable"](task_id="o", table=table)
    losing(monkeypatch, table)
    with pytest.raises(AirflowException, match="another writer took it") as raised:
        task.execute({})
    assert type(raised.value) is AirflowException


def run_asset(monkeypatch: pytest.MonkeyPatch, table: str) -> Iterator[MaterializeResult]:
    found: Iterator[MaterializeResult] = load("docs/dagster.md", monkeypatch, table)[
        "events_optimized"
    ]()
    return found


def test_dagster_done_then_nothing(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    (result,) = run_asset(monkeypatch, table)
    assert (result.metadata["version"], result.metadata["files"]) == (2, 1)
    assert json.loads(result.metadata["report"])["files_removed"] == 3
    assert list(run_asset(monkeypatch, table)) == []


def test_dagster_retries_a_conflict_and_not_a_refusal(
    monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    failing(monkeypatch, ConflictError("x"))
    with pytest.raises(RetryRequested):
        list(run_asset(monkeypatch, table))
    failing(monkeypatch, SafetyError("x"))
    with pytest.raises(Failure, match="SAFETY: x") as raised:
        list(run_asset(monkeypatch, table))
    assert not raised.value.allow_retries


def test_dagster_retries_partial_success(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    losing(monkeypatch, table)
    with pytest.raises(RetryRequested):
        list(run_asset(monkeypatch, table))
