"""Everything that README and docs show is true: commands run, and print what is shown."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.exits import MEANINGS
from deltactl.cli.reference.code_rows import load_error_classes
from tests.conftest import REPOSITORY
from tests.docs import checks
from tests.docs.blocks import Block, all_blocks, find_blocks, find_pages, inline_code, read_page
from tests.docs.sample import build_tables, prepare
from tests.docs.sandbox import Sandbox

PAGES = find_pages()
SHOWN = [spec.name for spec in COMMANDS if not spec.is_hidden]
# Files that the walkthroughs of contributing.md create.
CREATED = {"list_files", "test_list_files", "ram"}
# Options of other programs that pages speak of.
FOREIGN = {"--archives", "--conf", "--deploy-mode", "--name", "--cov", "--stage"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables") / "data"
    root.mkdir()
    build_tables(root)
    return root


@pytest.fixture
def box(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    folder = tmp_path / "data"
    shutil.copytree(tables, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TERM", "dumb")  # no bars
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    return Sandbox(folder)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_give_the_shown_output(page: str, box: Sandbox) -> None:
    for block in find_blocks(page, read_page(page)):
        run_block(block, box)


def run_block(block: Block, box: Sandbox) -> None:
    assert block.language in checks.CHECKS, f"{block.place}: nothing checks {block.language!r}"
    prepare(block.said.get("setup"), box.folder)
    checks.CHECKS[block.language](block, box)


def test_nothing_is_passed_over() -> None:
    """Each block is run, or says why it cannot be; the sums tell when a kind gets lost."""
    blocks = list(all_blocks())
    fences = sum(len(re.findall(r"^ *```+\w", read_page(page), re.MULTILINE)) for page in PAGES)
    assert fences == len(blocks)
    assert {block.language for block in blocks} == set(checks.CHECKS)
    ran = Counter(block.language for block in blocks if not block.reason)
    idle = [block.place for block in blocks if block.reason]
    assert ran["console"] >= 38
    assert ran["sh"] >= 10
    assert ran["python"] >= 5
    assert len(idle) <= len(blocks) // 5, idle


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_in_prose_exist(page: str) -> None:
    """Commands and options that are only mentioned exist."""
    for code in inline_code(read_page(page)):
        if re.match(r"deltactl [a-z][a-z-]+( |$)", code):
            checks.check_synopsis(code)
        elif named := re.match(r"--[a-z][a-z-]+", code):
            assert named[0] in checks.all_options() | FOREIGN, f"{page}: no option {named[0]}"


@pytest.mark.parametrize("page", PAGES)
def test_modules_that_pages_mention_exist(page: str) -> None:
    """Modules and packages that are only mentioned exist, from the repository or from deltactl/."""
    assert [name for name in find_modules(read_page(page)) if not module_exists(name)] == []


def test_a_module_that_was_moved_is_found() -> None:
    text = "`log/replay.py`, `log/commits`, `log/listing.list_from`, `log/gone.py`, `tests/x.py`"
    missing = [name for name in find_modules(text) if not module_exists(name)]
    assert missing == ["log/gone.py", "tests/x.py"]


def find_modules(text: str) -> list[str]:
    """Return the paths of modules and packages in inline code: those below a directory of code."""
    package = REPOSITORY / "deltactl"
    layers = {path.name for path in package.iterdir() if path.is_dir()}
    tops = "|".join(sorted(layers | {"deltactl", "tests", "dev", "benchmarks"}))
    pattern = re.compile(rf"(?:{tops})/[\w/]+(?:\.\w+)*")
    return [code for code in inline_code(text) if pattern.fullmatch(code)]


def module_exists(name: str) -> bool:
    stem = name.partition(".")[0]
    if Path(stem).name in CREATED:
        return True
    roots = (REPOSITORY, REPOSITORY / "deltactl")
    known = [root / stem for root in roots] + [root / f"{stem}.py" for root in roots]
    return any((root / name).exists() for root in roots) or (
        not name.endswith(".py") and any(path.exists() for path in known)
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_relative_link_leads_to_a_file_and_a_heading(page: str) -> None:
    """Every relative link leads to a file, and to a heading of it."""
    folder = (REPOSITORY / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", read_page(page)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        path = folder / name if name else REPOSITORY / page
        assert path.exists(), f"{page}: {target} leads nowhere"
        if anchor:
            assert anchor in _anchors(path.read_text("utf-8")), f"{page}: {target} has no heading"


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def test_every_command_has_its_page() -> None:
    index = read_page("docs/README.md")
    for name in SHOWN:
        page = read_page(f"docs/{name}.md")
        assert f"({name}.md)" in index
        assert any("console" in block.language for block in find_blocks(name, page)), name
        assert f"deltactl {name}" in read_page("README.md")


def test_the_exit_statuses_are_in_the_readme() -> None:
    table = read_page("README.md").split("| status | meaning |")[1]
    for code, meaning in MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in table


def test_every_code_is_in_troubleshooting() -> None:
    page = read_page("docs/troubleshooting.md")
    assert [code for code in load_error_classes() if f"`{code}`" not in page] == []


def test_make_targets_that_pages_mention_exist() -> None:
    """Targets that pages speak of are in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)", read_page(page))}
    assert named
    assert named <= targets


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.md)", read_page("docs/README.md")))
    there = {page.removeprefix("docs/") for page in PAGES if re.fullmatch(r"docs/[\w-]+\.md", page)}
    assert there - {"README.md"} <= linked


def test_pages_stay_short() -> None:
    words = {page: len(read_page(page).split()) for page in PAGES}
    limits = {"README.md": 1200, "docs/consistency.md": 3500}
    limits |= dict.fromkeys((page for page in PAGES if page.startswith("docs/adr/")), 400)
    assert {page: count for page, count in words.items() if count > limits.get(page, 2500)} == {}
    ours = [count for page, count in words.items() if re.fullmatch(r"docs/[\w-]+\.md", page)]
    assert sum(ours) <= 45_000
