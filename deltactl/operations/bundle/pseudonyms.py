"""Replace texts of a table by pseudonyms that depend on a key.

Equal texts get equal pseudonyms, and different texts get different ones. The key is not stored;
without it, a guessed text cannot be compared.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Set
from typing import Any, Final
from urllib.parse import unquote

from deltactl.log.commits.info import RawFloat

_DIGITS: Final = 16
"""Digits of a pseudonym: 64 bits, so that millions of texts have different pseudonyms."""
_MOST_NAME_CHARACTERS: Final = 64
# Names that writers generate: they contain no text of a user.
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GENERATED: Final = re.compile(
    rf"(?:part-\d{{1,10}}-{_UUID}(?:[-.]c\d{{1,6}})?(?:\.(?:snappy|zstd|gz|lz4|br))?\.parquet"
    rf"|deletion_vector_{_UUID}\.bin)"
)
_EXTENSION: Final = re.compile(r"\.(?:parquet|json|crc|bin|avro|orc|csv|tmp)")
_LOG_NAME: Final = (
    r"(?:_last_checkpoint|[0-9]{20}(?:\.[0-9]{20}\.compacted)?"
    r"\.(?:json|crc|checkpoint[0-9.]*\.parquet))"
)
_LOG_PATH: Final = re.compile(rf"_delta_log/{_LOG_NAME}")
_LOG_FILE: Final = re.compile(rf"(?:_delta_log/)?{_LOG_NAME}")
_TOKEN: Final = re.compile(
    rf"{_LOG_FILE.pattern}|[^\W\d_]+(?:[_-][^\W\d_]+)*|\d(?:[\w.:+-]*\w)?|\w+|\W+?"
)
_WORD: Final = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+)*")
_BEFORE_NUMBER: Final = re.compile(r"\b(?:versions?|line|column) $")
# Only known schemes, because the first part of a relative path may also have a colon.
_ADDRESS: Final = re.compile(
    r"(?:file|https?|s3[an]?|gs|gcs|az|abfss?|adl|wasbs?|hdfs|viewfs|dbfs|oss|cosn?):/{0,3}",
    re.IGNORECASE,
)
_MOST_DIGITS: Final = 8  # a longer number is no version of a table


class Pseudonyms:
    """Pseudonyms of one bundle.

    ``keep_names`` keeps the names of columns, properties and tags. ``words`` are the words of
    messages of the program; in a message, any other word becomes a pseudonym.
    """

    def __init__(
        self, key: bytes, *, keep_names: bool = False, words: Set[str] = frozenset()
    ) -> None:
        self._key, self._keep_names, self._words = key, keep_names, words
        self._seen: set[str] = set()  # words that are also texts of the table
        self._columns: set[str] = set()  # whose names are kept in paths

    def hide(self, value: Any) -> str | None:
        """Return the pseudonym of a JSON value; null and the empty text are kept."""
        if value is None:
            return None
        text = _spell(value)
        if not text:
            return ""
        if len(text) <= _MOST_NAME_CHARACTERS:  # words of longer texts would be nearly all words
            self._seen |= self._words & set(_WORD.findall(text.lower()))
        digest = hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return "~" + digest.hexdigest()[:_DIGITS]

    def hide_bytes(self, data: bytes) -> dict[str, Any]:
        """Return length and keyed hash of bytes that cannot be parsed."""
        digest = hmac.new(self._key, data, hashlib.sha256).hexdigest()
        return {"unparsed": {"length": len(data), "hash": digest}}

    def name(self, value: Any) -> Any:
        """Return the pseudonym of a name, or the name itself if names are kept."""
        return value if self._keep_names and isinstance(value, str) else self.hide(value)

    def learn_columns(self, columns: Iterable[Any]) -> None:
        """Note names of partition columns: if names are kept, these are also kept in paths."""
        if self._keep_names:
            self._columns.update(name for name in columns if isinstance(name, str))

    def path(self, value: Any) -> Any:
        """Return a path with pseudonyms; generated file names and extensions are kept."""
        if not isinstance(value, str):
            return self.hide(value)
        if _LOG_PATH.fullmatch(value):
            return value
        if _ADDRESS.match(value) or value.startswith("/"):
            return self.address(value)
        return "/".join(self._part(part) for part in value.split("/"))

    def address(self, value: Any) -> Any:
        """Return an address with its scheme; every other part is a pseudonym."""
        if not isinstance(value, str):
            return self.hide(value)
        scheme = _ADDRESS.match(value)
        start, rest = (scheme[0], value[scheme.end() :]) if scheme else ("", value)
        return start + "/".join(self._part(part) for part in rest.split("/"))

    def _part(self, part: str) -> str:
        if part == "_delta_log" or _GENERATED.fullmatch(part):
            return part
        column, equals, content = part.partition("=")
        if equals:
            # The part before "=" may also be the text of a user, or of an address.
            once = unquote(column)
            is_column = not self._columns.isdisjoint((column, once, unquote(once)))
            return f"{column if is_column else self.hide(column)}={self.hide(content)}"
        stem, dot, extension = part.rpartition(".")
        if stem and _EXTENSION.fullmatch(dot + extension):
            return f"{self.hide(stem)}.{extension}"
        return self.hide(part) or ""

    def prose(self, text: Any) -> Any:
        """Return a message of the program; every word that is not in ``words`` is a pseudonym."""
        if not isinstance(text, str):
            return self.hide(text)
        kept: list[str] = []
        for match in _TOKEN.finditer(text):
            token = match[0]
            is_number = re.fullmatch(rf"[0-9]{{1,{_MOST_DIGITS}}}", token)
            if not token[0].isalnum() and token[0] != "_":
                kept.append(token if token.isascii() else f"{self.hide(token)}")
            elif (
                _LOG_FILE.fullmatch(token)
                or (is_number and _BEFORE_NUMBER.search(text[: match.start()][-10:]))
                or token.isascii()
                and token.lower() in self._words
                and token.lower() not in self._seen
            ):
                kept.append(token)
            else:
                kept.append(f"{self.hide(token)}")
        return "".join(kept)


def find_words(*texts: str) -> frozenset[str]:
    """Return the words of texts of the program, in lower case, for ``Pseudonyms``."""
    found = (match[0].lower() for text in texts for match in _TOKEN.finditer(text))
    return frozenset(word for word in found if word[0].isalpha() and word.isascii())


def _spell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, RawFloat):
        return value.text
    return json.dumps(value, sort_keys=True, default=str)
