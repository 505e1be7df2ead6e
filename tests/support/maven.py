"""Jars from Maven for tests, copied once into a cache outside the project."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The home of the user, looked up before tests are put into one of their own.
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltactl-tests"

# With its version: the short form of the goal resolves a plugin that not every mirror has.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DEPENDENCY = """<dependency>
  <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
  <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency>"""
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>deltactl</groupId><artifactId>tests</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""


class UnreachableError(Exception):
    """This machine has no Java, no Maven, no PySpark or no network."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar, without what it depends on."""

    group: str
    name: str
    version: str


def ensure_jars(directory: str, artifacts: Sequence[Artifact]) -> list[Path]:
    """Return the jars in a directory of the cache; fetch them when they are not there yet.

    Raises:
        UnreachableError: they cannot be fetched.
    """
    home = CACHE / directory
    if not home.is_dir():
        _fetch(home, artifacts)
    found = sorted(home.glob("*.jar"))
    if len(found) < len(artifacts):
        raise UnreachableError
    return found


def _fetch(home: Path, artifacts: Sequence[Artifact]) -> None:
    """Copy the jars aside, then move all of them at once: workers may do so side by side."""
    maven = shutil.which("mvn")
    if maven is None:
        raise UnreachableError
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        dependencies = "".join(
            _DEPENDENCY.format(artifact.group, artifact.name, artifact.version)
            for artifact in artifacts
        )
        Path(scratch, "pom.xml").write_text(_POM.format(dependencies), "utf-8")
        done = subprocess.run(
            [maven, "-q", "-B", _COPY, "-DoutputDirectory=jars", "-DincludeScope=runtime"],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=240,
            check=False,
        )
        if done.returncode:
            raise UnreachableError
        try:
            Path(scratch, "jars").replace(home)
        except OSError:  # another worker was faster
            return
