"""Write the types of the keyword arguments of the library, from the classes of options."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from textwrap import fill
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from deltactl.keywords import argument_type, keyword_of, keyword_types
from deltactl.log.history.read import Selection
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.check.fixes.options import FixOptions
from deltactl.operations.check.options import CheckOptions
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.maintain.options import MaintainOptions
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.storage.options import StorageOptions
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.option_fields import METADATA

FILE: Final = "deltactl/keyword_types.py"
CLASSES: Final[Mapping[str, type]] = {
    "AlterKeywords": AlterOptions,
    "CheckKeywords": CheckOptions,
    "CheckpointKeywords": CheckpointOptions,
    "CloneKeywords": CloneOptions,
    "ConvertKeywords": ConvertOptions,
    "FixKeywords": FixOptions,
    "HistoryKeywords": Selection,
    "MaintainKeywords": MaintainOptions,
    "ManifestKeywords": ManifestOptions,
    "OptimizeKeywords": OptimizeOptions,
    "RestoreKeywords": RestoreOptions,
    "StorageKeywords": StorageOptions,
    "VacuumKeywords": VacuumOptions,
}
# Areas of the library whose options are those of a command of another name.
_COMMANDS: Final = {
    "fix": "check",
    "history": "describe-history",
    "manifest": "generate-manifest",
    "storage": "describe-detail",
}
_HEAD: Final = '''\
"""The types of the keyword arguments of the library, for editors and type checkers.

Written by ``python -m dev.generate_files`` from the classes of options; do not edit.
"""

from __future__ import annotations
'''


def render_keyword_types() -> str:
    """Return the text of the module."""
    imports: dict[str, set[str]] = {"typing": {"TYPE_CHECKING", "TypedDict"}}
    classes = [render_class(name, kind, imports) for name, kind in CLASSES.items()]
    always = {module: names for module, names in imports.items() if module == "typing"}
    for_checkers = {module: names for module, names in imports.items() if module != "typing"}
    lines = [*_import_lines(always), "", "if TYPE_CHECKING:"]
    standard = {m: n for m, n in for_checkers.items() if not m.startswith("deltactl")}
    own = {m: n for m, n in for_checkers.items() if m.startswith("deltactl")}
    lines += [f"    {line}" for line in _import_lines(standard)]
    lines += ["", *(f"    {line}" for line in _import_lines(own))]
    return "\n".join([_HEAD, *lines, "", "", "\n\n\n".join(classes), ""])


def _import_lines(imports: Mapping[str, set[str]]) -> list[str]:
    def order(name: str) -> tuple[bool, str]:
        return not name.isupper(), name

    return [
        f"from {module} import {', '.join(sorted(names, key=order))}"
        for module, names in sorted(imports.items())
    ]


def render_class(name: str, kind: type, imports: dict[str, set[str]]) -> str:
    """Return the source of the class for a class of options; ``imports`` gets what it needs."""
    lines = [f"class {name}(TypedDict, total=False):", *_render_doc(name, kind), ""]
    for keyword, (_, hint) in keyword_types(kind).items():
        lines += _render_field(keyword, _render_type(argument_type(hint), imports))
    return "\n".join(lines)


def _render_doc(name: str, kind: type) -> list[str]:
    """Return the docstring: where help explains the keywords, and those of other names there."""
    area = name.removesuffix("Keywords").lower()
    explains = f"``deltactl {_COMMANDS.get(area, area)} --help-all`` explains them"
    first = f"The fields of ``{kind.__name__}``; {explains}."
    options = [(it.name, it.metadata.get(METADATA)) for it in fields(kind)]
    other = [f"``{keyword_of(it)}`` is ``--{o.flag}``" for it, o in options if o and o.flag]
    if not other:
        return [f'    """{first}"""']
    indent = " " * 4
    text = fill(f"{', '.join(other)}.", 100, initial_indent=indent, subsequent_indent=indent)
    return [f'{indent}"""{first}', "", *text.splitlines(), f'{indent}"""']


def _render_field(name: str, text: str) -> list[str]:
    line = f"    {name}: {text}"
    if len(line) <= 100:
        return [line]
    return [f"    {name}: (", f"        {text}", "    )"]


def _render_type(hint: Any, imports: dict[str, set[str]]) -> str:
    """Return the source of the type that a keyword takes."""

    def add(name: str, module: str) -> str:
        imports.setdefault(module, set()).add(name)
        return name

    def render(inner: Any) -> str:
        return _render_type(inner, imports)

    kind, members = get_origin(hint), get_args(hint)
    if hint is NoneType:
        return "None"
    if kind in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(render, members)))
    if kind is Literal:
        return f"{add('Literal', 'typing')}[{', '.join(f'{m!r}' for m in members)}]".replace(
            "'", '"'
        )
    if kind in (tuple, Sequence):
        return f"{add('Sequence', 'collections.abc')}[{render(members[0])}]"
    if kind in (frozenset, Collection):
        return f"{add('Collection', 'collections.abc')}[{render(members[0])}]"
    if kind is Mapping:
        return f"{add('Mapping', 'collections.abc')}[{', '.join(map(render, members))}]"
    return hint.__name__ if hint.__module__ == "builtins" else add(hint.__name__, hint.__module__)
