"""Describe commands and options, for ``--help``, manual pages and completions."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from typer.core import TyperArgument

from deltactl.cli.exits import IN_SHORT, MEANINGS
from deltactl.cli.options.declared import Declared
from deltactl.option_fields import Group, Option

ALL: Final = "deltactl.help-all"
"""The key in the context of a command whose whole help is shown."""

_EXAMPLES: Final = "\b\nExamples:\n"
_WIDEST_NAME: Final = 30  # a longer name has a line of its own


_HELP_OPTIONS: Final = (
    Declared(
        "help_all",
        bool,
        False,
        Option("Show all options and the exit statuses.", group=Group.OUTPUT, is_basic=True),
    ),
    Declared(
        "help",
        bool,
        False,
        Option("Show this message and exit.", group=Group.OUTPUT, short="h", is_basic=True),
    ),
)


@dataclass(frozen=True, slots=True)
class ArgumentDoc:
    """An argument: its placeholder, and what ``--help`` says about it."""

    placeholder: str
    help: str
    is_required: bool
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class CommandDoc:
    """A command; ``text`` is its description: one string per paragraph, the summary first."""

    name: str
    text: tuple[str, ...]
    examples: tuple[str, ...]
    arguments: tuple[ArgumentDoc, ...]
    options: tuple[Declared, ...]

    @property
    def usage(self) -> str:
        """Return the arguments as a usage line shows them after the name."""
        shown = (a.placeholder if a.is_required else f"[{a.placeholder}]" for a in self.arguments)
        return " ".join(("[OPTIONS]", *shown))

    def groups(self) -> list[tuple[Group, list[Declared]]]:
        """Return the options by group, without empty groups."""
        by_group = [(g, [o for o in self.options if o.option.group is g]) for g in Group]
        return [(group, options) for group, options in by_group if options]


def describe_command(command: Any) -> CommandDoc:
    """Describe a command."""
    text, examples = split_examples(command.help or "")
    arguments = (p for p in command.params if isinstance(p, TyperArgument))
    options = (it for it in command.declared.values() if it.option.has_flag)
    return CommandDoc(
        name=command.name or "",
        text=text,
        examples=examples,
        arguments=tuple(map(_describe_argument, arguments)),
        options=(*options, *_HELP_OPTIONS),
    )


def split_examples(help_text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a docstring into its paragraphs and the command lines under ``Examples:``."""
    text, _, examples = inspect.cleandoc(help_text).partition(_EXAMPLES)
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    lines = (line.strip() for line in examples.splitlines())
    return tuple(filter(None, paragraphs)), tuple(filter(None, lines))


def _describe_argument(param: TyperArgument) -> ArgumentDoc:
    return ArgumentDoc(
        param.metavar or param.name.upper(),
        param.help or "",
        param.required,
        is_repeated=param.nargs == -1,
    )


def write_help(
    doc: CommandDoc,
    formatter: Any,
    path: str,
    commands: Sequence[tuple[str, str]] = (),
    *,
    is_all: bool,
) -> None:
    """Write a help text: usage, examples, description, arguments, options by group, statuses."""
    formatter.write_usage(path, f"{doc.usage} COMMAND [ARGS]..." if commands else doc.usage)
    if doc.examples:
        with formatter.section("Examples"):
            for line in doc.examples:  # not wrapped: a wrapped command cannot be copied
                formatter.write(f"  {line}\n")
    for paragraph in doc.text:
        formatter.write_paragraph()
        for line in _wrap(paragraph, formatter.width - 2):
            formatter.write(f"  {line}\n")
    if doc.arguments:
        _write_list(formatter, "Arguments", [(a.placeholder, a.help) for a in doc.arguments])
    if commands:
        _write_list(formatter, "Commands", commands)
    for group, options in doc.groups():
        shown = [(o.heading, o.help) for o in options if o.option.is_basic or is_all]
        if shown:
            _write_list(formatter, group.value, shown)
    if is_all:
        rows = [(f"{code.value:>3}", meaning) for code, meaning in MEANINGS.items()]
        _write_list(formatter, "Exit status", rows)
    else:
        formatter.write(f"\n{IN_SHORT}\n")


def help_all_option() -> Any:
    """Return the annotation of ``--help-all``."""
    return typer.Option("--help-all", is_eager=True, expose_value=False, callback=_show_all)


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def _write_list(formatter: Any, heading: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write names and texts in two columns; no line ends inside a name such as ``us-east-1``."""
    with formatter.section(heading):
        indent = formatter.current_indent
        column = min(max(len(name) for name, _ in rows), _WIDEST_NAME) + 2
        for name, text in rows:
            first, *rest = _wrap(text, formatter.width - column - indent) or [""]
            gap = " " * (column - len(name))
            if len(name) > column - 2:
                gap = "\n" + " " * (indent + column)
            formatter.write(f"{' ' * indent}{name}{gap}{first}".rstrip() + "\n")
            for line in rest:
                formatter.write(f"{' ' * (indent + column)}{line}\n")


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 10), break_on_hyphens=False, break_long_words=False)
