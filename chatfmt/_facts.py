r"""What is known of each template and its model beside the prompt itself, as data, each with its source.

A source is a line of the template (`golden/NAME/template.jinja`), the model's card, a file of the model or of its
publisher, or what a server does; cards and files are cited as public copies and quotations of them have them. What no
source states that could be found is None, and nothing is guessed. Where a mapping had to be chosen here, its source
begins with "this project's choice".
"""

from __future__ import annotations

from collections import namedtuple

from ._values import MISSING, to_json
from .domyn_small import DomynSmall
from .hy4 import Hy4
from .ministral3_reasoning import Ministral3Reasoning
from .solar_open2 import SolarOpen2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._base import ChatFormat
    from ._values import JSON

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")  # the levels of reasoning_effort in OpenAI's API


class Fact(namedtuple("Fact", ("value", "source"))):
    """A value, and where it is stated."""

    __slots__ = ()
    if TYPE_CHECKING:
        value: Any
        source: str


class Option(namedtuple("Option", ("name", "type", "default", "values", "note", "source"))):
    """An option of a template's class.

    type: what it is made for: "array", "boolean", "object", "string" or "date"; the class takes any JSON value, and
    makes of it what the template makes. default: as in the constructor; `MISSING` is left out, which no value equals.
    values: those that the template names, if any. note: what else there is to know, such as what other values do.
    source: where the template reads it.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        name: str
        type: str
        default: JSON
        values: tuple[JSON, ...]
        note: str
        source: str


class Facts(
    namedtuple(
        "Facts", ("template", "end_of_turn", "stop", "bos_token", "eos_token", "options", "recommended", "efforts")
    )
):
    """What is known of a template and its model. The tokens of Hy4 are those with the suffix ":opensource".

    template: its class, which has `name`, `model`, `control_tokens` and `default_generation_prompt`.
    end_of_turn: for each role, the text that the template writes behind a message of it.
    stop: the strings at which a server ends a completion; None where no source states any.
    bos_token, eos_token: those of the tokenizer. Where a prompt begins with bos_token, the template has written it.
    options: all that the constructor takes. recommended: values of options that the model's card recommends for
    serving, by name, where they are not the defaults. efforts: for each level of OpenAI's reasoning_effort the options
    to pass, or None where no option does what it asks for.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        template: type[ChatFormat]
        end_of_turn: Fact
        stop: Fact | None
        bos_token: Fact | None
        eos_token: Fact | None
        options: tuple[Option, ...]
        recommended: dict[str, Fact]
        efforts: Fact


HY4_TEMPLATE = "Tencent-Hunyuan/Hy4-preview, finetune/llama_factory_support/hy_v4_template.py"
HY4_END = "<｜hy_end:opensource｜>"
SOLAR_EOS = (
    "upstage/Solar-Open2-250B, generation_config.json, as quoted in conversion/solar_open2.py of llama.cpp forks"
)
MISTRAL_TOKENS = "mistralai/mistral-common, tokens/tokenizers/base.py, SpecialTokens"
VLLM_THINKING = "vLLM, pull request 43401: none passes enable_thinking=false to any template, every other level true"

SOLAR_OPEN2 = Facts(
    template=SolarOpen2,
    end_of_turn=Fact(
        {
            "system": "<|im:end|>\n",
            "user": "<|im:end|>\n",
            "assistant": "<|im:end|>\n",
            "tool": "\n<|im:end|>\n",
        },
        "template, lines 116, 122, 175, 224",
    ),
    stop=Fact(("<|im:end|>", "<|endoftext|>"), SOLAR_EOS),
    bos_token=None,
    eos_token=Fact("<|endoftext|>", SOLAR_EOS),
    options=(
        Option("tools", "array", None, (), "", "template, line 110"),
        Option("provider_system_prompt", "boolean", False, (), "", "template, line 3"),
        Option("response_format", "object", None, (), "as in OpenAI's API", "template, line 113"),
        Option(
            "reasoning_effort",
            "string",
            "high",
            ("medium", "high", "xhigh"),
            "all else closes the think block",
            "template, lines 4, 229",
        ),
        Option(
            "think_render_option",
            "string",
            "interleaved",
            ("interleaved", "preserved"),
            "all else drops reasoning and think tags",
            "template, lines 5, 190, 196",
        ),
        Option("now", "date", None, (), "for the provider prompt; left out: today", "no variable: template, line 23"),
    ),
    recommended={
        "think_render_option": Fact(
            "preserved",
            'model card, its vllm commands: --default-chat-template-kwargs \'{"think_render_option":"preserved"}\'',
        )
    },
    efforts=Fact(
        {level: {"reasoning_effort": level} for level in EFFORTS},
        "template, line 229; vLLM passes the level as it is, and its solar_open2 reasoning parser relies on that",
    ),
)

HY4 = Facts(
    template=Hy4,
    end_of_turn=Fact(dict.fromkeys(("system", "user", "assistant", "tool"), HY4_END), "template, lines 5, 225-288"),
    stop=Fact((HY4_END,), HY4_TEMPLATE + ": stop_words"),
    bos_token=Fact("<｜hy_start:opensource｜>", HY4_TEMPLATE + ", which cites tokenizer_config.json"),
    eos_token=Fact(HY4_END, HY4_TEMPLATE + ", which cites tokenizer_config.json"),
    options=(
        Option("tools", "array", None, (), "", "template, line 25"),
        Option(
            "reasoning_effort",
            "string",
            "high",
            ("high", "no_think"),
            "all else is refused",
            "template, lines 32-34",
        ),
        Option(
            "preserved_thinking",
            "boolean",
            MISSING,
            (),
            "left out: true with tools, else false",
            "template, lines 24-28",
        ),
        Option(
            "fallback_strategy",
            "string",
            None,
            ("reasoning_toolcall_retry",),
            "all else changes nothing",
            "template, line 42",
        ),
        Option("raw_last_assistant", "boolean", False, (), "", "template, lines 46-47"),
        Option("token_suffix", "string", ":opensource", (), "checkpoints differ in it", "template, line 2"),
    ),
    recommended={},
    efforts=Fact(
        {level: {"reasoning_effort": "no_think" if level == "none" else "high"} for level in EFFORTS},
        "this project's choice, on the pattern of vLLM's pull request 43401 (none is off, every other level on); "
        "the template has two values, and by the model card no_think is for direct responses, high the default",
    ),
)

MINISTRAL3_REASONING = Facts(
    template=Ministral3Reasoning,
    end_of_turn=Fact(
        {"system": "[/SYSTEM_PROMPT]", "user": "[/INST]", "assistant": "</s>", "tool": "[/TOOL_RESULTS]"},
        "template, lines 24, 60, 77, 116, 120",
    ),
    stop=Fact(("</s>",), MISTRAL_TOKENS + ".eos"),
    bos_token=Fact("<s>", MISTRAL_TOKENS + ".bos"),
    eos_token=Fact("</s>", MISTRAL_TOKENS + ".eos"),
    options=(
        Option("tools", "array", None, (), "", "template, line 37"),
        Option("bos_token", "string", "<s>", (), "", "template, line 5"),
        Option("eos_token", "string", "</s>", (), "", "template, line 116"),
    ),
    recommended={},
    efforts=Fact(
        {level: None if level == "none" else {} for level in EFFORTS},
        "this project's choice: the template has no option for it; its default system message, line 2, asks to think",
    ),
)

DOMYN_SMALL = Facts(
    template=DomynSmall,
    end_of_turn=Fact(
        {"system": "\n", "user": "\n", "assistant": "\n", "tool": "\n</tool_response>\n"},
        "template, lines 83, 89, 98, 102, 109-110",
    ),
    stop=None,
    bos_token=None,
    eos_token=None,
    options=(
        Option("tools", "array", None, (), "", "template, line 37"),
        Option(
            "enable_thinking",
            "boolean",
            False,
            (),
            'false does not overrule "thinking on" in a system message',
            "template, line 22",
        ),
    ),
    recommended={},
    efforts=Fact({level: {"enable_thinking": level != "none"} for level in EFFORTS}, VLLM_THINKING),
)

FACTS: dict[str, Facts] = {
    facts.template.name: facts for facts in (SOLAR_OPEN2, HY4, MINISTRAL3_REASONING, DOMYN_SMALL)
}


def list_lines(facts: Facts) -> list[str]:
    """The facts for a reader, without their sources: name and model, then a line for each option and each fact."""
    template = facts.template
    default = template.default_generation_prompt
    known = (("stop strings", facts.stop), ("bos_token", facts.bos_token), ("eos_token", facts.eos_token))
    return [
        f"{template.name}  {template.model}",
        *[f"    {option_line(option)}" for option in facts.options],
        f"    add_generation_prompt = {'(no effect)' if default is None else to_text(default)}",
        *[f"  recommended: {name} = {to_text(fact.value)}" for name, fact in facts.recommended.items()],
        f"  the assistant's turn ends in {to_text(facts.end_of_turn.value['assistant'])}",
        *[f"  {name}: {'no source found' if fact is None else to_text(fact.value)}" for name, fact in known],
        *[f"  OpenAI's reasoning_effort {words}" for words in effort_words(facts.efforts.value)],
    ]


def option_line(option: Option) -> str:
    """An option as `name = default`, then its type, the values that the template names, and the note."""
    value = "" if option.default is MISSING else f" = {to_text(option.default)}"
    kind = f"{option.type}: {to_text(option.values)}" if option.values else option.type
    return f"{option.name}{value}  # {kind}{'; ' if option.note else ''}{option.note}"


def effort_words(efforts: dict[str, dict[str, JSON] | None]) -> list[str]:
    """The levels, those that come to the same together, and what that is."""
    if all(options == {"reasoning_effort": level} for level, options in efforts.items()):
        return ["is passed as it is"]
    found: dict[str, list[str]] = {}
    for level, options in efforts.items():
        pairs = [f"{name} = {to_text(value)}" for name, value in (options or {}).items()]
        words = "no option does it" if options is None else ", ".join(pairs) or "no option needed"
        found.setdefault(words, []).append(level)
    return [f"{', '.join(map(to_text, levels))}: {words}" for words, levels in found.items()]


def to_text(value: JSON) -> str:
    """A value as JSON, and several as JSON with commas between them."""
    return ", ".join(map(to_text, value)) if isinstance(value, tuple) else to_json(value)
