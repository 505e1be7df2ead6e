"""Equal hashes never decide alone: with hashes of a byte, every command says and writes the same.

Where hashes alone decide, they have 128 bits, and a key that is drawn at random for each process.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.log import keyed_hash
from deltactl.log.keyed_hash import hash_pairs, wide_hash_names
from deltactl.operations.manifest import compare
from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.conftest import REPOSITORY
from tests.support.table_builder import Column, TableBuilder

FILES = 400  # more than a byte has values
LIVE = 300

COMMAND_LINES: dict[str, list[list[str]]] = {
    "generate-manifest": [["TABLE"]],
}
"""Commands that compare by a hash of 64 bits."""

VOLATILE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{16,}|\d{4}-\d\d-\d\d[T ][\d:.]+Z?"
    r"|(?<!\d)1[5-9]\d{11}(?!\d)|(?<=[\W_])\d+(?:\.\d+)?(?= ?(?:ms|s)\b)"
    r'|(?<=_ms": )-?\d+|(?<="bytes": )\d+|\d{8}T\d{6}Z-[0-9a-f]{8}'
)


def add_of(number: int) -> dict[str, Any]:
    text = ("p%20q/" if number % 7 == 0 else "p=x/") + f"part-{number:05}.parquet"
    facts = {"size": 1, "modificationTime": 1_600_000_000_000 + number, "dataChange": True}
    return {"add": {"path": text, "partitionValues": {"p": "x"}, **facts}}


def build(folder: Path) -> None:
    """Write a table with files that were added, removed, added again, before and after a
    checkpoint, and with files that no version names."""
    builder = TableBuilder(
        LocalStore(str(folder)), (Column("id"), Column("p", "string")), partition_by=["p"]
    )
    adds = [add_of(number) for number in range(FILES)]
    builder.commit(*adds[:150])
    builder.commit(*adds[150:300])
    paths = [add["add"]["path"] for add in adds]
    builder.remove(*paths[0:40])
    builder.checkpoint(3)
    builder.hint(3)
    builder.remove(*paths[40:120])
    builder.commit(*adds[0:20])
    builder.commit(*adds[300:])
    assert len(builder.state.files) == LIVE
    for number, path in enumerate([*paths, *(f"p=x/orphan-{n}.parquet" for n in range(30))]):
        target = folder / path.replace("%20", " ")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"x")
        os.utime(target, (1_600_000_000 + number,) * 2)


@contextmanager
def bytes_as_hashes() -> Iterator[list[str]]:
    """Cut every hash that texts confirm to 8 bits; yield the names of those that were used."""
    used: list[str] = []

    def cut(module: Any, name: str) -> Callable[..., Any]:
        whole = getattr(module, name)

        def byte(*args: Any) -> Any:
            used.append(f"{module.__name__}.{name}")
            return whole(*args) & np.uint64(255)

        return byte

    with ExitStack() as stack:
        stack.enter_context(patch.object(keyed_hash, "hash_names", cut(keyed_hash, "hash_names")))
        stack.enter_context(patch.object(compare, "_LARGE_BYTES", 0))
        stack.enter_context(patch.object(compare, "_PART_BYTES", 2000))
        yield used


def spread(folder: Path) -> dict[str, str]:
    """Return the files of the tables, and the texts of all that have one."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            is_text = path.suffix == ".json" or path.name == "manifest"
            text = path.read_text() if is_text else ""
            if path.name == "manifest":
                text = "\n".join(sorted(text.splitlines()))
            found[VOLATILE.sub("#", name)] = VOLATILE.sub("#", text)
    return found


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    build(folder / "t")
    plain = folder / "plain" / "p=x"
    plain.mkdir(parents=True)
    for number in range(5):
        pq.write_table(pa.table({"id": [number]}), plain / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_hashes_of_a_byte_change_nothing(
    name: str, tmp_path: Path, template: Path, cli: RunCli
) -> None:
    work = tmp_path / "work"
    places = {"TABLE": "t", "TARGET": "target", "PLAIN": "plain"}

    def run(line: list[str]) -> tuple[Any, ...]:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(template, work)
        words = [f"{work}/{places[word]}" if word in places else word for word in line]
        done = cli(name, *words, "-o", "json")
        for path in work.rglob("manifest"):  # lines in another order are compared by hashes
            path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
        again = cli(name, *words, "-o", "json")
        texts = [VOLATILE.sub("#", text) for it in (done, again) for text in (it.out, it.err)]
        return done.code, again.code, texts, spread(work)

    for line in COMMAND_LINES[name]:
        usual = run(line)
        assert usual[0] in (0, 3), usual[2]
        with bytes_as_hashes() as used:
            cut = run(line)
        assert cut[:2] == usual[:2]
        for mine, other in zip(cut[2], usual[2], strict=True):
            assert mine.splitlines() == other.splitlines()
        assert cut[3] == usual[3]
        assert used


def test_where_hashes_alone_decide_they_have_128_bits_and_a_key_of_the_process(
    process: RunCli,
) -> None:
    names = pa.chunked_array([["a", "b"]])
    assert wide_hash_names(names).dtype.itemsize == 16
    assert [half.dtype.itemsize for half in hash_pairs(names)] == [8, 8]
    code = (
        "import pyarrow as pa; from deltactl.log.keyed_hash import *;"
        "names = pa.chunked_array([['a']]);"
        "print(wide_hash_names(names).tobytes().hex(), sum_of_hashes(names.chunk(0)))"
    )
    first, second = (process("-c", code).out.split() for _ in range(2))
    assert len(bytes.fromhex(first[0])) == 16
    assert int(first[1]) > 1 << 64
    assert first[0] != second[0] and first[1] != second[1]


def test_no_other_module_compares_by_these_hashes() -> None:
    """A new user of a short hash compares texts, and is added here and to the cut above."""
    users: dict[str, set[str]] = {"hash_names": set()}
    for path in (REPOSITORY / "deltactl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module != "deltactl.protocol.spark_hash":
                for alias in node.names:
                    if alias.name in users:
                        users[alias.name].add(path.stem)
    assert users == {"hash_names": {"compare"}}
