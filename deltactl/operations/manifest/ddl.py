"""Write DDL statements that register the manifests of a table in the catalog of an engine.

Each engine has its own type names, quotes and statements to register partitions.
Source: the documentation of Athena, Hive, Trino and Redshift Spectrum on symlink manifests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltactl.errors import CorruptLogError, UnsupportedFeatureError, UsageError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import render_root
from deltactl.operations.manifest.directories import parse_directory
from deltactl.operations.manifest.engine_types import HIVE_TYPES, engine_type
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.plan import (
    STALE,
    ManifestPlan,
    PartitionManifest,
)
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partitions import normalize_partition_column
from deltactl.protocol.paths import HIVE_NULL
from deltactl.protocol.schema import DeltaType, Field, PrimitiveType, is_void, render_type
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import parse_scheme

# Engines limit the length of a statement; Redshift to this number of partitions.
_PARTITIONS_A_STATEMENT: Final = 100

_REDSHIFT_TYPES: Final = HIVE_TYPES | {
    "byte": "smallint",
    "integer": "integer",
    "float": "real",
    "double": "double precision",
    "string": "varchar(65535)",
    "binary": "varbyte(1000000)",
}
# The grammar of Hive has no sign in the value of a partition.
_BARE_LITERAL: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?|true|false")
_QUOTED: Final = frozenset(map(PrimitiveType, ("string", "binary", "date")))
_WITHOUT_BUCKET: Final = re.compile(r"(s3[an]?|gs|gcs|abfss?)://(/|$)")
_UNNAMEABLE: Final = re.compile(r"\W+")

_STORED_AS: Final = (
    "ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'\n"
    "STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat'\n"
    "OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'"
)

# In the lexer of Hive, quotes and backslashes in a literal are special. The client that reads the
# statement ignores quotes: it replaces variables, reads single lines, and may split at ";".
_HIVE_SPECIAL: Final = re.compile(r"[\\';\x00-\x1f\x7f-\x9f\xad]|\$(?=\{)")
_HIVE_UNNAMEABLE: Final = re.compile(r"[;\x00-\x1f]|\$\{")

# The rules of engines for names, and of Athena for members of structs. Statements that quote other
# names may succeed, but later ones on the table can fail.
_ATHENA_NAMES: Final = (
    re.compile(r"[A-Za-z0-9_]{1,255}"), "only letters, digits and _, at most 255, are supported",
)  # fmt: skip
_HIVE_NAMES: Final = (
    re.compile(r"[^.:,]+"), "with a dot, a colon or a comma, CREATE TABLE or queries fail",
)  # fmt: skip
_ATHENA_MEMBER: Final = re.compile(r"[A-Za-z0-9_.]+")
_HIVE_MEMBER: Final = re.compile(r"[\w. $]+")  # other characters end a name in a type, also quoted


def _doubled(value: str) -> str:
    """Return a literal of standard SQL, where a backslash is an ordinary character."""
    return "'" + value.replace("'", "''") + "'"


def _printable(value: str) -> str:
    """Return a literal of Trino without characters that a terminal or an editor changes."""
    return _doubled(value) if value.isprintable() else "U&" + _doubled("".join(map(_code, value)))


def _code(char: str) -> str:
    if char.isprintable():
        return char.replace("\\", "\\\\")
    code = ord(char)
    return f"\\{code:04x}" if code < 0x10000 else f"\\+{code:06x}"


def _doubled_with_backslashes(value: str) -> str:
    """Return a literal of Redshift, where a backslash also escapes: see its QUOTE_LITERAL."""
    return _doubled(value.replace("\\", "\\\\"))


def _escaped(value: str) -> str:
    """Return a literal of Hive, where a doubled quote ends one literal and begins another."""
    return "'" + _HIVE_SPECIAL.sub(_hive_escape, value) + "'"


def _hive_escape(found: re.Match[str]) -> str:
    char = found[0]
    return f"\\{char}" if char in "\\'" else f"\\u{ord(char):04x}"


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The SQL dialect of an engine."""

    engine: str
    types: dict[str, str]
    quoting: str
    text: Callable[[str], str]
    schema: str = ""
    members: re.Pattern[str] | None = None
    """The names that members of structs can have, if not all."""
    is_on_s3: bool = False
    """Whether the engine reads tables on S3 only."""
    names: tuple[re.Pattern[str], str] | None = None
    """The names that columns and tables can have, if not all, and why."""

    def name(self, text: str, column: str = "") -> str:
        """Return a quoted name, of a member of ``column`` or of a column."""
        from sqlglot import exp  # slow to import, and most runs write no statements

        if "\0" in text or (self.quoting == "hive" and _HIVE_UNNAMEABLE.search(text)):
            raise self.refuse_name(text, column)
        return exp.to_identifier(text, quoted=True).sql(dialect=self.quoting)

    def member(self, text: str, column: str) -> str:
        """Return the name of a struct member, quoted where the engine supports that."""
        if self.members is not None and not self.members.fullmatch(text):
            raise self.refuse_name(text, column)
        if self.quoting == "hive":
            return self.name(text, column)
        from sqlglot import exp

        if exp.to_identifier(text).sql(dialect=self.quoting) != text:
            raise self.refuse_name(text, column)
        return text

    def refuse_name(self, name: str, column: str) -> UnsupportedFeatureError:
        """Return the error for a name that the engine cannot have."""
        where = f" in column {column!r}" if column else ""
        return _refuse(f"{self.engine} cannot have the name {name!r}{where}")

    def refuse_type(self, column: str, kind: DeltaType) -> UnsupportedFeatureError:
        """Return the error for a column whose type the engine does not have."""
        shown = render_type(kind)
        return _refuse(f"{self.engine} does not support the type of column {column!r}: {shown}")


def _refuse(why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        why,
        hint=f"Omit {option('ddl')}, and declare the table in the engine manually, without this "
        "column.",
    )


_HIVE: Final = _Dialect(
    "Hive", HIVE_TYPES, "hive", _escaped, members=_HIVE_MEMBER, names=_HIVE_NAMES
)
_DIALECTS: Final = {
    "athena": _Dialect(
        "Athena",
        HIVE_TYPES,
        "hive",
        _escaped,
        members=_ATHENA_MEMBER,
        is_on_s3=True,
        names=_ATHENA_NAMES,
    ),
    "hive": _HIVE,
    "trino": _HIVE,  # of its CREATE statement, which Hive must run
    "redshift": _Dialect(
        "Redshift",
        _REDSHIFT_TYPES,
        "redshift",
        _doubled_with_backslashes,
        schema="spectrum.",
        is_on_s3=True,
    ),
}


def render_ddl(
    snapshot: Snapshot, plan: ManifestPlan, root: str, options: ManifestOptions
) -> Iterator[str]:
    """Yield the statements for ``options.ddl``: the table, then removed and added partitions.

    A removed directory may have been of a value that another directory has now, so its partition is
    dropped first. Comments say what the engine may not accept, and where statements for Trino run.

    Raises:
        UsageError: the address of the manifests would have no bucket.
        UnsupportedFeatureError: a column has a type or a name that the engine lacks, or the engine
            cannot read where the table is.
    """
    assert options.ddl is not None
    if parse_scheme(root) == "file":
        root = f"file://{uri_to_path(root)}"  # Hadoop takes it as it is, not decoded
    scheme, separator, rest = root.partition(":")
    root = f"{options.schemes.get(scheme, scheme)}{separator}{rest}"
    if _WITHOUT_BUCKET.match(root):
        raise UsageError(
            f"{root} has no bucket: {option('schemes')} replaces only the scheme of an address",
            hint="Give the address of the table in the bucket.",
        )
    dialect = _DIALECTS[options.ddl]
    data = render_root(snapshot.store.engine_uri, options.schemes)
    for what, place in (("manifests", root), ("data files", data)):
        if dialect.is_on_s3 and not place.startswith("s3://"):
            raise _unreadable(dialect.engine, what, place)
    writer = _Writer(snapshot, root, dialect)
    is_trino = options.ddl == "trino"
    comments = list(writer.doubts())
    if is_trino:
        comments.append("Run this statement in Hive: Trino cannot create a table with manifests.")
    yield _commented(comments, writer.create_table())
    live = [partition for partition in plan.partitions if partition.state != STALE]
    gone = [partition for partition in plan.partitions if partition.state == STALE]
    if not writer.partition_fields:
        return
    dropped = map(writer.unregister if is_trino else writer.drop, gone)
    changes = list(filter(None, dict.fromkeys(dropped)))
    if is_trino:
        where = ["Run this statement, and those below, in Trino, in the catalog of the table."]
        changes += map(writer.register, live)
        yield from (_commented(where if not n else [], text) for n, text in enumerate(changes))
        return
    yield from changes
    for at in range(0, len(live), _PARTITIONS_A_STATEMENT):
        yield writer.add(live[at : at + _PARTITIONS_A_STATEMENT])


def _commented(comments: Sequence[str], statement: str) -> str:
    return "".join(f"-- {text}\n" for text in comments) + statement


def _unreadable(engine: str, what: str, root: str) -> UnsupportedFeatureError:
    scheme = root.partition(":")[0]
    replaced = (
        f"If it differs only in the scheme, replace {scheme} by s3 with {option('schemes')}. "
    )
    return UnsupportedFeatureError(
        f"{engine} reads tables on S3 only, and the {what} are under {root}",
        hint=f"Give the address of the table on S3. {'' if scheme == 'file' else replaced}If the "
        f"table is not on S3, use {option('ddl', 'trino')} or {option('ddl', 'hive')}.",
    )


def name_table(snapshot: Snapshot) -> str:
    """Return the name of a table in the statements."""
    name = snapshot.metadata.name or render_root(snapshot.store.uri).rpartition("/")[2]
    return _UNNAMEABLE.sub("_", name).strip("_").lower() or "delta_table"


def partition_values(folder: str, fields: Sequence[Field]) -> list[str | None] | None:
    """Return normal texts of the values; ``None`` if the directory is not of a partition."""
    values = parse_directory(folder, fields)
    if values is None:
        return None
    try:
        return [_normal_text(values[field.physical_name], field) for field in fields]
    except CorruptLogError:
        return None


def _normal_text(value: str | None, field: Field) -> str | None:
    """Return one text for all texts of a value; timestamps in the form that all engines read."""
    type_ = arrow_type(field.type)
    texts = pa.chunked_array([[value]], pa.string())
    text: str | None = normalize_partition_column(texts, type_)[0].as_py()
    if text and pa.types.is_timestamp(type_):
        return text.replace("T", " ").removesuffix("Z").removesuffix(".000000")
    return text


class _Writer:
    """Writes the statements of one table in one dialect."""

    def __init__(self, snapshot: Snapshot, root: str, dialect: _Dialect) -> None:
        metadata = snapshot.metadata
        self.partition_fields = metadata.partition_fields
        self._columns = [f for f in metadata.data_schema.fields if not is_void(f.type)]
        self._root, self._dialect = root, dialect
        self._name = name_table(snapshot)
        self._full_name = f"{dialect.schema}{dialect.name(self._name)}"

    def doubts(self) -> Iterator[str]:
        """Yield a sentence about names that the engine may reject."""
        it = self._dialect
        if it.names is None:
            return
        fields = (*self._columns, *self.partition_fields)
        names = [self._name, *(field.name for field in fields)]
        pattern, why = it.names
        if odd := [repr(name) for name in names if not pattern.fullmatch(name)]:
            yield f"{it.engine} may reject the names {', '.join(odd)}: {why}."

    def create_table(self) -> str:
        if not self._columns:
            raise UnsupportedFeatureError(
                f"tables of {self._dialect.engine} need a column that is not a partition column, "
                "and this table has none",
                hint=f"Omit {option('ddl')}.",
            )
        columns = ",\n".join(f"  {self._column(f)}" for f in self._columns)
        partitions = ", ".join(self._column(f) for f in self.partition_fields)
        partitioned = f"PARTITIONED BY ({partitions})\n" if partitions else ""
        return (
            f"CREATE EXTERNAL TABLE {self._full_name} (\n{columns}\n)\n{partitioned}"
            f"{_STORED_AS}\nLOCATION {self._dialect.text(self._root + '/')};"
        )

    def add(self, partitions: Sequence[PartitionManifest]) -> str:
        specs = "\n".join(
            f"  PARTITION ({self._spec(p)}) LOCATION {self._dialect.text(self._location(p))}"
            for p in partitions
        )
        return f"ALTER TABLE {self._full_name} ADD IF NOT EXISTS\n{specs};"

    def drop(self, partition: PartitionManifest) -> str | None:
        spec = self._spec(partition)
        # Redshift does not support IF EXISTS here.
        condition = "" if self._dialect.schema else "IF EXISTS "
        return (
            f"ALTER TABLE {self._full_name} DROP {condition}PARTITION ({spec});" if spec else None
        )

    def register(self, partition: PartitionManifest) -> str:
        return self._call("register_partition", partition, self._location(partition)) or ""

    def unregister(self, partition: PartitionManifest) -> str | None:
        return self._call("unregister_partition", partition, None)

    def _call(
        self, procedure: str, partition: PartitionManifest, location: str | None
    ) -> str | None:
        values = self._values(partition)
        if values is None:
            return None
        names = ", ".join(_printable(f.name.lower()) for f in self.partition_fields)
        texts = ", ".join(_printable(value or HIVE_NULL) for value in values)
        where = "" if location is None else f", location => {_printable(location)}"
        return (
            f"CALL system.{procedure}(schema_name => 'default', table_name => "
            f"{_doubled(self._name)}, partition_columns => ARRAY[{names}], "
            f"partition_values => ARRAY[{texts}]{where});"
        )

    def _location(self, partition: PartitionManifest) -> str:
        return f"{self._root}/{partition.folder}/"

    def _spec(self, partition: PartitionManifest) -> str:
        return ", ".join(
            f"{self._dialect.name(f.name)} = {self._literal(value, f)}"
            for value, f in zip(self._values(partition) or (), self.partition_fields, strict=False)
        )

    def _values(self, partition: PartitionManifest) -> list[str | None] | None:
        return partition_values(partition.folder, self.partition_fields)

    def _literal(self, value: str | None, field: Field) -> str:
        """Return a partition value as SQL. Only positive numbers and booleans have no quotes."""
        is_text = field.type in _QUOTED or not _BARE_LITERAL.fullmatch(value or "")
        return self._dialect.text(value or HIVE_NULL) if is_text else str(value)

    def _column(self, field: Field) -> str:
        return f"{self._dialect.name(field.name)} {self._type(field)}"

    def _type(self, field: Field) -> str:
        it = self._dialect
        return engine_type(field.type, field.name, it.types, it.member, it.refuse_type)
