"""Paths: one decoding, both escapings, absolute names in one spelling."""

import re
from urllib.parse import quote, unquote_to_bytes

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.errors import CorruptLogError
from deltactl.protocol.path_columns import (
    absolute_mask,
    canonical_paths,
    decode_paths,
    normalize_paths,
    not_java_text_mask,
)
from deltactl.protocol.paths import (
    ascii_directory,
    decode_path,
    encode_path,
    hive_escape,
    hive_unescape,
    is_absolute,
    leaves_root,
    partition_directory,
)

# Text that UTF-8 can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]))
# Rich in well-formed, malformed and cut-off escapes; decodes to ASCII whatever is drawn.
escaped_texts = st.lists(
    st.sampled_from(
        ["%20", "%25", "%2", "%", "%zz", "%4a", "%4A", "2", "5", "a/", "+", "é", "%%41"]
    )
).map("".join)
columns = st.lists(st.none() | escaped_texts)


def naive_decode(path: str) -> str:
    return unquote_to_bytes(path.encode()).decode()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("p=a%253Ab/x.parquet", "p=a%3Ab/x.parquet"),
        ("p=hello%20world/x.parquet", "p=hello world/x.parquet"),
        ("p=100%252525/x.parquet", "p=100%2525/x.parquet"),
        ("c2=+%20%253D%25250/x", "c2=+ %3D%250/x"),
        ("a+b", "a+b"),
        ("%C3%A9", "é"),
        ("100%", "100%"),
        ("%4", "%4"),
        ("%zz%41", "%zzA"),
    ],
)
def test_paths_are_decoded_once(path: str, name: str) -> None:
    assert decode_path(path) == name
    assert decode_paths(pa.array([path])).to_pylist() == [name]


@given(columns)
@pytest.mark.parametrize("type", [pa.string(), pa.large_string()])
def test_a_column_decodes_as_its_rows_do(type: pa.DataType, paths: list[str | None]) -> None:
    array = pa.array(paths, type)
    decoded = decode_paths(array)
    decoded.validate(full=True)
    assert decoded.type == type
    assert decoded.to_pylist() == [None if p is None else naive_decode(p) for p in paths]


@given(columns, st.data())
def test_slices_and_chunks_decode_as_the_whole_does(
    paths: list[str | None], data: st.DataObject
) -> None:
    whole = pa.array(paths, pa.string())
    cut = data.draw(st.integers(0, len(paths)))
    expected = decode_paths(whole).to_pylist()
    assert decode_paths(whole[cut:]).to_pylist() == expected[cut:]
    assert decode_paths(whole[:cut]).to_pylist() == expected[:cut]
    chunked = pa.chunked_array([whole[:cut], whole[cut:]])
    decoded = decode_paths(chunked)
    assert decoded.to_pylist() == expected
    assert decoded.num_chunks == chunked.num_chunks


def test_more_rows_than_a_block_decode_alike() -> None:
    paths = [f"p=a%25{i % 7}/%C3%A9{i}" if i % 3 else None for i in range(40_000)]
    expected = [None if p is None else naive_decode(p) for p in paths]
    assert decode_paths(pa.array(paths)).to_pylist() == expected


def test_an_escape_does_not_reach_into_the_next_row() -> None:
    texts = ["a%2", "5b", "c%", "41"]
    assert decode_paths(pa.array(texts)).to_pylist() == texts


def test_without_escapes_the_input_comes_back() -> None:
    array = pa.array(["a", None, "b"])
    assert decode_paths(array) is array
    chunked = pa.chunked_array([array, array[1:]])
    assert decode_paths(chunked) is chunked
    empty = pa.array([], pa.string())
    assert decode_paths(empty) is empty
    nulls = pa.nulls(3, pa.string())
    assert decode_paths(nulls) is nulls
    beside_an_escape = pa.array(["%41", "b"])[1:]
    assert decode_paths(beside_an_escape) is beside_an_escape


@pytest.mark.parametrize("path", ["ok/%FF", "%C3", "%ed%a0%80"])
def test_what_is_not_utf8_is_named(path: str) -> None:
    with pytest.raises(CorruptLogError, match=re.escape(path)):
        decode_path(path)
    with pytest.raises(CorruptLogError, match=re.escape(path)):
        decode_paths(pa.array(["fine%20", None, path]))


@given(texts)
def test_decoding_undoes_encoding(name: str) -> None:
    assert decode_path(encode_path(name)) == name


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("p=a%3Ab/x", "p=a%253Ab/x"),
        ("a}b|c", "a%7Db%7Cc"),
        ("é/日", "é/日"),
        ("a\u3000\x85é", "a%E3%80%80%C2%85é"),
        ("a*b", "a*b"),
        ("part:0.parquet", "part%3A0.parquet"),
        ("p=1/part:0.parquet", "p=1/part:0.parquet"),
        ("s3://bucket/a b", "s3://bucket/a%20b"),
    ],
)
def test_names_are_encoded(name: str, path: str) -> None:
    assert encode_path(name) == path


@pytest.mark.parametrize(
    ("value", "folder", "path"),
    [
        ("a:b", "p=a%3Ab", "p=a%253Ab"),
        ("hello world", "p=hello world", "p=hello%20world"),
        ("100%25", "p=100%2525", "p=100%252525"),
        ("a}b", "p=a}b", "p=a%7Db"),
        ("/%20%f", "p=%2F%2520%25f", "p=%252F%252520%2525f"),
        ("é", "p=é", "p=é"),
    ],
)
def test_value_to_folder_to_path(value: str, folder: str, path: str) -> None:
    assert partition_directory([("p", value)]) == folder
    assert encode_path(folder) == path
    assert hive_unescape(folder.removeprefix("p=")) == value


@pytest.mark.parametrize(
    ("folder", "directory", "path"),
    [
        ("p=é", "p=%C3%A9", "p=%25C3%25A9"),
        ("日=é b%25", "%E6%97%A5=%C3%A9 b%25", "%25E6%2597%25A5=%25C3%25A9%20b%2525"),
        ("p=a b", "p=a b", "p=a%20b"),
    ],
)
def test_directories_of_new_files_are_ascii(folder: str, directory: str, path: str) -> None:
    assert ascii_directory(folder) == directory
    assert encode_path(directory) == path
    assert hive_unescape(directory) == hive_unescape(folder)


@given(texts)
def test_texts_with_other_escapes_are_found(name: str) -> None:
    for text in (encode_path(name), quote(name), quote(name, safe=""), quote(name).lower()):
        if ":" in name or "%2F" in text.upper():  # may be escaped; not in a file name
            continue
        (found,) = not_java_text_mask(pa.array([text])).to_pylist()
        assert found == (encode_path(decode_path(text)) != text)


def test_folders_of_several_columns() -> None:
    assert partition_directory([]) == ""
    pairs = [("a=b", "1"), ("c", None), ("d", "")]
    null = "__HIVE_DEFAULT_PARTITION__"
    assert partition_directory(pairs) == f"a%3Db=1/c={null}/d={null}"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("p=é/f", "p=é/f"),
        ("./a", "a"),
        ("././a", "a"),
        ("a/./b", "a/b"),
        ("a//b", "a/b"),
        ("a///b", "a/b"),
        ("a/b/.", "a/b/"),
        ("a/b/", "a/b/"),
        ("q/../a", "a"),
        ("a/..", ""),
        ("../a/./b", "../a/b"),
        ("a/../../b", "../b"),
        ("/../a", "/../a"),
        ("/a/./b//c", "/a/b/c"),
        ("./a:b/f", "./a:b/f"),
        ("././a:b/f", "./a:b/f"),
        ("d//a:b/f", "d/a:b/f"),
        ("a:b//c", "a:b//c"),
        ("file:///a/b", "file:///a/b"),
        ("file:///a//b", "file:/a/b"),
        ("file:/a/./b", "file:/a/b"),
        ("file:////a", "file:/a"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3://bucket//a/../b", "s3://bucket/b"),
        ("//host//a", "//host/a"),
        ("a/%2E/b", "a/%2E/b"),
        ("a/%2e%2E/b", "a/%2e%2E/b"),
        ("a?b/./c", "a?b/./c"),
        ("a/./b#c//d", "a/b#c//d"),
        (".a/..b/...", ".a/..b/..."),
    ],
)
def test_texts_are_normalised_as_java_does(text: str, normal: str) -> None:
    """``java.net.URI.normalize`` gives the same: tests/interop/test_path_texts.py."""
    for kind in (pa.string(), pa.large_string()):
        array = pa.array([None, "plain", text, "x//y"], kind)
        assert normalize_paths(array).to_pylist() == [None, "plain", normal, "x/y"]
        assert normalize_paths(array[2:3]).to_pylist() == [normal]
    assert normalize_paths(pa.array([normal])).to_pylist() == [normal]


def test_normal_texts_come_back_as_they_are() -> None:
    array = pa.array(["a/b", None, "p=%C3%A9/.hidden", "file:///x/y", "s3://b/c", "a/"])
    assert normalize_paths(array) is array
    chunked = pa.chunked_array([array, array[1:]])
    assert normalize_paths(chunked) is chunked
    # A slash at the end of one text, and a dot at the start of the next.
    neighbours = pa.array(["a/", ".b", "c"])
    assert normalize_paths(neighbours) is neighbours
    assert normalize_paths(pa.array([], pa.string())).to_pylist() == []


@given(texts)
def test_unescaping_undoes_hive_escaping(text: str) -> None:
    escaped = hive_escape(text)
    assert "/" not in escaped
    assert hive_unescape(escaped) == text


def test_foreign_escapes_are_read_as_utf8_then_as_bytes() -> None:
    assert hive_unescape("%C3%A9") == "é"
    assert hive_unescape("%E9") == "é"
    assert hive_unescape("50%") == "50%"


@pytest.mark.parametrize(
    ("name", "absolute"),
    [
        ("/x", True),
        ("file:/x", True),
        ("s3a://b/x", True),
        ("abfss://c@a.dfs.core.windows.net/x", True),
        ("x", False),
        ("part:0.parquet", False),
        ("p=s3://x", False),
        ("./x", False),
        ("", False),
    ],
)
def test_absolute_names_are_recognized(name: str, absolute: bool) -> None:
    assert is_absolute(name) is absolute
    assert absolute_mask(pa.array([name, None])).to_pylist() == [absolute, False]


@pytest.mark.parametrize(
    ("name", "scheme", "canonical"),
    [
        ("file:/x y", "file", "/x y"),
        ("file:///x", "file", "/x"),
        ("FILE:////x", "file", "/x"),
        ("file://localhost/x", "file", "/x"),
        ("file://host/x", "file", "file://host/x"),
        ("file:///x", "s3", "file:///x"),
        ("s3a://b/x", "s3", "s3://b/x"),
        ("s3n://b/x", "file", "s3://b/x"),
        ("gs://b/x", "gs", "gs://b/x"),
        ("/x", "file", "/x"),
        ("p=file:/x", "file", "p=file:/x"),
    ],
)
def test_absolute_names_get_one_spelling(name: str, scheme: str, canonical: str) -> None:
    array = pa.array(["relative", None, name])
    expected = ["relative", None, canonical]
    assert canonical_paths(array, scheme).to_pylist() == expected
    assert canonical_paths(pa.chunked_array([array[:1], array[1:]]), scheme).to_pylist() == expected


def test_relative_names_come_back_as_they_are() -> None:
    array = pa.array(["a", None])
    assert canonical_paths(array, "file") is array
    chunked = pa.chunked_array([array])
    assert canonical_paths(chunked, "file") is chunked


@pytest.mark.parametrize(
    ("name", "leaves"),
    [
        ("a/b", False),
        ("a/../b", False),
        ("a/./..//b", False),
        ("..", True),
        ("../t/a", True),
        ("a/../../t", True),
        ("..a/b..", False),
        ("", False),
    ],
)
def test_names_that_leave_the_root_are_recognized(name: str, leaves: bool) -> None:
    assert leaves_root(name) is leaves
