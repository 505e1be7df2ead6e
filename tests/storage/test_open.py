"""Addresses to stores, and credentials that nobody gets to see."""

import weakref
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from deltactl.errors import StorageError, UsageError
from deltactl.storage.local.store import LocalStore
from deltactl.storage.names import is_local_uri
from deltactl.storage.objects import connect
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import canonical_uri, open_store
from deltactl.storage.providers import PROVIDERS
from tests.support.stores import FaultyStore, MemoryStore, opened_as


@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("/tmp/no such/t", "file:///tmp/no%20such/t"),
        ("/tmp/a%20b/", "file:///tmp/a%20b".replace("%", "%25")),
        ("file:///tmp/a%20b", "file:///tmp/a%20b"),
        ("file:/tmp/a%2525", "file:///tmp/a%2525"),
        ("file://localhost/tmp/x/", "file:///tmp/x"),
        ("FILE:///tmp/x/../y", "file:///tmp/y"),
        ("/tmp/a#b?c", "file:///tmp/a%23b%3Fc"),
    ],
)
def test_a_local_address_becomes_a_file_uri(address: str, uri: str) -> None:
    store = open_store(address)
    assert isinstance(store, LocalStore)
    assert store.uri == uri
    assert open_store(uri).uri == uri
    assert canonical_uri(address) == uri


@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("s3a://b/t/", "s3://b/t"),
        ("S3N://b/t", "s3://b/t"),
        ("abfs://c@a/t", "abfss://c@a/t"),
        ("s3://b/a%20t", "s3://b/a%20t"),
        ("file://host/t/", "file://host/t"),
        ("other://x/t/", "other://x/t"),
    ],
)
def test_the_canonical_uri_of_other_addresses_opens_nothing(address: str, uri: str) -> None:
    assert canonical_uri(address) == uri


@pytest.mark.parametrize("address", ["s3://b/t", "gs://b/t", "sftp://host/t", "webhdfs://host/t"])
def test_the_canonical_uri_with_options_connects_to_no_other_server(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[object]()
    monkeypatch.setattr("deltactl.storage.open.open_store", lambda *args: opened.append(args))
    assert canonical_uri(address, {}) == address
    assert not opened


def test_relative_paths_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert open_store("t").uri == f"file://{tmp_path}/t"
    assert open_store("~/t").uri == f"file://{tmp_path}/home/t"
    assert open_store("c:d").uri == f"file://{tmp_path}/c:d"


def test_a_working_directory_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert open_store(str(tmp_path)).uri == f"file://{tmp_path}"
    with pytest.raises(UsageError, match="the working directory cannot be read: No such file"):
        open_store("t")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "empty"),
        ("nope://host/t", "'nope'"),
        ("s3:/bucket/t", "slash"),
        ("s3://key:s3cr3t@bucket/t", "password"),
        ("az://c/t?sv=1&sig=s3cr3t", "signature"),
        ("a\0b", "NUL"),
    ],
)
def test_addresses_that_cannot_be(address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        open_store(address)
    assert "s3cr3t" not in f"{caught.value} {caught.value.hint}"


def test_local_uris_are_recognized_without_opening() -> None:
    assert is_local_uri("/x")
    assert is_local_uri("file:/x")
    assert is_local_uri("x")
    assert not is_local_uri("s3://b/x")
    assert not is_local_uri("memory://x")


@pytest.mark.parametrize(
    ("address", "options", "root", "alias"),
    [
        ("s3://bucket/a b/t", {"key": "k3y", "secret": "s3cr3t"}, "bucket/a b/t", "s3a://o/x"),
        ("s3a://bucket/t/", {"anon": "true"}, "bucket/t", "s3://o/x"),
        ("gs://bucket/t", {"token": "anon"}, "bucket/t", "gcs://o/x"),
        ("abfss://c@acc.dfs.core.windows.net/t", {"account_key": "czNjcjN0"}, "c/t", "az://o/x"),
        ("az://c/t", {"account_name": "acc", "anon": "true"}, "c/t", "abfs://o/x"),
    ],
)
def test_an_address_opens_a_store_that_hides_its_secrets(
    address: str, options: dict[str, str], root: str, alias: str
) -> None:
    store = open_store(address, options)
    assert isinstance(store, ObjectStore)
    assert store.uri == address.rstrip("/")
    assert store._keys.readable("x/y") == f"{root}/x/y"
    assert store._keys.readable(alias) == "o/x"
    files = store._service.file_system
    assert not files.dircache.use_listings_cache
    for secret in ("k3y", "s3cr3t", "czNjcjN0"):
        assert secret not in repr(store)
    # One file system per endpoint and credentials, and another for others.
    same: Any = open_store(f"{address.rstrip('/')}/sub", options)
    assert same._service.file_system is files
    caches = {"use_listings_cache": "true", "skip_instance_cache": "false"}
    other: Any = open_store(address, {**options, **caches})
    assert other._service.file_system is not files
    assert not other._service.file_system.dircache.use_listings_cache


def test_a_failed_connection_shows_no_options() -> None:
    with pytest.raises(StorageError, match="cannot connect to az://c") as caught:
        open_store("az://c/t", {"connection_string": "AccountKey=s3cr3t"})
    assert "s3cr3t" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__cause__ is None


def test_secrets_are_blotted_out_of_errors() -> None:
    store = open_store(
        "s3://bucket/t", {"key": "k3y", "secret": "s3cr3t", "endpoint_url": "http://h"}
    )
    assert isinstance(store, ObjectStore)

    class Failing(ObjectService):
        def read(self, key: str) -> bytes:
            raise ValueError("denied for k3y with s3cr3t at http://h")

    store._service = Failing(None)
    with pytest.raises(StorageError, match=r"denied for \*\*\* with \*\*\* at http://h"):
        store.read("x")


@pytest.mark.parametrize(
    ("address", "options", "why"),
    [
        ("s3://b/t", {"client_kwargs": '{"verify": s3cr3t'}, "client_kwargs is not a JSON object"),
        ("s3://", {}, "'s3://' has no bucket"),
        ("gs:///t", {}, "'gs:///t' has no bucket"),
    ],
)
def test_wrong_options_and_addresses(address: str, options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        open_store(address, options)
    assert "s3cr3t" not in f"{caught.value} {caught.value.hint}"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Mock(side_effect=ModuleNotFoundError("No module named 'decorator'", name="decorator"))
    monkeypatch.setattr(connect, "find_service", fail)
    with pytest.raises(StorageError, match="needs the Python module decorator") as caught:
        open_store("gs://b/t")
    assert caught.value.hint == "Run pip install gcsfs."


def test_connections_are_kept_while_a_store_uses_them_or_if_they_are_recent() -> None:
    def find(place: str) -> ObjectService:
        return connect.find_service(PROVIDERS["memory"], f"memory://{place}/t", {})

    used, recent, old = find("used"), weakref.ref(find("recent")), weakref.ref(find("old"))
    for number in range(20):
        find(str(number))
        assert find("recent") is recent()
    assert find("used") is used
    assert old() is None


def test_nested_options_and_truth_values() -> None:
    assert connect._typed("k", "True") is True
    assert connect._typed("k", "false") is False
    assert connect._typed("k", '{"region_name": "x"}') == {"region_name": "x"}
    assert connect._typed("k", "{broken") == "{broken"
    assert connect._typed("k", "007") == "007"


def test_memory_stores_and_stand_ins_open_by_address() -> None:
    open_store("memory://shared").put("x", b"1")
    assert open_store("memory://shared/").read("x") == b"1"
    faulty = FaultyStore(MemoryStore("memory://shared"))
    with opened_as(faulty):
        assert open_store("memory://shared") is faulty
    assert isinstance(open_store("memory://shared"), MemoryStore)
