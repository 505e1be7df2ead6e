"""What happens next, and what happened in order: values that read, write and replay."""

from __future__ import annotations

from typing import Final, NamedTuple

ENVIRONMENT: Final = -1


class Step(NamedTuple):
    """What happens next: a program goes on, or the environment acts. ``choice`` says how.

    ``""`` is the plain answer. ``crash`` and ``tear`` end a program, ``fail`` and ``ambiguous``
    are errors before and after the effect, ``lie`` says "exists" of what was just created,
    ``late`` an error whose effect comes at some later time, ``outage`` one after which the
    program cannot reach that name again. ``some`` and ``gap`` are what a listing may see that was
    begun earlier. The environment lets time pass (``tick``) or a late request land (``land``).
    """

    program: int
    choice: str = ""


class Schedule(tuple[Step, ...]):
    """Steps in order; reads and writes as ``A12 B3 B:ambiguous A4``."""

    def __str__(self) -> str:
        words: list[str] = []
        run, count = -2, 0
        for step in [*self, Step(-2)]:
            if step.program == run and not step.choice:
                count += 1
                continue
            if count:
                words.append(f"{letter_of(run)}{count}")
            run, count = (-2, 0) if step.choice else (step.program, 1)
            if step.choice:
                words.append(f"{letter_of(step.program)}:{step.choice}")
        return " ".join(words)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        steps: list[Step] = []
        for word in text.split():
            program = ENVIRONMENT if word[0] == "*" else ord(word[0]) - ord("A")
            if word[1] == ":":
                steps.append(Step(program, word[2:]))
            else:
                steps += [Step(program)] * int(word[1:])
        return cls(steps)

    @property
    def switches(self) -> int:
        """How often another one goes on."""
        return sum(1 for a, b in zip(self, self[1:], strict=False) if a.program != b.program)


def letter_of(program: int) -> str:
    """``A``, ``B`` ..., and ``*`` for the environment."""
    return "*" if program == ENVIRONMENT else chr(ord("A") + program)
