"""The description of the package, for hatchling: the README as others than GitHub show it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackageMetadata(MetadataHookInterface):
    """Sets ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description; the modules of this directory are not installed while it runs."""
        path = Path(self.root, "dev", "hosting.py")
        spec = importlib.util.spec_from_file_location("hosting", path)
        assert spec is not None
        assert spec.loader is not None
        hosting = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(hosting)
        readme = Path(self.root, "README.md").read_text("utf-8")
        text = hosting.render_package_readme(readme, hosting.read_repository())
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
