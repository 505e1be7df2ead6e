"""The entry point of ``python -m deltactl``."""

from __future__ import annotations

from deltactl.cli.app import main

if __name__ == "__main__":
    main()
