"""As much of Airflow as a page uses: what it would start is recorded, and started by the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Self


class Operator:
    """Records its arguments. Only those of Airflow's own operator are taken."""

    made: list[Operator] = []

    def __init__(
        self,
        *,
        task_id: str,
        bash_command: str,
        retries: int = 0,
        retry_delay: object = None,
        skip_on_exit_code: int | list[int] | None = 99,
        append_env: bool = False,
        env: dict[str, str] | None = None,
    ) -> None:
        assert task_id
        assert DAG.open_dags, "an operator outside of a DAG runs nowhere"
        self.bash_command = bash_command
        Operator.made.append(self)

    def __rshift__(self, other: Operator) -> Operator:
        return other


class DAG:
    """The context that operators belong to."""

    open_dags: list[DAG] = []

    def __init__(
        self,
        dag_id: str,
        *,
        schedule: str | None,
        start_date: object,
        catchup: bool = False,
        max_active_runs: int = 16,
        default_args: dict[str, Any] | None = None,
    ) -> None:
        assert dag_id

    def __enter__(self) -> Self:
        DAG.open_dags.append(self)
        return self

    def __exit__(self, *args: object) -> None:
        DAG.open_dags.remove(self)


def commands_of(source: str) -> list[str]:
    """Run the source of a DAG; the commands of its tasks."""
    Operator.made.clear()
    with _installed():
        exec(compile(source, "dag", "exec"), {"__name__": "dag"})
    assert Operator.made, "the DAG has no task"
    return [operator.bash_command for operator in Operator.made]


@contextmanager
def _installed() -> Iterator[None]:
    """Airflow 3's modules, as far as they are here."""
    contents: dict[str, dict[str, Any]] = {"airflow.sdk": {"DAG": DAG}}
    contents["airflow.providers.standard.operators.bash"] = {"BashOperator": Operator}
    names = {name.rsplit(".", n)[0] for name in contents for n in range(name.count(".") + 1)}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    for name in names:
        module = ModuleType(name)
        vars(module).update(contents.get(name, {}))
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
