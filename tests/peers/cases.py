"""What is expected of a case, and how it is reported: for the drivers of the Python SDK."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

SLACK = 30.0  # How much longer anything may take on a machine that is busy.
ANSWER_WITHIN = 2.0 + SLACK  # A call that lost its server is answered in this time.
CASE_LIMIT = 120.0  # No case takes longer, on a busy machine too.


@dataclass
class Answer:
    """A tool's result, in the words of neither SDK."""

    text: str
    is_error: bool
    meta: dict[str, Any]


class WrongAnswer(AssertionError):
    def __init__(self, answer: Answer) -> None:
        super().__init__(f"answered {'an error: ' if answer.is_error else ''}{answer.text!r}")
        self.answer = answer


def expect(truth: bool, otherwise: str) -> None:
    if not truth:
        raise AssertionError(otherwise)


def expect_right(answer: Answer, right: bool) -> None:
    if answer.is_error or not right:
        raise WrongAnswer(answer)


def expect_text(answer: Answer, text: str) -> None:
    expect_right(answer, answer.text == text)


def expect_interrupted(server: Any, answer: Answer | None) -> None:
    """A truthful end: which server, what happened, whether it may have run; for a model and for a program."""
    expect(answer is not None, "never answered")
    assert answer is not None
    expect(answer.is_error, f"not an error: {answer.text!r}")
    for words in (f"{server.name}: ", server.death, "may have run"):
        expect(words in answer.text, f"{words!r} is not in {answer.text!r}")
    fault = answer.meta.get("dev.regrow/fault")
    expect(isinstance(fault, dict) and fault.get("server") == server.name, f"the fault in _meta is {fault!r}")


def expect_in_time(took: float) -> None:
    expect(took < ANSWER_WITHIN, f"the answer took {took:.2f} s")


def json_of(answer: Answer) -> dict[str, Any]:
    try:
        return json.loads(answer.text)
    except ValueError:
        return {}


async def until(true: Callable[[], bool], what: str, seconds: float = 20) -> None:
    with anyio.move_on_after(seconds + SLACK):
        while not true():
            await anyio.sleep(0.005)
        return
    raise AssertionError(f"waited {seconds + SLACK} s until {what}")


@dataclass
class Report:
    """One line for each case, as it ends."""

    prefix: str
    failures: int = 0
    ended: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def case(self, name: str, limit: float = CASE_LIMIT) -> AsyncIterator[None]:
        try:
            with anyio.fail_after(limit):
                yield
        except Exception as error:  # noqa: BLE001 - a failed case is reported, and the next one runs
            self.failed(name, error)
            if name.endswith(": connects"):
                raise
        else:
            self.ended.add(name)
            print(f"ok {self.prefix} {name}", flush=True)

    def not_reached(self, name: str, error: BaseException) -> None:
        if name not in self.ended:
            self.failed(name, RuntimeError(f"not reached: {reason(error)}"))

    def failed(self, name: str, error: BaseException) -> None:
        self.failures += 1
        self.ended.add(name)
        print(f"FAILED {self.prefix} {name}: {reason(error)}", flush=True)


def reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return "took too long"
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
