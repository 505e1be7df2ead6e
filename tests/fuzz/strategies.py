"""Inputs by hypothesis: seeds bent by structure and by bytes, any number of times."""

from collections.abc import Callable
from random import Random

from hypothesis import strategies as st

from tests.fuzz.bend import bend, trust
from tests.fuzz.target import Target


def inputs_of(target: Target) -> st.SearchStrategy[bytes]:
    """Seeds of a target as they are not meant to be."""
    seeds = target.seeds()
    for data in seeds if target.form == "parquet" else ():
        trust(data)
    return st.builds(
        _bent,
        st.just(target),
        st.sampled_from(seeds),
        st.lists(st.sampled_from(_CHANGES), max_size=4),
        st.randoms(use_true_random=False).map(lambda random: random.getrandbits(64)),
    )


_Change = Callable[[Target, bytes, Random], bytes]


def _bent(target: Target, data: bytes, changes: list[_Change], seed: int) -> bytes:
    random = Random(seed)
    for change in changes:
        data = change(target, data, random)[: target.max_length]
    return data


def _by_structure(target: Target, data: bytes, random: Random) -> bytes:
    bent = bend(target.form, data, random)
    return data if bent is None else bent


def _by_word(target: Target, data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    word = random.choice(target.words).encode() if target.words else random.randbytes(4)
    return data[:at] + word + data[at + random.choice((0, len(word))) :]


def _by_byte(target: Target, data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(1) + data[at + random.choice((0, 1, 9)) :]


def _by_cut(target: Target, data: bytes, random: Random) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first:] if random.random() < 0.5 else data[:first] + data[last:]


_CHANGES: tuple[_Change, ...] = (_by_structure, _by_structure, _by_word, _by_byte, _by_cut)
