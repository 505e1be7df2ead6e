"""Open the tables and stores of a run with its options, settings and names in catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.options.common import GlobalOptions, exposed_secrets, resolve_references
from deltactl.cli.options.declared import find_typed, take_options
from deltactl.cli.options.log_store import LogStoreOptions
from deltactl.cli.output.output import Output
from deltactl.cli.settings.file import Settings
from deltactl.cli.settings.sources import find_setting
from deltactl.commit_options import SECTION, CommitOptions
from deltactl.storage.network.pacing import RATE_OPTION

if TYPE_CHECKING:
    from deltactl.catalog.open import Located
    from deltactl.log.delta_log import DeltaLog
    from deltactl.storage.store import Store

T = TypeVar("T")


class TableAccess:
    """What a run needs to open tables. ``Session`` adds the rest of the run."""

    def __init__(self, environ: Mapping[str, str], options: GlobalOptions, output: Output) -> None:
        self.environ, self.options, self.output = environ, options, output
        self.settings = Settings(environ, [*(spec.name for spec in COMMANDS), SECTION])
        self.command: str | None = None
        self.table: str | None = None
        self.ctx: Any = None  # the parsed command line
        self.begin_changes: Callable[[], None] | None = None  # is called before each change
        self.names_at: dict[str, list[str]] = {}  # by location, of the tables of patterns
        self._located: dict[tuple[str, bool], Located] = {}  # tables that have names
        self._noted: set[str] = set()
        self._opened: list[DeltaLog] = []
        self._named_options: Mapping[str, str] | None = None  # of the storage of this table

    def take(self, kind: type[T]) -> T:
        """Return the options of a class, for this table.

        Raises:
            UsageError: a value is invalid.
        """
        return take_options(self.ctx, kind, self.settings.sources_for(self.command, self.table))

    def named_files(self) -> Iterator[tuple[str, str]]:
        """Yield the files that options and settings name, each after what names it."""
        sources = self.settings.sources_for(self.command, self.table)
        for it in self.ctx.command.declared.values():
            if it.placeholder == "FILE":
                setting = find_setting(sources, it.name) if it.option.is_settable else None
                file = find_typed(self.ctx, it) or (setting and setting.text)
                if file is not None:
                    yield f"--{it.name}", file
        yield from (("the settings", str(path)) for path in self.settings.paths)

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Return the storage options, with the limit of requests per second.

        Once a table that has a name was opened, they contain credentials from its catalog.

        Raises:
            UsageError: a variable that an option refers to is not set.
        """
        if self._named_options is not None:
            return self._named_options
        return self._resolve_pairs(self.options.storage_option)

    @property
    def catalog_options(self) -> dict[str, str]:
        """Return the storage options and the settings of catalogs in files.

        Raises:
            UsageError: a variable that an option refers to is not set.
        """
        settings = {key: value for key, (_, value) in self.settings.catalogs.items()}
        return {**settings, **self._resolve_pairs(self.options.storage_option)}

    def resolve_options(self, pairs: Mapping[str, str]) -> Mapping[str, str]:
        """Return the storage options of another table; without ``pairs``, those of this one.

        Raises:
            UsageError: a variable is not set.
        """
        if not pairs:
            return self.storage_options
        self._warn_of_secrets("--source-storage-option", pairs)
        return self._resolve_pairs(pairs)

    def _resolve_pairs(self, pairs: Mapping[str, str]) -> dict[str, str]:
        options = resolve_references(pairs, self.environ)
        rate = self.options.max_requests_per_second
        return options if rate is None else {**options, RATE_OPTION: str(rate)}

    def _warn_of_secrets(self, option: str, pairs: Mapping[str, str]) -> None:
        for key in exposed_secrets(pairs):
            self.output.warn(
                f"other users can see the value of {option} {key} in the process list: set an "
                f"environment variable, and write {key}=env:VARIABLE"
            )

    def open_store(
        self, address: str, *, read_only: bool = False, options: Mapping[str, str] | None = None
    ) -> Store:
        """Open a table's store with the storage options; a read-only one refuses every change.

        Raises:
            UsageError: the address is invalid.
            StorageError: the storage cannot be reached.
        """
        from deltactl.storage.open import open_store
        from deltactl.storage.write_guard import refuse_changes

        located = self._locate(address, options, read_only=read_only)
        if isinstance(located, str):
            store = open_store(located, self.storage_options if options is None else options)
        else:
            store = open_store(located.uri, located.options)
        return refuse_changes(store) if read_only else store

    def _locate(
        self,
        address: str,
        options: Mapping[str, str] | None = None,
        *,
        read_only: bool,
    ) -> str | Located:
        """Return where a table is that has a name; any other address unchanged."""
        from deltactl.storage.names import is_table_name

        if not is_table_name(address):
            return address
        key = address, read_only
        if key not in self._located:
            from deltactl.catalog.open import locate

            base = {**self.catalog_options, **(options or {})}
            found = self._with_other_names(locate(address, base, read_only=read_only))
            self._located[key] = found
            note = found.own_credentials
            if note is not None and note not in self._noted:
                self._noted.add(note)
                self.output.note(note)
        if address == self.table:
            self._named_options = self._located[key].options
        return self._located[key]

    def _with_other_names(self, found: Located) -> Located:
        """Return the same with the other names of the location, if a pattern found any."""
        from deltactl.storage.open import canonical_uri

        entry = found.entry
        names = () if entry is None else self.names_at.get(canonical_uri(entry.location), ())
        if entry is None or len(names) < 2:
            return found
        others = tuple(name for name in names if name != entry.name)
        return replace(found, entry=replace(entry, other_names=others))

    def open_log(
        self,
        address: str,
        *,
        read_only: bool = True,
        options: Mapping[str, str] | None = None,
        published_only: bool = False,
    ) -> DeltaLog:
        """Open the log of a table that the command does not commit to; see ``open_store``.

        ``published_only``: also if only a catalog knows the newest commits; then warn.
        """
        return self._open(address, options, read_only=read_only, published_only=published_only)

    def open_table(
        self, address: str, *, read_only: bool = False, published_only: bool = False
    ) -> DeltaLog:
        """Open the log of a table with its log store; see ``open_log``.

        The command may commit to it, unless it is read-only.

        Raises:
            UsageError: the address or an option of the log store is invalid.
            StorageError: the storage cannot be reached.
        """
        log_store = self.take(LogStoreOptions).resolve()
        log = self._open(
            address,
            log_store=log_store,
            read_only=read_only,
            published_only=published_only,
            guard=self._announcing,
        )
        log.commit_options = self.take(CommitOptions)
        return log

    def _open(
        self,
        address: str,
        options: Mapping[str, str] | None = None,
        *,
        read_only: bool,
        **more: Any,
    ) -> DeltaLog:
        from deltactl.log.delta_log import DeltaLog

        located = self._locate(address, options, read_only=read_only)
        options = self.storage_options if options is None else options
        log = DeltaLog.open(located, options, warn=self.output.warn, read_only=read_only, **more)
        self._opened.append(log)
        return log

    def _announcing(self, store: Store) -> Store:
        """Return a store that calls ``begin_changes`` before each change."""
        from deltactl.storage.write_guard import guarded

        begin = self.begin_changes
        return store if begin is None else guarded(store, lambda _: begin())
