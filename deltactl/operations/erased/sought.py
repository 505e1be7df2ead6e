"""Find the values that a predicate asks for, and their spellings in texts.

A text may have a value in any form: in JSON (also JSON in JSON), in quotes of SQL, in a URL, in the
name of a directory. So each character is found as itself and by its escapes, however often they
are escaped, and no text is decoded.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.erased.schemas import Variant
from deltactl.operations.predicate.bounds import columns_of
from deltactl.operations.predicate.literals import Constant, find_nearest
from deltactl.operations.predicate.terms import Column, Comparison, Junction, Membership, Term

TRUNCATED: Final = 16
"""A bound of so many characters may be the first part of a longer value (Iceberg; Delta: 32)."""

_ESCAPE: Final = r"\\+[nrtbf]|\\+u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}"
_CONTROLS: Final = dict(zip("\n\r\t\b\f", "nrtbf", strict=True))
_LETTERS: Final = "0-9A-Za-z"
_EQUALS: Final = "(?:=|%(?:25)*3[Dd])"
_NUMBER_START: Final = f"(?:^|[^{_LETTERS}_.]|{_ESCAPE})"
_NUMBER_END: Final = r"(?:BD|[DFLSYZ])?(?:$|[^0-9A-Za-z_.]|\.(?:$|[^0-9]))"  # with Spark's types
# Longer spellings are found by their first characters.
_MOST_CHARACTERS: Final = 256
_LEAST_BYTES: Final = 4  # the digits of fewer bytes can mean anything
_PATTERN_CHARACTERS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Sought:
    """What a predicate asks for: the predicate over each schema, and values and their spellings.

    ``words`` are strings, which are found anywhere; ``numbers`` are patterns of values of other
    types, which are found only where a text cannot mean anything else. Both are empty if the
    predicate does not name the values by ``=`` and ``IN``. ``names`` are those of the columns,
    ``field_ids`` their ids, if all have one. ``values`` are the values themselves.
    """

    variants: Sequence[Variant]
    words: tuple[str, ...]
    numbers: tuple[str, ...]
    names: tuple[str, ...]
    field_ids: frozenset[int]
    values: tuple[pa.Scalar, ...]

    @property
    def is_known(self) -> bool:
        """Return whether texts can be searched."""
        return bool(self.words or self.numbers)

    def in_texts(self, texts: pa.Array, numbers: pa.Array | bool = False) -> pa.Array:
        """Return which texts have a value; ``numbers``: whether a number can be one."""
        found = _search(texts, [*self._words(), *self._named_numbers()])
        with_numbers = _search(texts, [_NUMBER_START + it + _NUMBER_END for it in self.numbers])
        return pc.or_(found, pc.and_(with_numbers, numbers))

    def anywhere_in(self, names: pa.Array) -> pa.Array:
        """Return which names have a value in any case, also as a part of a word or number."""
        values = [f"(?i:{it})" for it in (*map(_escaped, self.words), *self.numbers)]
        forms = [names]
        for _ in range(2):  # the address of a directory whose name is escaped
            forms.append(pa.array(map(unquote, forms[-1].to_pylist()), pa.string()))
        return reduce(pc.or_, (_search(it, values) for it in forms))

    def in_paths(self, paths: pa.Array) -> pa.Array:
        """Return which paths of files have a value: not as a plain word in the name of the file.

        A directory with a value of a column of the predicate has no other value.
        """
        start = f"(?:{'|'.join(map(re.escape, self.names))})="
        others = pc.replace_substring_regex(paths, f"(?s)(?:^|/)(?:{start}[^/]*/)+", "//")
        values = [f"(?:^|/){start}{_escaped(it)}{_rest(it)}/" for it in self.words]
        in_values = _search(paths, [*values, *self._named_numbers()])
        return pc.or_(in_values, _search(others, self._words(before_slash=True)))

    def in_stats(self, stats: pa.Array) -> pa.Array:
        """Return which statistics have a value of a column in any form, as a wrong type.

        The counts of nulls are left out.
        """
        values = [*map(_escaped, self.words), *self.numbers]
        names = "|".join(map(_escaped, self.names))
        start, end = rf'"(?:{names})"\s*:\s*(?:\[[^\]]*)?"?', r'(?:"|\s*[,}\]])'
        patterns = [start + it + end for it in values]
        found = _search(stats, patterns)
        left = pc.replace_substring_regex(stats.filter(found), _NULL_COUNTS, "")
        return pc.replace_with_mask(found, found, _search(left, patterns))

    def name_a_column(self, texts: pa.Array) -> pa.Array:
        """Return which texts have the name of a column."""
        edge = f"[^{_LETTERS}]"
        return _search(texts, [f"(?:^|{edge})(?i:{_escaped(it)})(?:{edge}|$)" for it in self.names])

    def has_name(self, name: object) -> bool:
        """Return whether this is the name of a column, in any case."""
        return str(name).lower() in {it.lower() for it in self.names}

    def prefixes(self) -> pa.Array:
        """Return the texts that a truncated bound of a value may have."""
        ends = ((it, range(TRUNCATED, len(it))) for it in self.words)
        return pa.array(sorted({it[:end] for it, range_ in ends for end in range_}), pa.string())

    def _words(self, *, before_slash: bool = False) -> Iterator[str]:
        """Yield the patterns of words; plain ones behind the name of a column in any name."""
        for word in self.words:
            yield _word(word, before_slash=before_slash and _is_plain(word))
            if _is_plain(word):
                yield f"{_EQUALS}{word}(?:$|[^{_LETTERS}])"

    def _named_numbers(self) -> Iterator[str]:
        """Yield the patterns of numbers behind the name of a column, and as directories."""
        names = "|".join(map(_escaped, self.names))
        end = f"(?:$|[^{_LETTERS}.]|[.](?:$|[^0-9]))"
        yield from (f"(?:{names}){_EQUALS}{it}{end}" for it in self.numbers)
        yield from (f"{_EQUALS}{it}/" for it in self.numbers)


def _braces(depth: int) -> str:
    return r"\{[^{}]*\}" if not depth else rf"\{{(?:[^{{}}]|{_braces(depth - 1)})*\}}"


_NULL_COUNTS: Final = rf'"nullCount"\s*:\s*{_braces(4)}'


def _is_plain(word: str) -> bool:
    """Return whether a word looks like a name in a program."""
    return re.fullmatch(r"\w+", word, re.ASCII) is not None


def _word(text: str, *, before_slash: bool = False) -> str:
    """Return the pattern of a word of its own."""
    letters = f"{_LETTERS}_" if _is_plain(text) else _LETTERS
    before = f"(?:^|[^{letters}]|{_ESCAPE})" if re.match(f"[{letters}]", text) else ""
    is_whole = not _rest(text) and re.search(f"[{letters}]$", text)
    end = f"(?:[^{letters}]|$)" if is_whole else ""
    if before_slash:
        end = f"(?:/|[^{letters}].*/)"
    return before + _escaped(text) + end


def _rest(text: str) -> str:
    """Return the pattern of the characters in a path that the pattern of a text leaves out."""
    return "[^/]*" if len(text) > _MOST_CHARACTERS else ""


def _escaped(text: str) -> str:
    """Return the pattern of a text, with each character in any form of escapes."""
    return "".join(map(_escaped_character, text[:_MOST_CHARACTERS]))


def _escaped_character(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    units = re.findall("....", character.encode("utf-16-be", "surrogatepass").hex())
    data = character.encode("utf-8", "surrogatepass")
    forms = [rf"\\*\x{{{ord(character):x}}}" if character != "\\" else r"\\+"]
    forms += [r"\+"] if character == " " else []  # in the query of a URL
    forms.append("(?i:" + "".join(rf"\\+u{unit}" for unit in units) + ")")
    forms.append("(?i:" + "".join(f"%(?:25)*{byte:02x}" for byte in data) + ")")
    forms += [r"\\+" + _CONTROLS[character]] if character in _CONTROLS else []
    return f"(?:{'|'.join(forms)})" + ("{1,2}" if character in "'\"" else "")


def _search(texts: pa.Array, patterns: Iterable[str]) -> pa.Array:
    parts: list[list[str]] = [[]]
    for pattern in patterns:
        if sum(map(len, parts[-1])) > _PATTERN_CHARACTERS:
            parts.append([])
        parts[-1].append(pattern)
    masks = [
        pc.fill_null(pc.match_substring_regex(texts, f"(?s){'|'.join(part)}"), False)
        for part in parts
        if part
    ]
    return reduce(pc.or_, masks, pa.array(np.zeros(len(texts), np.bool_)))


def count_true(mask: pa.Array | pa.ChunkedArray) -> int:
    """Return how many values are true."""
    return int(pc.sum(mask).as_py() or 0)


def find_sought(variants: Sequence[Variant]) -> Sought:
    """Return what to look for.

    Of columns joined by AND, those that partition the table are looked for in texts only if there
    is no other: many rows have their values.
    """
    words: dict[str, None] = {}
    numbers: dict[str, None] = {}
    values: list[pa.Scalar] = []
    asked = [_sought(it.term, it.partition_names) for it in variants]
    known = [it for it in asked if it is not None]
    for column, constant in chain(*known) if len(known) == len(asked) else ():
        value, text = _value_of(constant, column.type), constant.text or ""
        values += [] if value is None else [value]
        if pa.types.is_binary(column.type):
            words |= dict.fromkeys((text, *_spell_bytes(text.encode())))
        elif pa.types.is_string(column.type):
            words[text] = None
        elif not pa.types.is_boolean(column.type):
            numbers |= dict.fromkeys(_spell(text, value))
    paths = [path for it in variants for path in it.fields.values()]
    names = (name for path in paths for it in path for name in (it.name, it.physical_name))
    ids = [path[-1].field_id for path in paths]
    return Sought(
        variants,
        tuple(words),
        tuple(numbers),
        tuple(dict.fromkeys(names)),
        frozenset() if None in ids else frozenset(filter(None, ids)),
        tuple(values),
    )


def _sought(term: Term, partition: frozenset[str]) -> list[tuple[Column, Constant]] | None:
    match term:
        case Comparison(Column() as column, "=" | "<=>", constant):
            return [(column, constant)] if constant.text else None
        case Membership(Column() as column, constants):
            return [(column, it) for it in constants if it.text] or None
        case Junction("OR", terms):
            parts = [_sought(it, partition) for it in terms]
            known = [it for it in parts if it is not None]
            return list(chain(*known)) if len(known) == len(parts) else None
        case Junction(_, terms):
            every = [it for part in terms if (it := _sought(part, partition)) is not None]
            if any(column.name not in partition for column in columns_of(term)):
                every = [it for it in every if any(c.name not in partition for c, _ in it)]
            return list(chain(*every)) or None
        case _:
            return None


def _value_of(constant: Constant, kind: pa.DataType) -> pa.Scalar | None:
    """Return a constant as a value of a type; ``None`` if no value of the type is equal."""
    with suppress(ValueError):
        value, side = find_nearest(constant, kind)
        return pa.array([value], kind)[0] if side == "at" else None
    return None


def _spell_bytes(data: bytes) -> Iterator[str]:
    for digits in (data.hex(), data.hex().upper()):
        yield from (f"0x{digits}", f"X'{digits}'")
        if len(data) >= _LEAST_BYTES:
            yield from (digits, b64encode(data).decode())


def _spell(text: str, value: pa.Scalar | None) -> Iterator[str]:
    """Yield patterns of the forms in which programs write a value that is no string."""
    yield _escaped(text.strip())
    if value is None:
        yield from _spell_number(text)
    elif pa.types.is_timestamp(value.type):
        local = value.cast(pa.timestamp("us")).as_py()
        for form in ("milliseconds", "microseconds"):
            date, _, time = local.isoformat("T", form).partition("T")
            yield f"{date}(?:{_escaped(' ')}|T){_escaped(time.rstrip('0').rstrip('.:'))}[0:.]*"
    elif pa.types.is_floating(value.type):
        # A FLOAT is written with as many digits as tell it from other FLOAT values.
        for form in {str(np.float32(value.as_py())), str(value.as_py()), text}:
            yield from _spell_number(form)
    elif pa.types.is_date(value.type):
        yield _escaped(str(value.as_py()))
    else:
        yield from _spell_number(str(value.as_py()))


def _spell_number(text: str) -> Iterator[str]:
    """Yield the pattern of a number without and with an exponent."""
    with suppress(ArithmeticError):
        number = Decimal(text.strip()).normalize()
        if number.is_finite() and abs(number.adjusted()) <= _MOST_CHARACTERS:
            sign, digits, _ = number.as_tuple()
            yield _with_zeros(f"{number:f}")
            first, rest = digits[0], "".join(map(str, digits[1:]))
            mantissa = f"{'-' * sign}{first}{'.' * bool(rest)}{rest}"
            yield f"{_with_zeros(mantissa)}[eE][+]?{number.adjusted()}"


def _with_zeros(text: str) -> str:
    return _escaped(text) + ("0*" if "." in text else r"(?:\.0*)?")
