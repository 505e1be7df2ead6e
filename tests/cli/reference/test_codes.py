"""Each code that the program prints has a row in the registry, and ``explain`` shows it."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from deltactl.cli.app import build_group
from deltactl.cli.exits import ExitCode
from deltactl.cli.reference.code_rows import describe_codes, load_error_classes
from deltactl.codes import find_code, load_codes, load_findings
from deltactl.operations.vacuum import candidates as vacuum
from deltactl.parquet.splice.copy_conditions import CopyRefusal
from deltactl.protocol.features import EVERYTHING, REGISTRY
from dev import feature_table
from dev.feature_table import render_feature_table
from tests.cli.conftest import RunCli
from tests.cli.test_help import SHOWN, doc_of
from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "deltactl"
_CODE = re.compile(r"[A-Z]+(_[A-Z]+)+")
# In the sources of check, but not the code of a finding: the operation of its commit, and a bound.
_OTHERS = {"ACTIONS_AT_ONCE"}


def _nodes(folder: str) -> Iterator[tuple[str, ast.AST]]:
    for path in sorted((SOURCE / folder).rglob("*.py")):
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            yield module, node


def _text_of(module: str, node: ast.expr) -> str | None:
    """The text of an expression, with options as they are typed, and values as ``7``."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        found = getattr(import_module(module), node.id, None)
        return found if isinstance(found, str) else None  # a parameter: its callers are looked at
    assert isinstance(node, ast.JoinedStr)
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        call = part.value
        is_option = isinstance(call, ast.Call) and ast.unparse(call.func) == "option"
        parts.append(f"--{ast.literal_eval(call.args[0])}" if is_option else "7")  # type: ignore[attr-defined]
    return "".join(parts)


def reasons_of_optimize() -> Iterator[str]:
    """What ``leave(mask, reason)``, ``_leave_...(..., reason)`` and ``left_alone[reason]`` have."""
    for module, node in _nodes("operations/optimize"):
        found: ast.expr | None = None
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name == "leave":
                found = node.args[-1]
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found = node.slice if ast.unparse(node.value).endswith("left_alone") else None
        text = None if found is None else _text_of(module, found)
        if text is not None:
            yield text


def reasons_of_vacuum() -> Iterator[str]:
    yield from vacuum.REASONS
    for name, value in vars(vacuum).items():
        if name.isupper() and isinstance(value, str) and name != "MANIFEST_DIR":
            yield value


def codes_of_findings() -> Iterator[str]:
    for _, node in _nodes("operations/check"):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and _CODE.fullmatch(text) and text not in _OTHERS:
            yield text


def printed() -> Iterator[str]:
    """Every code and reason that the program can print."""
    yield from load_error_classes()
    yield from codes_of_findings()
    yield ExitCode.WORK_NEEDED.name
    yield from reasons_of_optimize()
    yield from reasons_of_vacuum()
    yield from CopyRefusal


def test_every_code_and_no_other_is_explained() -> None:
    texts = list(printed())
    assert [text for text in texts if find_code(text) is None] == []
    found = {code.name for text in texts if (code := find_code(text)) is not None}
    assert set(load_codes()) - found == set()
    assert len(list(reasons_of_optimize())) > 12
    assert set(codes_of_findings()) == set(load_findings())


@pytest.mark.parametrize("name", sorted(load_codes()))
def test_a_row_is_complete(name: str) -> None:
    code = load_codes()[name]
    for text in (code.meaning, *code.causes, *code.remedies, *filter(None, [code.table])):
        assert text.endswith("."), text
    assert code.remedies or code.repair
    assert (code.severity is None) == (not code.repair) == (not code.effect)
    assert (name in load_error_classes()) == bool(code.causes) == bool(code.table)


@pytest.mark.parametrize("name", [it for it in sorted(load_codes()) if it.startswith("VECTOR_")])
def test_a_way_out_of_lost_vectors_is_named(name: str) -> None:
    code = load_codes()[name]
    assert f"`deltactl explain {name}`" in code.repair
    assert any("deltactl restore" in text for text in code.remedies)


def test_commands_and_options_in_the_registry_exist() -> None:
    group = build_group()
    documented = {spec.name: doc_of(spec) for spec in SHOWN}
    every = {o.name for doc in documented.values() for o in doc.options} | {"version"}
    for code in load_codes().values():
        text = " ".join((code.meaning, *code.causes, *code.remedies, code.repair))
        for name in re.findall(r"`deltactl ([a-z][a-z-]+)", text):
            assert name in group.commands
        assert set(re.findall(r"--([a-z][a-z-]+)", text)) <= every, code.name


def test_explain_shows_every_code(cli: RunCli) -> None:
    rows = describe_codes()
    assert {row["code"] for row in rows} == set(load_codes())
    listed = " ".join(cli("explain").out.split())
    assert all(f"{row['code']} " in listed and row["meaning"] in listed for row in rows)
    for row in rows:
        ran = cli("explain", row["code"])
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(row["code"])
        assert "What to do" in ran.out
    by_code = {row["code"]: row["exit_code"] for row in rows}
    picked = ("FILE_MISSING", "STATS_NULLS", "WORK_NEEDED", "ORPHAN", "UNREACHABLE")
    assert [by_code[code] for code in picked] == [1, 3, 3, 0, 8]
    assert "can be retried" in cli("explain", "CONFLICT").out


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("log-gap", "LOG_GAP"),
        (" log_gap ", "LOG_GAP"),
        ("over --max-bytes", "OVER_MAX_BYTES"),
        ("over max_bytes", "OVER_MAX_BYTES"),
        ("in bins larger than --max-bytes (raise it to 3 GiB)", "IN_BINS_LARGER_THAN_MAX_BYTES"),
        ("newer than the cutoff", "NEWER_THAN_THE_CUTOFF"),
    ],
)
def test_explain_takes_what_was_printed(cli: RunCli, text: str, name: str) -> None:
    assert cli("explain", text).out.startswith(name)


def test_the_page_has_the_table_of_features() -> None:
    features = render_feature_table()
    assert (REPOSITORY / feature_table.PAGE).read_text("utf-8") == features
    refused = {row.name for row in REGISTRY.values() if row.allows != EVERYTHING}
    assert [name for name in sorted(refused) if f"`{name}`" not in features] == []
