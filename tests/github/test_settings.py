"""Files for GitHub: workflows call what the Makefile has, forms ask for facts, links lead on."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.hosting import read_repository, render_action_page, render_hosted, render_package_readme
from tests.conftest import REPOSITORY
from tests.support.object_servers import ServerMissingError, ensure_actionlint

GITHUB = REPOSITORY / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def load(path: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_rights_and_uses_existing_targets(path: Path) -> None:
    """No more rights than needed, and only targets and scripts that exist."""
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
                assert target in TARGETS
            for script in re.findall(r"\bbash (\S+)", step.get("run", "")):
                assert (REPOSITORY / script).exists()
            # An expression in a script is replaced before the shell parses it.
            assert "${{" not in step.get("run", "")


def run_actionlint(*paths: Path) -> str:
    try:
        program = ensure_actionlint()
    except ServerMissingError as error:
        pytest.skip(str(error))
    # Where they are installed, other linters would be run too, of any version.
    words = [str(program), "-shellcheck=", "-pyflakes=", "-no-color", *map(str, paths)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout


def test_workflows_pass_actionlint(tmp_path: Path) -> None:
    assert run_actionlint(*WORKFLOWS) == ""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("timeout-minutes", "timeout"))
    assert 'unexpected key "timeout"' in run_actionlint(wrong)


def test_all_pythons_are_tested() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    versions = load(GITHUB / "workflows" / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"][
        "python"
    ]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == f">={versions[0]}"


def test_only_the_publishing_jobs_get_a_token() -> None:
    jobs = load(GITHUB / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "pypi"
    assert "with" not in jobs["publish"]["steps"][-1]  # no password


def test_hooks_call_make_lint() -> None:
    (repo,) = load(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in repo["hooks"]] == ["make lint"]


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("p*.yml")), ids=str)
def test_issue_forms_have_valid_items(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "body"} <= form.keys()
    ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert len(ids) == len(set(ids))
    for item in form["body"]:
        assert item["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert "value" in item["attributes"] or "label" in item["attributes"]


def test_the_form_for_problems_asks_for_what_the_page_asks_for() -> None:
    text = (GITHUB / "ISSUE_TEMPLATE" / "problem.yml").read_text("utf-8")
    page = (GITHUB.parent / "docs" / "troubleshooting.md").read_text("utf-8")
    commands = re.findall(r"^(deltactl .*?)(?: >.*)?  +#", page.split("## How to report")[1], re.M)
    assert len(commands) == 3
    for command in commands:
        shown = command.strip().replace("events", "TABLE")
        assert f"`{shown}`" in " ".join(text.split())


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_linked_files_and_make_targets_exist(name: str) -> None:
    text = (GITHUB / name).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (GITHUB / target).exists(), target
    assert set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)) <= TARGETS


def test_texts_with_the_address_are_fresh() -> None:
    for name, text in render_hosted(read_repository()).items():
        assert (REPOSITORY / name).read_text("utf-8") == text, "run `make generate`"


def test_an_address_that_is_set() -> None:
    page = "- uses: ./  # deltactl\n- uses: actions/checkout@v5\n"
    there = render_action_page(page, "o/deltactl")
    assert re.search(r"uses: o/deltactl@v\d+\.\d+\.\d+\S*  # deltactl\n", there)
    assert render_action_page(there, "") == page
    readme = (
        "<!-- x -->\n[a](docs/a.md) [b](https://b)\n\n"
        '<picture><img src="docs/p.svg"></picture>\n\n![p](docs/p.png)\n\nend\n'
    )
    assert render_package_readme(readme, "") == "a [b](https://b)\n\nend\n"
    screens = "a\n\n## Examples\n\nb\n\n## Commands\n"
    assert render_package_readme(screens, "") == "a\n\n## Commands\n"
    assert "\n## Examples\n" in (REPOSITORY / "README.md").read_text("utf-8")
    hosted = render_package_readme(readme, "o/n")
    assert re.search(r"\[a\]\(https://github.com/o/n/blob/v[^/]+/docs/a.md\)", hosted)
    assert len(re.findall(r"https://raw.githubusercontent.com/o/n/v[^/]+/docs/p\.", hosted)) == 2


def test_no_address_is_invented() -> None:
    """Until the address is set, no file has one of this project on GitHub."""
    if read_repository():
        return
    files = [REPOSITORY / "action.yml", REPOSITORY / "README.md", *GITHUB.rglob("*.*")]
    files += (REPOSITORY / "docs").glob("*.md")
    found = [
        path for path in files if re.search(r"github\.(com|io)/[\w.-]+/deltactl", path.read_text())
    ]
    assert found == []
