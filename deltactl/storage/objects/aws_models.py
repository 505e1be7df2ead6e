"""The descriptions of AWS services that botocore reads before it makes a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import DataNotFoundError
from botocore.loaders import Loader, create_loader


class _Services:
    """The services that are described; asked for one, it looks for that one."""

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
    """Does not look through the folders of all 400 services to know whether one is among them."""

    def list_available_services(self, type_name: str) -> Any:
        """Give what tells whether a service is described, and all of them in turn."""
        return _Services(self, type_name)


def use_direct_loader(session: Any) -> None:
    """Let a session find the services it needs without listing the others: thousands of looks.

    ``data_loader`` is the component that botocore's ``Session.register_component`` documents.
    """
    usual = create_loader(session.get_config_variable("data_path"))
    session.register_component(
        "data_loader",
        _DirectLoader(extra_search_paths=usual.search_paths, include_default_search_paths=False),
    )
