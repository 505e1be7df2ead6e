"""The pictures of the README show what the commands print today, and load nothing."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dev.pictures import FOLDER, PICTURES, THEMES, Picture, choose_frame, draw, plain, take
from tests.docs.sample import build_tables
from tests.docs.sandbox import is_shown

SVG = "{http://www.w3.org/2000/svg}"
BAR = re.compile(r"^\d:\d\d:\d\d .* tasks.*$", re.MULTILINE)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures") / "data"
    folder.mkdir()
    build_tables(folder)
    return folder


def read_picture(picture: Picture, theme: str) -> ET.Element:
    return ET.parse(FOLDER / f"{picture.name}-{theme}.svg").getroot()


def drawn_lines(root: ET.Element) -> list[str]:
    """The texts of the drawing, in lines from the top."""
    lines: dict[float, str] = {}
    matrix = next(g for g in root.iter(f"{SVG}g") if g.get("class", "").endswith("-matrix"))
    for node in matrix.iter(f"{SVG}text"):
        y = float(node.attrib["y"])
        lines[y] = lines.get(y, "") + (node.text or "")
    return [lines[y].replace("\u00a0", " ") for y in sorted(lines)]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_shows_what_is_printed_today(picture: Picture, tables: Path) -> None:
    printed = BAR.sub("", plain(take(picture, tables)))
    for theme in THEMES:
        said = read_picture(picture, theme).findtext(f"{SVG}desc") or ""
        assert is_shown(BAR.sub("", said), printed), "run `make pictures`, and look at them"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
@pytest.mark.parametrize("theme", THEMES)
def test_what_is_drawn_is_what_is_said(picture: Picture, theme: str) -> None:
    root = read_picture(picture, theme)
    assert root.findtext(f"{SVG}title") == f"deltactl {picture.alt}"
    said = (root.findtext(f"{SVG}desc") or "").split()
    drawn = " ".join(drawn_lines(root)).split()
    assert drawn == said


def test_pictures_load_nothing() -> None:
    for path in FOLDER.glob("*.svg"):
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|@font-face|<script|<image", text), path


def test_no_picture_is_left_over() -> None:
    wanted = {f"{picture.name}-{theme}.svg" for picture in PICTURES for theme in THEMES}
    assert {path.name for path in FOLDER.iterdir()} == {*wanted, "report.png"}
    assert (FOLDER / "report.png").stat().st_size < 200_000


def test_one_frame_of_a_bar_is_kept() -> None:
    frames = "".join(f"\r\x1b[2K\x1b[33m0:00\x1b[0m x: {n} of 2 tasks" for n in (0, 1, 2))
    printed = f"\x1b[?25l{frames}\r\x1b[1A\x1b[2K\x1b[?25h\x1b[32mdone\x1b[0m\n"
    assert plain(choose_frame(printed)) == "0:00 x: 1 of 2 tasks\ndone"
    assert choose_frame("\x1b[32mdone\x1b[0m\n") == "\x1b[32mdone\x1b[0m\n"


def test_texts_are_escaped() -> None:
    svg = draw(PICTURES[0], "a < {b} & c\n", THEMES["light"])
    assert ET.fromstring(svg).findtext(f"{SVG}desc") == "a < {b} & c"
