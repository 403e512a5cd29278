"""Whose text is whose: `segments` against `render` on every case, and one conversation a template by hand."""

from __future__ import annotations

from types import ModuleType

import pytest
from cases import TEMPLATES, Case, chat, load, names, rendered

CASES = [(template, name) for template in TEMPLATES for name in names(template)]


@pytest.mark.parametrize(("template", "name"), CASES)
def test_joined_segments_are_the_prompt(package: ModuleType, template: str, name: str) -> None:
    case = load(template, name)
    keywords = {key: case[key] for key in ("add_generation_prompt",) if key in case}
    found = rendered(package, template, case)
    try:
        segments = chat(package, template, case).segments(case["messages"], **keywords)
    except package.ChatFormatError as error:
        assert (type(error).__name__, str(error), error.path) == (found.kind, found.text, found.path)
        return
    assert found.kind == "text"
    assert "".join(segment.text for segment in segments) == found.text
    for segment in segments:
        assert segment.text
        assert segment.kind in ("control", "content", "output", "output_control")
        assert segment.message is None or 0 <= segment.message < len(case["messages"])


TOOL = {"type": "function", "function": {"name": "w"}}
CALL = {"id": "a", "type": "function", "function": {"name": "w", "arguments": {"c": "Oslo"}}}
MESSAGES = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "Q"},
    {"role": "assistant", "content": "T", "reasoning": "R", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "a", "content": "4"},
    {"role": "assistant", "content": "A"},
]


def told_apart(package: ModuleType, template: str, case: Case) -> list[tuple[str, str, object]]:
    """The segments, neighbours of one kind and message joined, the fixed text of the tools left out."""
    joined: list[tuple[str, str, object]] = []
    for text, kind, message in chat(package, template, case).segments(case["messages"], add_generation_prompt=True):
        if joined and joined[-1][1:] == (kind, message):
            joined[-1] = (joined[-1][0] + text, kind, message)
        else:
            joined.append((text, kind, message))
    return [row for row in joined if "You may " not in row[0] and "Instruction" not in row[0]]


def test_solar_open2(package: ModuleType) -> None:
    assert told_apart(package, "solar_open2", {"messages": MESSAGES, "tools": [TOOL]}) == [
        ("<|im:start|>system<|im:content|>## System Prompt\n\n", "control", None),
        ("S", "content", 0),
        ('{"name": "w"}', "content", None),
        ("<|im:start|>user<|im:content|>", "control", 1),
        ("Q", "content", 1),
        ("<|im:end|>\n", "control", 1),
        ("<|im:start|>assistant<|im:content|><|think:start|>", "control", 2),
        ("R", "output", 2),
        ("<|think:end|>", "output_control", 2),
        ("T", "output", 2),
        ("<|tool_call:start|>", "output_control", 2),
        ("w", "output", 2),
        ("\n<|tool_arg:start|>", "output_control", 2),
        ("c", "output", 2),
        ("<|tool_arg:value|>", "output_control", 2),
        ("Oslo", "output", 2),
        ("<|tool_arg:end|>\n<|tool_call:end|>\n<|im:end|>", "output_control", 2),
        ("\n", "control", 2),
        ("<|im:start|>tool<|im:content|><|tool_response:start|>", "control", 3),
        ("4", "content", 3),
        ("<|tool_response:end|>\n<|im:end|>\n", "control", 3),
        ("<|im:start|>assistant<|im:content|><|think:start|><|think:end|>", "control", 4),
        ("A", "output", 4),
        ("<|im:end|>", "output_control", 4),
        ("\n", "control", 4),
        ("<|im:start|>assistant<|im:content|><|think:start|>", "control", None),
    ]


def test_hy4(package: ModuleType) -> None:
    case = {"messages": [*MESSAGES, {"role": "critic", "content": "C"}], "options": {"token_suffix": ""}}
    assert told_apart(package, "hy4", case) == [
        ("<｜hy_start｜>system<｜hy_middle｜>", "control", 0),
        ("S", "content", 0),
        ("<｜reasoning_mode｜>reasoning_effort:high<｜hy_end｜>", "control", 0),
        ("<｜hy_start｜>user<｜hy_middle｜>", "control", 1),
        ("Q", "content", 1),
        ("<｜hy_end｜>", "control", 1),
        ("<｜hy_start｜>assistant<｜hy_middle｜><think>", "control", 2),
        ("R", "output", 2),
        ("</think>", "output_control", 2),
        ("T", "output", 2),
        ("<tool_calls><tool_call>", "output_control", 2),
        ("w", "output", 2),
        ("<arg_key>", "output_control", 2),
        ("c", "output", 2),
        ("</arg_key><arg_value>", "output_control", 2),
        ("Oslo", "output", 2),
        ("</arg_value></tool_call></tool_calls><｜hy_end｜>", "output_control", 2),
        ("<｜hy_start｜>tool<｜hy_middle｜><tool_response>", "control", 3),
        ("4", "content", 3),
        ("</tool_response><｜hy_end｜>", "control", 3),
        ("<｜hy_start｜>assistant<｜hy_middle｜><think></think>", "control", 4),
        ("A", "output", 4),
        ("<｜hy_end｜>", "output_control", 4),
        ("<｜hy_start｜>", "control", 5),
        ("critic", "content", 5),
        ("<｜hy_middle｜>", "control", 5),
        ("C", "content", 5),
        ("<｜hy_end｜>", "control", 5),
        ("<｜hy_start｜>assistant<｜hy_middle｜><think>", "control", None),
    ]


def test_hy4_made_up_system_block_and_prefill(package: ModuleType) -> None:
    case = {"messages": [{"role": "assistant", "content": "half"}], "options": {"raw_last_assistant": True}}
    assert told_apart(package, "hy4", {**case, "options": {"raw_last_assistant": True, "token_suffix": ""}}) == [
        ("<｜hy_start｜>system<｜hy_middle｜><｜reasoning_mode｜>reasoning_effort:high<｜hy_end｜>", "control", None),
        ("<｜hy_start｜>assistant<｜hy_middle｜>", "control", 0),
        ("half", "output", 0),
    ]


def test_ministral3_reasoning(package: ModuleType) -> None:
    thinking = {"type": "thinking", "thinking": "R"}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "S"}, thinking]},
        {"role": "user", "content": [{"type": "text", "text": "Q"}, {"type": "image"}]},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "T"}], "tool_calls": [CALL]},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "A"},
    ]
    assert told_apart(package, "ministral3_reasoning", {"messages": messages, "tools": [TOOL]}) == [
        ("<s>", "control", None),
        ("[SYSTEM_PROMPT]", "control", 0),
        ("S", "content", 0),
        ("[THINK]", "control", 0),
        ("R", "content", 0),
        ("[/THINK][/SYSTEM_PROMPT]", "control", 0),
        ("[AVAILABLE_TOOLS]", "control", None),
        ('[{"type": "function", "function": {"name": "w"}}]', "content", None),
        ("[/AVAILABLE_TOOLS]", "control", None),
        ("[INST][IMG]", "control", 1),
        ("Q", "content", 1),
        ("[/INST]", "control", 1),
        ("[THINK]", "output_control", 2),
        ("R", "output", 2),
        ("[/THINK]", "output_control", 2),
        ("T", "output", 2),
        ("[TOOL_CALLS]", "output_control", 2),
        ("w", "output", 2),
        ("[ARGS]", "output_control", 2),
        ('{"c": "Oslo"}', "output", 2),
        ("</s>", "output_control", 2),
        ("[TOOL_RESULTS]", "control", 3),
        ("4", "content", 3),
        ("[/TOOL_RESULTS]", "control", 3),
        ("A", "output", 4),
        ("</s>", "output_control", 4),
    ]


def test_domyn_small(package: ModuleType) -> None:
    two_calls = {"role": "assistant", "tool_calls": [CALL, CALL]}
    messages = [*MESSAGES[:2], two_calls, MESSAGES[3], MESSAGES[4]]
    assert told_apart(package, "domyn_small", {"messages": messages}) == [
        ("<extra_id_0>System\n", "control", 0),
        ("S", "content", 0),
        ("\nthinking off\n", "control", 0),
        ("<extra_id_1>User\n", "control", 1),
        ("Q", "content", 1),
        ("\n", "control", 1),
        ("<extra_id_1>Assistant\n", "control", 2),
        ("<tool_call>\n", "output_control", 2),
        ('{"name": "w", "arguments": {"c": "Oslo"}}', "output", 2),
        ("\n</tool_call>\n<tool_call>\n", "output_control", 2),
        ('{"name": "w", "arguments": {"c": "Oslo"}}', "output", 2),
        ("\n</tool_call>", "output_control", 2),
        ("\n", "control", 2),
        ("<extra_id_1>User\n<tool_response>\n", "control", 3),
        ("4", "content", 3),
        ("\n</tool_response>\n", "control", 3),
        ("<extra_id_1>Assistant\n", "control", 4),
        ("A", "output", 4),
        ("\n", "control", 4),
        ("<extra_id_1>Assistant\n<think>\n</think>\n\n", "control", None),
    ]


@pytest.mark.parametrize("template", ["solar_open2", "hy4"])
def test_responses_belong_to_their_own_messages(package: ModuleType, template: str) -> None:
    """A run is written in call order; its opener is the first message's, its closer the last one's."""
    calls = [{**CALL, "id": name} for name in "abc"]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": name, "content": name.upper()} for name in "cab"),
    ]
    rows = told_apart(package, template, {"messages": messages})
    assert [row[::2] for row in rows if row[1] == "content"] == [("A", 2), ("B", 3), ("C", 1)]
    control = [row for row in rows if row[1] == "control" and row[2] in (1, 2, 3)]
    assert control[0][2] == 1
    assert control[-1][2] == 3
