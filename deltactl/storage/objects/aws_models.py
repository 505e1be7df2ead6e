"""Load the descriptions of AWS services that botocore needs for a client, without listing all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import DataNotFoundError
from botocore.loaders import Loader, create_loader


class _Services:
    """The described services; ``in`` looks for one file only."""

    def __init__(self, loader: Any, type_name: str) -> None:
        self._loader, self._type_name = loader, type_name

    def __contains__(self, name: str) -> bool:
        try:
            return bool(self._loader.list_api_versions(name, self._type_name))
        except DataNotFoundError:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(Loader.list_available_services(self._loader, self._type_name))


class _DirectLoader(Loader):  # type: ignore[misc]
    """A loader that does not list the directories of all 400 services to find one of them."""

    def list_available_services(self, type_name: str) -> Any:
        """Return the services, as an object that finds one of them without listing all."""
        return _Services(self, type_name)


def use_direct_loader(session: Any) -> None:
    """Make a session find its services without listing the others, which takes thousands of calls.

    ``data_loader`` is the component that botocore's ``Session.register_component`` documents.
    """
    usual = create_loader(session.get_config_variable("data_path"))
    session.register_component(
        "data_loader",
        _DirectLoader(extra_search_paths=usual.search_paths, include_default_search_paths=False),
    )
