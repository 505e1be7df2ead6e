"""Lets deltactl run in a world: its stores, its clock, its ids and its threads are the world's."""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from deltactl.cli import app, group
from deltactl.clock import SystemClock
from deltactl.engine.local import LocalEngine
from deltactl.operations.run_context import RunContext
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import _open_local
from deltactl.storage.store import Assembly, Store
from tests.explorer.programs import InlineEngine
from tests.support.stores import FaultyStore, MemoryStore, register_scheme
from tests.world.reader import COMMIT
from tests.world.spaces import LINK, Bucket, Disk, fold
from tests.world.world import Run, World
from tests.world.writer import new_id

R = TypeVar("R")

_BUILD_GROUP = cache(app.build_group)
_LOAD_COMMAND = cache(group.load_command)


class WorldStore(FaultyStore):
    """Each call is a point at which anything may happen."""

    def __init__(self, inner: Store, world: World) -> None:
        super().__init__(inner)
        self._world = world

    def put_if_absent(self, name: str, data: bytes) -> None:
        super().put_if_absent(name, data)
        run, path = self._world.run, self._world.locate(f"{self.uri}/{name}")
        if run is None or not COMMIT.search(name):
            return
        run.acknowledged.add(path)
        if path != run.replaced and self._inner.read(name) != data:
            self._world.fail("commit lost", f"{name} was acknowledged, and is another writer's")

    def open_assembly(self, name: str) -> Assembly:
        forward = super().open_assembly
        return self._do("open_assembly", name, lambda: forward(name), lambda: None)

    def _do(self, method: str, name: str, effect: Callable[[], R], tear: Callable[[], None]) -> R:
        return self._world.call(self, method, name, effect, tear)


class FoldingPaths:
    """``LocalPaths`` of a file system that finds a name in whatever case it is given."""

    def __init__(self, inner: Any, disk: Disk) -> None:
        self._inner, self._disk = inner, disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _fold(self, path: str) -> str:
        root = self._disk.root
        return (
            f"{root}/{fold(path[len(root) + 1 :], root)}" if path.startswith(f"{root}/") else path
        )

    def readable(self, name: str) -> str:
        return self._fold(self._inner.readable(name))

    def inside(self, name: str) -> str:
        return self._fold(self._inner.inside(name))

    def directory(self, prefix: str) -> tuple[str, str]:
        path, shown = self._inner.directory(prefix)
        return self._fold(path), shown

    def writable(self, name: str, safe_directories: set[str] | None = None) -> str:
        return self._fold(self._inner.writable(name, safe_directories))


class BucketStore(MemoryStore):
    """Objects of a bucket that may have a second address."""

    def __init__(self, uri: str, bucket: Bucket) -> None:
        super().__init__(uri)
        self._bucket = bucket

    def _readable(self, name: str) -> str:
        return self._bucket.key_of(super()._readable(name))

    def _writable(self, name: str) -> str:
        return self._bucket.key_of(super()._writable(name))

    def _below(self, prefix: str) -> list[tuple[str, str, str]]:
        shown, self._uri = self._uri, self._bucket.key_of(self._uri)
        try:
            return super()._below(prefix)
        finally:
            self._uri = shown


def _open(world: World, uri: str, options: Mapping[str, str]) -> Store:
    space = world.space
    if isinstance(space, Bucket):
        return WorldStore(BucketStore(uri, space), world)
    store: Any = _open_local(uri, options)
    if space.folds:
        folding = LocalStore(uri.removeprefix("file://"))
        object.__setattr__(folding, "_paths", FoldingPaths(folding._paths, space))
        store = folding
    return WorldStore(store, world)


def _link(world: World, old: str, new: str, **options: Any) -> None:
    is_commit = world.run is not None and COMMIT.search(str(new)) is not None
    if is_commit:
        world.system_call("link")
    LINK(old, new, **options)
    if is_commit and world.run is not None:
        world.run.links_commit = True
        world.run.commits.append(world.space.path_of(str(new)))


def _fsync(world: World, sync: Callable[[int], None], number: int) -> None:
    run, opened = world.run, Path(f"/proc/self/fd/{number}")
    if run is None or not opened.is_dir():
        sync(number)
        return
    follows_commit, run.links_commit = run.links_commit, False
    if world.system_call("sync"):
        run.is_unsynced |= follows_commit
        raise OSError(errno.EIO, "failed on purpose")
    sync(number)
    run.is_unsynced &= opened.readlink().name != "_delta_log"


def _copy_part(
    world: World, copy: Callable[..., int], source: int, target: int, count: int, start: int
) -> int:
    """A copy that fails says that it succeeded. Copies of whole files are trusted."""
    copied = copy(source, target, count, start)
    is_part = copied < os.fstat(source).st_size
    if is_part and world.run is not None and world.system_call("copy"):
        [last] = os.pread(source, 1, start + copied - 1)
        os.pwrite(target, bytes([last ^ 1]), os.lseek(target, 0, os.SEEK_CUR) - 1)
    return copied


def _run_inline(_: LocalEngine, *args: Any, **options: Any) -> Iterator[Any]:
    return InlineEngine().run(*args, **options)


@contextmanager
def entered(world: World) -> Iterator[None]:
    """While this lasts, deltactl in this process runs in the world."""
    scheme = "memory" if isinstance(world.space, Bucket) else "file"
    before = register_scheme(scheme, partial(_open, world))
    make = RunContext.of

    def context_of(*args: Any, **options: Any) -> RunContext:
        return replace(make(*args, **options), sleep=lambda s: world.pass_time(int(s * 1000)))

    with ExitStack() as stack:
        for patched in (
            patch.object(SystemClock, "now_ms", lambda _: world.clock_ms()),
            patch.object(SystemClock, "monotonic", lambda _: world.now_ms / 1000),
            patch.object(SystemClock, "new_id", lambda _: new_id(world.ids)),
            patch.object(LocalEngine, "run", _run_inline),
            patch.object(RunContext, "of", context_of),
            # To build the program takes longer than to run it.
            patch.object(app, "build_group", _BUILD_GROUP),
            patch.object(group, "load_command", _LOAD_COMMAND),
            patch.object(os, "link", partial(_link, world)),
            patch.object(os, "fsync", partial(_fsync, world, os.fsync)),
            patch.object(os, "copy_file_range", partial(_copy_part, world, os.copy_file_range)),
            patch.dict(os.environ, DELTACTL_CONFIG=os.devnull),
        ):
            stack.enter_context(patched)
        try:
            yield
        finally:
            if before is not None:
                register_scheme(scheme, before)


class Ran(NamedTuple):
    """How a run ended: its exit status, and all that it printed."""

    code: int
    text: str


class _Terminal(io.StringIO):
    """Somebody watches the run, and answers yes to its questions."""

    def isatty(self) -> bool:
        return True


def run_deltactl(world: World, words: list[str], run: Run) -> Ran:
    """Run the program to its end; a run that was killed has the status -9."""
    said = io.StringIO()
    world.runs.append(run)
    try:
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(said))
            stack.enter_context(redirect_stderr(said))
            # A run inside of another does not have its terminal.
            given = _Terminal("y\n" * 9) if run.is_attended else io.StringIO()
            stack.enter_context(patch.object(sys, "stdin", given))
            code = app.run([*words, "-o", "json"])
    finally:
        world.stamp()
        world.model.sync_all()
        world.runs.pop()
        for place in world.places if not world.runs else ():
            world.model.list_log(place)
    return Ran(-9 if run.is_dead else code, said.getvalue())
