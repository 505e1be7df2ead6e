"""``python -m dev.generate_files``: write what is made from commands, options and the README.

These are completions/, man/, the types of keyword arguments, the schema of settings, texts with the
address of the project, and the tables of packages, findings and features.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deltactl.cli.app import build_group
from deltactl.cli.reference.install import COMPLETION_FILES
from dev import feature_table, keyword_types, settings_schema
from dev.completions import render_completion
from dev.feature_table import render_feature_table
from dev.hosting import read_repository, render_hosted
from dev.manual import render_manual
from dev.package_map import PAGE, render_package_map
from dev.program import describe_program


def render_files() -> dict[str, str]:
    """Return the text of each generated file, by its path in the repository."""
    program = describe_program(build_group())
    files = {
        f"completions/{name}": render_completion(shell, program)
        for shell, name in COMPLETION_FILES.items()
    }
    files[keyword_types.FILE] = keyword_types.render_keyword_types()
    files[settings_schema.FILE] = settings_schema.render_settings_schema()
    return files | {f"man/{name}": text for name, text in render_manual(program).items()}


def main(directory: str = ".") -> None:
    """Write the files below a directory, by default the working directory."""
    files = {**render_files(), **render_hosted(read_repository()), PAGE: render_package_map()}
    files[feature_table.PAGE] = render_feature_table()
    for name, text in files.items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
