import csv
import io
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from deltactl.cli.output.envelope import Envelope
from deltactl.cli.output.log_handler import log_to
from deltactl.cli.output.output import LogFormat, Output, OutputFormat
from deltactl.cli.output.sections import Column, Kind, Section, Styled, Table, Tone
from deltactl.cli.output.terminal import has_color, terminal_width
from deltactl.errors import TableError


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


ROWS: list[Mapping[str, Any]] = [
    {"version": 1, "who": "a,b", "tags": {"k": 1}, "at": datetime(2024, 1, 1, tzinfo=UTC)},
    {"version": 2, "who": "x\x1b[31m\ny", "note": None},
]


def emit(form: OutputFormat, rows: Any = None, stdout: io.StringIO | None = None) -> str:
    stdout = stdout or io.StringIO()
    output = Output(form, environ={}, stdout=stdout, stderr=io.StringIO())
    envelope = Envelope("show", "/t", result={"n": 1})
    output.emit(envelope, sections=lambda: [Section("hello")], rows=rows)
    return stdout.getvalue()


def test_the_table_format_prints_the_page() -> None:
    assert emit(OutputFormat.TABLE, ROWS) == "hello\n"


def test_ndjson_prints_rows() -> None:
    lines = [json.loads(line) for line in emit(OutputFormat.NDJSON, ROWS).splitlines()]
    assert lines[0]["at"] == "2024-01-01T00:00:00Z"
    assert lines[1] == {"version": 2, "who": "x\x1b[31m\ny", "note": None}


def test_ndjson_without_rows_is_the_envelope_on_one_line() -> None:
    text = emit(OutputFormat.NDJSON)
    assert text.count("\n") == 1
    assert json.loads(text)["result"] == {"n": 1}


ARROW = pa.table({"b": [1, 2], "a": [None, "x"]})


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        (
            ROWS,
            "version,who,tags,at,note\n"
            '1,"a,b","{""k"": 1}",2024-01-01T00:00:00Z,\n'
            '2,"x\x1b[31m\ny",,,\n',
        ),
        (ARROW, "b,a\n1,\n2,x\n"),
        (ARROW.slice(0, 0), "b,a\n"),
        (None, "n\n1\n"),  # of the result
        ([], ""),
    ],
    ids=["any text", "Arrow", "no rows of Arrow", "the result", "no rows"],
)
def test_csv_in_a_file_has_the_data_as_it_is(rows: Any, printed: str) -> None:
    assert emit(OutputFormat.CSV, rows) == printed


def test_csv_is_escaped_on_a_screen() -> None:
    assert "x\\x1b[31m\\ny" in emit(OutputFormat.CSV, ROWS, Screen())


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+x", "-x", "\t=1", "=cmd|' /C calc'!A0"])
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    (cell,) = list(csv.reader(io.StringIO(emit(OutputFormat.CSV, [{"who": text}]))))[1]
    assert cell == f"'{text}"


@pytest.mark.parametrize("text", ["-", "-12", "+1.5e3", "a=b", ""])
def test_what_is_no_formula_stays(text: str) -> None:
    printed = emit(OutputFormat.CSV, [{"who": text, "n": 1}])
    assert list(csv.reader(io.StringIO(printed)))[1][0] == text


@pytest.mark.parametrize("form", LogFormat)
def test_a_log_that_cannot_be_written_breaks_nothing(form: LogFormat) -> None:
    output = Output(environ={}, stdout=io.StringIO(), stderr=ClosedPipe(), log_format=form)
    output.warn("odd")
    output.emit_error(Envelope("show", None), TableError("broken"))


@pytest.mark.parametrize(
    ("environ", "screen", "color"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_color_depends_on_the_screen_and_the_environment(
    environ: dict[str, str], screen: bool, color: bool
) -> None:
    assert has_color(Screen() if screen else io.StringIO(), environ) is color


@pytest.mark.parametrize(
    ("columns", "width"), [("120", 120), ("", 80), ("0", 80), ("x", 80), ("-5", 80), ("²", 80)]
)
def test_the_width_is_taken_from_columns(columns: str, width: int) -> None:
    assert terminal_width(io.StringIO(), {"COLUMNS": columns}) == width


def test_color_changes_no_word() -> None:
    columns = [Column("name"), Column("n", Kind.NUMBER)]
    section = Section(
        (Styled("[bold]gone[/]", Tone.BAD), " plain :smile: http://x"),
        table=Table(columns, [("a", 1), ("b" * 200, 22)]),
    )
    plain, colored = io.StringIO(), Screen()
    for stream in (plain, colored):
        Output(environ={}, stdout=stream).emit(Envelope("show", None), sections=lambda: [section])
    assert "\x1b[1;31m[bold]gone[/]\x1b[0m plain :smile: http://x\n" in colored.getvalue()
    stripped = colored.getvalue()
    for code in ("\x1b[1;31m", "\x1b[1m", "\x1b[0m"):
        stripped = stripped.replace(code, "")
    assert stripped == plain.getvalue()


def test_log_records_reach_the_output_and_the_logger_is_left_as_it_was() -> None:
    err = io.StringIO()
    output = Output(environ={}, stderr=err)
    logger = logging.getLogger("deltactl.some.room")
    with log_to(output, verbose=0):
        logger.info("unheard")
        logger.warning("heard %s", "well")
    with log_to(output, verbose=2):
        logger.debug("fine detail")
    assert err.getvalue() == "warning: heard well\nnote: deltactl.some.room: fine detail\n"
    assert output.warnings == ["heard well"]
    assert logging.getLogger("deltactl").handlers == []
    assert logging.getLogger("deltactl").propagate
