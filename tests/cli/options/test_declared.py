"""Options that many commands share are declared by classes."""

from __future__ import annotations

import inspect
from collections import Counter
from importlib import import_module

import pytest

from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.group import build_options, load_command, options_of
from deltactl.cli.options.common import GlobalOptions
from deltactl.cli.options.declared import Options
from deltactl.cli.options.engine import EngineOptions
from deltactl.cli.options.fleet import FleetOptions
from deltactl.cli.options.leases import LeaseOptions
from deltactl.cli.options.log_store import LogStoreOptions
from deltactl.cli.options.report import ReportOptions
from deltactl.cli.options.time_limit import TimeLimit

SHARED: tuple[type[Options], ...] = (
    EngineOptions, FleetOptions, GlobalOptions, LogStoreOptions, ReportOptions, TimeLimit,
    LeaseOptions,
)  # fmt: skip


@pytest.mark.parametrize("options", SHARED)
def test_without_a_value_the_default_of_the_class_applies(options: type[Options]) -> None:
    params = {param.name: param.default for param in build_options(options)}
    assert options.take(params) == options()
    assert params == {}


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.name)
def test_no_shared_option_replaces_one_of_a_command(spec: CommandSpec) -> None:
    own = set(inspect.signature(import_module(spec.module).command).parameters) - {"ctx"}
    every = Counter(param.name for options in SHARED for param in build_options(options))
    assert max(every.values()) == 1
    shared = {param.name for options in options_of(spec) for param in build_options(options)}
    assert own & shared <= {"table"}
    taken = {param.name for param in load_command(spec).params}
    assert own | {param.name for param in build_options(GlobalOptions)} <= taken
