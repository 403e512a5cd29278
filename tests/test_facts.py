"""The facts about each template agree with the template, with its class, and with what that renders."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from cases import GOLDEN, TEMPLATES, load, names

import chatfmt
from chatfmt._facts import EFFORTS, FACTS, Fact, Facts, Option, list_lines
from chatfmt._values import MISSING

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
LINES = {name: (GOLDEN / name / "template.jinja").read_bytes().decode("utf-8").split("\n") for name in TEMPLATES}
OPTIONS = [(name, option) for name in TEMPLATES for option in FACTS[name].options]
IDS = [f"{name}-{option.name}" for name, option in OPTIONS]

SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {}}}
CONVERSATION: list[dict[str, Any]] = [
    SYSTEM,
    USER,
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "Four.", "reasoning": "2 + 2"},
    USER,
]


def prompt(template: str, *messages: dict[str, Any], **options: Any) -> str:
    return str(chatfmt.TEMPLATES[template](**options).render([*messages], add_generation_prompt=True))


def test_there_are_facts_for_each_template() -> None:
    assert list(FACTS) == list(chatfmt.TEMPLATES)
    assert all(FACTS[name].template is template for name, template in chatfmt.TEMPLATES.items())


# --- sources


def facts_in(value: object) -> list[Fact | Option]:
    """Everything in a record that has a source."""
    if isinstance(value, (Fact, Option)):
        return [value]
    if isinstance(value, dict):
        return facts_in(tuple(value.values()))
    return [fact for item in value for fact in facts_in(item)] if isinstance(value, tuple) else []


def cited(name: str, source: str) -> list[str]:
    """The lines of the template that a source names."""
    numbers = re.fullmatch(r".*template, lines? ([\d, -]+?)(?:;.*)?", source)
    if numbers is None:
        return []
    ends = [part.split("-") for part in numbers[1].split(", ")]
    return [line for first, *last in ends for line in LINES[name][int(first) - 1 : int((last or [first])[0])]]


@pytest.mark.parametrize("name", TEMPLATES)
def test_each_fact_has_a_source(name: str) -> None:
    facts = facts_in(FACTS[name])
    assert len(facts) >= 4
    assert all(isinstance(fact.source, str) and len(fact.source) > 10 for fact in facts)


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=IDS)
def test_the_lines_cited_for_an_option_read_it(name: str, option: Option) -> None:
    variable = {"token_suffix": "HYTK", "now": "strftime_now"}.get(option.name, option.name)
    lines = cited(name, option.source)
    assert lines
    assert variable in lines[0]
    assert variable in lines[-1]
    text = "\n".join(lines)
    assert all(re.search(f"['\"]{value}['\"]", text) for value in option.values)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_lines_cited_for_the_end_of_a_turn_write_it(name: str) -> None:
    lines = cited(name, FACTS[name].end_of_turn.source)
    written = {"hy4": "hy_end", "ministral3_reasoning": "eos_token"}
    for role, text in FACTS[name].end_of_turn.value.items():
        words = written.get(name, text.strip("\n")) if role == "assistant" or name == "hy4" else text.strip("\n")
        assert any(words in line for line in lines)


# --- options


@pytest.mark.parametrize("name", TEMPLATES)
def test_options_are_those_of_the_constructor(name: str) -> None:
    parameters = list(inspect.signature(chatfmt.TEMPLATES[name].__init__).parameters.values())[1:]
    options = FACTS[name].options
    assert [option.name for option in options] == [parameter.name for parameter in parameters]
    for option, parameter in zip(options, parameters):
        assert option.default == parameter.default
        assert type(option.default) is type(parameter.default)


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=IDS)
def test_a_default_is_what_leaving_out_does(name: str, option: Option) -> None:
    kinds: dict[str, Any] = {"array": list, "object": dict, "string": str, "boolean": bool}
    assert option.default in (None, MISSING) or type(option.default) is kinds[option.type]
    assert prompt(name, *CONVERSATION) == prompt(name, *CONVERSATION, **{option.name: option.default})
    if option.values:
        assert option.default is None or option.default in option.values


def test_values_of_solar() -> None:
    options = {option.name: option for option in FACTS["solar_open2"].options}
    for effort in (*options["reasoning_effort"].values, "low", "none", "HIGH", None, 5):
        is_named = effort in options["reasoning_effort"].values
        text = prompt("solar_open2", USER, reasoning_effort=effort)
        assert text.endswith("<|think:start|>" if is_named else "<|think:start|><|think:end|>")
    texts = {
        value: prompt("solar_open2", *CONVERSATION, think_render_option=value)
        for value in (*options["think_render_option"].values, "off", None)
    }
    assert "<|think:start|>2 + 2<|think:end|>" in texts["preserved"]
    assert "<|think:start|><|think:end|>Four." in texts["interleaved"]
    assert texts["off"] == texts[None]
    assert "<|im:content|>Four." in texts["off"]


def test_values_of_hy4() -> None:
    options = {option.name: option for option in FACTS["hy4"].options}
    for effort in options["reasoning_effort"].values:
        assert f"reasoning_effort:{effort}<" in prompt("hy4", USER, reasoning_effort=effort)
    for effort in ("low", "none", "HIGH", None):
        with pytest.raises(chatfmt.TemplateError):
            prompt("hy4", USER, reasoning_effort=effort)
    plain = prompt("hy4", *CONVERSATION)
    for strategy in ("retry", "", None, 5):
        assert prompt("hy4", *CONVERSATION, fallback_strategy=strategy) == plain
    (strategy,) = options["fallback_strategy"].values
    assert prompt("hy4", *CONVERSATION, fallback_strategy=strategy) != plain
    tools = [{"name": "f"}]
    for given, preserved in ((tools, True), (None, False)):
        assert prompt("hy4", *CONVERSATION, tools=given) == prompt(
            "hy4", *CONVERSATION, tools=given, preserved_thinking=preserved
        )
        assert prompt("hy4", *CONVERSATION, tools=given) != prompt(
            "hy4", *CONVERSATION, tools=given, preserved_thinking=not preserved
        )


# --- tokens


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_each_turn_ends_as_stated(name: str, role: str) -> None:
    end = FACTS[name].end_of_turn.value[role]
    last = max(i for i, message in enumerate(CONVERSATION) if message["role"] == role)
    chat: Any = chatfmt.TEMPLATES[name]()
    text = chat.render(CONVERSATION[: last + 1], add_generation_prompt=False)
    assert text.endswith(end)
    if role in ("user", "assistant"):  # nothing of the end is missing: the content stands before it
        assert text[: -len(end)].endswith(CONVERSATION[last]["content"])


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_the_model_ends_its_turn_with_is_a_stop_string(name: str) -> None:
    facts = FACTS[name]
    end = facts.end_of_turn.value["assistant"].strip()
    assert (facts.stop.value[0] if facts.stop else "") == end
    assert not end or end in facts.template.control_tokens
    if facts.bos_token is not None:
        assert prompt(name, USER).startswith(facts.bos_token.value)
    if facts.stop and facts.eos_token:
        assert facts.eos_token.value in facts.stop.value


def test_options_of_ministral_are_its_tokens() -> None:
    facts = FACTS["ministral3_reasoning"]
    defaults = {option.name: option.default for option in facts.options}
    assert facts.bos_token is not None
    assert facts.eos_token is not None
    assert (defaults["bos_token"], defaults["eos_token"]) == (facts.bos_token.value, facts.eos_token.value)


# --- serving


@pytest.mark.parametrize("name", TEMPLATES)
def test_recommended_values_are_other_than_the_defaults(name: str) -> None:
    options = {option.name: option for option in FACTS[name].options}
    for key, fact in FACTS[name].recommended.items():
        assert fact.value != options[key].default
        assert fact.value in (options[key].values)
    assert ("think_render_option" in FACTS[name].recommended) == (name == "solar_open2")


@pytest.mark.parametrize("level", EFFORTS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_efforts_open_the_think_block_or_close_it(name: str, level: str) -> None:
    options = FACTS[name].efforts.value[level]
    if name == "ministral3_reasoning":  # which has no think block in its prompt
        assert options == (None if level == "none" else {})
        return
    text = prompt(name, USER, **options)
    closes = level == "none" or (name == "solar_open2" and level in ("minimal", "low"))
    assert text.rstrip("\n").endswith(("</think>", "</think:opensource>", "<|think:end|>")) == closes
    assert text.rstrip("\n").endswith(("<think>", "<think:opensource>", "<|think:start|>")) != closes


@pytest.mark.parametrize("name", TEMPLATES)
def test_efforts_render_every_golden_conversation_that_renders_anyway(name: str) -> None:
    """No level makes a template refuse."""
    rendered = 0
    for case in [load(name, case) for case in names(name)]:
        given = {key: value for key, value in case.get("options", {}).items() if key != "reasoning_effort"}
        for options in FACTS[name].efforts.value.values():
            if options is None:
                continue
            outcomes = []
            for all_options in (given, {**given, **options}):
                try:
                    prompt(name, *case["messages"], tools=case.get("tools"), **all_options)
                    outcomes.append("text")
                except (chatfmt.ChatFormatError, TypeError) as error:  # messages that are no list
                    outcomes.append(type(error).__name__)
            assert outcomes[0] == outcomes[1]
            rendered += outcomes[0] == "text"
    assert rendered > 500


# --- for a reader


def test_list_lines() -> None:
    assert list_lines(FACTS["hy4"]) == [
        "hy4  tencent/Hy4-preview",
        "    tools = null  # array",
        '    reasoning_effort = "high"  # string: "high", "no_think"; all else is refused',
        "    preserved_thinking  # boolean; left out: true with tools, else false",
        '    fallback_strategy = null  # string: "reasoning_toolcall_retry"; all else changes nothing',
        "    raw_last_assistant = false  # boolean",
        '    token_suffix = ":opensource"  # string; checkpoints differ in it',
        "    add_generation_prompt = false",
        '  the assistant\'s turn ends in "<｜hy_end:opensource｜>"',
        '  stop strings: "<｜hy_end:opensource｜>"',
        '  bos_token: "<｜hy_start:opensource｜>"',
        '  eos_token: "<｜hy_end:opensource｜>"',
        '  OpenAI\'s reasoning_effort "none": reasoning_effort = "no_think"',
        '  OpenAI\'s reasoning_effort "minimal", "low", "medium", "high", "xhigh": reasoning_effort = "high"',
    ]
    solar, domyn = list_lines(FACTS["solar_open2"]), list_lines(FACTS["domyn_small"])
    assert '  recommended: think_render_option = "preserved"' in solar
    assert '  stop strings: "<|im:end|>", "<|endoftext|>"' in solar
    assert "  OpenAI's reasoning_effort is passed as it is" in solar
    assert "  stop strings: no source found" in domyn
    assert "    add_generation_prompt = (no effect)" in list_lines(FACTS["ministral3_reasoning"])
    assert all(len(line) <= 120 for name in TEMPLATES for line in list_lines(FACTS[name]))


def end_cell(facts: Facts) -> str:
    """What the README's table of templates says of the end of a turn."""

    def words(text: str) -> str:
        token = text.rstrip("\n").replace("|", "\\|")
        if not token:
            return "a newline; there is no end token"
        return f"`{token}`" + (", then a newline" if text.endswith("\n") else "")

    ends = facts.end_of_turn.value
    if ends["user"] == ends["assistant"]:
        return words(ends["assistant"])
    return f"{words(ends['assistant'])} after the assistant, {words(ends['user'])} after the user"


def options_cell(facts: Facts) -> str:
    """What the README's table of options says of a template."""
    cells = []
    for option in facts.options:
        default = f'"{option.default}"' if isinstance(option.default, str) else repr(option.default)
        shown = option.name if option.default is MISSING else f"{option.name}={default}"
        others = [f'`"{value}"`' for value in option.values if value != option.default]
        words = [f"or {', '.join(others)}"] if others else []
        words += [f"a date {option.note}" if option.type == "date" else option.note] if option.note else []
        cells.append(f"`{shown}`" + (f" ({'; '.join(words)})" if words else ""))
    given = facts.template.default_generation_prompt
    render = "`add_generation_prompt` changes nothing"
    return ", ".join(cells) + "; " + (render if given is None else f"`render(…, add_generation_prompt={given})`")


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_readme_has_the_options(name: str) -> None:
    (row,) = [line for line in README.splitlines() if line.endswith(f" | {options_cell(FACTS[name])} |")]
    assert row.split("|")[1].split()[0].lower() in name.replace("3", "")


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_readme_says_how_a_turn_ends(name: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{FACTS[name].template.__name__}` ")]
    assert row.endswith(f" | {end_cell(FACTS[name])} |")
