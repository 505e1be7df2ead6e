"""Globs of tables, on local files and on an object store alike."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deltactl.errors import AccessDeniedError, NotATableError, StorageError, UsageError
from deltactl.operations.find_tables import find_tables, is_glob, split_glob
from deltactl.storage.local.store import LocalStore
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.store import Store
from tests.support.forwarding import ForwardingStore
from tests.support.metered_store import MeteredStore, StorageUsage
from tests.support.stores import MemoryStore

_NUMBERS = itertools.count()
TABLES = ("bronze/a", "bronze/b", "bronze/deep/x/c", "silver/a", "silver/ab", "top", "odd[1]")
OTHERS = (
    "bronze/a/p=1/part.parquet",
    "bronze/a/nested/_delta_log/0.json",  # inside a table: not a table of its own
    "bronze/no-table/x.parquet",
    "bronze/_hidden/t/_delta_log/0.json",
    "bronze/.hidden/_delta_log/0.json",
    "lost+found/t/_delta_log/0.json",
    "silver/_delta_log_of_old/0.json",
    "silver/file",
)

OpenStore = Callable[[str], Store]


def _fsspec() -> tuple[str, OpenStore]:
    files = MemoryFileSystem(global_store=False, use_listings_cache=False, skip_instance_cache=True)

    def open_store(uri: str) -> Store:
        root = "/" + uri.partition("://")[2]
        service = ObjectService(files)
        return ObjectStore(uri, service, root, schemes=frozenset({"memory"}))

    return "memory://lake", open_store


@pytest.fixture(params=["local", "memory", "fsspec"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, OpenStore]]:
    open_store: OpenStore
    if request.param == "local":
        root, open_store = str(tmp_path / "lake"), LocalStore
    elif request.param == "memory":
        root, open_store = f"memory://find-{next(_NUMBERS)}", MemoryStore
    else:
        root, open_store = _fsspec()
    store = open_store(root)
    for name in (*(f"{table}/_delta_log/0.json" for table in TABLES), *OTHERS):
        store.put(name, b"")
    yield root, open_store


@pytest.mark.parametrize(
    ("pattern", "tables"),
    [
        ("*", ["top", "odd[1]"]),
        ("bronze/*", ["bronze/a", "bronze/b"]),
        ("*/a", ["bronze/a", "silver/a"]),
        ("silver/a?", ["silver/ab"]),
        ("[!b]*/a*", ["silver/a", "silver/ab"]),
        ("**", TABLES),
        ("**/a", ["bronze/a", "silver/a"]),
        ("bronze/**", ["bronze/a", "bronze/b", "bronze/deep/x/c"]),
        ("bronze/**/c", ["bronze/deep/x/c"]),
        ("**/x/*", ["bronze/deep/x/c"]),
        ("**/**", TABLES),
        ("lost+found/*", ["lost+found/t"]),
        ("odd[1]", ["odd[1]"]),  # a table of that very name
        ("to[p]/", ["top"]),
    ],
)
def test_a_glob_finds_the_tables_that_match(
    lake: tuple[str, OpenStore], pattern: str, tables: list[str]
) -> None:
    root, open_store = lake
    assert find_tables(f"{root}/{pattern}", open_store) == sorted(f"{root}/{t}" for t in tables)


def test_a_relative_glob_finds_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    LocalStore("a/t").put("_delta_log/0.json", b"")
    assert find_tables("*/t", LocalStore) == ["a/t"]
    assert find_tables("a/*", LocalStore) == ["a/t"]
    assert find_tables(f"{tmp_path}/a/*", LocalStore) == [f"{tmp_path}/a/t"]


def test_a_link_to_a_table_counts(tmp_path: Path) -> None:
    LocalStore(str(tmp_path / "real")).put("_delta_log/0.json", b"")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "linked").symlink_to(tmp_path / "real")
    assert find_tables(f"{tmp_path}/lake/*", LocalStore) == [f"{tmp_path}/lake/linked"]


def test_a_loop_of_links_is_followed_once(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    LocalStore(str(lake / "team")).put("table/_delta_log/0.json", b"")
    for name in ("again", "and-again"):  # two in one directory: the ways double at each level
        (lake / "team" / name).symlink_to(lake)
    assert find_tables(f"{lake}/**", LocalStore) == [f"{lake}/team/table"]


@pytest.mark.parametrize("pattern", ["*", "**"])
def test_a_link_that_leads_to_itself_fails_alone(tmp_path: Path, pattern: str) -> None:
    LocalStore(str(tmp_path / "table")).put("_delta_log/0.json", b"")
    (tmp_path / "loop").symlink_to("loop")
    found = find_tables(f"{tmp_path}/{pattern}", LocalStore)
    assert found == [f"{tmp_path}/loop", f"{tmp_path}/table"]
    with pytest.raises(StorageError, match="symbolic links"):
        LocalStore(found[0]).list_directories()


@pytest.mark.parametrize("pattern", ["*", "**", "*/*", "*/below", "*/*/below", "**/below"])
def test_a_link_to_a_disk_that_is_not_mounted_fails_alone(tmp_path: Path, pattern: str) -> None:
    for name in ("table", "team/table", "team/below", "team/a/below"):
        LocalStore(str(tmp_path / name)).put("_delta_log/0.json", b"")
    (tmp_path / "lost").symlink_to(tmp_path / "unmounted" / "team")
    found = find_tables(f"{tmp_path}/{pattern}", LocalStore)
    assert len(found) > 1
    assert any(it.startswith(f"{tmp_path}/lost") for it in found)


def test_a_search_lists_nothing_inside_tables() -> None:
    """A listing a folder on the way and two names a candidate: none of what is inside tables."""
    root = f"memory://cost-{next(_NUMBERS)}"
    store = MemoryStore(root)
    for number in range(20):
        store.put(f"lake/t{number:02}/_delta_log/_last_checkpoint", b"")
        for part in range(5):
            store.put(f"lake/t{number:02}/p={part}/x.parquet", b"")
    metered: list[MeteredStore] = []

    def open_store(uri: str) -> Store:
        metered.append(MeteredStore(MemoryStore(uri)))
        return metered[-1]

    assert len(find_tables(f"{root}/lake/*", open_store)) == 20
    usage = sum((store.usage for store in metered), StorageUsage())
    # Whether the glob is itself a table; the lake; the candidates.
    assert usage == StorageUsage(lists=1 + 1, stats=2 + 2 * 20)


@pytest.mark.parametrize("pattern", ["none*", "bronze/a/*", "bronze/_h*/*", "*/.h*"])
def test_a_glob_without_a_match_is_an_error(lake: tuple[str, OpenStore], pattern: str) -> None:
    root, open_store = lake
    with pytest.raises(NotATableError, match="no Delta table matches"):
        find_tables(f"{root}/{pattern}", open_store)


@pytest.mark.parametrize(
    ("pattern", "root", "parts"),
    [
        ("/data/*/x", "/data", ["*", "x"]),
        ("/*", "/", ["*"]),
        ("*", ".", ["*"]),
        ("a/b?/", "a", ["b?"]),
        ("s3://b/**", "s3://b", ["**"]),
        ("s3://b/c//x*", "s3://b/c/", ["x*"]),
    ],
)
def test_where_a_glob_begins(pattern: str, root: str, parts: list[str]) -> None:
    assert split_glob(pattern) == (root, parts)


@pytest.mark.parametrize("pattern", ["s3://*/x", "s*://b/x", "s3://b*"])
def test_a_bucket_is_no_glob(pattern: str) -> None:
    with pytest.raises(UsageError, match="a bucket cannot be a glob"):
        split_glob(pattern)


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        ("/data/events", False),
        ("s3://b/x?versionId=1&sig=a", False),
        ("/data/what?is=this", True),
        ("s3://b/x?", True),
        ("a[b", True),
    ],
)
def test_a_wildcard_makes_a_glob_and_a_query_string_does_not(address: str, answer: bool) -> None:
    assert is_glob(address) is answer


def test_a_directory_that_cannot_be_read_fails_alone(lake: tuple[str, OpenStore]) -> None:
    root, open_inner = lake

    class Locked(ForwardingStore):
        def list_directories(self, prefix: str = "") -> list[str]:
            if prefix == "bronze/deep":
                raise AccessDeniedError("not allowed")
            return super().list_directories(prefix)

    found = find_tables(f"{root}/**", lambda uri: Locked(open_inner(uri)))
    others = [name for name in TABLES if not name.startswith("bronze/deep/")]
    assert found == sorted(f"{root}/{name}" for name in [*others, "bronze/deep"])


def test_a_directory_that_lost_its_log_fails_alone(lake: tuple[str, OpenStore]) -> None:
    root, open_store = lake
    open_store(f"{root}/silver/lost").put("_deltactl/leases/x.json", b"")
    for name in ("_deltactl/runs/x.json", "_symlink_format_manifest/manifest"):
        for folder in ("/manifests", "/manifests and rows", "/manifests and partitions", ""):
            open_store(f"{root}/silver{folder}").put(name, b"")
    open_store(f"{root}/silver/manifests and rows").put("a.parquet", b"")
    open_store(f"{root}/silver/manifests and partitions").put("p=1/a.parquet", b"")
    kept = ["manifests and partitions", "manifests and rows"]  # data files: they were tables
    expected = ["silver/a", "silver/ab", "silver/lost", *(f"silver/{name}" for name in kept)]
    assert find_tables(f"{root}/silver/*", open_store) == [f"{root}/{it}" for it in expected]
