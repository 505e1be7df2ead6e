"""Manual pages, section 1, from the definitions that ``--help`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from deltactl import __version__
from deltactl.cli.exits import MEANINGS
from deltactl.cli.help import CommandDoc
from deltactl.cli.options.declared import Declared
from deltactl.cli.settings.sources import variable_name
from dev.program import ProgramDoc

# Fixed, so that the same sources give the same bytes; moved with each release.
_DATE: Final = "2026-11-24"

_ABOUT: Final = (
    "deltactl writes results to standard output, and everything else to standard error. You can "
    "give the options below before or after the command."
)
_FILES: Final = (
    ("TABLE/_delta_log/", "The transaction log of a table: commits and checkpoints."),
    (
        "TABLE/_deltactl/",
        "Files of deltactl: journals and quarantine of vacuum, leases, and records of the last "
        "runs. Readers and writers of Delta ignore this directory.",
    ),
    (
        "deltactl.toml",
        "The settings. deltactl reads the file in the working directory or, if there is none, in "
        "the nearest directory above it.",
    ),
    (
        "$XDG_CONFIG_HOME/deltactl/deltactl.toml",
        "Settings of the user. If XDG_CONFIG_HOME is not set, the file is in ~/.config/deltactl. "
        "If deltactl also finds a deltactl.toml in or above the working directory, the settings "
        "there override this file.",
    ),
)
_ENVIRONMENT: Final = (
    (
        "DELTACTL_CONFIG",
        "Path of a settings file. deltactl reads it instead of the two deltactl.toml files in the "
        "section FILES.",
    ),
    ("NO_COLOR", "If this variable has a value, deltactl prints no colours."),
    (
        "FORCE_COLOR",
        "With any value but 0, deltactl prints colours even if the output does not go to a "
        "terminal. With 0, deltactl prints no colours. NO_COLOR has precedence.",
    ),
    (
        "TERM",
        'If TERM is "dumb", deltactl prints no colours and draws no progress bar. For colours, '
        "FORCE_COLOR has precedence.",
    ),
    ("COLUMNS", "Width of the output in characters, instead of the width of the terminal."),
    ("JAVA_HOME", "Directory of the Java installation that Spark uses."),
    (
        "SPARK_REMOTE",
        "Address of the Spark Connect server, if neither --spark-remote nor --master is given.",
    ),
    (
        "AWS_*, GOOGLE_APPLICATION_CREDENTIALS, AZURE_*",
        "Credentials for S3, Google Cloud Storage and Azure. The names and meanings are those of "
        "the client library of each provider.",
    ),
)


def render_manual(program: ProgramDoc) -> dict[str, str]:
    """Return the text of all pages, by file name."""
    pages = {"deltactl.1": _render_root(program)}
    for line, doc in program.commands:
        pages[f"deltactl-{doc.name}.1"] = _render_command(line, doc)
    return pages


def _render_root(program: ProgramDoc) -> str:
    lines = _head("deltactl", "maintain Delta Lake tables")
    lines += _synopsis(["deltactl", "[OPTIONS] COMMAND [ARGS]..."], ["deltactl", "--version [-v]"])
    lines += [".SH DESCRIPTION"]
    lines += _paragraphs((*program.root.text, _ABOUT))
    lines += [".SH COMMANDS"]
    lines += _terms((f"deltactl-{doc.name}(1)", f"{line}.") for line, doc in program.commands)
    lines += _tail(program.root)
    pages = (f".BR deltactl-{doc.name} (1)" for _, doc in program.commands)
    return _join([*lines, ".SH SEE ALSO", *_commas(pages)])


def _render_command(line: str, doc: CommandDoc) -> str:
    lines = _head(f"deltactl-{doc.name}", _lower(line))
    lines += _synopsis([f"deltactl {doc.name}", doc.usage])
    lines += [".SH DESCRIPTION", *_paragraphs(doc.text)]
    lines += _tail(doc)
    return _join([*lines, ".SH SEE ALSO", ".BR deltactl (1)"])


def _tail(doc: CommandDoc) -> list[str]:
    """Return the sections for options, statuses, examples, files and environment."""
    lines = [".SH OPTIONS"]
    if doc.arguments:
        lines += [".SS Arguments", *_terms((a.placeholder, f"{a.help}.") for a in doc.arguments)]
    for group, options in doc.groups():
        lines += [f".SS {group}", *_terms((o.heading, _sentence(o.help)) for o in options)]
    lines += [".SH EXIT STATUS"]
    lines += _terms((str(code.value), _sentence(meaning)) for code, meaning in MEANINGS.items())
    lines += [".SH EXAMPLES", ".nf"]
    lines += [_line(example) for example in doc.examples]
    lines += [".fi", ".SH FILES", *_terms(_FILES), ".SH ENVIRONMENT"]
    variables = (
        (
            variable_name(o.name),
            f"{_describe_setting(o)}, if the command line does not have this option.",
        )
        for o in doc.options
        if o.option.is_settable
    )
    return [*lines, *_terms((*variables, *_ENVIRONMENT))]


def _describe_setting(option: Declared) -> str:
    """Return what a variable contains: for a flag, a number, because a flag has no value."""
    return (
        f"Value of --{option.name}"
        if option.placeholder
        else f"Whether to use --{option.name} (1 or 0)"
    )


def _head(name: str, line: str) -> list[str]:
    title = f'.TH {_escape(name.upper())} 1 {_DATE} "deltactl {__version__}" "deltactl manual"'
    return [title, ".SH NAME", f"{_escape(name)} \\- {_escape(line)}"]


def _synopsis(*forms: Sequence[str]) -> list[str]:
    lines = [".SH SYNOPSIS"]
    for position, (command, rest) in enumerate(forms):
        if position:
            lines.append(".br")
        lines += [f'.B "{_escape(command)}"', _line(rest)]
    return lines


def _paragraphs(texts: Iterable[str]) -> list[str]:
    lines = [line for text in texts for line in (".PP", _line(text))]
    return lines[1:]  # a heading begins a paragraph itself


def _terms(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for term, text in pairs for line in (".TP", f'.B "{_escape(term)}"', _line(text))]


def _commas(references: Iterable[str]) -> list[str]:
    *most, last = references
    return [*(f"{reference} ," for reference in most), last]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "]")) else f"{text}."


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _line(text: str) -> str:
    """A line of text, which must not begin as a request does."""
    escaped = _escape(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escape(text: str) -> str:
    """Escape characters that roff would read or print as others."""
    text = text.replace("\\", "\\e")
    for char, escaped in (
        ("-", "\\-"),
        ("'", "\\(aq"),
        ("`", "\\(ga"),
        ('"', "\\(dq"),
        ("~", "\\(ti"),
        ("^", "\\(ha"),
    ):
        text = text.replace(char, escaped)
    return " ".join(text.split())


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
