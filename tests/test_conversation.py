"""Step by step equals at once: for any conversation, and any way of cutting it into steps."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import generate
import pytest
from cases import TEMPLATES, Case, Outcome, chat, load, names

import chatfmt
from chatfmt import ChatFormatError, Conversation, DomynSmall, Hy4, InputError, Ministral3Reasoning, SolarOpen2


def keywords(case: Case) -> dict[str, Any]:
    return {key: case[key] for key in ("add_generation_prompt",) if key in case}


def at_once(format: Any, messages: Any, case: Case) -> Outcome:
    try:
        return Outcome("text", format.render(messages, **keywords(case)))
    except ChatFormatError as error:
        return Outcome(type(error).__name__, str(error), error.path)


def walk(template: str, case: Case, rng: random.Random) -> int:
    """Extends a conversation by steps of random sizes and compares each prompt with `render`'s; counts the rewrites.

    A step that fails is taken back, and its messages come with the next one.
    """
    format = chat(chatfmt, template, case)
    messages, rewrites, before = case["messages"], 0, ""
    conversation, done, end = Conversation(format), 0, 0
    while end < len(messages):
        end += rng.choice((0, 1, 1, 1, 2, 3))
        expected = at_once(format, messages[:end], case)
        try:
            prompt = conversation.extend(messages[done:end], **keywords(case))
        except ChatFormatError as error:
            assert Outcome(type(error).__name__, str(error), error.path) == expected
            assert conversation.messages == messages[:done] or messages != messages  # NaN
            continue
        assert (expected.kind, expected.text) == ("text", prompt.text)
        common = next((i for i, pair in enumerate(zip(before, prompt.text)) if len(set(pair)) > 1), None)
        assert prompt.unchanged == (min(len(before), len(prompt.text)) if common is None else common)
        assert (prompt.first_rewritten < done) == bool(prompt.reason)
        assert not prompt.reason or end > done
        rewrites += bool(prompt.reason)
        done, before = min(end, len(messages)), prompt.text
    return rewrites


@pytest.mark.parametrize("template", TEMPLATES)
def test_goldens_step_by_step(template: str) -> None:
    rewrites = 0
    for name in names(template):
        case = load(template, name)
        if isinstance(case["messages"], list):
            rewrites += sum(walk(template, case, random.Random(f"{name} {n}")) for n in range(5))
    assert rewrites or template == "ministral3_reasoning"


@pytest.mark.parametrize("level", generate.LEVELS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_generated_conversations_step_by_step(template: str, level: str) -> None:
    rng = random.Random(f"steps {template} {level}")
    for _ in range(200):
        case = generate.case(template, level, rng)
        if isinstance(case["messages"], list):
            walk(template, case, rng)


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_only_new_messages_are_written() -> None:
    conversation = Conversation(SolarOpen2())
    first = conversation.extend([user("Q")])
    second = conversation.extend([{"role": "assistant", "content": "A", "reasoning": "R"}], add_generation_prompt=False)
    assert second.first_rewritten == 1
    assert second.reason == ""
    assert second.unchanged == len(first.text)  # the generation prompt is how the assistant's turn begins
    third = conversation.extend([{"role": "tool", "tool_call_id": "a", "content": "4"}])
    assert third.unchanged == len(second.text)


@pytest.mark.parametrize("format", [SolarOpen2(), Hy4()])
def test_reasoning_is_dropped_when_a_user_speaks_again(format: Any) -> None:
    conversation = Conversation(format)
    turn = {"role": "assistant", "content": "A", "reasoning": "R"}
    before = conversation.extend([user("Q"), {"role": "assistant", "content": "A"}, turn, turn])
    prompt = conversation.extend([user("Q")])
    assert prompt.first_rewritten == 2
    assert prompt.reason == "reasoning before the last user message is dropped"
    assert prompt.unchanged == before.text.index("R")


def test_late_system_messages_and_joined_responses_of_solar() -> None:
    conversation = Conversation(SolarOpen2())
    conversation.extend([user("Q"), {"role": "assistant", "content": "", "tool_calls": [CALL]}])
    response = {"role": "tool", "tool_call_id": "a", "content": "4"}
    assert conversation.extend([response]).reason == ""
    joined = conversation.extend([response])
    assert (joined.first_rewritten, joined.reason) == (2, "tool responses join the block of those before them")
    moved = conversation.extend([{"role": "system", "content": "S"}])
    assert (moved.first_rewritten, moved.reason) == (0, "a system message moves to the top")


def test_prefill_of_hy4() -> None:
    conversation = Conversation(Hy4(raw_last_assistant=True))
    conversation.extend([user("Q"), {"role": "assistant", "content": "half"}])
    prompt = conversation.extend([user("Q")])
    assert (prompt.first_rewritten, prompt.reason) == (
        1,
        "the assistant's last message is closed, as it is no longer a prefill",
    )


def test_switches_of_domyn() -> None:
    conversation = Conversation(DomynSmall())
    assert conversation.extend([user("Q")]).reason == ""
    made_up = conversation.extend([{"role": "system", "content": "S"}])
    assert (made_up.first_rewritten, made_up.unchanged) == (0, len("<extra_id_"))
    assert made_up.reason == "the system block that was made up gives way to the first system message"
    assert conversation.extend([{"role": "system", "content": "S"}]).reason == ""
    switched = conversation.extend([{"role": "system", "content": "thinking on"}])
    assert (switched.first_rewritten, switched.reason) == (1, "thinking is switched on in every system block")


@pytest.mark.parametrize("format", [SolarOpen2(provider_system_prompt=True), Hy4(), DomynSmall()])
def test_steps_without_messages(format: Any) -> None:
    """The beginning is not written twice, and a prefill that stays one is not said to be closed."""
    conversation = Conversation(format)
    for _ in range(2):
        assert conversation.extend([]).text == format.render([])
    assert conversation.extend([user("Q")], add_generation_prompt=True).text == format.render(
        [user("Q")], add_generation_prompt=True
    )
    prompt = conversation.extend([], add_generation_prompt=False)
    assert (prompt.text, prompt.reason) == (format.render([user("Q")], add_generation_prompt=False), "")


def test_a_prefill_whose_reasoning_was_not_shown_is_only_closed() -> None:
    conversation = Conversation(Hy4(raw_last_assistant=True))
    conversation.extend([user("Q"), {"role": "assistant", "content": "half", "reasoning": "R"}])
    assert conversation.extend([user("Q")]).reason.startswith("the assistant's last message is closed")


def test_roles_that_cannot_be_compared_are_not_compared() -> None:
    def role() -> Any:
        nested: Any = []
        for _ in range(100_000):
            nested = [nested]
        return nested

    messages = [{"role": role(), "content": "a"}, {"role": role(), "content": "b"}]
    conversation = Conversation(SolarOpen2())
    for message in messages:
        text = conversation.extend([message]).text
    assert text == SolarOpen2().render(messages)


def test_an_interrupted_step_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation(SolarOpen2())
    conversation.extend([user("Q")])
    for name in ("_common", "Prompt", "_State"):
        with monkeypatch.context() as patched:
            patched.setattr(f"chatfmt._conversation.{name}", interrupt)
            with pytest.raises(KeyboardInterrupt):
                conversation.extend([user("lost")])
    assert conversation.extend([user("Q")]).text == SolarOpen2().render([user("Q"), user("Q")])


def interrupt(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_copies_go_their_own_ways() -> None:
    one = Conversation(SolarOpen2())
    one.extend([user("Q")])
    other = copy.copy(one)
    for conversation, text in ((other, "B"), (one, "A")):
        assert conversation.extend([user(text)]).text == SolarOpen2().render([user("Q"), user(text)])
    assert other.messages == [user("Q"), user("B")]
    assert pickle.loads(pickle.dumps(one)).messages == one.messages


def test_an_error_names_the_same_place_as_that_of_render() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    format = Hy4(tools=[{"function": {"name": deep, "defer_loading": True}}])
    other: Any = []
    for _ in range(100_000):
        other = [other]
    calls = [{"id": name, "function": {"name": "f", "arguments": {}}} for name in "ba"]
    reference = {"role": "tool", "tool_call_id": "a", "content": [{"type": "tool_reference", "name": other}]}
    response = {"role": "tool", "tool_call_id": "b", "content": "x"}
    messages = [user("Q"), {"role": "assistant", "tool_calls": calls}, reference, response]
    for render in (format.render, Conversation(format).extend):
        with pytest.raises(InputError) as caught:
            render(messages)
        assert caught.value.path == "messages[2]"


def test_a_prefill_is_closed_by_messages_alone() -> None:
    conversation = Conversation(Hy4(raw_last_assistant=True))
    conversation.extend([user("Q"), {"role": "assistant", "content": "half"}])
    assert conversation.extend([]).reason == ""


def test_a_step_that_fails_leaves_no_trace() -> None:
    conversation = Conversation(Ministral3Reasoning())
    with pytest.raises(InputError):
        conversation.extend([])
    text = conversation.extend([user("Q")]).text
    for bad in ([user("again")], [{"role": "assistant", "content": None}], "text", 5):
        with pytest.raises(ChatFormatError):
            conversation.extend(bad)
    assert conversation.messages == [user("Q")]
    answer = {"role": "assistant", "content": "A"}
    assert conversation.extend([answer]).text == text + "A</s>" == Ministral3Reasoning().render([user("Q"), answer])
