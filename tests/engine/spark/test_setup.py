"""Before the first task: settings of a session, the package that is shipped, and the probe."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

from deltactl.engine.spark.package import write_package
from deltactl.engine.spark.probe import (
    ALWAYS,
    REQUIRED,
    describe_failure,
    explain_failure,
    make_probe,
)
from deltactl.engine.spark.session import SparkSettings, build_conf, choose_master
from deltactl.engine.spark.worker import encode_error
from deltactl.errors import DataFileError, DeltactlError
from tests.conftest import REPOSITORY
from tests.support.spark_servers import worker_environ


@pytest.mark.parametrize(
    ("settings", "environ", "master"),
    [
        (SparkSettings(), {}, "local[*,4]"),
        (SparkSettings(max_concurrent=3), {}, "local[3,4]"),
        (SparkSettings("local"), {}, "local[1,4]"),
        (SparkSettings("local[2]"), {}, "local[2,4]"),
        (SparkSettings("local[2,1]"), {}, "local[2,1]"),
        (SparkSettings("local-cluster[2,1,1024]"), {}, "local-cluster[2,1,1024]"),
        (SparkSettings("yarn"), {"spark.master": "other"}, "yarn"),
        (SparkSettings(), {"spark.master": "yarn"}, "yarn"),
        (SparkSettings(), {"PYSPARK_GATEWAY_PORT": "1"}, None),
        (SparkSettings(), {"MASTER": "yarn"}, None),
    ],
)
def test_options_and_environment_choose_the_master(
    settings: SparkSettings, environ: dict[str, str], master: str | None
) -> None:
    assert choose_master(settings, environ) == master


def test_settings_of_the_user_come_last(tmp_path: Path) -> None:
    said = SparkSettings(conf={"spark.ui.enabled": "true", "spark.x": "secret"})
    conf = build_conf(said, "local[2,4]", {})
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in build_conf(said, "yarn", {})
    assert "spark.master" not in build_conf(said, None, {})
    assert "spark.redaction.regex" in build_conf(said, "yarn", {})
    (tmp_path / "spark-defaults.conf").write_text("spark.redaction.regex mine")
    for environ in ({"SPARK_CONF_DIR": str(tmp_path)}, {"PYSPARK_GATEWAY_PORT": "1"}):
        assert "spark.redaction.regex" not in build_conf(said, "yarn", environ)
    assert "secret" not in repr(SparkSettings(remote="sc://h/;token=secret", conf=said.conf))


def test_the_probe_needs_what_the_package_declares() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (project["optional-dependencies"][name] for name in ("spark", "sftp", "webhdfs"))
    listed = chain(project["dependencies"], *extras)
    lines = (re.match(r"([a-z0-9]+)>=([\d.]+)", line) for line in listed)
    declared = {line[1]: line[2] for line in lines if line}
    assert {name: declared[name] for name in REQUIRED} == REQUIRED
    assert set(ALWAYS) < set(REQUIRED)


def test_the_probe_of_a_host() -> None:
    fine = json.loads(make_probe({name: REQUIRED[name] for name in ALWAYS})(0))
    assert fine["problems"] == []
    assert fine["python"] == sys.executable
    wanted = {"no-such-package": "1", "pyarrow": "999.0", "numpy": "1.26"}
    found = json.loads(make_probe(wanted)(0))["problems"]
    assert found[0] == ["no-such-package", "1", None]
    assert found[1][:2] == ["pyarrow", "999.0"]
    assert len(found) == 2


LOST = """An error occurred while calling o75.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 \
times, most recent failure: Lost task 0.3 in stage 1.0 (TID 4) (node-7 executor 2): {}
\tat org.apache.spark.scheduler.Something
"""


@pytest.mark.parametrize(
    ("reason", "message", "hint"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "Python 3.9 runs on host node-7, but deltactl runs with Python 3.",
            "PYSPARK_PYTHON",
        ),
        (
            'java.io.IOException: Cannot run program "python3.11": error=2',
            "there is no program 'python3.11' on host node-7",
            "PYSPARK_PYTHON",
        ),
        (
            "ModuleNotFoundError: No module named 'pyarrow'",
            "on host node-7, the Python package pyarrow is missing",
            "spark.archives",
        ),
        ("something else", "no Python task could be run on host node-7: Lost task 0.3", "-v"),
    ],
)
def test_what_spark_says_is_explained(reason: str, message: str, hint: str) -> None:
    error = explain_failure(LOST.format(reason))
    assert message in error.message
    assert hint in (error.hint or "")
    assert error.exit_code == 9


def test_the_line_that_shows_most() -> None:
    assert describe_failure(LOST.format("boom")).startswith("Lost task 0.3 in stage 1.0 (TID 4)")
    assert describe_failure("\nAn error occurred while calling o1.x.\n: why\n\tat a") == "why"
    assert describe_failure("") == "no reason given"


def test_errors_survive_the_way_back() -> None:
    import pickle

    lost = DataFileError("part-1 is missing", hint="look")
    back = pickle.loads(encode_error(lost))
    assert isinstance(back, DataFileError)
    assert (back.message, back.hint) == ("part-1 is missing", "look")

    class Unpicklable(Exception):
        pass

    other = pickle.loads(encode_error(Unpicklable("why")))
    assert isinstance(other, DeltactlError)
    assert other.message == "Unpicklable: why"


def test_the_package_is_the_same_whenever_it_is_packed() -> None:
    first, second = write_package(), write_package()
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert "deltactl/operations/optimize/tasks.py" in names
    assert not any("__pycache__" in name for name in names)
    for path in (first, second):
        path.unlink()
        path.parent.rmdir()


def test_tasks_run_from_the_zip_without_the_command_line(tmp_path: Path) -> None:
    """Executors have neither typer nor rich nor sqlglot, and no file of ours but the zip."""
    package = write_package().rename(tmp_path / "deltactl.zip")
    program = (
        "import sys\n"
        "for name in ('typer', 'rich', 'sqlglot', 'pyspark', 'deltalake'):\n"
        "    sys.modules[name] = None\n"
        f"sys.path = [{str(package)!r}] + [p for p in sys.path if 'site-packages' in p or "
        "'lib/python' in p]\n"
        "import deltactl.operations.optimize.tasks, deltactl.engine.spark.worker\n"
        "print(deltactl.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(package))


def test_the_engine_is_a_public_name_that_loads_no_pyspark() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; import deltactl; "
        "print(deltactl.SparkEngine(object(), reason='mine').reason)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr


_JAVA_DIES = """
import os, time, psutil
from deltactl.engine.base import Task
from deltactl.engine.spark.engine import SparkEngine
from deltactl.engine.spark.session import SparkSettings, spark_session
from deltactl.errors import EngineUnavailableError
from tests.support.spark_servers import JAVA_OPTIONS
from tests.support.spark_ui import read_ui

def work(payload, attempt):
    return payload

keys = ("azure.account.key.a.dfs.core.windows.net", "azure.sas.c.a.blob", "s3a.secret.key")
conf = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
conf |= {"spark.driver.extraJavaOptions": JAVA_OPTIONS, "spark.sql.codegen.wholeStage": "false"}
conf |= {f"spark.hadoop.fs.{key}": "hush-hush-4711" for key in keys}
with spark_session(SparkSettings(master="local[1]", conf=conf), os.environ) as session:
    engine = SparkEngine(session)
    assert len(list(engine.run(work, [Task(0, 1, 0)]))) == 1
    shown = read_ui(session.sparkContext.uiWebUrl)
    assert all(key in shown for key in keys)
    assert "hush-hush-4711" not in shown
    for child in psutil.Process().children(recursive=True):
        if "java" in child.name():
            child.kill()
    time.sleep(1)
    try:
        list(engine.run(work, [Task(0, 1, 0)]))
    except EngineUnavailableError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_ui_shows_no_secret_and_only_we_speak_of_a_java_that_died() -> None:
    """Neither its log nor the thread that PySpark keeps for it."""
    told = subprocess.run(
        [sys.executable, "-c", _JAVA_DIES],
        capture_output=True,
        text=True,
        env=worker_environ(),
        cwd=REPOSITORY,
        check=True,
    )
    assert (told.stdout[:17], told.stderr) == ("Spark has ended: ", "")
