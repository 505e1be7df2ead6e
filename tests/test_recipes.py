"""The recipes of the documentation, run as they stand there."""

import re
import shlex
from pathlib import Path

import pytest

from deltactl.cli.app import run
from tests.conftest import REPOSITORY
from tests.support.symlink_reader import list_manifests, read_manifests
from tests.support.table_builder import Column, TableBuilder, multiset

PAGE = REPOSITORY / "docs" / "generate-manifest.md"


def daily_recipe() -> list[list[str]]:
    """The commands under "Daily commands", without the program's name."""
    section = PAGE.read_text().split("## Daily commands")[1].split("\n## ")[0]
    lines = re.findall(r"^(deltactl .*)$", section, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_the_daily_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step the manifests name files that are there, and give the table's rows."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(
        tmp_path / "events", [Column("id"), Column("day", "string")], partition_by=["day"]
    )
    builder.append(*([{"id": n, "day": "ab"[n % 2]}] for n in range(8)))
    recipe = daily_recipe()
    assert [words[0] for words in recipe] == ["vacuum", "optimize", "generate-manifest"]
    assert run(["generate-manifest", "events"]) == 0
    for words in recipe:
        assert run([word.replace("s3://lake/events", "events") for word in words]) == 0
        assert multiset(read_manifests(tmp_path / "events")) == multiset(builder.rows())
    lines = list_manifests(tmp_path / "events/_symlink_format_manifest")
    assert {folder: len(found) for folder, found in lines.items()} == {"day=a": 1, "day=b": 1}
