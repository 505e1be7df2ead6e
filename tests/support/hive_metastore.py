"""A Hive metastore on the loopback, from the jars that come with PySpark, and Spark that uses it.

As a program: run each line of standard input, a JSON text, as SQL, and print its rows as JSON.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.delta_spark import UNREACHABLE, delta_session
from tests.support.maven import UnreachableError
from tests.support.object_servers import serve
from tests.support.spark_servers import JAVA_OPTIONS

_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_ROWS = "rows: "


class HiveSpark:
    """A process of Spark with Delta that keeps its tables in a metastore."""

    def __init__(self, folder: Path, address: str) -> None:
        """Start it; ``sql`` waits until it is ready."""
        command = [sys.executable, "-m", "tests.support.hive_metastore", str(folder), address]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def sql(self, *statements: str) -> list[list[str]]:
        """Return the rows of the last statement, as texts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        rows: list[list[str]] = []
        for statement in statements:
            self._process.stdin.write(json.dumps(statement) + "\n")
            self._process.stdin.flush()
            found = next((it for it in self._process.stdout if it.startswith(_ROWS)), None)
            if found is None:
                pytest.skip(UNREACHABLE)
            answer = json.loads(found.removeprefix(_ROWS))
            assert isinstance(answer, list), answer
            rows = answer
        return rows

    def stop(self) -> None:
        self._process.communicate()


@contextmanager
def hive_metastore(folder: Path) -> Iterator[str]:
    """Start a metastore with a new Derby; gives HOST:PORT. ``folder`` gets ``hive-site.xml``."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    values = {
        "hive.async.log.enabled": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
    }

    def command(port: int) -> list[str | Path]:
        values["hive.metastore.uris"] = f"thrift://127.0.0.1:{port}"
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in values.items()
        )
        site = f"<configuration>{properties}</configuration>"
        (folder / "hive-site.xml").write_text(site)
        opens = "--add-opens=java.base/java.lang=ALL-UNNAMED"
        options = [f"-Dderby.stream.error.file={folder}/derby.log", "-Xmx512m", opens]
        path = ["-cp", f"{folder}:{jars}/*", _MAIN]
        return ["java", *JAVA_OPTIONS.split(), *options, *path, "-p", str(port)]

    with serve(command, folder / "log") as endpoint:
        yield endpoint.removeprefix("http://")


def main(folder: str, address: str) -> None:
    """Run the statements of standard input."""
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": f"thrift://{address}",
    }
    try:
        with delta_session(Path(folder), settings=settings) as spark:
            for line in sys.stdin:
                try:
                    rows = [
                        [str(value) for value in row]
                        for row in spark.sql(json.loads(line)).collect()
                    ]
                    print(_ROWS + json.dumps(rows), flush=True)
                except Exception as error:  # noqa: BLE001
                    print(_ROWS + json.dumps(str(error)), flush=True)
    except UnreachableError:
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
