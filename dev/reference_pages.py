"""Reference pages of the site, made from the definitions: options, error codes, schemas, Python."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import deltactl
from deltactl.cli.app import build_group
from deltactl.cli.exits import MEANINGS
from deltactl.cli.help import CommandDoc
from deltactl.cli.options.declared import Declared
from deltactl.cli.reference.code_rows import describe_codes
from dev.program import describe_program

_SECTIONS: Final[Mapping[str, Callable[[str], bool]]] = {
    "The table": lambda name: name == "Table",
    "Functions": str.islower,
    "Options": lambda name: (
        name.endswith(("Options", "Keywords", "Policy", "Budget", "Need", "Depth", "Fix"))
        or name in ("PartitionColumn", "PrimitiveType")
    ),
    "Reports": lambda name: name.endswith(("Report", "Snapshot", "VersionDiff", "Restorable")),
    "Engines and stores": lambda name: name.endswith(("Engine", "Progress", "Store")),
    "Errors and warnings": lambda name: name.endswith(("Error", "Warning")),
}


def render_reference(schemas: Path) -> dict[str, str]:
    """Return the text of each page, by its path in the site."""
    program = describe_program(build_group())
    pages = {f"reference/{doc.name}.md": render_command(doc) for _, doc in program.commands}
    return pages | {
        "reference/errors.md": render_errors(),
        "reference/json.md": render_schemas(schemas),
        "reference/python.md": render_python(),
    }


def render_command(doc: CommandDoc) -> str:
    """Return the options of a command."""
    lines = [f"# Options of {doc.name}", "", f"`deltactl {doc.name} {doc.usage}`", ""]
    lines += [f"{paragraph}\n" for paragraph in map(_plain, doc.text)]
    lines += [f"The page [{doc.name}](../{doc.name}.md) explains the command with examples.", ""]
    if doc.examples:
        lines += ["```sh", *doc.examples, "```", ""]
    if doc.arguments:
        lines += ["## Arguments", "", "| argument | meaning |", "|---|---|"]
        lines += [f"| `{it.placeholder}` | {_plain(it.help)} |" for it in doc.arguments]
        lines += [""]
    for group, options in doc.groups():
        lines += [f"## {group.value}", "", "| option | meaning |", "|---|---|"]
        lines += [_option(option) for option in options]
        lines += [""]
    return "\n".join(lines)


def _option(option: Declared) -> str:
    names = ", ".join(f"`{name}`" for name in option.names)
    value = f" `{option.placeholder}`" if option.placeholder else ""
    variable = f"<br>`DELTACTL_{option.name.upper().replace('-', '_')}`"
    shown = variable if option.option.is_settable else ""
    return f"| {names}{value} | {_plain(option.help)}{shown} |"


def _plain(text: str) -> str:
    """Return a text without meaning for Markdown, for a cell of a table."""
    escaped = html.escape(text, quote=False)
    return "".join(f"&#{ord(c)};" if c in "|*_`[]\\#" else c for c in escaped)


def render_errors() -> str:
    """Return the page of error codes and exit statuses."""
    lines = [
        "# Error codes",
        "",
        "This page explains the codes of errors (`error.code` in the JSON output), the findings of "
        "`check`, and the reasons that commands print.",
    ]
    lines += [
        "`deltactl explain CODE` prints the same text. The exit status shows how a run ended:"
    ]
    lines += [""]
    lines += ["| status | meaning |", "|---:|---|"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    for row in describe_codes():
        again = ". You can rerun the command" if row["retryable"] else ""
        status = [f"Exit status {row['exit_code']}{again}.", ""] if row["exit_code"] else []
        lines += ["", f"## {row['code']}", "", *status, _plain(row["meaning"]), ""]
        if row["causes"]:
            lines += ["Causes:", "", *(f"- {_plain(it)}" for it in row["causes"]), ""]
        for label, text in (("Readers", row["effect"]), ("The table", row["table"])):
            lines += [f"{label}: {_plain(text)}", ""] if text else []
        lines += ["What to do:", "", *(f"- {_plain(it)}" for it in row["remedies"])]
    return "\n".join([*lines, ""])


def render_schemas(folder: Path) -> str:
    """Return the page of JSON results: a table of fields for each schema."""
    lines = [
        "# JSON output",
        "",
        "The page [schemas](../schemas/README.md) explains these tables.",
        "",
    ]
    for path in sorted(folder.glob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        lines += [
            f"## {path.stem}",
            "",
            f"{schema['title']}: [{path.name}](../schemas/{path.name})",
        ]
        lines += ["", "| field | type |", "|---|---|"]
        fields = schema["properties"]
        start = fields if "result" not in fields or path.stem == "envelope" else fields["result"]
        found = iterate_fields({"properties": start} if start is fields else start, schema)
        lines += [f"| `{name}` | {kind} |" for name, kind in found if name]
        lines += [""]
    return "\n".join(lines)


def iterate_fields(
    node: Mapping[str, Any], schema: Mapping[str, Any], name: str = "", depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Return dotted names of the fields below a node of a schema, with their types."""
    reference = node.get("$ref", "")
    if reference.startswith("#/$defs/"):
        node = schema["$defs"][reference.removeprefix("#/$defs/")]
    for choice in node.get("anyOf", ()):
        if choice.get("type") != "null":
            yield from iterate_fields(choice, schema, name, depth)
    if "items" in node:
        yield from iterate_fields(node["items"], schema, f"{name}[]", depth)
    for key, value in node.get("properties", {}).items():
        inner = f"{name}.{key}" if name else key
        yield inner, _type_of(value)
        if depth < 6:
            yield from iterate_fields(value, schema, inner, depth + 1)


def _type_of(node: Mapping[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{json.dumps(it)}`" for it in node["enum"])
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_type_of(it) for it in node["anyOf"]))
    if "$ref" in node:
        return "object"
    kinds = node.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def render_python() -> str:
    """Return the page of the library; mkdocstrings fills in what its directives name."""
    names = [name for name in dir(deltactl) if name != "__version__"]
    lines = ["# Python", "", "```python", "from deltactl import Table", "```", ""]
    for heading, belongs in _SECTIONS.items():
        chosen = [name for name in names if belongs(name)]
        names = [name for name in names if name not in chosen]
        lines += [f"## {heading}", ""]
        for name in chosen:
            lines += [f"::: {getattr(deltactl, name).__module__}.{name}", ""]
    if names:
        raise ValueError(f"no section has {', '.join(names)}")
    return "\n".join(lines)
