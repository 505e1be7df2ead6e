"""A store whose every method asks somebody else: each question is a scheduling point.

Methods about several names ask once for each of them, as real stores work through them.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, BinaryIO, cast
from unittest.mock import patch

from deltactl.errors import (
    DeltactlError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    TransientStorageError,
)
from deltactl.storage.names import is_absolute_name, resolve_name, resolve_prefix
from deltactl.storage.store import FileInfo, Replacement, Store
from tests.explorer.world import CLONE, Call, Reply, Rules, Worlds
from tests.support.stores import ReplacingWriter, WholeFiles, register_scheme

Ask = Callable[[Call], Reply]


class SimStore(WholeFiles):
    """See ``deltactl.storage.store.Store``; ``ask`` gives the answers.

    ``trespasses`` are names outside the root that somebody tried to write.
    """

    file_copies = None

    def __init__(self, worlds: Worlds, ask: Ask) -> None:
        self._worlds, self._ask = worlds, ask
        self.trespasses: list[str] = []
        self.num_ids: Callable[[], int] = lambda: 0

    def __repr__(self) -> str:
        return f"SimStore({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._worlds.rules.uri

    @property
    def engine_uri(self) -> str:
        return self.uri

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        found = self._do(Call("list", resolve_prefix(prefix), other=start))
        return iter([FileInfo(*fact) for fact in found])

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        found = self._do(Call("walk", resolve_prefix(prefix)))
        return iter([[fact[0] for fact in found]] if found else [])

    def list_directories(self, prefix: str = "") -> list[str]:
        skip = f"{prefix}/" if prefix else ""
        below = (name.removeprefix(skip) for names in self.walk(prefix) for name in names)
        return sorted({skip + name.partition("/")[0] for name in below if "/" in name})

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        facts = [self._do(Call("stat", self._readable(name))) for name in names]
        return [None if fact is None else FileInfo(*fact) for fact in facts]

    def read(self, name: str) -> bytes:
        return self._worlds.data(self._do(Call("read", self._readable(name))))

    def open_output(self, name: str) -> BinaryIO:
        self._writable(name)
        if self._worlds.rules.files_grow:
            self._write("open", name, b"")
        return cast("BinaryIO", ReplacingWriter(lambda data: self._write("output", name, data)))

    def open_replacement(self, name: str) -> Replacement:
        self._writable(name)
        return ReplacingWriter(lambda data: self._write("put", name, data))

    def put(self, name: str, data: bytes) -> None:
        self._write("put", name, data)

    def put_if_absent(self, name: str, data: bytes) -> None:
        self.ensure_put_if_absent()
        self._write("create", name, data)

    def ensure_put_if_absent(self) -> None:
        if self._worlds.rules.has_items:
            raise SafetyError("this store knows no conditions")

    def sync_directories(self, names: Iterable[str]) -> None:
        self._do(Call("sync", posixpath.commonprefix([self._writable(name) for name in names])))

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        return self._each([(name, Call("delete", self._writable(name))) for name in names])

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        calls = [
            (old, Call("move", self._writable(old), other=self._writable(new)))
            for old, new in pairs
        ]
        return self._each(calls)

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        return [
            self._inside(name) if is_absolute_name(name) else posixpath.normpath(name)
            for name in names
        ]

    def _inside(self, name: str) -> str | None:
        """The name of an absolute one below the root; both forms of local addresses."""
        for root in (f"{self.uri}/", f"{self.uri.replace('file:///', 'file:/')}/"):
            if name.startswith(root):
                return name.removeprefix(root)
        return None

    def _each(self, calls: Sequence[tuple[str, Call]]) -> dict[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for name, call in calls:
            try:
                self._do(call)
            except StorageError as error:
                failed[name] = error
        return failed

    def _write(self, op: str, name: str, data: bytes) -> None:
        self._do(Call(op, self._writable(name), self._worlds.keep(data)))

    def _do(self, call: Call) -> Any:
        reply = self._ask(call)
        match reply.error:
            case "":
                return reply.value
            case "missing":
                raise ObjectNotFoundError(f"{call.name} is not there")
            case "exists":
                raise ObjectExistsError(f"{call.name} exists")
        raise TransientStorageError(f"{call.op} of {call.name} failed on purpose")

    def _readable(self, name: str) -> str:
        return self._inside(name) or name if is_absolute_name(name) else resolve_name(name)

    def _writable(self, name: str) -> str:
        try:
            return resolve_name(name)
        except DeltactlError:
            self.trespasses.append(name)
            raise


class SimClone(SimStore):
    """A place for a clone of the table, in the same worlds, with puts that have conditions."""

    @property
    def uri(self) -> str:
        return self._worlds.rules.clone_uri

    def ensure_put_if_absent(self) -> None:
        """It is not written by those who agree by items."""

    def _do(self, call: Call) -> Any:
        name = f"{CLONE}/{call.name}".rstrip("/")
        found = super()._do(call._replace(name=name))
        match call.op:
            case "list" | "walk":
                return tuple(map(self._own, found))
            case "stat" if found is not None:
                return self._own(found)
        return found

    @staticmethod
    def _own(fact: tuple[str, int, int]) -> tuple[str, int, int]:
        return (fact[0].removeprefix(f"{CLONE}/"), *fact[1:])


def direct_store(rules: Rules) -> SimStore:
    """A simulated store that answers at once, for one user alone."""
    worlds = Worlds(rules)
    held = [worlds.world({})]

    def ask(call: Call) -> Reply:
        reply, held[0] = worlds.apply(held[0], call, 1_700_000_000_000)
        return reply

    return SimStore(worlds, ask)


_of_thread = threading.local()


@contextmanager
def explored_stores() -> Iterator[None]:
    """Let ``open_store`` of a simulated address give the store of the thread that asks."""
    before = {scheme: register_scheme(scheme, _open) for scheme in ("file", "explored")}
    try:
        yield
    finally:
        for scheme, opener in before.items():
            if opener is not None:
                register_scheme(scheme, opener)


def _open(uri: str, options: Mapping[str, str]) -> Store:
    store: SimStore | None = getattr(_of_thread, "store", None)
    if store is not None and uri == store._worlds.rules.clone_uri:
        return SimClone(store._worlds, store._ask)
    if store is None or store.uri != uri:
        raise StorageError(f"{uri} is not the explored table")
    return store


@contextmanager
def as_section(owner: object, name: str) -> Iterator[None]:
    """Let the histories of a method that end alike be one, for what a program does later.

    The method must not change an object that is used later, but for the ids of the clock. What it
    returns or raises must be equal where its text is.
    """
    method = getattr(owner, name)

    @wraps(method)
    def marked(*args: object, **kwargs: object) -> object:
        store: SimStore | None = getattr(_of_thread, "store", None)
        if store is None:
            return method(*args, **kwargs)
        store._ask(Call("enter", name))
        try:
            result = method(*args, **kwargs)
        except DeltactlError as error:
            told = f"{type(error).__name__} {vars(error)}"
            store._ask(Call("leave", name, other=f"{store.num_ids()} {told}"))
            raise
        store._ask(Call("leave", name, other=f"{store.num_ids()} {result!r}"))
        return result

    with patch.object(owner, name, marked):
        yield


def use_in_this_thread(store: SimStore) -> None:
    """From now on this is the store behind its address, for this thread."""
    _of_thread.store = store
