"""``--report``: one page that needs nothing else, says what JSON says, and lets no table act."""

import base64
import hashlib
import os
import re
import unicodedata
from pathlib import Path

import pytest

import deltactl
from deltactl.cli.html_report.charts import draw_strip
from deltactl.cli.html_report.page import RunFacts, render_report
from deltactl.cli.output.envelope import Envelope, ErrorInfo
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.sections import Column as Cells
from deltactl.cli.output.sections import Kind, Section, Strip, Table, Tone
from deltactl.operations.clone_notes import CloneNote, write_note
from deltactl.operations.file_sizes import count_sizes
from deltactl.storage.local.store import LocalStore
from deltactl.units import format_size
from tests.cli.conftest import RunCli
from tests.support.html_page import Node, parse_page
from tests.support.table_builder import Column, TableBuilder

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=//x.example/a onerror=b>',
    "\u202egpj\x07\n",
    "&amp;",
)
FACTS = RunFacts("optimize", "deltactl optimize t", "deltactl optimize t", "run-1", 0, 1234)
VACUUM = ("--mode", "full", "--retain", "0s", "--force-retention")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Two files in each of the partitions named above, and one file that was removed."""
    monkeypatch.chdir(tmp_path)
    return make_table(tmp_path / "t")


def make_table(folder: Path) -> TableBuilder:
    builder = TableBuilder(folder, [Column("id"), Column("p", "string")], partition_by=["p"])
    adds = [builder.write_file([{"id": n, "p": p}]) for p in HOSTILE for n in range(2)]
    gone = builder.write_file([{"id": 9, "p": HOSTILE[0]}])
    builder.commit(*adds, gone)
    builder.remove(gone["add"]["path"])
    return builder


def read_page(name: str = "r.html") -> Node:
    text = Path(name).read_text("utf-8")
    ensure_harmless(text)
    return parse_page(text)


def ensure_harmless(text: str) -> None:
    """Nothing to load, nothing to run, no letter that acts; and what reads aloud finds its way."""
    html = parse_page(text)
    assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]
    tags = {node.tag for node in html.all()}
    assert not tags & {"script", "link", "img", "iframe", "object", "a", "form", "base", "image"}
    for node in html.all():
        acting = {"href", "src", "srcset", "style", "action", "data", "xlink:href", "background"}
        assert not acting & set(node.attributes)
        assert not [name for name in node.attributes if name.startswith("on")]
    style = html.one("style").text
    assert not re.search(r"url\(|@import|//|expression", style)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    metas = {
        m.attributes.get("http-equiv") or m.attributes.get("name"): m for m in html.all("meta")
    }
    assert metas["Content-Security-Policy"].attributes["content"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert html.attributes["lang"] == "en"
    assert html.one("title").text.startswith("deltactl ")
    assert "prefers-color-scheme:dark" in style
    assert "@media print" in style
    ensure_readable_aloud(html)


def ensure_readable_aloud(html: Node) -> None:
    levels = [int(node.tag[1]) for node in html.all() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in zip(levels, levels[1:], strict=False))
    for table in html.all("table"):
        assert table.attributes["aria-label"]
        assert all(th.attributes["scope"] == "col" for th in table.all("th"))
    for figure in html.all("figure"):
        (chart,) = (s for s in figure.all("svg") if s.attributes.get("role") == "img")
        assert chart.attributes["aria-label"]
    names = {n.attributes["id"] for n in html.all() if "id" in n.attributes}
    for section in html.all("section"):
        assert section.attributes.get("aria-labelledby", next(iter(names))) in names


def summary(html: Node) -> str:
    (found,) = (p for p in html.all("p") if p.attributes.get("class") == "summary")
    return found.text


def facts(html: Node) -> dict[str, str]:
    labels, values = ([node.text for node in html.all(tag)] for tag in ("dt", "dd"))
    return dict(zip(labels, values, strict=True))


def codes(html: Node) -> list[str]:
    return [pre.text for pre in html.all("pre")]


@pytest.mark.parametrize("is_look", [True, False])
def test_an_optimize_says_what_json_says(cli: RunCli, table: TableBuilder, is_look: bool) -> None:
    look = ("--dry-run",) if is_look else ()
    ran = cli("optimize", "t", *look, "--report", "r.html", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    result = ran.result
    plan, html = result["plan"], read_page()
    if is_look:
        rewritten = f"{plan['files']} files ({format_size(plan['bytes'])}) into {plan['bins']}"
        assert summary(html).startswith(f"planned Would rewrite {rewritten}, ")
    else:
        files = f"{result['files_removed']} files became {result['files_added']}"
        assert summary(html) == f"done {files} in version 3"
        assert facts(html)["size"].endswith(f" -> {format_size(result['bytes_added'])}")
        assert facts(html)["rows"].startswith(f"{result['rows_rewritten']} rewritten: ")
        assert "version 2 can still be read" in html.one("main").text
    rows = html.table("Partitions").rows()
    assert sorted(row[1:] for row in rows) == sorted(
        [
            str(p["files_before"]), str(p["files_after"]),
            format_size(p["bytes_before"]), format_size(p["bytes_to_rewrite"]),
        ]
        for p in plan["partitions"]
    )  # fmt: skip
    after = plan["sizes_after"]
    if not is_look:
        assert plan["considered_files"] == plan["files"]
        sizes = deltactl.Table("t").snapshot().files["size_bytes"].to_numpy()
        after = count_sizes(sizes, after["small_below_bytes"]).to_dict()
        assert f"small after: {after['small_files']} of {len(sizes)} files" in html.one("main").text
    histograms = (plan["sizes_before"]["histogram"], after["histogram"])
    drawn = html.table("Files by size")
    assert sorted(cell for row in drawn.rows() for cell in (row[1], row[3]) if cell) == sorted(
        f"{bucket['files']:,}" for side in histograms for bucket in side
    )
    assert len(list(drawn.all("rect"))) == sum(map(len, histograms))
    rewrite = result["rewrite"]
    shown = html.one("main").text
    groups = rewrite["row_groups_copied"] + rewrite["row_groups_encoded"]
    assert f"{rewrite['row_groups_copied']} of {groups} row groups" in shown
    assert all(reason in shown for reason in rewrite["encoded_because"])
    assert rewrite["encoded_because"]
    assert ("planned" if is_look else "done") in [
        n.text for n in html.all("span") if "badge" in n.attributes.get("class", "")
    ]


def test_names_of_a_table_are_text(cli: RunCli, table: TableBuilder) -> None:
    assert cli("optimize", "t", "--dry-run", "--report", "r.html").code == 0
    shown = {row[0] for row in read_page().table("Partitions").rows()}
    document = cli("optimize", "t", "--dry-run", "-o", "json").document
    names = {p["partition"] for p in document["result"]["plan"]["partitions"]}
    assert len(shown) == len(names) == len(HOSTILE)
    for name in names:
        assert name.replace("\u202e", "\\u202e") in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_errors_and_warnings_are_text(text: str) -> None:
    envelope = Envelope("optimize", text, warnings=[text], error=ErrorInfo("X", text, text))
    columns = [Cells("", kind) for kind in (Kind.WORD, Kind.TEXT, Kind.PATH, Kind.DETAIL)]
    section = Section(text, facts=[(text, text)], table=Table(columns, [(text,) * 4]), code=text)
    outcome = TableOutcome(text, 1, envelope, text, sections=lambda: [Section(), section])
    page = render_report([outcome], FACTS)
    ensure_harmless(page)
    safe = text.replace("\u202e", "\\u202e").replace("\x07", "\\x07").replace("\n", "\\n")
    assert [node.text for node in parse_page(page).one("body").all("bdi")].count(safe) == 11


def test_a_vacuum_there_and_back(cli: RunCli, table: TableBuilder) -> None:
    looked = cli("vacuum", "t", *VACUUM, "--dry-run", "-o", "json").result
    args = ("vacuum", "t", *VACUUM, "--quarantine", "--yes", "--report", "r.html", "-o", "json")
    result = cli(*args).result
    html = read_page()
    size = format_size(result["bytes_removed"])
    assert summary(html) == f"done 1 file moved to quarantine ({size})"
    assert f"deltactl vacuum t --undo {result['run_id']}" in html.one("main").text
    assert codes(html) == [" ".join(("deltactl", *args))]
    for name in ("reason", "folder"):
        caption = {"reason": "Files by reason", "folder": "Directories"}[name]
        rows = html.table(caption).rows()
        assert [row[1:3] for row in rows] == [
            [str(row["files"]), format_size(row["bytes"])] for row in looked[f"by_{name}"]
        ]
    strip = next(n for n in html.all("svg") if "Versions" in n.attributes.get("aria-label", ""))
    assert strip.attributes["aria-label"] == (
        "Versions 0 to 2. in the log: 3; readable before: 3; expired: 1"
    )
    assert cli("vacuum", "t", "--undo", "last", "--report", "r.html").code == 0
    assert "Restored 1 file of run" in read_page().one("main").text
    assert cli("vacuum", "t", "--purge-quarantine", "--yes", "--report", "r.html").code == 0
    assert "Deleted 0 quarantined files (0 B)" in read_page().one("main").text


def test_shallow_clones_in_the_report_of_a_vacuum(cli: RunCli, table: TableBuilder) -> None:
    note = CloneNote("nowhere://lake/clone", 1, 0)
    write_note(table.store, note)
    assert cli("vacuum", "t", "--dry-run", "--report", "r.html").code == 6
    assert "nowhere://lake/clone" in read_page().one("main").text
    forget = ("vacuum", "t", "--forget-clone", note.clone_uri, "--yes", "--report", "r.html")
    assert cli(*forget).code == 0
    assert "1970-01-01T00:00:00.000Z" in read_page().one("main").text
    clone = Path("clone").absolute().as_uri()
    TableBuilder(LocalStore("clone"), [Column("id")])
    write_note(table.store, CloneNote(clone, 1, 0))
    assert cli("vacuum", "t", "--dry-run", "--report", "r.html").code == 0
    assert f"{clone}: its files are kept" in read_page().one("main").text


def test_the_command_is_exact_and_without_secrets(cli: RunCli, table: TableBuilder) -> None:
    args = (
        "-q", "optimize", "t", "--where", "p = 'a b'", "--dry-run", "--storage-option",
        "secret=hush1", "--storage-option=token=hush2", "--spark-conf", "a.password=hush3",
        "--report=r.html",
    )  # fmt: skip
    assert cli(*args).code == 0
    assert "hush" not in Path("r.html").read_text()
    told = (
        "deltactl -q optimize t --where \"p = 'a b'\"{} --storage-option secret=... "
        "--storage-option=token=... --spark-conf a.password=... --report=r.html"
    )
    assert codes(read_page()) == [told.format(" --dry-run"), told.format("")]


def test_a_section_a_table(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    make_table(tmp_path / "u")
    ran = cli("optimize", "t", "u", "none", "--report", "r.html", "-o", "json")
    runs = ran.document["runs"]
    html = read_page()
    assert ran.code == 1
    assert [h.text for h in html.all("h2")] == ["All tables", "t", "u", "none", "The command"]
    assert [row[:2] for row in html.table("3 tables").rows()] == [
        ["t", "done"], ["u", "done"], ["none", "failed"],
    ]  # fmt: skip
    assert runs[2]["error"]["message"] in html.one("main").text
    assert "exit status1: the run failed" in html.one("main").text


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv", "github", "junit"])
def test_whatever_the_form_of_the_output(cli: RunCli, table: TableBuilder, form: str) -> None:
    assert cli("optimize", "t", "--dry-run", "--report", "r.html", "-o", form).code == 0
    assert "Would rewrite 8 files" in summary(read_page())


def test_a_run_that_fails_replaces_the_page_of_the_one_before(
    cli: RunCli, table: TableBuilder
) -> None:
    assert cli("optimize", "t", "--dry-run", "--report", "r.html").code == 0
    ran = cli("optimize", "none", "--report", "r.html")
    text = read_page().one("main").text
    assert ran.code == 1
    assert "NOT_A_TABLE: no Delta table at " in text
    assert "deltactl explain NOT_A_TABLE" in text
    assert "exit status1: the run failed" in text
    assert cli("optimize", "t", "--check", "--report", "r.html").code == 3
    assert (
        "exit status3: a check found a problem, or work is needed" in read_page().one("main").text
    )


def test_a_run_that_is_not_due(cli: RunCli, table: TableBuilder) -> None:
    assert cli("optimize", "t", "--if-needed", "files=99", "--report", "r.html").code == 0
    assert "skipped Skipped: 8 files (threshold: 99" in read_page().one("main").text
    assert cli("optimize", "t").code == 0
    assert cli("optimize", "t", "--min-interval", "1h", "--report", "r.html").code == 0
    assert "skipped Skipped: the last run began at" in read_page().one("main").text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none/r.html", "none does not exist, or is not writable"),
        ("t", "--report 't' is a directory"),
        ("", "--report '' is a directory"),
        ("s3://b/r.html", "--report s3://b/r.html is not a local file"),
        ("-", "--report - is not a local file"),
        ("/dev/null", "--report '/dev/null' is a device or a pipe, not a file"),
        ("pipe", "--report 'pipe' is a device or a pipe, not a file"),
        ("t/r.html", "--report 't/r.html' is in the table at file:///"),
        ("t/_delta_log/00000000000000000000.json", "is in the table at file:///"),
        ("t/_delta_log/r.html", "is in the table at file:///"),
    ],
)
def test_what_cannot_be_written_is_reported_before_anything_is_done(
    cli: RunCli, table: TableBuilder, name: str, message: str
) -> None:
    os.mkfifo("pipe")
    before = Path("t/_delta_log/00000000000000000000.json").read_bytes()
    ran = cli("optimize", "t", "--report", name)
    assert (ran.code, ran.out) == (2, "")
    assert Path("t/_delta_log/00000000000000000000.json").read_bytes() == before
    assert message in ran.err
    assert not Path("t/_delta_log/00000000000000000003.json").exists()


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("maintain t --policy f --report ./f", "--report './f' is the file of --policy"),
        ("maintain t --policy f --metrics link/f", "--metrics 'link/f' is the file of --policy"),
        ("maintain t --report new --metrics new", "--report 'new' is the file of --metrics"),
        ("optimize t --tables-from f --report f", "--report 'f' is the file of --tables-from"),
        ("check t --resume new --report new", "--report 'new' is the file of --resume"),
        ("optimize t --report conf", "--report 'conf' is the file of the settings"),
    ],
)
def test_no_output_replaces_another_file_of_the_run(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch, words: str, other: str
) -> None:
    for name in ("f", "conf"):
        Path(name).write_text("# t\n")
    Path("link").symlink_to(".")
    monkeypatch.setenv("DELTACTL_CONFIG", "conf")
    ran = cli(*words.split())
    assert (ran.code, ran.out) == (2, "")
    assert f"error: {other}\n" in ran.err
    assert not Path("t/_delta_log/00000000000000000003.json").exists()


def test_a_page_that_cannot_be_written_hides_no_result(cli: RunCli, table: TableBuilder) -> None:
    name = "x" * 250 + ".html"  # longer than file systems take, which nobody sees beforehand
    ran = cli("optimize", "t", "--report", name, "-o", "json")
    document = ran.document
    assert (ran.code, document["version_after"]) == (5, 3)
    assert (document["exit_code"], document["error"]["code"]) == (5, "PARTIAL")
    assert "error: the run succeeded, but the --report file could not be written: " in ran.err
    assert "the file of --report or --metrics could not" in cli("explain", "PARTIAL").out
    ran = cli("optimize", "t", "t/", "--report", name, "-o", "json")
    document = ran.document
    assert (ran.code, document["exit_code"], document["error"]["code"]) == (5, 5, "PARTIAL")
    assert [run["exit_code"] for run in document["runs"]] == [0]
    ran = cli("optimize", "none", "--report", name)
    assert ran.code == 1
    assert "warning: the --report file could not be written: " in ran.err
    assert "error: no Delta table at " in ran.err
    assert [p.name for p in Path().iterdir()] == ["t"]  # no half of a page either


def test_a_page_is_no_larger_for_more_rows() -> None:
    pages = {}
    for count in (1000, 50_000):
        rows = [{"name": f"{n:07d}" + "x" * 500, "bytes": n} for n in range(count)]
        columns = [Cells("name", Kind.PATH), Cells("bytes", Kind.BYTES)]
        section = Section("All", table=Table(columns, rows, largest="bytes", more="-o csv lists"))
        outcome = TableOutcome("t", 0, Envelope("optimize", "t"), sections=[section].copy)
        pages[count] = render_report([outcome], FACTS)
    assert len(pages[50_000]) < len(pages[1000]) + 500 < 50_000
    html = parse_page(pages[50_000])
    rows_shown = html.table("All").rows()
    assert [row[0][:7] for row in rows_shown] == [f"{n:07d}" for n in range(49_999, 49_949, -1)]
    assert "and 49,950 more (-o csv lists)" in html.one("main").text


def test_a_page_of_very_many_tables_has_those_that_failed() -> None:
    outcomes = [
        TableOutcome(f"t{n}", int(n == 1400), Envelope("optimize", f"t{n}")) for n in range(1500)
    ]
    html = parse_page(render_report(outcomes, FACTS))
    headings = [h.text for h in html.all("h2")]
    assert len(headings) == 102
    assert "t1400" in headings
    assert len(html.table("1,500 tables").rows()) == 1000


def draw(last: int, ranges: list[tuple[int, int]]) -> list[dict[str, str]]:
    figure = draw_strip(Strip(0, last, [(Tone.GOOD, "readable", ranges)]))
    rects = parse_page(f"<html>{figure}</html>").all("rect")
    return [rect.attributes for rect in rects if "x" in rect.attributes]


def test_ranges_of_versions_are_drawn_where_they_are() -> None:
    drawn = draw(9, [(0, 0), (5, 9)])
    assert [(r["x"], r["width"]) for r in drawn] == [("0%", "10%"), ("50%", "50%")]
    # Every second of very many: as many pieces as can be told apart, and a single one is seen.
    assert len(draw(10**5, [(n, n) for n in range(1, 10**5, 2)])) <= 1000
    assert [r["width"] for r in draw(10**6, [(7, 7)])] == ["0.1%"]
