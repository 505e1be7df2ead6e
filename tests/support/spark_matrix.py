"""Tables written by Delta on Spark: every feature in several shapes of the log.

A feature is built once; the shapes of its log are made of copies, which is quicker than to write
the data again and tells apart what comes from the data and what from the log. Planning a query
takes Spark longer than a hundred rows do, so one query reads all that a test wants to know.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

import yaml

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Shape = Literal["json", "classic", "cleaned", "multipart", "v2json", "v2parquet"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
_FEWEST: Final[tuple[Shape, ...]] = ("json", "classic")
_V2: Final = ("v2json", "v2parquet")
_ROW_IDS: Final = ", _metadata.row_id AS r, _metadata.row_commit_version AS v"
T = TypeVar("T")

# NULL, -0.0 and microseconds have to show, or a difference in them would not.
_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its definition, and how it follows from ``id`` (None: Spark fills it in)."""

    name: str
    type: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Insert:
    """A commit of ``files`` files with the rows ``low <= id < high``.

    ``values`` adds to or replaces the values of the feature's columns, or drops one by None.
    """

    low: int
    high: int
    files: int = 3
    values: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the matrix, which is in ``spark_matrix.yaml``."""

    name: str
    columns: tuple[Column, ...]
    steps: tuple[Insert | str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    vectors: bool = False
    row_ids: bool = False
    shapes: tuple[Shape, ...] = _FEWEST


@dataclass(frozen=True, slots=True)
class Expected:
    """What Spark reads: rows as sorted JSON texts, the newest version last in ``versions``."""

    version: int
    schema: str
    rows: list[str]
    row_ids: list[str] | None
    versions: dict[int, list[str]]
    schemas: dict[int, str]


@dataclass(frozen=True, slots=True)
class MatrixTable:
    """A table of the matrix on disk."""

    name: str
    path: Path
    features: tuple[str, ...]
    expected: Expected


def _pick(*values: str) -> str:
    return f"element_at(array({', '.join(values)}), cast(id % {len(values)} + 1 as int))"


@cache
def features() -> list[Feature]:
    """All rows of the matrix, by unique name."""
    found = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    named = {name: Column(name, *_with_value(column)) for name, column in found["columns"].items()}
    columns: dict[str, tuple[Column, ...]] = {name: (it,) for name, it in named.items()}
    columns["BASE"] = tuple(named[name] for name in ("id", "name", "score"))
    columns["WIDE"] = tuple(_wide_columns())
    steps: dict[str, tuple[Insert | str, ...]] = {}
    for name, listed in found["steps"].items():
        steps[name] = _resolve(listed, steps, _step)
    return [
        Feature(
            name,
            _resolve(row.pop("columns"), columns, lambda it: Column(it[0], *_with_value(it[1:]))),
            _resolve(row.pop("steps"), steps, _step),
            shapes=SHAPES if row.get("shapes") == "ALL" else tuple(row.get("shapes", _FEWEST)),
            **{key: value for key, value in row.items() if key != "shapes"},
        )
        for name, row in found["features"].items()
    ]


def _resolve(
    listed: Iterable[Any], named: Mapping[str, tuple[T, ...]], make: Callable[[Any], T]
) -> tuple[T, ...]:
    """What is listed, with what names stand for."""
    parts = (named[it] if isinstance(it, str) and it in named else (make(it),) for it in listed)
    return tuple(chain.from_iterable(parts))


def _step(step: Any) -> Insert | str:
    if isinstance(step, str):
        return step
    low, high, *rest = step
    if len(rest) > 1:
        rest[1] = {name: _value(value) for name, value in rest[1].items()}
    return Insert(low, high, *rest)


def _with_value(column: Sequence[Any]) -> tuple[str, str | None]:
    return column[0], _value(column[1])


def _value(value: str | list[str] | None) -> str | None:
    return _pick(*value) if isinstance(value, list) else value


def _wide_columns() -> Iterator[Column]:
    kinds = ("INT", "STRING", "DOUBLE", "DATE")
    values = ("cast(id as int)", "concat('v', id)", "id / 7", "date'2024-01-01'")
    for number in range(198):
        kind = number % 4
        value = f"if(id % 7 = {number % 7}, null, {values[kind]})"
        yield Column(f"c{number:03}", kinds[kind], value)


def all_names() -> list[str]:
    """The names of all tables, ``feature-shape``."""
    return [f"{feature.name}-{shape}" for feature in features() for shape in feature.shapes]


def find_feature(name: str) -> Feature:
    """The feature of a table's name."""
    wanted = name.partition("-")[0]
    return next(feature for feature in features() if feature.name == wanted)


def _shape_of(name: str) -> Shape:
    wanted = name.partition("-")[2]
    return next(shape for shape in SHAPES if shape == wanted)


def table_name(path: Path) -> str:
    """A table by its path, as SQL wants it."""
    return f"delta.`{path}`"


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set the session's settings for as long as this lasts."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def insert_statement(feature: Feature, insert: Insert, low: int, high: int) -> str:
    """The statement that adds rows in the way of ``insert``."""
    values: dict[str, str | None] = {f"`{column.name}`": column.value for column in feature.columns}
    for name, value in insert.values.items():
        values[name if name.startswith("`") else f"`{name}`"] = value
    given = {name: value for name, value in values.items() if value is not None}
    names = ", ".join(given)
    # `id` is the name of the range's column, too.
    columns = ", ".join(f"{value} AS {name}" for name, value in given.items())
    return (
        f"INSERT INTO {{t}} ({names}) SELECT /*+ REPARTITION({insert.files}) */ {columns} "
        f"FROM range({low}, {high})"
    )


def later_insert(feature: Feature, low: int, high: int, **changed: Any) -> str:
    """A statement that adds rows to the finished table."""
    last = [step for step in feature.steps if isinstance(step, Insert)][-1]
    return insert_statement(feature, replace(last, **changed), low, high)


def build_base(spark: SparkSession, path: Path, feature: Feature, *, v2: bool = False) -> None:
    """Write the table of a feature, its log in JSON only."""
    properties = {
        "delta.enableDeletionVectors": str(feature.vectors).lower(),
        **({"delta.checkpointPolicy": "v2"} if v2 else {}),
        **feature.properties,
    }
    columns = ", ".join(f"`{column.name}` {column.type}" for column in feature.columns)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    name = table_name(path)
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING DELTA {feature.layout} TBLPROPERTIES ({listed})"
    )
    for step in feature.steps:
        if isinstance(step, Insert):
            with settings(spark, step.settings):
                spark.sql(insert_statement(feature, step, step.low, step.high).replace("{t}", name))
        else:
            spark.sql(step.replace("{t}", name))


def shape_copy(spark: SparkSession, base: Path, path: Path, shape: Shape) -> None:
    """Copy a table and give the copy's log a shape, with a checkpoint in the middle."""
    shutil.copytree(base, path, symlinks=True)
    if shape == "json":
        return
    log = path / "_delta_log"
    versions = sorted(_commit_versions(log))
    middle = versions[len(versions) * 2 // 3]
    wanted = {
        "multipart": {"spark.databricks.delta.checkpoint.partSize": "4"},
        "v2json": {**_top_file("json"), "spark.databricks.delta.checkpoint.partSize": "4"},
        "v2parquet": {**_top_file("parquet"), "spark.databricks.delta.checkpoint.partSize": "4"},
    }
    with (
        tempfile.TemporaryDirectory(dir=path.parent) as aside,
        settings(spark, wanted.get(shape, {})),
    ):
        tail = [file for file in log.iterdir() if (_version_of(file) or 0) > middle]
        for file in tail:
            file.rename(Path(aside, file.name))
        assert spark._jvm is not None
        deltas = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        deltas.forTable(spark._jsparkSession, str(path)).checkpoint()
        for file in tail:
            Path(aside, file.name).rename(file)
    if shape == "cleaned":
        for file in list(log.iterdir()):
            version = _version_of(file)
            if version is not None and version < middle:
                file.unlink()


def _top_file(form: str) -> dict[str, str]:
    return {"spark.databricks.delta.checkpointV2.topLevelFileFormat": form}


def _version_of(file: Path) -> int | None:
    """The version of a file of the log, of its Hadoop checksum too."""
    found = re.match(r"\.?(\d{20})\.", file.name)
    return int(found[1]) if found else None


def _commit_versions(log: Path) -> list[int]:
    return [int(file.stem) for file in log.glob("*.json") if re.fullmatch(r"\d{20}", file.stem)]


@dataclass(frozen=True, slots=True)
class View:
    """A table to read, at a version or now; with the ids of its rows, if that is asked for."""

    path: Path
    version: int | None = None
    row_ids: bool = False

    def load(self, spark: SparkSession) -> DataFrame:
        """The frame of Spark, not read yet."""
        reader = spark.read.format("delta")
        if self.version is not None:
            reader = reader.option("versionAsOf", self.version)
        return reader.load(str(self.path))


def read_views(spark: SparkSession, views: Sequence[View]) -> list[list[str]]:
    """What Spark reads from each view, by one query: the rows as sorted JSON texts."""
    texts = [
        view.load(spark).selectExpr(
            f"{number} AS n",
            f"to_json(struct(*{_ROW_IDS if view.row_ids else ''}), {_JSON_OPTIONS}) AS text",
        )
        for number, view in enumerate(views)
    ]
    found: list[list[str]] = [[] for _ in views]
    for row in reduce(lambda one, other: one.unionAll(other), texts).collect():
        found[row.n].append(row.text)
    return [sorted(rows) for rows in found]


def capture(spark: SparkSession, path: Path, feature: Feature) -> Expected:
    """What Spark reads from a table, at every version."""
    numbers = range(max(_commit_versions(path / "_delta_log")) + 1)
    views = [View(path, number) for number in numbers]
    ids = [View(path, row_ids=True)] if feature.row_ids else []
    found = read_views(spark, [*views, *ids])
    schemas = [view.load(spark).schema.simpleString() for view in views]
    return Expected(
        numbers[-1],
        schemas[-1],
        found[numbers[-1]],
        found[-1] if ids else None,
        dict(zip(numbers, found, strict=False)),
        dict(zip(numbers, schemas, strict=True)),
    )


class Matrix:
    """Builds tables on demand; what is common to the shapes of a feature is built once."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        self._expected: dict[str, Expected] = {}

    def build(self, name: str) -> MatrixTable:
        """The table of this name below the root, built unless that is done."""
        feature, shape = find_feature(name), _shape_of(name)
        base, expected = self._base(feature, v2=shape in _V2)
        path = self._root / name
        if not path.exists():
            shape_copy(self._spark, base, path, shape)
        return MatrixTable(name, path, (feature.name, shape), expected)

    def optimized(self, name: str) -> Path:
        """The table as Spark's own OPTIMIZE leaves it; the shape of the log changes nothing."""
        base, _ = self._base(find_feature(name), v2=_shape_of(name) in _V2)
        path = self._root / "_optimized" / base.name
        if not path.exists():
            shutil.copytree(base, path)
            self._spark.sql(f"OPTIMIZE {table_name(path)}")
        return path

    def _base(self, feature: Feature, *, v2: bool) -> tuple[Path, Expected]:
        key = f"{feature.name}-v2" if v2 else feature.name
        path = self._root / "_bases" / key
        if key not in self._expected:
            build_base(self._spark, path, feature, v2=v2)
            self._expected[key] = self._expect(path, feature, v2=v2)
        return path, self._expected[key]

    def _expect(self, path: Path, feature: Feature, *, v2: bool) -> Expected:
        if not v2:
            return capture(self._spark, path, feature)
        # The same statements leave the same rows, but in which order rows get ids is not told.
        expected = self._base(feature, v2=False)[1]
        if not feature.row_ids:
            return expected
        return replace(expected, row_ids=read_views(self._spark, [View(path, row_ids=True)])[0])
