"""The public names: complete, in order, lazy, and resolvable."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import deltactl
from deltactl import errors
from deltactl.operations.convert.options import parse_partition_by

SOURCE = Path(deltactl.__file__ or "")


def type_checking_imports() -> dict[str, str]:
    """Name and module of what type checkers see."""
    return {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(SOURCE.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deltactl.")
        for alias in node.names
    }


def test_every_error_is_public() -> None:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    tree = {name for name, value in classes.items() if issubclass(value, errors.DeltactlError)}
    assert tree <= set(dir(deltactl))


def test_all_is_what_type_checkers_see() -> None:
    assert {*type_checking_imports(), "__version__"} == set(dir(deltactl))
    star: dict[str, object] = {}
    exec("from deltactl import *", star)
    assert star.keys() - {"__builtins__"} == set(dir(deltactl))


@pytest.mark.parametrize("name", dir(deltactl))
def test_names_resolve_to_where_type_checkers_find_them(name: str) -> None:
    value = getattr(deltactl, name)
    if name != "__version__":
        assert value.__module__ == type_checking_imports()[name]


def test_columns_of_partitions_can_be_built() -> None:
    column = deltactl.PartitionColumn("day", deltactl.PrimitiveType("date"))
    options = deltactl.ConvertOptions(partition_by=(column,))
    assert options.partition_by == parse_partition_by("day date")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'deltactl' has no attribute 'Tables'"):
        deltactl.Tables  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys, deltactl; "
        "print([m for m in sys.modules if m.startswith(('deltactl.', 'pyarrow'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_is_typed() -> None:
    assert find_spec("deltactl") is not None
    assert SOURCE.with_name("py.typed").exists()


def test_a_table_may_be_named_by_a_path_object(tmp_path: Path) -> None:
    assert deltactl.Table(tmp_path).uri == deltactl.Table(str(tmp_path)).uri


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_loading_a_table_does_not_import_pandas(tmp_path: Path, with_checkpoint: bool) -> None:
    """Arrow imports pandas for the first array of Python values, which takes half a second."""
    table = tmp_path / "table"
    deltalake.write_deltalake(table, pa.table({"p": ["x", "y"], "v": [1, 2]}), partition_by=["p"])
    deltalake.write_deltalake(table, pa.table({"p": ["x"], "v": [3]}), mode="append")
    if with_checkpoint:
        deltalake.DeltaTable(table).create_checkpoint()
        (table / "_delta_log" / f"{0:020}.json").unlink()
    stub = tmp_path / "stub" / "pandas.py"
    stub.parent.mkdir()
    # Arrow hides errors of this import.
    stub.write_text("import sys; sys.exit(print('pandas is imported'))", "utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(stub.parent)!r}); from deltactl import Table; "
        "snapshot = Table(sys.argv[1]).snapshot(); print(snapshot.num_files, snapshot.version)"
    )
    command = [sys.executable, "-c", code, str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3 1\n", "")
