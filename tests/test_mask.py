"""Who wrote each character: masks written by hand, every choice a trainer can make, and tokens at the borders."""

from __future__ import annotations

import itertools
import json
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from cases import GOLDEN, TEMPLATES, chat, expected, load

CASES = [(template, file.stem) for template in TEMPLATES for file in sorted((GOLDEN / template).glob("*.mask"))]


class Run(NamedTuple):
    mark: str  # r, c, t, e, b, or - for what nobody is trained on
    message: int | None
    text: str


def read(template: str, name: str) -> list[Run]:
    runs = []
    for line in (GOLDEN / template / f"{name}.mask").read_bytes().decode("utf-8").split("\n"):
        if line:
            mark, message, text = line.split(" ", 2)
            runs.append(Run(mark, None if message == "-" else int(message), json.loads(text)))
    return runs


def spans(runs: list[Run], marks: str, messages: set[int]) -> list[tuple[int, int]]:
    """Where the runs with one of the marks stand, of some messages; those that touch are one."""
    found: list[tuple[int, int]] = []
    end = 0
    for mark, message, text in runs:
        start, end = end, end + len(text)
        if mark in marks and message in messages:
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, end))
    return found


def test_each_template_has_masks_written_by_hand() -> None:
    for template in TEMPLATES:
        assert len([name for of, name in CASES if of == template]) >= 15


@pytest.mark.parametrize(("template", "name"), CASES)
def test_masks_of_every_choice(package: ModuleType, template: str, name: str) -> None:
    case, runs = load(template, name), read(template, name)
    roles = [message.get("role") if isinstance(message, dict) else None for message in case["messages"]]
    turns = [i for i, role in enumerate(roles) if role == "assistant"]
    tools = {i for i, role in enumerate(roles) if role == "tool"}
    object = chat(package, template, case)
    keywords = {"add_generation_prompt": case.get("add_generation_prompt", object.default_generation_prompt)}
    assert "".join(run.text for run in runs) == expected(template, name).text
    assert all(run.text and (run.mark == "-") == (run.message is None) for run in runs)
    chosen: list[tuple[Any, list[int]]] = [("all", turns), ("last", turns[-1:]), (turns[:1], turns[:1]), ([], [])]
    for which, meant in chosen:
        for reasoning, tool_calls, tool_responses in itertools.product((True, False), repeat=3):
            mask = package.mask(
                object, case["messages"], **keywords,
                turns=which, reasoning=reasoning, tool_calls=tool_calls, tool_responses=tool_responses,
            )  # fmt: skip
            marks = "ce" + "r" * reasoning + "t" * tool_calls + "b" * tool_responses
            answers = {i for i in tools if which == "all" or max([t for t in turns if t < i], default=-1) in meant}
            assert mask.text == expected(template, name).text
            assert mask.spans == spans(runs, marks, {*meant, *answers}), (which, marks)


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([2], r"^turns holds 2, but messages\[2\] is no message of the assistant$"),
        ([1, 3], r"^turns holds 3, "),
        ([-1], r"^turns holds -1, "),
        (["1"], r"^turns holds 1, "),
        ("first", r"^turns is 'first', but must be \"all\", \"last\" or indices of messages$"),
    ],
)
def test_turns_that_are_none(package: ModuleType, turns: Any, words: str) -> None:
    messages = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "P"},
    ]
    with pytest.raises(ValueError, match=words):
        package.mask(package.Hy4(), messages, turns=turns)


def test_turns_of_any_kind(package: ModuleType) -> None:
    messages = [{"role": role, "content": "Q"} for role in ("user", "assistant", "user", "assistant")]
    chat = package.Hy4()
    both = package.mask(chat, messages).spans
    for turns in ([1, 3], {3, 1}, iter([1, 3]), (i for i in (1, 3)), map(int, "13"), range(1, 4, 2)):
        assert package.mask(chat, messages, turns=turns).spans == both


def test_tokens_at_the_borders(package: ModuleType) -> None:
    mask = package.Mask("0123456789", [(2, 5), (7, 8)])
    tokens = {
        (2, 3): 1,
        (4, 5): 1,
        (2, 5): 1,
        (7, 8): 1,
        (1, 3): 0,
        (4, 6): 0,
        (2, 8): 0,
        (5, 7): 0,
        (0, 10): 0,
        (3, 3): 0,
    }
    assert mask.token_mask(tokens) == list(tokens.values())
    assert mask.token_mask([[2, 3], [0, 0]]) == [1, 0]
    assert mask.token_mask([]) == package.Mask("", []).token_mask([]) == []


def test_a_template_of_ones_own_has_no_mask(package: ModuleType) -> None:
    class Other(package.ChatFormat):  # type: ignore[misc, name-defined]
        def write(self, out: Any, *arguments: Any) -> None:
            out.content("hi")

    assert Other().render([]) == "hi"
    with pytest.raises(TypeError, match="chat must be an object of one of the four classes of this package"):
        package.mask(Other(), [])
