"""Where the places of a world are: a disk, a disk that folds case, or an object store.

A path is relative to the space, and begins with the name of a place: ``t/p=DE/part-0.parquet``.
Nothing here uses deltactl's stores: producers, backups and readers work on the files themselves.
"""

import os
import shutil
from pathlib import Path
from typing import Literal, NamedTuple

from tests.support.stores import _SPACE

Kind = Literal["disk", "folding", "shared", "objects"]
"""``disk``: of one machine, whose clock also dates files; ``folding``: the same, and ``DE`` and
``de`` are one name; ``shared``: a file server with a clock of its own; ``objects``: a bucket."""


class Entry(NamedTuple):
    """A stored file. ``ident`` changes when the content does."""

    ident: object
    size: int
    modified_ms: int


class Disk:
    """Directories below ``root``."""

    def __init__(self, root: Path, *, folds: bool) -> None:
        self.root, self.folds = str(root), folds
        self._began = root.stat().st_mtime_ns // 1_000_000

    def address(self, path: str) -> str:
        return f"file://{self.root}/{path}"

    def path_of(self, address: str) -> str:
        """The path in an absolute address of a log; links on it are resolved."""
        path = os.path.realpath(address.removeprefix("file:").replace("//", "/"))
        return path.removeprefix(f"{os.path.realpath(self.root)}/")

    def actual(self, path: str) -> str:
        """The path as the operating system has it: where case is folded, as it was created."""
        return fold(path, self.root) if self.folds else path

    def files(self, folder: str) -> dict[str, Entry]:
        """The files below a folder, by name."""
        top = Path(f"{self.root}/{folder}")
        found = sorted(Path(at, name) for at, _, names in os.walk(top) for name in names)
        return {path.relative_to(top).as_posix(): _entry(path) for path in found}

    def entry(self, path: str) -> Entry | None:
        real = self._real(path)
        return _entry(real) if real.exists() else None

    def read(self, path: str) -> bytes:
        return self._real(path).read_bytes()

    def write(self, path: str, data: bytes, modified_ms: int) -> None:
        real = self._real(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        real.unlink(missing_ok=True)  # another name of the file keeps the old content
        real.write_bytes(data)
        _touch(real, modified_ms)

    def delete(self, path: str) -> None:
        self._real(path).unlink()

    def copy_file(self, path: str, target: str, modified_ms: int | None, *, link: bool) -> None:
        real, copied = self._real(path), self._real(target)
        copied.parent.mkdir(parents=True, exist_ok=True)
        if link:
            LINK(real, copied)
            return
        shutil.copy2(real, copied)
        if modified_ms is not None:
            _touch(copied, modified_ms)

    def move(self, path: str, target: str) -> None:
        self._real(path).rename(self._real(target))

    def add_address(self, path: str, target: str) -> None:
        """Make ``path`` a second address of ``target``."""
        Path(f"{self.root}/{path}").symlink_to(f"{self.root}/{target}")

    def stamp(self, modified_ms: int) -> None:
        """Date what was written since the last time: the clock of the world is not ours."""
        for at, folders, names in os.walk(self.root):
            for name in (*names, *folders):
                path = f"{at}/{name}"
                if os.lstat(path).st_mtime_ns // 1_000_000 >= self._began:
                    _touch(Path(path), modified_ms)

    def close(self) -> None:
        shutil.rmtree(self.root)

    def _real(self, path: str) -> Path:
        return Path(f"{self.root}/{self.actual(path)}")


LINK = os.link


def fold(path: str, root: str) -> str:
    """A path below ``root`` with each part as it was created, in whatever case it is given."""
    found = Path(root)
    for part in path.split("/"):
        names = [] if (found / part).exists() or not found.is_dir() else list(found.iterdir())
        alike = (it.name for it in names if it.name.casefold() == part.casefold())
        found = found / next(alike, part)
    return found.relative_to(root).as_posix()


def _entry(path: Path) -> Entry:
    info = path.stat()
    ident = (info.st_ino, info.st_mtime_ns, info.st_size)
    return Entry(ident, info.st_size, info.st_mtime_ns // 1_000_000)


def _touch(path: Path, modified_ms: int) -> None:
    if not path.is_symlink():
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


class Bucket:
    """Objects of ``tests.support.stores``, below one address."""

    folds = False

    def __init__(self, name: str) -> None:
        self.root = f"memory://{name}"
        self._seconds: dict[str, str] = {}

    def address(self, path: str) -> str:
        return f"{self.root}/{path}"

    def path_of(self, address: str) -> str:
        return self.actual(address.removeprefix(f"{self.root}/"))

    def actual(self, path: str) -> str:
        first, slash, rest = path.partition("/")
        return self._seconds.get(first, first) + slash + rest

    def key_of(self, address: str) -> str:
        """The one address under which an object is kept."""
        return f"{self.root}/{self.path_of(address)}"

    def files(self, folder: str) -> dict[str, Entry]:
        top = f"{self.root}/{self.actual(folder)}/"
        kept = {uri: held for uri, held in _SPACE.files.items() if uri.startswith(top)}
        return {
            uri[len(top) :]: Entry((hash(data), len(data)), len(data), when)
            for uri, (data, when) in sorted(kept.items())
        }

    def entry(self, path: str) -> Entry | None:
        held = _SPACE.files.get(self._key(path))
        return held and Entry((hash(held[0]), len(held[0])), len(held[0]), held[1])

    def read(self, path: str) -> bytes:
        return _SPACE.files[self._key(path)][0]

    def write(self, path: str, data: bytes, modified_ms: int) -> None:
        _SPACE.files[self._key(path)] = (data, modified_ms)

    def delete(self, path: str) -> None:
        del _SPACE.files[self._key(path)]

    def copy_file(self, path: str, target: str, modified_ms: int | None, *, link: bool) -> None:
        data, when = _SPACE.files[self._key(path)]
        _SPACE.files[self._key(target)] = (data, when if modified_ms is None else modified_ms)

    def move(self, path: str, target: str) -> None:
        for uri in [u for u in _SPACE.files if f"{u}/".startswith(f"{self._key(path)}/")]:
            moved = self._key(target) + uri[len(self._key(path)) :]
            _SPACE.files[moved] = _SPACE.files.pop(uri)

    def add_address(self, path: str, target: str) -> None:
        """As an access point, or a mount, is."""
        self._seconds[path] = self.actual(target)

    def stamp(self, modified_ms: int) -> None:
        """The store dates objects by itself."""

    def close(self) -> None:
        for uri in [uri for uri in _SPACE.files if uri.startswith(f"{self.root}/")]:
            del _SPACE.files[uri]

    def _key(self, path: str) -> str:
        return f"{self.root}/{self.actual(path)}"


Space = Disk | Bucket


def set_store_time(now_ms: int) -> None:
    """What objects are dated by from now on."""
    _SPACE.now_ms = now_ms
