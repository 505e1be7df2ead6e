"""The texts that depend on where the project is hosted.

``repository`` in ``[tool.deltactl]`` of ``pyproject.toml`` is ``OWNER/NAME`` on GitHub, or empty:
not decided. Then the action is used from a clone (``uses: ./``), and the description of the package
has neither pictures nor links to files.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ACTION_PAGE: Final = "docs/github-actions.md"
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)
_USES: Final = re.compile(r"uses: \S+(?=  # deltactl$)", re.MULTILINE)
_PICTURE: Final = re.compile(r"<picture>.*?</picture>\n*|!\[[^\]]*\]\([^)]*\)\n*", re.DOTALL)
_SCREENS: Final = re.compile(r"^## Examples\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")
_SOURCE: Final = re.compile(r'(?<=["(])(docs/[^")\s]+\.(?:svg|png))(?=[")])')


def read_repository() -> str:
    """Return ``OWNER/NAME``, or an empty string."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["deltactl"]
    return str(settings["repository"])


def render_hosted(repository: str) -> dict[str, str]:
    """Return the texts that need the address, by their paths in the repository."""
    page = (ROOT / ACTION_PAGE).read_text("utf-8")
    return {ACTION_PAGE: render_action_page(page, repository)}


def read_version() -> str:
    """Return the version of the package, without importing it."""
    found = _VERSION.search((ROOT / "deltactl" / "__init__.py").read_text("utf-8"))
    assert found is not None
    return found[1]


def render_action_page(text: str, repository: str) -> str:
    """Return the page with the address of the action."""
    address = f"{repository}@v{read_version()}" if repository else "./"
    return _USES.sub(f"uses: {address}", text)


def render_package_readme(text: str, repository: str) -> str:
    """Return the README as the description of the package: links lead to the repository."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    if not repository:
        return _LINK.sub(r"\1", _PICTURE.sub("", _SCREENS.sub("", text)))
    tag = f"v{read_version()}"
    text = _SOURCE.sub(rf"https://raw.githubusercontent.com/{repository}/{tag}/\1", text)
    return _LINK.sub(rf"[\1](https://github.com/{repository}/blob/{tag}/\2)", text)
