"""Check the names of local files that options let a run write, and write them at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deltactl.errors import DeltactlError, PartialSuccessError, UsageError, Warn

_DEVICES: Final = Path("/dev")


def choose_output_file(
    option: str, name: str, example: str, files: Iterable[tuple[str, str]]
) -> Path:
    """Return the path of a file to write or replace; nothing is written yet.

    Args:
        option: the option that names the file.
        name: the path as it was given.
        example: a name of such a file, for the hint.
        files: the files of the run, each after what names it.

    Raises:
        UsageError: it is an address, a directory, a device, another file of the run, in a directory
            that cannot be written, or in a table.
    """
    # Imported late: most runs write no such file.
    from deltactl.operations.output_files import ensure_replaceable
    from deltactl.storage.local.store import LocalStore

    path = Path(name)
    if "://" in name or "\0" in name or name == "-":
        raise UsageError(
            f"{option} {name} is not a local file",
            hint=f"Give the path of a file on this machine, such as {example}.",
        )
    if path.is_dir():
        raise UsageError(
            f"{option} {name!r} is a directory",
            hint=f"Give a file in this directory, such as {example}.",
        )
    # Writing would replace the device by a file, for all programs on the machine.
    if path.parent == _DEVICES or (path.exists() and not path.is_file()):
        raise UsageError(
            f"{option} {name!r} is a device or a pipe, not a file",
            hint=f"Give a file, such as {example}.",
        )
    others = [(it, file) for it, file in files if it != option and "\0" not in file]
    for other, file in others:
        if os.path.realpath(file) == os.path.realpath(path):
            raise UsageError(
                f"{option} {name!r} is the file of {other}",
                hint=f"Give another file, such as {example}.",
            )
    ensure_replaceable(option, name, LocalStore(str(path.parent)))
    return path


@contextmanager
def written_at_end(
    option: str, write: Callable[[BaseException | None], None], warn: Warn
) -> Iterator[None]:
    """Write a file when the context ends, however it ends: with what was raised, if anything.

    If the run itself failed, its error is raised, and a file that cannot be written is a warning.

    Raises:
        PartialSuccessError: the run succeeded, and the file could not be written.
    """
    try:
        yield
    except BaseException as raised:
        try:
            write(raised)
        except DeltactlError as error:
            warn(f"the {option} file could not be written: {error.message}")
        raise
    try:
        write(None)
    except DeltactlError as error:
        raise PartialSuccessError(
            f"the run succeeded, but the {option} file could not be written: {error.message}",
            hint=f"Give {option} a file that can be written. The result of the run is valid.",
        ) from error
