"""Write ``index.html`` of a bundle: its parts and the most important facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from deltactl.cli.html_report.document import format_instant, render_document, render_footer
from deltactl.cli.html_report.html import Markup, element, foreign, join
from deltactl.cli.html_report.parts import (
    Head,
    render_badge,
    render_items,
    render_table,
    render_tiles,
)
from deltactl.cli.output.page import Tone
from deltactl.operations.bundle.parts import Part
from deltactl.units import format_count, format_size

_SHOWN_COMMITS: Final = 20
_TONES: Final = {"error": Tone.BAD, "warning": Tone.CAUTION}


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """What the page says about the bundle itself; ``table`` is a pseudonym."""

    table: str
    run_id: str
    made_ms: int
    keeps_names: bool


def render_bundle(parts: Sequence[Part], facts: BundleFacts) -> str:
    """Write the page."""
    values = {part.name: part.value for part in parts if part.value is not None}
    header = element(
        "header",
        element("h1", "deltactl bundle"),
        element("p", f"{facts.table}, {format_instant(facts.made_ms)}"),
    )
    main = element(
        "main",
        *_render_table(values),
        *_render_findings(values.get("check.json")),
        *_render_commits(values.get("history.json")),
        _render_parts(parts),
        _render_rules(facts),
    )
    return render_document("deltactl bundle", header, main, render_footer(facts.run_id))


def _render_table(values: Mapping[str, Any]) -> Iterator[Markup]:
    detail = values.get("detail.json")
    if detail is None:
        return
    row, sizes = detail["row"], detail["file_sizes"]
    reader, writer = row["minReaderVersion"], row["minWriterVersion"]
    tiles = [
        ("version", str(detail["version"]), format_instant(detail["timestamp_ms"])),
        ("files", f"{row['numFiles']:,}", f"{sizes['small_files']:,} small"),
        ("size", format_size(row["sizeInBytes"]), ""),
        ("protocol", f"{reader}, {writer}", ", ".join(row["tableFeatures"])),
    ]
    refusals = [f"{verb}: {why}" for verb, why in detail["refusals"].items()]
    yield _section(
        "The table",
        render_tiles(tiles),
        render_items("What deltactl refuses", refusals),
    )


def _render_findings(check: Mapping[str, Any] | None) -> Iterator[Markup]:
    if check is None:
        return
    heading = "Findings of check"
    if check["sound"]:
        yield _section(heading, element("p", render_badge("none", Tone.GOOD)))
        return
    severities = {row["code"]: row["severity"] for row in check["findings"]}
    meanings = {row["code"]: row["meaning"] for row in check["findings"]}
    rows = [
        (
            code,
            render_badge(severities[code], _TONES[severities[code]]) if code in severities else "",
            f"{count:,}",
            meanings.get(code, ""),
        )
        for code, count in check["codes"].items()
    ]
    heads = [Head("code"), Head("severity"), Head("count", is_number=True), Head("meaning")]
    table = render_table(format_count(sum(check["codes"].values()), "finding"), heads, rows)
    yield _section(heading, table)


def _render_commits(history: Mapping[str, Any] | None) -> Iterator[Markup]:
    if history is None:
        return
    heads = [Head("version", is_number=True), Head("time"), Head("operation"), Head("engine")]
    rows = [
        (
            str(row["version"]),
            "-" if row["timestamp"] is None else format_instant(row["timestamp"]),
            foreign(row["operation"] or row["problem"] or "-"),
            foreign(row["engineInfo"] or "-"),
        )
        for row in history["rows"][:_SHOWN_COMMITS]
    ]
    operations = Counter(row["operation"] for row in history["rows"])
    said = ", ".join(f"{name or '-'} {count:,}" for name, count in operations.most_common(8))
    caption = f"The {len(rows)} newest of {len(history['rows']):,} commits read"
    table = render_table(caption, heads, rows)
    yield _section("Commits", element("p", foreign(said)), table)


def _render_parts(parts: Sequence[Part]) -> Markup:
    rows = [
        (
            part.name,
            render_badge("ok", Tone.GOOD)
            if part.error is None
            else join(render_badge(part.error.code, Tone.BAD), foreign(part.error.message)),
            format_size(len(part.data)),
        )
        for part in sorted(parts, key=lambda part: (part.error is None, "/" in part.name))
    ]
    heads = [Head("file"), Head("state"), Head("size", is_number=True)]
    table = render_table(format_count(len(rows), "file"), heads, rows)
    return _section("In this bundle", table)


def _render_rules(facts: BundleFacts) -> Markup:
    kept = "kept" if facts.keeps_names else "replaced"
    lines = (
        "A text that starts with ~ is a pseudonym. In this bundle, equal texts have equal "
        "pseudonyms. The secret key of the pseudonyms was not stored, so nobody can compute them "
        "again.",
        "These texts are replaced: partition values, bounds of statistics, predicates, "
        "parameters, user metadata, comments, users, addresses, and all texts that are not known "
        "to be harmless. "
        f"Names of columns, properties and tags are {kept}.",
        "These are not replaced: versions, times, sizes, counts, types, table features, known "
        "properties, operations, and file names that writers generate.",
    )
    return _section("What was replaced", *(element("p", it) for it in lines))


def _section(heading: str, *content: Markup) -> Markup:
    anchor = heading.lower().replace(" ", "-")
    return element("section", element("h2", heading, id=anchor), *content, aria_labelledby=anchor)
