"""Write a complete HTML page that loads nothing from the network and runs no scripts."""

from __future__ import annotations

import base64
import hashlib

from deltactl import __version__
from deltactl.cli.html_report.html import Markup, element
from deltactl.cli.html_report.style import STYLE
from deltactl.units import format_timestamp


def render_document(title: str, *content: Markup) -> str:
    """Return a page with a title and the content of its body."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"deltactl {__version__}"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, element('body', *content), lang='en')}\n"


def render_footer(run_id: str) -> Markup:
    """Return the line at the end of a page."""
    made = f"Written by deltactl {__version__}, run {run_id}. Times are UTC."
    return element("footer", element("p", made))


def format_instant(ms: int) -> str:
    """Return a time in seconds, as people read it."""
    return f"{format_timestamp(ms)[:19].replace('T', ' ')} UTC"
