"""The shape of the code: how large functions, files and folders get. `make lint` checks layers."""

import ast
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

import pytest

from dev.package_map import PAGE, render_package_map
from tests.conftest import REPOSITORY

RecordProperty = Callable[[str, object], None]

MOST_PARAMETERS = 7
FILES = sorted((REPOSITORY / "deltactl").rglob("*.py"))


MOST_LINES = 80


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def function_lines() -> dict[str, int]:
    return {
        f"{path.relative_to(REPOSITORY)}:{node.lineno} {node.name}": (
            (node.end_lineno or node.lineno) - node.lineno + 1
        )
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def file_lines() -> list[int]:
    counts = (len(path.read_text("utf-8").splitlines()) for path in FILES)
    return [count for count in counts if count > 0]


def test_functions_stay_short(record_property: RecordProperty) -> None:
    by_name = function_lines()
    lines = list(by_name.values())
    p95 = quantiles(lines, n=20)[-1]
    record_property("function_lines", f"median {median(lines)}, p95 {p95:.0f}, max {max(lines)}")
    assert median(lines) <= 12
    assert p95 <= 50
    # The signature of a command declares its options.
    commands = "deltactl/cli/commands/"
    long = {name: count for name, count in by_name.items() if count > MOST_LINES}
    assert [name for name in long if not name.startswith(commands)] == []


def test_files_stay_small(record_property: RecordProperty) -> None:
    lines = file_lines()
    record_property("file_lines", f"median {median(lines)}, max {max(lines)}")
    assert median(lines) <= 250


def list_wide_functions(tree: ast.Module) -> list[str]:
    """Return the functions with too many parameters; ``self`` and ``cls`` do not count."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            listed = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            names = [parameter.arg for parameter in listed if parameter.arg not in ("self", "cls")]
            if len(names) > MOST_PARAMETERS:
                found.append(f"line {node.lineno}: {node.name}({', '.join(names)})")
    return found


def test_functions_below_the_commands_take_few_parameters() -> None:
    """Options classes are not affected: the constructor of a dataclass is not written out.

    Nor are the functions of the library: they have the arguments of a table and of a run.
    """
    outside = {"cli", "library.py"}
    below = [path for path in FILES if outside.isdisjoint(path.relative_to(REPOSITORY).parts)]
    wide = {str(path): list_wide_functions(parsed(path)) for path in below}
    assert {path: found for path, found in wide.items() if found} == {}


def test_a_function_with_too_many_parameters_is_found() -> None:
    for first in ("", "self, "):
        most = f"def most({first}a, b, /, c, d, *, e, f, g): ..."
        assert list_wide_functions(ast.parse(most)) == []
    wide = ast.parse("class A:\n async def wide(self, a, /, b, c, d, *, e, f, g, h): ...")
    assert list_wide_functions(wide) == ["line 2: wide(a, b, c, d, e, f, g, h)"]


def test_errors_tell_themselves_apart() -> None:
    from deltactl import errors

    tree = [
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.DeltactlError)
    ]
    codes = sorted(error.code for error in tree)
    assert all(first != second for first, second in pairwise(codes))
    assert all(error.__name__ in (errors.__doc__ or "") for error in tree)


# Names of features that are names of actions or members of JSON objects too.
OTHER_MEANINGS = {"domainMetadata", "inCommitTimestamp", "v2Checkpoint"}


def test_features_are_named_in_the_registry_and_the_facts_of_engines_only() -> None:
    from deltactl.protocol.features import REGISTRY

    names = REGISTRY.keys() - OTHER_MEANINGS
    registry = [REPOSITORY / "deltactl" / "protocol" / f"{it}.py" for it in ("features", "readers")]
    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno} {node.value}"
        for path in FILES
        if path not in registry
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    ]
    assert found == []


# Functions and constants of protocol.names about files of the log.
LOG_NAMES = {
    "LOG_DIR", "SIDECAR_DIR", "checkpoint_name", "checksum_name", "commit_file", "commit_name",
    "commit_version", "compacted_name", "parse_commit_name", "parse_log_name", "version_prefix",
}  # fmt: skip
_IN_LOG = re.compile(r"/?_delta_log(/|$)")
KNOWS_THE_LOG = ("deltactl/log/", "deltactl/protocol/")


def list_log_names(tree: ast.Module) -> list[str]:
    """Return where code names files of the log, or uses a listing of them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "deltactl.protocol.names":
            names = sorted({alias.name for alias in node.names} & LOG_NAMES)
            found += [f"line {node.lineno}: {name}" for name in names]
        elif isinstance(node, ast.Attribute) and node.attr == "listing":
            found.append(f"line {node.lineno}: .listing")
        elif isinstance(node, ast.Constant) and _IN_LOG.match(str(node.value)):
            found.append(f"line {node.lineno}: {node.value!r}")
    return found


def test_files_of_the_log_are_named_in_the_log_only() -> None:
    paths = {str(path.relative_to(REPOSITORY)): path for path in FILES}
    found = {
        name: list_log_names(parsed(path))
        for name, path in paths.items()
        if not name.startswith(KNOWS_THE_LOG)
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from deltactl.protocol.names import MANIFEST_DIR", []),
        ("raise ValueError('it has no _delta_log')", []),
        ("from deltactl.protocol.names import LOG_DIR, commit_name", ["LOG_DIR", "commit_name"]),
        ("log.listing.commits", [".listing"]),
        ("f'{root}/_delta_log/{name}'", ["'/_delta_log/'"]),
    ],
)
def test_a_name_of_a_file_of_the_log_is_found(text: str, found: list[str]) -> None:
    assert list_log_names(ast.parse(text)) == [f"line 1: {name}" for name in found]


def test_the_map_of_packages_is_the_tree() -> None:
    """Each package has a docstring and a row; `make generate` writes the rows."""
    page = (REPOSITORY / PAGE).read_text("utf-8")
    assert render_package_map() == page
    tree = {path.parent for path in FILES if path.name == "__init__.py"}
    rows = re.findall(r"^\| `(deltactl[\w/]*)` \| \S.* \|$", page, re.MULTILINE)
    assert {REPOSITORY / name for name in rows} == tree
