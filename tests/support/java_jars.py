"""Jars that are compiled from one file of the tests, once for each version of it."""

import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from tests.support.maven import CACHE, UnreachableError


def compile_jar(source: Path, jars: Sequence[Path]) -> Path:
    """Compile a file against some jars and those of Spark; return the jar.

    Raises:
        UnreachableError: there is no Java compiler, or no Spark.
    """
    home = CACHE / f"{source.stem}-{sha256(source.read_bytes()).hexdigest()[:16]}"
    jar = home / f"{source.stem}.jar"
    if jar.exists():
        return jar
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or not (shutil.which("javac") and shutil.which("jar")):
        raise UnreachableError
    path = ":".join([*map(str, jars), f"{Path(spec.origin).parent / 'jars'}/*"])
    classes = home / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    _run("javac", "-d", classes, "-cp", path, source)
    _run("jar", "--create", "--file", jar, "-C", classes, ".")
    return jar


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=240)
