import hashlib
import json
from unittest.mock import patch

import pytest

from deltactl.errors import AccessDeniedError
from deltactl.log.hint import HINT_NAME, _load_verbatim, count_parts, json_checksums, read_hint
from tests.support.stores import MemoryStore

# PROTOCOL.md, "JSON checksum"
VECTOR = (
    '{"k0":"\'v 0\'","checksum":"adsaskfljadfkjadfkj","k1":{"k2":2,"k3":["v3",[1,2],'
    '{"k4":"v4","k5":["v5","v6","v7"]}]}}'
)


def hint(text: str | bytes) -> tuple[int | None, list[str]]:
    store = MemoryStore("memory://hint")
    store.put(HINT_NAME, text if isinstance(text, bytes) else text.encode())
    warnings: list[str] = []
    return read_hint(store, warnings.append), warnings


def test_the_checksum_of_the_protocol() -> None:
    by_path, joined = json_checksums(_load_verbatim(VECTOR.encode()))
    assert by_path == joined == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_orders_differ_for_long_arrays_and_either_will_do() -> None:
    letters = list("abcdefghijk")
    by_path, joined = json_checksums({"a": letters})
    assert by_path != joined
    pairs = [f'"a"+{index}="{letter}"' for index, letter in enumerate(letters)]
    paths = sorted(pairs, key=lambda pair: pair.partition("=")[0])
    for order in (paths, sorted(pairs)):
        checksum = _checksum(",".join([*order, '"version"=3']))
        assert hint(json.dumps({"version": 3, "a": letters, "checksum": checksum})) == (3, [])


def test_a_hint_gives_its_version() -> None:
    assert hint('{"version":7,"size":2,"parts":3,"more":{"x":[null,true,1.5]}}') == (7, [])


def test_a_right_checksum_and_a_wrong_one() -> None:
    body = {"size": 2, "version": 7}
    checksum = _checksum('"size"=2,"version"=7')
    assert hint(json.dumps({**body, "checksum": checksum})) == (7, [])
    version, (warning,) = hint(json.dumps({**body, "checksum": "0" * 32}))
    assert version is None
    assert "checksum" in warning


def _checksum(canonical: str) -> str:
    return hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"size":1}', '{"version":"x"}', '{"version":1,"version":2}', "\0"]
    + ['{"version":null}', '{"version":1.5}', b"\xff\xfe", "[" * 100_000],
)
def test_truncated_and_absurd_hints(text: str | bytes) -> None:
    version, warnings = hint(text)
    assert version is None
    assert len(warnings) == 1


@pytest.mark.parametrize("text", ["{}", "null", "[]", "7", '{"version":-1}', '{"version":"x"}'])
def test_valid_json_without_a_version_is_not_called_invalid(text: str) -> None:
    assert hint(text) == (None, [f"{HINT_NAME} names no version, so the whole log is listed"])


def test_a_number_with_too_many_digits() -> None:
    assert count_parts(b'{"version":1,"parts":2,"size":%s}' % (b"1" * 5000)) is None


def test_no_hint_at_all() -> None:
    assert read_hint(MemoryStore("memory://no-hint"), pytest.fail) is None


def test_a_hint_that_must_not_be_read() -> None:
    store, warnings = MemoryStore("memory://x"), list[str]()
    with patch.object(store, "read", side_effect=AccessDeniedError("no")):
        assert read_hint(store, warnings.append) is None
    assert "the whole log" in warnings[0]
