"""The library as a user sees it: keyword arguments, types, texts of objects."""

import ast
import inspect
import pickle
import re
import shutil
import subprocess
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import deltalake
import numpy as np
import pyarrow as pa
import pytest

import deltactl
from deltactl import OptimizeOptions, RestoreOptions, Table, TableWarning, VacuumOptions, errors
from deltactl.errors import NotATableError, UsageError, VersionNotFoundError, naming_table
from deltactl.keywords import build_options, keyword_types
from deltactl.log.history.read import Selection
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.maintain.options import MaintainOptions
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import open_store
from dev.keyword_types import CLASSES
from tests.conftest import REPOSITORY
from tests.docs.blocks import find_blocks
from tests.support.forwarding import ForwardingStore

METHODS = [
    value
    for name, value in vars(Table).items()
    if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_"))
]
FUNCTIONS: list[Callable[..., Any]] = [*METHODS, deltactl.convert, deltactl.maintain]
LONG = (
    "optimize", "vacuum", "checkpoint", "repair_checkpoints", "check", "restore", "alter", "clone",
    "fix", "generate_manifest", "convert", "maintain",
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Table:
    for number in range(3):
        rows = pa.table({"day": ["2026-01-01"], "id.num": [number]})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["day"])
    return Table(tmp_path / "t")


@pytest.mark.parametrize(
    ("kind", "keywords", "expected"),
    [
        (OptimizeOptions, {"target_bytes": "256MiB"}, {"target_bytes": 256 << 20}),
        (OptimizeOptions, {"target_bytes": 5}, {"target_bytes": 5}),
        (OptimizeOptions, {"skip_hot": timedelta(days=7)}, {"skip_hot_ms": 7 * 86_400_000}),
        (OptimizeOptions, {"skip_hot": "7d"}, {"skip_hot_ms": 7 * 86_400_000}),
        (OptimizeOptions, {"skip_hot": None}, {"skip_hot_ms": None}),
        (OptimizeOptions, {"cluster_by": ["a,b", "c"]}, {"cluster_by": ["a,b", "c"]}),
        (OptimizeOptions, {"partitions": ["day=1"]}, {"partitions": frozenset({"day=1"})}),
        (VacuumOptions, {"keep_versions": [1, 2]}, {"keep_versions": (1, 2)}),
        (RestoreOptions, {"timestamp": "1970-01-02"}, {"timestamp_ms": 86_400_000}),
        (RestoreOptions, {"timestamp": datetime(1970, 1, 2)}, {"timestamp_ms": 86_400_000}),
        (
            RestoreOptions,
            {"timestamp": datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))},
            {"timestamp_ms": 0},
        ),
        (Selection, {"since": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, {"since_ms": 1000}),
        (MaintainOptions, {"only": ["vacuum"]}, {"only": frozenset({"vacuum"})}),
    ],
)
def test_keywords_become_fields(
    kind: type, keywords: dict[str, Any], expected: dict[str, Any]
) -> None:
    options: Any = build_options(kind, None, keywords)
    assert {name: getattr(options, name) for name in expected} == expected
    assert options == kind(**expected)


def test_partition_columns_may_be_a_text() -> None:
    options = build_options(ConvertOptions, None, {"partition_by": "day date"})
    assert [
        (column.name, str(column.type and column.type.name))
        for column in options.partition_by or ()
    ] == [("day", "date")]


def test_keywords_replace_fields_of_options() -> None:
    options = build_options(OptimizeOptions, OptimizeOptions(purge=True), {"max_bytes": "1KiB"})
    assert options == OptimizeOptions(purge=True, max_bytes=1024)


def test_a_wrong_keyword_names_the_nearest(table: Table) -> None:
    with pytest.raises(TypeError, match="'cluster_bye'. Did you mean 'cluster_by'"):
        table.optimize(cluster_bye="id")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'set'. Did you mean 'properties'"):  # its flag
        table.alter(set={})  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match="'retention'. Did you mean 'retain'"
    ):  # not force_retention
        table.vacuum(retention="0h")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'x'. Use one of: version, timestamp, where"):
        table.restore(x=1)  # type: ignore[call-arg]


def test_a_shallow_clone_is_one_that_is_not_deep(table: Table, tmp_path: Path) -> None:
    wrong: Any = {"shallow": True}
    with pytest.raises(TypeError, match="'shallow'. Did you mean deep=False"):
        table.clone(tmp_path / "clone", **wrong)


def test_a_wrong_value_names_the_keyword(table: Table) -> None:
    with pytest.raises(UsageError, match="target_bytes: size '5' has no unit"):
        table.optimize(target_bytes="5")
    with pytest.raises(TypeError, match="options must be RestoreOptions, not int"):
        table.restore(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_integers_of_other_types_are_versions(table: Table, kind: Any) -> None:
    one = kind(1)
    assert table.scan(version=one).read_all() == table.scan(1).read_all()
    assert table.detail(one).row == table.detail(1).row
    assert table.diff(one, kind(2)) == table.diff(1, 2)
    assert RestoreOptions(version=one) == RestoreOptions(version=1)
    assert type(RestoreOptions(version=one).version) is int
    assert table.restore(version=one, dry_run=True).plan.target_version == 1
    table.vacuum(keep_versions=[one], dry_run=True)
    wrongs: list[Any] = [np.True_, np.float64(1), np.array([1, 2])]
    for wrong in wrongs:
        with pytest.raises(UsageError, match="version must be int or None"):
            table.scan(version=wrong)


def test_maintain_takes_paths(table: Table, tmp_path: Path) -> None:
    seen: list[str] = []

    def policy_of(address: str) -> deltactl.MaintainPolicy:
        seen.append(address)
        return deltactl.MaintainPolicy(actions=[])

    address = str(tmp_path / "t")
    report = deltactl.maintain([tmp_path / "t"], policy_of, dry_run=True)
    assert (seen, list(report.skipped)) == ([address], [address])
    report = deltactl.maintain([Path(address)], {address: policy_of(address)}, dry_run=True)
    assert list(report.skipped) == [address]
    with pytest.raises(UsageError, match="each table only once"):
        deltactl.maintain([tmp_path / "t", address], dry_run=True)


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file://{}", "t", "./t", "{}/../t"])
def test_a_policy_is_of_its_table_in_any_spelling(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    """The default policy deletes files that a policy wanted to keep."""
    monkeypatch.chdir(tmp_path)
    chosen = {spelling.format(tmp_path / "t"): deltactl.MaintainPolicy(actions=[])}
    report = deltactl.maintain([str(tmp_path / "t")], chosen, dry_run=True)
    assert report.skipped == {str(tmp_path / "t"): "the policy has no actions"}


PUBLIC = {name: getattr(deltactl, name) for name in dir(deltactl)}
WRONG_VALUES = {
    "table.vacuum(mode='fast')": "mode must be one of: auto, full, lite; got 'fast'",
    "table.check(depth='all')": "one of: exists, sizes, footers, data; got 'all'",
    "convert(table.uri, schema_mode='x')": "schema_mode must be one of: strict, widen; got 'x'",
    "table.snapshot(version='1')": "version must be int or None; got '1'",
    "table.snapshot(version=True)": "version must be int or None; got True",
    "table.snapshot(timestamp=datetime(2026, 1, 1).date())": "timestamp must be datetime or str",
    "table.optimize(where=3)": "where must be str or None; got 3",
    "table.vacuum(retain=5)": "retain must be timedelta or str or None; got 5",
    "table.optimize(cluster_by=['a', 3])": "str or a list of str or None; got a list with 3",
    "table.vacuum(keep_versions='12')": "keep_versions must be a list of int; got '12'",
    "table.fix(texts='a')": "texts must be a list of str; got 'a'",
    "maintain(table.uri)": "tables must be a list of str or PathLike; got 'file:",
    "maintain([table])": "must be a list of str or PathLike; got a list with Table('file:",
    "maintain([table.uri], 3)": "policy must be MaintainPolicy or have one for a table; got 3",
    "maintain([table.uri], {table.uri: 3})": "must be MaintainPolicy; got 3",
    "maintain([table.uri], {3: MaintainPolicy()})": "addresses in policy must be a list of str",
    "maintain([table.uri], {'/x/t': MaintainPolicy()})": "'/x/t', but that is no table of this",
    "maintain([table.uri], {table.uri + it: MaintainPolicy() for it in ('', '/')})": "another addr",
    "maintain([table.uri], lambda _: None)": "must be MaintainPolicy; got None",
    "MaintainPolicy(retain='7d')": "retain must be timedelta or None; got '7d'",
    "OptimizeOptions(skip_hot_ms='7d')": "skip_hot_ms must be int or None; got '7d'",
    "Budget(requests='9')": "requests must be int or None; got '9'",
    "Budget(requests=-1)": "requests must not be negative; got -1",
    "Budget(time=timedelta(-1))": "time must not be negative",
    "table.vacuum(quarantine=True, quarantine_for=timedelta(-1))": "quarantine_for must not be neg",
    "table.blame(3)": "partition must be str; got 3",
    "table.check_erased(3)": "predicate must be str; got 3",
    "table.optimize(engine=LocalEngine)": "engine must be an engine; got <class",
    "LocalEngine(workers='2')": "workers must be int; got '2'",
    "LocalEngine(workers=0)": "workers must be at least 1; got 0",
    "table.optimize(on_progress=3)": "on_progress must be a function; got 3",
    "Need(files='9')": "files must be int or None; got '9'",
    "table.history(limit='3')": "limit must be int or None; got '3'",
    "table.optimize(engine='local')": "engine must be an engine; got 'local'",
    "table.optimize(cancel=True)": "cancel must be threading.Event or None; got True",
    "table.vacuum(dry_run='no')": "dry_run must be bool; got 'no'",
    "Table('t', {'key': b'hidden'})": "of texts or None; got a dictionary with bytes",
    "table.clone('y', deep=True, properties={'delta.appendOnly': True})": "a dictionary with bool",
}  # fmt: skip


@pytest.mark.parametrize("call", WRONG_VALUES)
def test_a_value_of_another_type_is_refused_before_the_run(table: Table, call: str) -> None:
    with pytest.raises(UsageError, match=re.escape(WRONG_VALUES[call])):
        eval(call, {**PUBLIC, "datetime": datetime, "timedelta": timedelta, "table": table})
    assert table.snapshot().version == 2


def test_what_has_no_effect_is_told_where_the_library_was_called(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.warns(TableWarning, match="no file is in the partition day=2027-01-01") as told:
        table.optimize(partitions=["day=2026-01-01", "day=2027-01-01"], dry_run=True)
    assert told[0].filename == __file__
    with pytest.warns(TableWarning, match="with the partition columns: day string") as told:
        deltactl.convert(table.uri, partition_by="id long")
    assert told[0].filename == __file__
    open_store("s3://bucket/t", {"keyy": "x", "anon": "true", "region": "r"})
    assert caplog.messages == [
        "the storage option keyy has no effect: s3fs does not have it. Did you mean 'key'?"
    ]


def test_a_warning_that_is_an_error_does_not_hide_the_report_of_a_commit(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.generate_manifest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.restore(version=1).version_after == 3
    assert "the manifests in" in caplog.text


def test_a_warning_names_its_table(table: Table) -> None:
    copies = [f"{table.uri}-{name}" for name in "ab"]
    for root in copies:
        shutil.copytree(table.uri.removeprefix("file://"), root.removeprefix("file://"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for root in copies:
            Table(root).optimize(partitions=["day=2026-01-01", "day=2027-01-01"], dry_run=True)
    assert [str(it.message).partition(": ")[0] for it in told] == copies


def test_a_warning_has_no_password() -> None:
    said: list[str] = []
    naming_table(said.append, "sftp://me:s3cr3t@host/t")("see `deltactl check TABLE`")
    assert said[0].startswith("sftp://me:")
    assert "s3cr3t" not in said[0]


def test_a_caller_without_a_name_is_warned(table: Table) -> None:
    program = "table.optimize(partitions=['day=2026-01-01', 'day=2027-01-01'], dry_run=True)"
    with pytest.warns(TableWarning, match="no file is in the partition day=2027-01-01"):
        exec(program, {"table": table})


def test_hints_have_the_address_of_the_table(table: Table) -> None:
    command = f"deltactl describe-history {table.uri} --all"
    missing: list[Callable[[], object]] = [
        lambda: table.snapshot(9),
        lambda: table.diff(9),
        lambda: table.snapshot(timestamp="1999-01-01"),
        lambda: table.snapshot(timestamp="2999-01-01"),
        lambda: table.restore(version=9),
    ]
    for call in missing:
        with pytest.raises(VersionNotFoundError) as caught:
            call()
        assert caught.value.hint == f"Run `{command}` to list the versions and their times."
    with pytest.raises(UsageError, match="no vacuum of .* has the id 'nope'") as unknown:
        table.undo_vacuum("nope")
    assert unknown.value.hint is not None
    assert unknown.value.hint.endswith("removed files: there is nothing to undo.")


@pytest.mark.parametrize("name", CLASSES)
def test_each_keyword_has_a_checked_type(name: str) -> None:
    required: dict[str, Any] = {"deep": True} if name == "CloneKeywords" else {}
    for keyword in keyword_types(CLASSES[name]):
        with pytest.raises(UsageError, match=f"^{keyword} must be .*; got <object"):
            build_options(CLASSES[name], None, {**required, keyword: object()})


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_has_a_typed_keyword(name: str) -> None:
    """A new field is a keyword at once; `make generate` writes its type."""
    kind = CLASSES[name]
    keywords = getattr(deltactl, name).__annotations__
    assert list(keywords) == list(keyword_types(kind))
    assert len(keywords) == len(fields(kind))


def test_calls_as_in_the_first_example(table: Table) -> None:
    report = table.optimize(
        cluster_by=["id.num"], where="day >= '2026-01-01'", skip_hot=timedelta(0)
    )
    assert report.files_removed == 3
    assert table.diff(2).added.num_files == 1
    assert table.restore(version=2).version_after == 4
    assert table.history(limit=1)["operation"].to_pylist() == ["RESTORE"]
    report_of_vacuum = table.vacuum(retain="0s", force_retention=True, quarantine=True)
    assert report_of_vacuum.files_removed == 1
    assert len(table.undo_vacuum().restored) == 1
    assert table.purge_quarantine(dry_run=True).files == 0


def test_a_clone_is_deep_unless_it_is_to_be_shallow(table: Table, tmp_path: Path) -> None:
    assert table.clone(tmp_path / "deep").files_copied == 3
    assert table.clone(tmp_path / "deep", sync=True).files_copied == 0
    with pytest.warns(TableWarning, match="a shallow clone needs the files of its source"):
        assert table.clone(tmp_path / "shallow", deep=False).files_copied == 0
    shutil.rmtree(tmp_path / "shallow")
    with pytest.warns(TableWarning) as told:
        assert table.clone(tmp_path / "shallow", deep=False).files_copied == 0
    assert "has a record of an earlier shallow clone" in str(told[-1].message)
    assert {warning.filename for warning in told} == {__file__}


def test_the_views_of_the_history(table: Table, tmp_path: Path) -> None:
    assert table.blame("day=2026-01-01", limit=2)["version"].to_pylist() == [2, 1]
    assert table.blame("day > '2026-01-01'").num_rows == 0
    assert table.history().schema == table.blame("day=2026-01-01").schema
    table.optimize()
    table.vacuum(retain="0s", force_retention=True, mode="full")
    states = {version: it.state for version, it in table.restorable().items()}
    assert (states[0], states[2], states[3]) == ("gone", "gone", "readable")
    assert table.restorable()[2].num_gone == 3
    with pytest.raises(NotATableError):
        Table(tmp_path / "absent").restorable()
    with pytest.raises(NotATableError):
        Table(tmp_path / "absent").undo_vacuum()


def test_objects_have_a_short_text(table: Table) -> None:
    assert repr(table) == f"Table({table.uri!r})"
    assert repr(table.snapshot()) == f"Snapshot({table.uri!r}, version=2)"
    secret = Table(table.uri, {"password": "hidden"})
    assert "hidden" not in repr(secret)
    texts = [
        repr(table.optimize(dry_run=True)),
        repr(table.check()),
        repr(table.detail()),
        repr(table.diff(0)),
    ]
    for text in texts:
        assert re.fullmatch(r"[A-Z]\w+\(.*\)", text)
        assert len(text) < 400
    shown = (
        "plan.files.num_rows=3,",
        "findings.num_rows=0,",
        "",
        "added.num_files=2, removed.num_files=0,",
    )
    assert all(part in text for part, text in zip(shown, texts, strict=True))
    assert "dry_run=True" in texts[0]
    assert "plan.added.num_rows=0, plan.removed.num_rows=2," in repr(
        table.restore(version=0, dry_run=True)
    )
    assert "plan.files.num_rows=0," in repr(table.vacuum(dry_run=True))
    assert "is_up_to_date=False, plan.partitions=<1>, plan.stale=<0>," in repr(
        table.generate_manifest(dry_run=True)
    )
    assert "plan.version=2," in repr(table.checkpoint(dry_run=True))
    properties = {"delta.appendOnly": "false"}
    assert "plan.properties=<1>," in repr(table.alter(properties=properties, dry_run=True))
    assert "versions=(3,)" in repr(table.optimize())


def test_tables_and_reports_can_be_pickled(
    tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = pickle.dumps(Table("t", {"key": "value"}))
    monkeypatch.chdir("/")
    copy = pickle.loads(relative)
    assert copy.uri == table.uri
    assert copy.snapshot().version == 2
    for report in (copy.generate_manifest(dry_run=True), copy.detail(readers=True)):
        assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DeltactlError)
    ],
)
def test_errors_can_be_pickled(kind: type[errors.DeltactlError]) -> None:
    error = kind("what failed", hint="what to do")
    error.code = "CAUSE"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == "what failed"
    assert vars(copy) == vars(error)


def test_every_report_has_a_short_text() -> None:
    reports = [name for name in dir(deltactl) if name.endswith("Report")]
    assert len(reports) > 10
    for name in reports:
        assert getattr(deltactl, name).__repr__.__qualname__ == "ShortRepr.__repr__"


@pytest.mark.parametrize("name", LONG)
def test_runs_that_take_long_have_an_engine_and_can_be_stopped(name: str) -> None:
    (function,) = [function for function in FUNCTIONS if function.__name__ == name]
    parameters = inspect.signature(function).parameters
    assert {"engine", "cancel", "on_progress"} <= set(parameters)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a signature; those that only type checkers import are imported here."""
    module = import_module(function.__module__)
    names: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            source = import_module(node.module)
            names |= {it.name: getattr(source, it.name) for it in node.names}
        elif isinstance(node, ast.Import):
            names |= {it.asname or it.name: import_module(it.name) for it in node.names}
    return typing.get_type_hints(function, {**names, **vars(module)})


def _classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("deltactl."):
        yield hint
    parts = hint if isinstance(hint, list) else get_args(hint)
    for part in parts:
        yield from _classes(part)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_type_of_a_signature_is_exported(function: Callable[..., Any]) -> None:
    found = {kind for hint in _hints(function).values() for kind in _classes(hint)}
    assert {kind.__name__ for kind in found} <= set(dir(deltactl))


@pytest.mark.parametrize("name", CLASSES)
def test_every_type_of_an_option_is_exported(name: str) -> None:
    kind = CLASSES[name]
    found = [k for hint in typing.get_type_hints(kind).values() for k in _classes(hint)]
    assert {it.__name__ for it in found} <= set(dir(deltactl))
    assert is_dataclass(kind)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_docstrings_name_only_what_can_be_imported(function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    names = re.findall(r"``([A-Za-z]\w*)(?:\([^`]*\))?``", text)
    known = {*dir(deltactl), *inspect.signature(function).parameters, "None", "Table"}
    for kind in CLASSES.values():
        known |= {field.name for field in fields(kind)} | set(keyword_types(kind))
    known |= {"row", "problem", "reconstructible", "last", "findings", "remove"}  # of results
    assert [name for name in names if name not in known and not name.startswith("_")] == []


PROGRAM = """
from datetime import timedelta
from pathlib import Path

from deltactl import *
from deltactl import (
    LocalEngine, Need, OptimizeKeywords, OptimizeOptions, OptimizeReport, Table, convert, maintain,
)

table = Table("events")
report: OptimizeReport = table.optimize(
    cluster_by=["country", "a.b"],
    where="day >= '2026-01-01'",
    skip_hot=timedelta(days=7),
    target_bytes="256MiB",
    need=Need(files=50),
    engine=LocalEngine(),
)
again = table.optimize(OptimizeOptions(purge=True), max_bytes=10)
keywords: OptimizeKeywords = {"skip_hot": "7d"}
table.optimize(dry_run=True, **keywords)
table.restore(timestamp="2026-01-01")
versions: list[object] = table.history(limit=5)["version"].to_pylist()
convert("directory", partition_by="day date")
maintain(["events", Path("orders")], jobs=2)
snapshot: Snapshot = table.snapshot()
"""
WRONG = {
    "table.optimize(cluster_bye='x')": "cluster_bye",
    "table.optimize(skip_hot=7)": "skip_hot",
    "table.vacuum(mode='half')": "mode",
    "from deltactl import Tabel": "Tabel",
    "table.restore(1)": "RestoreOptions",
}


def test_a_users_program_passes_mypy_and_its_errors_are_found(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG) + "\n", "utf-8")
    # With the settings of the project, and so with what `make lint` has stored about deltactl.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    first = PROGRAM.count("\n") + 1
    found = dict(re.findall(r"program.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE))
    assert sorted(map(int, found)) == list(range(first, first + len(WRONG))), done.stdout
    for line, word in enumerate(WRONG.values(), first):
        assert word in found[str(line)]


def test_the_page_shows_each_method() -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text("utf-8")
    code = "\n".join(block.text for block in find_blocks("docs/python.md", page))
    called = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    shown = {it.attr if isinstance(it, ast.Attribute) else ast.unparse(it) for it in called}
    assert {function.__name__ for function in FUNCTIONS} - {"__init__"} <= shown
    assert ".uri" in code


def test_a_call_does_not_see_what_another_call_of_the_same_table_lists(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    for _ in range(2):
        deltalake.write_deltalake(tmp_path, rows, mode="append")

    class Interrupted(ForwardingStore):
        """While the first commit is read, another thread commits and reads the table."""

        def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
            if not interruptions:
                interruptions.append(names)
                deltalake.write_deltalake(tmp_path, rows, mode="append")
                interruptions.append(table.snapshot().version)
            return super().read_many(names)

    interruptions: list[object] = []
    table = Table(tmp_path, store=Interrupted(open_store(str(tmp_path))))
    found = table.diff(0)
    assert interruptions[1:] == [2]
    assert (found.last, found.latest_version) == (1, 1)


def test_a_call_takes_the_directory_of_a_table_as_it_finds_it(table: Table, tmp_path: Path) -> None:
    target = Table(tmp_path / "copy")
    for _ in range(3):
        assert table.clone(target).version_after == 0
        assert target.snapshot().num_files
        shutil.rmtree(tmp_path / "copy")


def test_a_directory_that_vanishes_during_a_call_stays_away(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another call of the same object begins then."""
    target, put = Table(tmp_path / "copy"), LocalStore.put_if_absent

    def delete_first(store: LocalStore, name: str, data: bytes) -> None:
        if store.uri.endswith("/copy") and name.startswith("_delta_log"):
            shutil.rmtree(tmp_path / "copy")
            with pytest.raises(errors.NotATableError):
                target.snapshot()
        put(store, name, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", delete_first)
    with pytest.raises(errors.StorageError, match="moved or deleted during the run"):
        table.clone(target)
    assert not (tmp_path / "copy").exists()
