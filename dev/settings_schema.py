"""Write the JSON Schema of ``deltactl.toml``, with which editors complete and check settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args, get_origin

from deltactl.catalog.kinds import KINDS
from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.group import load_command
from deltactl.cli.options.common import GlobalOptions
from deltactl.cli.options.declared import Declared, declared_options
from deltactl.commit_options import SECTION, CommitOptions

FILE: Final = "docs/schemas/settings.json"
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}


def render_settings_schema(specs: Sequence[CommandSpec] = COMMANDS) -> str:
    """Return the text of the schema."""
    commands = {spec.name: load_command(spec) for spec in specs if not spec.is_hidden}
    declared = [it for command in reversed(commands.values()) for it in command.declared.values()]
    declared += declared_options(GlobalOptions)  # with all formats, not those of one command
    settings = {it.name: _describe(it) for it in declared if it.option.is_settable}
    sections = {name: _section(command.settings) for name, command in commands.items()}
    sections[SECTION] = _section(it.name for it in declared_options(CommitOptions))
    anywhere = _refer([*sorted(settings), *sections])
    keys = [setting.key for kind in KINDS.values() for setting in kind.settings]
    catalog = dict.fromkeys(keys, {"type": ["boolean", "string"]})
    profile = {**_object({"tables": _TEXTS, **anywhere}), "required": ["tables"]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "settings.json",
        "title": "Settings of deltactl: deltactl.toml",
        **_object(
            {
                **anywhere,
                "profiles": {"type": "object", "additionalProperties": profile},
                "catalog": {"type": "object", "additionalProperties": _object(catalog)},
            }
        ),
        "$defs": dict(sorted(settings.items())) | sections,
    }
    return json.dumps(schema, indent=2) + "\n"


def _section(names: Iterable[str]) -> dict[str, Any]:
    return _object(_refer(sorted(names)))


def _refer(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/$defs/{name}"} for name in names}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _describe(option: Declared) -> dict[str, Any]:
    """Return the schema of a value in the file."""
    about: dict[str, Any] = {"description": option.help}
    if option.choices:
        return {**about, "enum": list(option.choices)}
    if option.kind is not str:
        limits = {"minimum": option.option.least, "maximum": option.option.most}
        kind = {bool: "boolean", int: "integer", float: "number"}[option.kind]
        return {**about, "type": kind, **{k: v for k, v in limits.items() if v is not None}}
    if option.is_repeated or any(get_origin(it) is Sequence for it in get_args(option.hint)):
        return {**about, "anyOf": [_TEXT, _TEXTS]}
    return {**about, "type": ["number", "string"]} if option.placeholder == "N" else about | _TEXT
