"""What lies in a folder, and a folder on a disk that is small."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def files_in(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@contextmanager
def mounted_disk(parent: Path, size: str) -> Iterator[Path]:
    """A file system of this size, such as "45m", until the end of the block."""
    disk = parent / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("only root may mount the small file system of this test")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)
