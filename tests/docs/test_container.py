"""The image and the manifest, as far as that can be tested without building and applying them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.docs.blocks import find_blocks, read_page
from tests.docs.checks import check_cron_job, parse
from tests.support.table_builder import Column, TableBuilder

LINES = re.sub(r"\\\n\s*", " ", (REPOSITORY / "Containerfile").read_text("utf-8")).splitlines()
PAGE = "docs/kubernetes.md"


def read_stages() -> dict[str, list[tuple[str, str]]]:
    stages: dict[str, list[tuple[str, str]]] = {}
    for line in LINES:
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.split()[-1]
            stages[name] = []
        stages[name].append((word, rest))
    return stages


def test_images_run_without_root_and_only_spark_has_java() -> None:
    stages = read_stages()
    assert list(stages)[-1] == "deltactl", "the last target is the default one"
    for name in ("spark", "deltactl"):
        said = dict(stages[name])
        assert said["USER"] == "65532:65532"
        assert said["ENTRYPOINT"] == '["deltactl"]'
        assert "HOME=/tmp" in said["ENV"]
    assert all("java" not in rest and "jre" not in rest for _, rest in stages["deltactl"])
    assert {"jre" in rest for word, rest in stages["spark"] if word == "RUN"} == {True}


def test_what_is_copied_is_there_and_is_all_that_is_sent() -> None:
    ignore = (REPOSITORY / ".containerignore").read_text("utf-8").splitlines()
    sent = {line[1:] for line in ignore if line.startswith("!")}
    copied = {
        source
        for said in read_stages().values()
        for word, rest in said
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert ignore[0] == "*"
    assert copied == sent
    assert [name for name in sent if not (REPOSITORY / name).exists()] == []


def test_it_works_where_only_the_table_can_be_written(tmp_path: Path) -> None:
    """No home and no directory for temporary files, as with a read-only root file system."""
    builder = TableBuilder(tmp_path / "t", [Column("id")])
    builder.append(*([{"id": n}] for n in range(3)))
    environ = {
        **{key: value for key, value in os.environ.items() if not key.startswith("XDG_")},
        "HOME": "/nonexistent",
        "TMPDIR": "/nonexistent",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for words in (["optimize"], ["vacuum", "--yes"], ["checkpoint"], ["check", "--files", "data"]):
        done = subprocess.run(
            [sys.executable, "-m", "deltactl", words[0], str(tmp_path / "t"), *words[1:]],
            cwd="/",
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def documents() -> list[dict[str, Any]]:
    (block,) = (b for b in find_blocks(PAGE, read_page(PAGE)) if b.language == "yaml")
    return list(yaml.safe_load_all(block.text))


def test_the_cron_job_runs_without_root_and_mounts_its_volumes(
    documents: list[dict[str, Any]],
) -> None:
    account, job = documents
    assert (account["kind"], job["kind"]) == ("ServiceAccount", "CronJob")
    parse(check_cron_job(job))
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"{pod['securityContext']['runAsUser']}:" in dict(read_stages()["deltactl"])["USER"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert mounted == [volume["name"] for volume in pod["volumes"]]


def test_the_targets_of_the_page_exist() -> None:
    targets = re.findall(r"--target (\w+)", read_page(PAGE))
    assert targets
    assert set(targets) < set(read_stages())
    for line in read_page(PAGE).splitlines():
        if line.startswith("podman run"):
            words = shlex.split(line)
            parse(shlex.join(["deltactl", *words[words.index("describe-detail") :]]))
