"""Training as sampled: prompts and completions by hand, where a conversation splits, and what cannot be a sample."""

from __future__ import annotations

import time
from typing import Any

import pytest

from chatfmt import (
    DomynSmall,
    Hy4,
    InputError,
    Ministral3Reasoning,
    Sample,
    SolarOpen2,
    TemplateError,
    TrainingText,
    samples,
    training_texts,
)

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"k": "v"}}}
RESPONSE = {"role": "tool", "tool_call_id": "a", "content": "4"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def completions(found: Any) -> list[str]:
    return [sample.completion for sample in found]


def test_solar_open2() -> None:
    chat = SolarOpen2()
    messages = [user("Q"), answer("", reasoning="R", tool_calls=[CALL]), RESPONSE, answer("A"), user("P"), answer("B")]
    one, two, three = samples(chat, messages)
    ask = "<|im:start|>user<|im:content|>Q<|im:end|>\n<|im:start|>assistant<|im:content|><|think:start|>"
    call = (
        "R<|think:end|><|tool_call:start|>f\n<|tool_arg:start|>k<|tool_arg:value|>v<|tool_arg:end|>\n"
        "<|tool_call:end|>\n<|im:end|>"
    )
    assert one == Sample(ask, call, 1, ())
    respond = (
        "\n<|im:start|>tool<|im:content|><|tool_response:start|>4<|tool_response:end|>\n<|im:end|>\n"
        "<|im:start|>assistant<|im:content|><|think:start|>"
    )
    assert two == Sample(ask + call + respond, "<|think:end|>A<|im:end|>", 3, ())
    assert three.prompt == chat.render(messages[:5])
    assert three.prompt + three.completion + "\n" == chat.render(messages, add_generation_prompt=False)
    first, second = training_texts(chat, messages)
    text = two.prompt + two.completion
    spans = [(len(ask), len(ask + call)), (len(two.prompt), len(text))]
    assert first[:-1] == TrainingText(text, spans, [1, 3], [(), ()], 0, "", [])[:-1]
    assert "".join(segment.text for segment in first.segments) == text
    assert second.messages == [5]
    assert (second.first_rewritten, second.reason) == (1, "reasoning before the last user message is dropped")
    assert [text.text.count("R<|think:end|>") for text in (first, second)] == [1, 0]  # trained on where it was written


def test_solar_splits_at_a_late_system_message_and_where_think_tags_are_hidden() -> None:
    messages = [user("Q"), answer("A"), {"role": "system", "content": "S"}, user("P"), answer("B")]
    _, late = training_texts(SolarOpen2(), messages)
    assert (late.first_rewritten, late.reason) == (0, "a system message moves to the top")
    messages = [user("Q"), answer("A", reasoning="R"), user("P"), answer("B")]
    hidden, after = training_texts(SolarOpen2(think_render_option="off"), messages)
    assert hidden.text.endswith("<|think:start|>R<|think:end|>A<|im:end|>")
    end = (
        "A<|im:end|>\n<|im:start|>user<|im:content|>P<|im:end|>\n"
        "<|im:start|>assistant<|im:content|><|think:start|><|think:end|>B<|im:end|>"
    )
    assert after.text.endswith(end)
    assert "<|im:content|>A<|im:end|>" in after.text
    assert after.first_rewritten == 1
    assert after.reason == "the finished turn stands without the think block that the generation prompt opens"


def test_solar_refuses_reasoning_behind_a_closed_think_block() -> None:
    messages = [user("Q"), answer("A"), user("P"), answer("B", reasoning_content="R")]
    chat = SolarOpen2(reasoning_effort="low")
    with pytest.raises(InputError, match=r"^messages\[3\]\.reasoning_content holds reasoning, but"):
        list(samples(chat, messages))
    del messages[3]["reasoning_content"]
    assert completions(samples(chat, messages)) == ["A<|im:end|>", "B<|im:end|>"]


def test_preserved_reasoning_makes_one_text() -> None:
    messages = [user("Q"), answer("A", reasoning="R"), user("P"), answer("B", reasoning="T")]
    formats: list[Any] = [
        SolarOpen2(think_render_option="preserved"), Hy4(preserved_thinking=True), Hy4(tools=[{"name": "f"}])
    ]  # fmt: skip
    for chat in formats:
        (text,) = training_texts(chat, messages)
        assert text.messages == [1, 3]
        shown = [text.text[start:end] for start, end in text.spans]
        assert [part[0] for part in shown] == ["R", "T"]


def test_hy4() -> None:
    chat = Hy4(token_suffix="")
    messages = [user("Q"), answer("A", reasoning="R"), user("P"), answer("B")]
    assert completions(samples(chat, messages)) == ["R</think>A<｜hy_end｜>", "</think>B<｜hy_end｜>"]
    assert [(text.messages, text.first_rewritten, text.reason) for text in training_texts(chat, messages)] == [
        ([1], 0, ""),
        ([3], 1, "reasoning before the last user message is dropped"),
    ]
    (sample,) = samples(Hy4(token_suffix="", reasoning_effort="no_think"), messages[:2])
    assert (sample.completion, sample.dropped) == ("A<｜hy_end｜>", ("reasoning",))
    with pytest.raises(InputError, match=r"^raw_last_assistant leaves the turn open"):
        list(samples(Hy4(raw_last_assistant=True), messages))


def test_hy4_without_a_generation_prompt_completes_from_the_opener_on() -> None:
    opener = "<｜hy_start｜>assistant<｜hy_middle｜><think></think>"
    one, two = samples(Hy4(token_suffix=""), [user("Q"), answer("A"), answer("B")])
    assert (one.completion, two.completion) == ("</think>A<｜hy_end｜>", opener + "B<｜hy_end｜>")


def test_ministral3_reasoning() -> None:
    chat = Ministral3Reasoning()
    thought = [{"type": "thinking", "thinking": "R"}, {"type": "text", "text": "A"}]
    messages = [user("Q"), answer("", tool_calls=[CALL]), RESPONSE, {"role": "assistant", "content": thought}]
    call, reply = samples(chat, messages)
    assert call.completion == '[TOOL_CALLS]f[ARGS]{"k": "v"}</s>'
    assert reply.completion == "[THINK]R[/THINK]A</s>"
    assert reply.prompt.endswith(call.completion + "[TOOL_RESULTS]4[/TOOL_RESULTS]")
    (text,) = training_texts(chat, messages)
    assert text.text == chat.render(messages)
    assert text.messages == [1, 3]


def test_ministral_lets_a_calling_turn_speak_first() -> None:
    chat = Ministral3Reasoning()
    messages = [answer("", tool_calls=[CALL]), RESPONSE]
    (sample,) = samples(chat, messages)
    assert sample.prompt.endswith("[/SYSTEM_PROMPT]")
    assert sample.prompt + sample.completion == chat.render(messages[:1])


def test_domyn_small() -> None:
    chat = DomynSmall()
    messages = [user("Q"), answer("A"), user("P"), answer("lost", tool_calls=[CALL])]
    one, two = samples(chat, messages)
    assert one.prompt.endswith("<extra_id_1>User\nQ\n<extra_id_1>Assistant\n<think>\n</think>\n\n")
    assert (one.completion, one.dropped) == ("A", ())
    assert two.completion == '<tool_call>\n{"name": "f", "arguments": {"k": "v"}}\n</tool_call>'
    assert two.dropped == ("content",)
    first, second = training_texts(chat, messages)
    assert "<extra_id_1>Assistant\nA\n<extra_id_1>User\nP\n" in second.text
    assert (first.messages, second.messages, second.first_rewritten) == ([1], [3], 1)
    assert second.reason == "the finished turn stands without the think block that the generation prompt opens"


def test_a_think_block_in_domyns_content_is_completed_behind_the_prefill() -> None:
    messages = [user("Q"), answer("<think>\nR\n</think>\n\nA")]
    (sample,) = samples(DomynSmall(enable_thinking=True), messages)
    assert sample.prompt.endswith("<extra_id_1>Assistant\n<think>\n")
    assert sample.completion == "R\n</think>\n\nA"


@pytest.mark.parametrize("chat", [SolarOpen2(), Hy4(), Ministral3Reasoning(), DomynSmall()])
def test_without_turns_and_with_bad_ones(chat: Any) -> None:
    assert list(samples(chat, [user("Q")])) == []
    assert training_texts(chat, [user("Q")]) == []
    with pytest.raises(InputError, match=r"^messages is a string, but must be a list"):
        list(samples(chat, "Q"))
    bad = [user("Q"), answer("A"), user("P"), answer("", tool_calls=[5])]
    with pytest.raises((InputError, TemplateError)) as caught:
        training_texts(chat, bad)
    assert str(caught.value.path).startswith("messages[3]")


def test_a_text_has_the_date_on_which_it_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a day passes with each look at the clock."""
    days = iter(range(10, 99))
    monkeypatch.setattr("chatfmt.solar_open2.time.strftime", lambda form: f"2026-01-{next(days)}")
    messages = [user("Q"), answer("A"), user("P"), answer("B")]
    (text,) = training_texts(SolarOpen2(provider_system_prompt=True), messages)
    assert text.text.count("2026-01-1") == 1
    one, two = samples(SolarOpen2(provider_system_prompt=True), messages)
    assert two.prompt.startswith(one.prompt + one.completion)


def test_what_a_template_drops_is_named() -> None:
    def dropped(chat: Any, **turn: Any) -> tuple[str, ...]:
        (sample,) = samples(chat, [user("Q"), {"role": "assistant", "content": "", **turn}])
        return tuple(sample.dropped)

    parts = [{"type": "text", "text": "T"}]
    thought = [{"type": "thinking", "thinking": "R"}]
    assert dropped(DomynSmall(), content=parts, tool_calls=[CALL]) == ("content",)
    assert dropped(DomynSmall(), content=[{"type": "text", "text": ""}], tool_calls=[CALL]) == ()
    assert dropped(DomynSmall(), content="T", reasoning_content="R") == ("reasoning_content",)
    assert dropped(Ministral3Reasoning(), content=[*thought, *parts], thinking="S") == ("thinking",)
    assert dropped(Ministral3Reasoning(), content=thought) == ()
    assert dropped(Hy4(), reasoning=5) == ("reasoning",)
    assert dropped(Hy4(), reasoning="R", reasoning_content="S") == ("reasoning_content",)
    assert dropped(Hy4(), content=parts) == ()
    assert dropped(SolarOpen2(), reasoning="", reasoning_content="S") == ("reasoning_content",)
    assert dropped(SolarOpen2(), content=parts, reasoning="R") == ()
    assert dropped(SolarOpen2(), function_call={"name": "f"}, refusal="No.") == ("function_call", "refusal")


def test_a_think_block_of_domyn_that_is_not_the_prompts_is_refused() -> None:
    def refused(chat: Any, content: str) -> str:
        with pytest.raises(InputError, match=r"^messages\[1\]\.content begins with another think block") as caught:
            list(samples(chat, [user("Q"), answer(content)]))
        return str(caught.value)

    assert "must begin with '<think>\\n</think>\\n\\n'" in refused(DomynSmall(), "<think>\nR\n</think>\n\nA")
    refused(DomynSmall(), "<think>\n</think>")
    thinking = DomynSmall(enable_thinking=True)
    assert "must begin with '<think>\\n'" in refused(thinking, "<think>R</think>A")
    refused(thinking, "<think>")
    assert completions(samples(thinking, [user("Q"), answer("<think>\n")])) == [""]
    assert completions(samples(DomynSmall(), [user("Q"), answer("<think>\n</think>\n\nA")])) == ["A"]
    system = {"role": "system", "content": "thinking on"}
    assert completions(samples(DomynSmall(), [system, user("Q"), answer("<think>\nR</think>")])) == ["R</think>"]


def test_errors_come_in_the_order_of_the_conversation() -> None:
    messages = [{"role": "user", "content": []}, answer("", tool_calls=[{"function": {"name": "f"}}])]
    with pytest.raises(InputError) as caught:
        list(samples(SolarOpen2(), messages))
    assert caught.value.path == "messages[0].content"


@pytest.mark.parametrize("chat", [SolarOpen2(), Hy4()])
def test_one_long_text_takes_time_in_proportion(chat: Any) -> None:
    """4,000 messages, one text of a megabyte. Copying it for each turn took hundreds of times as long as a render."""
    messages = [user("Q"), *[answer("", tool_calls=[CALL]), {**RESPONSE, "content": "x" * 400}] * 2_000]
    begun = time.perf_counter()
    rendered = chat.render(messages, add_generation_prompt=False)
    between = time.perf_counter()
    (text,) = training_texts(chat, messages)
    assert time.perf_counter() - between < 250 * (between - begun)
    assert len(text.spans) == 2_000
    assert rendered.startswith(text.text)
