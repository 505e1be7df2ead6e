"""Merge the schemas of many files into one, or return every conflict.

Source: PROTOCOL.md, "Type Widening", for the allowed changes of types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from deltactl.operations.convert.partitions import Problem
from deltactl.option_names import option
from deltactl.protocol.schema import (
    MAX_DECIMAL_DIGITS,
    ArrayType,
    DeltaType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    is_void,
    render_type,
)

_WHOLE: Final = ("byte", "short", "integer", "long")
# The maximum number of digits of each integer type.
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


class _Conflict(Exception):
    """Two types that cannot be merged; ``path`` is dotted."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


@dataclass(slots=True)
class SchemaMerger:
    """Merge file schemas in the given order.

    ``widens``: types may be widened; else they must be equal. A column that a file lacks is null in
    its rows.
    """

    widens: bool
    struct: StructType = StructType(())
    problems: list[Problem] = field(default_factory=list)
    widened: set[str] = field(default_factory=set)

    def add(self, struct: StructType, files: Sequence[str]) -> None:
        """Merge the schema of ``files``; a conflict is a problem of each of them."""
        merged = {f.name.lower(): f for f in self.struct.fields}
        for new in struct.fields:
            known = merged.setdefault(new.name.lower(), new)
            if known is new:
                continue
            try:
                kind = self._merge(known, new, "")
            except _Conflict as conflict:
                self.problems += [(name, conflict.path, conflict.reason) for name in files]
            else:
                merged[new.name.lower()] = Field(known.name, kind)
        self.struct = StructType(tuple(merged.values()))

    def _merge(self, known: Field, new: Field, prefix: str) -> DeltaType:
        path = f"{prefix}{known.name}"
        if known.name != new.name:
            # Spark would read both; case-sensitive readers would read null.
            raise _Conflict(f"{prefix}{new.name}", f"other files spell it {known.name!r}")
        return self._merge_types(known.type, new.type, path)

    def _merge_types(self, known: DeltaType, new: DeltaType, path: str) -> DeltaType:
        if new == known or is_void(new):
            return known
        if is_void(known):
            return new
        match known, new:
            case StructType(), StructType():
                return self._merge_structs(known, new, path)
            case ArrayType(), ArrayType():
                return ArrayType(self._merge_types(known.element, new.element, f"{path}.element"))
            case MapType(), MapType():
                return MapType(
                    self._merge_types(known.key, new.key, f"{path}.key"),
                    self._merge_types(known.value, new.value, f"{path}.value"),
                )
            case PrimitiveType(), PrimitiveType():
                return self._widen(known, new, path)
        raise _Conflict(path, _differs(new, known))

    def _merge_structs(self, known: StructType, new: StructType, path: str) -> StructType:
        merged = {f.name.lower(): f for f in known.fields}
        for member in new.fields:
            other = merged.setdefault(member.name.lower(), member)
            if other is not member:
                kind = self._merge(other, member, f"{path}.")
                merged[member.name.lower()] = Field(other.name, kind)
        return StructType(tuple(merged.values()))

    def _widen(self, known: PrimitiveType, new: PrimitiveType, path: str) -> PrimitiveType:
        wide = find_wider(known, new)
        if wide is None:
            raise _Conflict(path, _differs(new, known))
        if not self.widens:
            raise _Conflict(
                path,
                f"{_differs(new, known)}; {option('schema_mode', 'widen')} makes both {wide.name}",
            )
        self.widened.add(path)
        return wide


def _differs(new: DeltaType, known: DeltaType) -> str:
    return f"is {render_type(new)}, in other files {render_type(known)}"


def find_wider(one: PrimitiveType, other: PrimitiveType) -> PrimitiveType | None:
    """Return the type that has all values of both types exactly, if Delta can widen both to it."""
    names = {one.name, other.name}
    if len(names) == 1:
        return one
    if names <= set(_WHOLE):
        return PrimitiveType(max(names, key=_WHOLE.index))
    if names == {"float", "double"} or ("double" in names and names & {"byte", "short", "integer"}):
        return PrimitiveType("double")
    return _wider_decimal(one, other)


def _wider_decimal(one: PrimitiveType, other: PrimitiveType) -> PrimitiveType | None:
    first, second = _decimal_of(one), _decimal_of(other)
    if first is None or second is None:
        return None
    scale = max(first[1], second[1])
    whole = max(first[0] - first[1], second[0] - second[1])
    if whole + scale > MAX_DECIMAL_DIGITS:
        return None
    return PrimitiveType(f"decimal({whole + scale},{scale})")


def _decimal_of(kind: PrimitiveType) -> tuple[int, int] | None:
    """Return precision and scale, also of an integer type as a decimal."""
    if match := _DECIMAL.fullmatch(kind.name):
        return int(match[1]), int(match[2])
    digits = _DIGITS.get(kind.name)
    return None if digits is None else (max(digits, 10), 0)
