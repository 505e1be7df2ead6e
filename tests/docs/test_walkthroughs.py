"""What ``docs/contributing.md`` has people write is written here, and works."""

import sys
from collections.abc import Callable, Mapping
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from deltactl.cli.app import run
from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.protocol import features
from deltactl.storage import open as open_module
from deltactl.storage import providers
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.cli.conftest import Ran
from tests.docs.blocks import Block, find_blocks, read_page
from tests.storage import conformance, test_conformance
from tests.support import table_builder

PAGE = "docs/contributing.md"


def steps(title: str) -> list[Block]:
    """The code under a heading, step by step."""
    section = read_page(PAGE).split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [b for b in find_blocks(PAGE, section) if b.said.get("checked") == "walkthrough"]


def load(code: Block, monkeypatch: pytest.MonkeyPatch, name: str) -> dict[str, Any]:
    """Load code as the module that the page says it is."""
    module = ModuleType(name)
    module.__spec__ = spec_from_loader(name, None)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code.text, name, "exec"), vars(module))
    return vars(module)


def evaluate(code: Block, names: Mapping[str, Any]) -> Any:
    return eval(code.text.strip().rstrip(","), dict(names))


def test_the_command_of_the_walkthrough_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    operation, command, row, test = steps("Add a command")
    load(operation, monkeypatch, "deltactl.operations.list_files")
    load(command, monkeypatch, "deltactl.cli.commands.list_files")
    spec = evaluate(row, {"CommandSpec": CommandSpec})

    def cli(*words: str) -> Ran:
        code = run(words, specs=(*COMMANDS, spec))
        return Ran(code, *capsys.readouterr())

    load(test, monkeypatch, "test_list_files")["test_live_files"](cli, tmp_path)
    assert cli("--help").out.count(spec.help) == 1


@pytest.fixture
def new_store(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Store]:
    service, row, line = steps("Add a store")
    load(service, monkeypatch, "deltactl.storage.objects.ram")
    provider = evaluate(row, vars(providers))
    for scheme in provider.schemes:
        monkeypatch.setitem(providers.PROVIDERS, scheme, provider)
        monkeypatch.setitem(open_module.OPENERS, scheme, open_module._open_remote)
    stores = f"{{{line.text}}}"
    (make,) = eval(stores, {**vars(test_conformance), "open_store": open_store}).values()
    return cast("Callable[[Path], Store]", make)


@pytest.mark.parametrize("promise", conformance.PROMISES, ids=lambda promise: promise.__name__)
def test_the_store_of_the_walkthrough_passes_the_conformance_suite(
    promise: Callable[[Store], None], new_store: Callable[[Path], Store], tmp_path: Path
) -> None:
    promise(new_store(tmp_path))


def test_the_feature_of_the_walkthrough_works(monkeypatch: pytest.MonkeyPatch) -> None:
    row, test = steps("Add a table feature")
    feature = evaluate(row, vars(features))
    monkeypatch.setitem(features.REGISTRY, feature.name, feature)
    monkeypatch.setattr(features, "_ROWS", (*features._ROWS, feature))
    readers = table_builder.READER_FEATURES | {feature.name}
    monkeypatch.setattr(table_builder, "READER_FEATURES", readers)
    check = load(test, monkeypatch, "test_sample_feature")["test_allowed_operations"]
    check("true")
    check("false")
