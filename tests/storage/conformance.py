"""What every store must do: one function per promise of the seam, run over each kind of store.

Each takes a fresh, empty store whose root may not exist yet.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pytest

from deltactl.errors import ObjectExistsError, ObjectNotFoundError, SafetyError, StorageError
from deltactl.storage.copying import FileToCopy, copy_many
from deltactl.storage.store import Store
from tests.support.copying import copy_file

STRANGE_NAMES = (
    "a b.parquet",
    "p=a%3Ab/x#1.parquet", "p=100%/x?y=1&z.parquet",
    "über/日本語 🎉.parquet",
    "new\nline.parquet", "..x", ".hidden", "a..b/c", "c:d/e",
    "-rf *",
    "quote'\"`$(x)",
)  # fmt: skip


def reads_what_was_put(store: Store) -> None:
    store.put("a/b.json", b"one")
    assert store.read("a/b.json") == b"one"
    store.put("a/b.json", b"second")
    assert store.read("a/b.json") == b"second"
    store.put("empty", b"")
    assert store.read("empty") == b""


def takes_strange_names(store: Store) -> None:
    for number, name in enumerate(STRANGE_NAMES):
        store.put(name, str(number).encode())
    for number, name in enumerate(STRANGE_NAMES):
        assert store.read(name) == str(number).encode()
    assert sorted(_walk(store)) == sorted(STRANGE_NAMES)
    assert store.delete_many(STRANGE_NAMES) == {}
    assert store.stat_many(STRANGE_NAMES) == [None] * len(STRANGE_NAMES)


def absent_names_are_not_found(store: Store) -> None:
    store.put("file", b"x")
    for name in ("absent", "no/folder/x"):
        with pytest.raises(ObjectNotFoundError, match=name):
            store.read(name)
        with pytest.raises(ObjectNotFoundError):
            store.open_input(name)
        with pytest.raises(ObjectNotFoundError):
            store.read_ranges(name, [(0, 1), (1, 1)])
        with pytest.raises(ObjectNotFoundError):
            list(store.read_many(["file", name]))


def folders_are_no_files(store: Store) -> None:
    store.put("folder/x", b"x")
    with pytest.raises(StorageError):
        store.read("folder")
    assert store.stat_many(["folder"]) == [None]


def lists_sorted_by_bytes_from_start(store: Store) -> None:
    names = ["é", "z", "a", "Z", "\uffee", "\U0001f389", "a.b", "a-b", "10", "9"]
    for name in names:
        store.put(f"log/{name}", name.encode())
    store.put("log/sub/x", b"")
    store.put("logs", b"")
    listed = list(store.list_from("log"))
    expected = sorted(names, key=lambda name: name.encode())
    assert [info.name for info in listed] == [f"log/{name}" for name in expected]
    assert [info.size_bytes for info in listed] == [len(name.encode()) for name in expected]
    for start in ("", "9", "a", "a.", "zz", "é", "\U0001f38a"):
        assert [info.name for info in store.list_from("log", start)] == [
            f"log/{name}" for name in expected if name.encode() >= start.encode()
        ]
    assert [info.name for info in store.list_from("")] == ["logs"]
    assert [info.name for info in store.list_from("log/", "z")][0] == "log/z"


def lists_nothing_of_what_is_absent(store: Store) -> None:
    assert list(store.list_from("_delta_log")) == []
    assert list(store.walk()) == []
    assert list(store.walk("x")) == []
    store.put("file", b"")
    assert list(store.list_from("file")) == []
    assert list(store.walk("file/x")) == []


def walks_every_file_once(store: Store) -> None:
    names = [f"d{i % 3}/e{i % 2}/f{i}" for i in range(20)] + ["top", "d0/x"]
    for name in names:
        store.put(name, b"")
    assert sorted(_walk(store)) == sorted(names)
    below = [name for name in names if name.startswith("d0/")]
    for prefix in ("d0", "d0/", "./d0"):
        assert sorted(_walk(store, prefix)) == sorted(below)


def _walk(store: Store, prefix: str = "") -> list[str]:
    return [name for batch in store.walk(prefix) for name in batch]


def tells_size_and_time(store: Store) -> None:
    store.put("first", b"12345")
    store.put("second", b"")
    first, absent, second = store.stat_many(["first", "absent", "second"])
    assert absent is None
    assert first is not None
    assert second is not None
    assert (first.name, first.size_bytes, second.size_bytes) == ("first", 5, 0)
    assert 1_600_000_000_000 < first.modified_ms <= second.modified_ms
    assert next(store.list_from("", "first")) == first


def reads_many_in_order(store: Store) -> None:
    names = [f"n{i}" for i in range(40)]
    for name in names:
        store.put(name, name.encode())
    wanted = [*reversed(names), "n3", "n3"]
    assert list(store.read_many(wanted)) == [name.encode() for name in wanted]
    assert list(store.read_many([])) == []
    partial = iter(store.read_many(names))
    assert next(partial) == b"n0"


def reads_ranges(store: Store) -> None:
    store.put("x", b"0123456789")
    ranges = [(0, 3), (8, 100), (9, 1), (10, 5), (50, 5), (2, 0), (0, 10)]
    assert store.read_ranges("x", ranges) == [b"012", b"89", b"9", b"", b"", b"", b"0123456789"]
    assert store.read_ranges("x", []) == []


def reads_facts_and_last_bytes(store: Store) -> None:
    store.put("p=1/x", b"0123456789")
    store.put("empty", b"")
    for length, data in ((3, b"789"), (10, b"0123456789"), (50, b"0123456789")):
        found = store.read_tail("p=1/x", length)
        assert found is not None
        info, tail = found
        assert (info.name, info.size_bytes, tail) == ("p=1/x", 10, data)
        (listed,) = store.stat_many(["p=1/x"])
        assert info == listed
    found = store.read_tail("empty", 3)
    assert found is not None
    assert (found[0].size_bytes, found[1]) == (0, b"")
    assert store.read_tail("absent", 3) is None
    assert store.read_tail("p=1", 3) is None


def opens_for_random_access(store: Store) -> None:
    store.put("x", b"0123456789")
    with store.open_input("x") as file:
        assert file.size() == 10
        file.seek(4)
        assert file.read(3) == b"456"
        assert file.read_at(2, 8) == b"89"
    assert file.closed


def writes_through_open_output(store: Store) -> None:
    data = bytes(range(256)) * 2000
    with store.open_output("p=1/new folder/x.parquet") as file:
        assert file.write(data) == len(data)
        assert file.write(b"end") == 3
        assert file.tell() == len(data) + 3
    file.close()
    assert store.read("p=1/new folder/x.parquet") == data + b"end"
    store.sync_directories(["p=1/new folder/x.parquet"])


def puts_many(store: Store) -> None:
    names = [f"a/b={number}/x" for number in range(40)]
    store.put(names[3], b"old")
    assert store.put_many((name, name.encode()) for name in names) == 40
    assert list(store.read_many(names)) == [name.encode() for name in names]
    assert store.put_many([(names[0], b"new")]) == 1
    assert store.read(names[0]) == b"new"
    assert store.put_many([]) == 0
    assert sorted(_walk(store)) == sorted(names)


def puts_no_more_once_its_files_raise(store: Store) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        yield "a/x", b"new"
        yield "a/y", b"new"
        raise KeyboardInterrupt

    store.put("a/x", b"old")
    with pytest.raises(KeyboardInterrupt):
        store.put_many(files())
    assert store.read("a/x") in (b"old", b"new")
    assert set(_walk(store)) <= {"a/x", "a/y"}


def puts_many_only_below_the_root(store: Store) -> None:
    with pytest.raises(SafetyError):
        store.put_many([("a/x", b"1"), ("../y", b"1")])


def replaces_whole_or_not_at_all(store: Store) -> None:
    store.put("x", b"old")
    given_up = store.open_replacement("x")
    given_up.write(b"half")
    assert store.read("x") == b"old"
    given_up.discard()
    assert given_up.closed
    given_up.close()
    assert store.read("x") == b"old"
    new = store.open_replacement("x")
    assert new.write(b"new") == 3
    assert new.tell() == 3
    new.flush()
    new.close()
    new.discard()
    assert store.read("x") == b"new"
    created = store.open_replacement("folder/y")
    created.write(b"y")
    created.close()
    assert sorted(name for names in store.walk() for name in names) == ["folder/y", "x"]


def writes_parquet(store: Store) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"a": list(range(1000))})
    with store.open_output("x.parquet") as file:
        pq.write_table(table, file)
    with store.open_input("x.parquet") as source:
        assert pq.read_table(source).equals(table)


def puts_only_if_absent(store: Store) -> None:
    store.put_if_absent("_delta_log/0.json", b"mine")
    with pytest.raises(ObjectExistsError, match="0.json"):
        store.put_if_absent("_delta_log/0.json", b"yours")
    assert store.read("_delta_log/0.json") == b"mine"
    store.put("plain", b"")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("plain", b"x")
    assert sorted(_walk(store)) == ["_delta_log/0.json", "plain"]


def one_thread_wins(store: Store) -> None:
    barrier = threading.Barrier(6, timeout=60)  # the others do not wait for a thread that failed
    winners: list[tuple[str, bytes]] = []

    def write(number: int) -> None:
        data = str(number).encode()
        for round_number in range(10):
            barrier.wait()
            try:
                store.put_if_absent(f"log/{round_number}", data)
            except ObjectExistsError:
                continue
            winners.append((f"log/{round_number}", data))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    assert sorted(winners) == [(f"log/{i}", store.read(f"log/{i}")) for i in range(10)]


def deletes_many(store: Store) -> None:
    names = [f"d/{i}" for i in range(30)]
    for name in names:
        store.put(name, b"")
    assert store.delete_many([*names[:20], "absent", "no/such/folder"]) == {}
    assert sorted(_walk(store)) == sorted(names[20:])
    assert store.delete_many([]) == {}


def refuses_to_leave_the_root(store: Store) -> None:
    store.put("keep", b"x")
    for name in ("../x", "a/../../x", "..", "/etc/x", "file:///x", "memory://x/y", "s3://b/x"):
        for write in _writes(store, name):
            with pytest.raises(SafetyError):
                write()
    for name in ("../x", "a/../../x"):
        with pytest.raises(SafetyError):
            store.read(name)
        with pytest.raises(SafetyError):
            list(store.list_from(name))
        with pytest.raises(SafetyError):
            list(store.walk(name))
        with pytest.raises(SafetyError):
            store.stat_many([name])
    with pytest.raises(SafetyError):
        store.delete_many(["keep", "../x"])
    assert store.read("keep") == b"x"


def refuses_what_names_no_file(store: Store) -> None:
    for name in ("", ".", "a/", "a/..", "x\0y"):
        for write in _writes(store, name):
            with pytest.raises(StorageError):
                write()
        with pytest.raises(StorageError):
            store.read(name)


def spells_a_name_one_way(store: Store) -> None:
    store.put("a/./b//c", b"x")
    assert store.read("a/b/c") == store.read("a/x/../b/c") == b"x"
    assert _walk(store) == ["a/b/c"]


def reads_absolute_names(store: Store) -> None:
    store.put("x y.json", b"x")
    root = unquote(store.uri)
    name = f"{root}/x y.json"
    assert store.read(name) == b"x"
    info = store.stat_many([name])[0]
    assert info is not None
    assert (info.name, info.size_bytes) == (name, 1)
    with store.open_input(name) as file:
        assert file.read() == b"x"
    assert [found.name for found in store.list_from(root)] == [name]
    assert _walk(store, root) == [name]
    with pytest.raises(StorageError, match="another kind of storage|on local storage"):
        store.read("hdfs://namenode/x")


def walks_the_tree(store: Store) -> None:
    for name in ("top", "p=1/a", "p=1/q=2/b", "_log/0", "_log/deep/1"):
        store.put(name, b"")
    parts = list(store.walk_tree(lambda folder: not folder.startswith("_")))
    files = sorted(name for part in parts for name in part.files)
    assert [name for name in files if not name.startswith("_log/")] == ["p=1/a", "p=1/q=2/b", "top"]
    folders = {name for part in parts for name in part.directories}
    assert folders in (set(), {"_log"}, {"p=1", "p=1/q=2", "_log"})
    assert "_log" in folders or "_log/0" in files
    assert [name for part in parts for name in part.links] == []
    assert not any(part.sizes_bytes or part.modified_ms for part in parts)


def walks_the_tree_with_facts(store: Store) -> None:
    store.put_many((name, b"x" * size) for size, name in enumerate(["top", "p=1/a", "p=2/b", "c"]))
    found = [
        fact
        for part in store.walk_tree(lambda _: True, facts=True)
        for fact in zip(part.files, part.sizes_bytes, part.modified_ms, strict=True)
    ]
    known = store.stat_many([name for name, _, _ in found])
    assert found == [(it.name, it.size_bytes, it.modified_ms) for it in known if it is not None]
    assert {name: size for name, size, _ in found} == {"top": 0, "p=1/a": 1, "p=2/b": 2, "c": 3}


def lists_folders(store: Store) -> None:
    for name in ("top", "b=1/a", "a/b/c", "_log/0", "é %20/x", "b=1/deep/y"):
        store.put(name, b"")
    assert store.list_directories() == sorted(["_log", "a", "b=1", "é %20"])
    assert store.list_directories("b=1") == ["b=1/deep"]
    assert store.list_directories("a/b") == []
    assert store.list_directories("absent") == []


def moves_without_replacing(store: Store) -> None:
    for name in ("a/x", "a/y", "taken"):
        store.put(name, name.encode())
    failed = store.move_many([("a/x", "_q/run/a/x"), ("a/y", "taken"), ("absent", "_q/run/absent")])
    assert store.read("_q/run/a/x") == b"a/x"
    assert store.read("a/y") == b"a/y"
    assert store.read("taken") == b"taken"
    assert isinstance(failed.pop("a/y"), ObjectExistsError)
    assert isinstance(failed.pop("absent"), ObjectNotFoundError)
    assert not failed
    assert store.stat_many(["a/x", "_q/run/absent"]) == [None, None]
    assert store.move_many([]) == {}
    with pytest.raises(SafetyError):
        store.move_many([("taken", "../x")])
    with pytest.raises(SafetyError):
        store.move_many([("../x", "y")])
    assert store.read("taken") == b"taken"


def restores_no_file_that_never_was(store: Store) -> None:
    """A name that has a file is skipped; one without a version is reported."""
    store.put("there", b"1")
    versions = store.versions
    for dry_run in (True, False):
        if versions is None:
            continue
        missing = versions.undelete_many(["there", "a/never"], dry_run=dry_run)
        assert list(missing) == ["a/never"]
        assert isinstance(missing["a/never"], ObjectNotFoundError)
    assert store.read("there") == b"1"


def removes_only_empty_directories(store: Store) -> None:
    store.put("d/e/x", b"")
    directories = store.directories
    if directories is None:
        assert store.delete_many(["d/e/x"]) == {}
        assert store.list_directories() == []
        return
    assert directories.remove_directories(["d/e", "d", "absent"]) == []
    assert store.delete_many(["d/e/x"]) == {}
    assert directories.abandoned_files("d/e", 10**14) == []
    assert directories.old_directories(["d/e", "d"], 1_000) == []
    assert directories.old_directories(["d/e", "d", "absent"], 10**14) == ["d/e", "d"]
    assert directories.foreign_directories(["d/e", "absent"]) == []
    assert directories.remove_directories(["d/e", "d"]) == ["d/e", "d"]
    assert directories.remove_directories([]) == []
    assert store.list_directories() == []


def finds_real_names(store: Store) -> None:
    store.put("p=1/x y", b"")
    root = unquote(store.uri)
    names = ["p=1/x y", "p=1/../p=1/x y", f"{root}/p=1//x y", f"{root}/absent", root, "../other"]
    expected = ["p=1/x y", "p=1/x y", "p=1/x y", "absent", "", None]
    assert store.real_names(names) == expected
    assert store.real_names([f"{root}2/x", f"{root}/../x"]) == [None, None]
    with pytest.raises(StorageError, match="another kind of storage|on local storage"):
        store.real_names(["hdfs://namenode/x"])


def has_a_uri(store: Store) -> None:
    assert "://" in store.uri
    assert not store.uri.endswith("/")
    assert store.uri in repr(store)


def _writes(store: Store, name: str) -> list[Callable[[], object]]:
    return [
        lambda: store.put(name, b""),
        lambda: store.put_if_absent(name, b""),
        lambda: store.open_output(name),
        lambda: store.delete_many([name]),
        lambda: store.sync_directories([name]),
    ]


def copies_files_whole(store: Store) -> None:
    store.put("a/from", b"12345")
    store.put("taken", b"old")
    store.put("empty", b"")
    copied = copy_file(store, "a/from", store, "b/%41 c", size_bytes=5)
    assert copied.size_bytes == 5
    assert store.read("b/%41 c") == b"12345"
    copy_file(store, "empty", store, "empty too", size_bytes=0)
    assert store.read("empty too") == b""
    copy_file(store, "a/from", store, "taken", size_bytes=5)
    assert store.read("taken") == b"12345"
    # Absolute names too.
    copy_file(store, f"{unquote(store.uri)}/taken", store, "b/again", size_bytes=5)
    before = sorted(_walk(store))
    for size_bytes in (0, 4, 6):
        with pytest.raises(StorageError, match="bytes, not"):
            copy_file(store, "a/from", store, "other", size_bytes=size_bytes)
    with pytest.raises(ObjectNotFoundError):
        copy_file(store, "absent", store, "other", size_bytes=5)
    with pytest.raises(SafetyError):
        copy_file(store, "a/from", store, "../other", size_bytes=5)
    assert sorted(_walk(store)) == before
    many = [FileToCopy("a/from", f"many/{number}", 5) for number in range(40)]
    assert [copy.size_bytes for copy in copy_many(store, many, store)] == [5] * 40
    assert {store.read(f"many/{number}") for number in range(40)} == {b"12345"}


PROMISES = (
    copies_files_whole, reads_what_was_put, takes_strange_names, absent_names_are_not_found,
    folders_are_no_files, lists_sorted_by_bytes_from_start, lists_nothing_of_what_is_absent,
    walks_every_file_once, tells_size_and_time, reads_many_in_order, reads_ranges,
    reads_facts_and_last_bytes,
    opens_for_random_access, writes_through_open_output, puts_many,
    puts_no_more_once_its_files_raise, puts_many_only_below_the_root, replaces_whole_or_not_at_all,
    writes_parquet, puts_only_if_absent, one_thread_wins, deletes_many, refuses_to_leave_the_root,
    refuses_what_names_no_file, spells_a_name_one_way, reads_absolute_names, walks_the_tree,
    walks_the_tree_with_facts,
    lists_folders, moves_without_replacing, restores_no_file_that_never_was,
    removes_only_empty_directories, finds_real_names, has_a_uri,
)  # fmt: skip
