"""Read the codes that deltactl prints from ``codes.toml``: errors, findings of check, reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]
"""``error``: a reader fails or returns wrong rows. ``warning``: other loss or wrong data."""
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means, and what to do about it. Codes are stable, for programs.

    Attributes:
        meaning: what happened, or what the condition of a finding or reason is.
        causes: what can be the reason of an error.
        table: what became of the table.
        remedies: what to do.
        severity: of a finding; ``None`` for other codes.
        effect: what a finding means for readers.
        repair: a command for a finding, or a text with commands in backticks, or that there is
            none; ``{table}`` and ``{file}`` are replaced by those of the finding.
        printed_by: the command that prints a reason; empty for other codes.
    """

    name: str
    meaning: str
    causes: tuple[str, ...] = ()
    table: str = ""
    remedies: tuple[str, ...] = ()
    severity: Severity | None = None
    effect: str = ""
    repair: str = ""
    printed_by: str = ""


@cache
def load_codes() -> Mapping[str, Code]:
    """Return all codes by name."""
    import tomllib

    content = tomllib.loads(files("deltactl").joinpath("codes.toml").read_text("utf-8"))
    texts = content["texts"]

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(resolve, value))
        return texts[value[1:]] if value.startswith("@") else value

    names = {field.name for field in fields(Code)}
    return {
        name: Code(name, **{key: resolve(value) for key, value in row.items() if key in names})
        for name, row in content["codes"].items()
    }


@cache
def load_findings() -> Mapping[str, Code]:
    """Return the codes of findings of check."""
    return {name: code for name, code in load_codes().items() if code.severity is not None}


def find_code(text: str) -> Code | None:
    """Return the code that a text names: in any spelling, or as a reason with its values."""
    spelled = re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")
    codes = load_codes()
    if spelled in codes:
        return codes[spelled]
    reasons = [it for it in codes.values() if it.printed_by and spelled.startswith(f"{it.name}_")]
    return max(reasons, key=lambda it: len(it.name), default=None)
