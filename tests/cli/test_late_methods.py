"""Methods of dataclasses that are compiled by their first call."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from deltactl.cli.startup import build_methods_late

IS_LATE = sys.version_info[:2] < (3, 13)


@dataclass(frozen=True, slots=True, order=True)
class Frozen:
    number: int
    names: tuple[str, ...] = ()
    hidden: int = field(default=0, compare=False, repr=False)


@dataclass
class Base:
    number: int

    def __post_init__(self) -> None:
        self.doubled = 2 * self.number


@dataclass
class Derived(Base):
    items: list[int] = field(default_factory=list)


def compiled_from(method: Any) -> str:
    return str(method.__code__.co_filename)


def test_methods_are_compiled_by_their_first_call_and_then_stay() -> None:
    @dataclass(frozen=True)
    class Late:
        number: int

    assert (compiled_from(Late.__init__) == "<string>") is not IS_LATE
    one = Late(1)
    assert compiled_from(Late.__init__) == "<string>"
    assert one == Late(1)
    assert compiled_from(Late.__eq__) == "<string>"
    assert hash(one) == hash(Late(1))
    assert compiled_from(Late.__hash__) == "<string>"
    assert Late.__init__.__qualname__.endswith("Late.__init__")


def test_a_frozen_class_compares_hashes_orders_and_shows_as_ever() -> None:
    one = Frozen(1, ("a",), hidden=5)
    assert one == Frozen(1, ("a",), hidden=6)
    assert one != Frozen(2, ("a",))
    others: list[object] = [(1, ("a",), 5)]
    assert one not in others
    assert hash(one) == hash((1, ("a",)))
    assert Frozen(1) < one < Frozen(2)
    assert Frozen(1) <= Frozen(1) >= Frozen(1)
    assert repr(one) == "Frozen(number=1, names=('a',))"
    assert replace(one, number=3).hidden == 5
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'number'"):
        one.number = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'number'"):
        del one.number
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'number'"):
        Frozen()  # type: ignore[call-arg]


def test_a_derived_class_has_methods_of_its_own() -> None:
    assert Derived(1, [2]).doubled == 2
    assert Base(1).doubled == 2
    assert Base(1) != Derived(1)
    assert Derived(1) == Derived(1, [])
    assert Derived(1).items is not Derived(1).items
    assert repr(Derived(4)) == "Derived(number=4, items=[])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Derived(1))


def test_an_error_in_a_first_call_does_not_break_the_next() -> None:
    @dataclass
    class Picky:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("negative")

    with pytest.raises(ValueError, match="negative"):
        Picky(-1)
    assert Picky(1).number == 1


def test_a_second_call_changes_nothing() -> None:
    before = getattr(dataclasses, "_create_fn", None)
    assert build_methods_late() is IS_LATE
    assert getattr(dataclasses, "_create_fn", None) is before


def test_an_unknown_form_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(name: str, lines: list[str]) -> None: ...

    for unknown in (other, None):
        monkeypatch.setattr(dataclasses, "_create_fn", unknown, raising=False)
        assert build_methods_late() is False
        assert dataclasses._create_fn is unknown  # type: ignore[attr-defined]
