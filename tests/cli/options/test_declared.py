"""An option is one field: the command line and the settings take it from its class."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from math import nan
from typing import Any, Literal, get_origin

import pytest

from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.group import load_command
from deltactl.cli.options.declared import declared_options, take_options
from deltactl.errors import UsageError
from deltactl.keywords import keyword_of
from deltactl.operations.maintain.policy import MaintainPolicy
from dev.keyword_types import CLASSES as LIBRARY

CLASSES: dict[str, type] = {
    kind.__name__: kind
    for spec in COMMANDS
    for kind in (*load_command(spec).classes.values(), *load_command(spec).shared)
}


def built(make: Callable[[], object]) -> object:
    """Options, or why there are none: some need a value."""
    try:
        return make()
    except (UsageError, TypeError):
        return None


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.name)
def test_without_a_value_the_default_of_the_class_applies(spec: CommandSpec) -> None:
    command: Any = load_command(spec)
    ctx = command.make_context(spec.name, [], resilient_parsing=True)
    for kind in (*command.classes.values(), *command.shared):
        expected = built(kind)
        assert expected is None or built(partial(take_options, ctx, kind, ())) == expected


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.name)
def test_no_option_replaces_another(spec: CommandSpec) -> None:
    command: Any = load_command(spec)
    classes = (*command.classes.values(), *command.shared)
    names = Counter(option.field for kind in classes for option in declared_options(kind))
    assert not names or max(names.values()) == 1
    flags = Counter(name for param in command.params for name in param.opts)
    assert max(flags.values()) == 1


def test_an_option_has_the_same_flag_and_meaning_in_the_settings_of_all_commands() -> None:
    kinds: dict[str, set[tuple[str, Any]]] = {}
    for kind in CLASSES.values():
        for option in declared_options(kind):
            if option.option.is_settable:
                kinds.setdefault(option.name, set()).add((option.placeholder, option.kind))
    assert {name for name, hints in kinds.items() if len(hints) > 1} == set()


@pytest.mark.parametrize(
    "kind", [*LIBRARY.values(), MaintainPolicy], ids=lambda kind: kind.__name__
)
def test_the_library_refuses_values_out_of_range(kind: Any) -> None:
    needed: dict[str, dict[str, Any]] = {
        "CloneOptions": {"deep": True},
        "RestoreOptions": {"version": 1},
    }
    for option in declared_options(kind):
        least, most = option.option.least, option.option.most
        wrong: list[Any] = [] if least is None else [least - 1]
        wrong += [] if most is None else [most + 0.5, nan]
        wrong += ["nothing"] if get_origin(option.hint) is Literal else []
        for value in wrong:
            with pytest.raises(UsageError, match=rf"^{keyword_of(option.field)} "):
                kind(**{**needed.get(kind.__name__, {}), option.field: value})
