"""detect knows the templates in every form that renders the same, and no other; explain says what is near."""

from __future__ import annotations

import base64
import hashlib
import inspect
import itertools
import json
import pickle
import struct
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from cases import GOLDEN, MANIFEST, TEMPLATES, load, names

import chatfmt
from chatfmt import _detect
from chatfmt._detect import detect, explain

CLASSES = dict(chatfmt.TEMPLATES)
TEXTS = {name: (GOLDEN / name / "template.jinja").read_bytes().decode("utf-8") for name in TEMPLATES}
SUFFIXES = ("", ":abc", ":6124c78e", ":open-source_2.1")

# --- the same template in other forms

LINE_ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


def form(text: str, written_out: bool, final: bool, line_end: str) -> str:
    """A text with its `\\n` written as newlines or not, with a newline at its end or not, and with other line ends."""
    if written_out:
        text = text.replace("\\n", "\n")
    return (text + "\n" if final else text).replace("\n", line_end)


FORMS = list(itertools.product((False, True), (False, True), LINE_ENDS))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(("written_out", "final", "line_end"), FORMS)
def test_known_in_every_form(template: str, written_out: bool, final: bool, line_end: str) -> None:
    text = form(TEXTS[template], written_out, final, LINE_ENDS[line_end])
    assert detect(text) is CLASSES[template]
    assert explain(text) == f"This is the template of {CLASSES[template].model}: {CLASSES[template].__name__}()."


def test_table_holds_the_originals_and_nothing_that_no_form_has() -> None:
    forms = {}
    for template, text in TEXTS.items():
        for written_out in (False, True):
            data = form(text, written_out, False, "\n").encode("utf-8")
            forms[hashlib.sha256(data).hexdigest()] = CLASSES[template]
        assert _detect.REVISIONS[MANIFEST["templates"][template]["sha256"]] is CLASSES[template]
    assert forms == _detect.REVISIONS
    llama_cpp = hashlib.sha256((TEXTS["ministral3_reasoning"] + "\n").encode("utf-8")).hexdigest()
    assert llama_cpp.startswith("39f03c38")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("written_out", "final", "line_end"), FORMS)
def test_the_suffix_of_hy4_is_read_from_the_text(suffix: str, written_out: bool, final: bool, line_end: str) -> None:
    text = TEXTS["hy4"].replace("'" + _detect.SUFFIX + "'", repr(suffix))
    found: Any = detect(form(text, written_out, final, LINE_ENDS[line_end]))
    assert isinstance(found, partial)
    assert found.func is chatfmt.Hy4
    assert found.keywords == {"token_suffix": suffix}
    assert found(tools=[]).control_tokens == chatfmt.Hy4(token_suffix=suffix).control_tokens
    assert inspect.signature(found).parameters["token_suffix"].default == suffix
    assert pickle.loads(pickle.dumps(found)).keywords == found.keywords
    assert explain(text) == f"This is the template of tencent/Hy4-preview: Hy4(token_suffix={suffix!r})."


@pytest.mark.parametrize(
    "suffix",
    [
        "opensource",
        ":",
        ":a b",
        ": ",
        " ",
        ":a'b",
        ":é",
        ":\\n",
        ":a\\x41",
        ":{}",
        ":a:b",
        ":a>",
        ":" + 64 * "a",
        ":a\n",
    ],
)
def test_what_is_no_suffix_of_tokens_makes_another_template(suffix: str) -> None:
    assert detect(TEXTS["hy4"].replace(_detect.SUFFIX, suffix)) is None


# --- every form renders the same: by jinja2


@pytest.fixture(scope="module")
def jinja() -> ModuleType:
    """regenerate.py beside the goldens, whose environment is that of transformers."""
    pytest.importorskip("jinja2", reason="needs jinja2, to render templates")
    sys.path.insert(1, str(GOLDEN))
    import regenerate

    return regenerate


def original_of(jinja: ModuleType, template: str, text: str) -> Any:
    """A text as if it were the original of a template."""
    original = jinja.Original(template)
    original.template = jinja.environment().from_string(text)
    return original


def same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two outcomes are the same; how an input fails (not: is refused) may have other words."""
    return one == other or one[0] == other[0] == "InputError"


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_form_parses_to_the_same_template(jinja: ModuleType, template: str) -> None:
    """What Jinja parses a text to decides what it renders, on every input."""
    environment = jinja.environment()
    original = environment.parse(TEXTS[template])
    for written_out, final, line_end in FORMS:
        assert environment.parse(form(TEXTS[template], written_out, final, LINE_ENDS[line_end])) == original


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_form_renders_the_golden_cases_as_the_original_does(jinja: ModuleType, template: str) -> None:
    original = jinja.Original(template)
    expected = {name: original.outcome(load(template, name)) for name in names(template)}
    for written_out, final, line_end in ((False, True, "lf"), (False, False, "crlf"), (True, True, "cr")):
        text = form(TEXTS[template], written_out, final, LINE_ENDS[line_end])
        assert text != TEXTS[template]
        other = original_of(jinja, template, text)
        differ = [name for name in expected if not same(other.outcome(load(template, name)), expected[name])]
        assert not differ


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_hy4_with_the_suffix_found_renders_as_that_text(jinja: ModuleType, suffix: str) -> None:
    text = TEXTS["hy4"].replace(_detect.SUFFIX, suffix)
    original, found = original_of(jinja, "hy4", text), detect(text)
    assert found is not None
    rendered = 0
    for name in names("hy4"):
        case = load("hy4", name)
        kind, words = original.outcome(case)
        chat = found(tools=case.get("tools"), **case.get("options", {}))
        keywords = {key: case[key] for key in ("add_generation_prompt",) if key in case}
        if kind == "text":
            assert chat.render(case["messages"], **keywords) == words
            rendered += 1
        else:
            with pytest.raises(getattr(chatfmt, kind)):
                chat.render(case["messages"], **keywords)
    assert rendered > 200


# --- near misses: each is an original with one place changed, so that it renders something otherwise

MISSES = [
    ("solar_open2", "is defined else true %}", "is defined else false %}"),
    ("solar_open2", 'defined else "high"', 'defined else "low"'),
    ("solar_open2", 'else "interleaved"', 'else "preserved"'),
    ("solar_open2", "value=-1", "value=0"),
    ("solar_open2", "loop.index0 > last_user_idx", "loop.index0 < last_user_idx"),
    ("solar_open2", 'in ["medium"', 'in ["low", "medium"'),
    ("solar_open2", '"## System Prompt"', '"# System Prompt"'),
    ("solar_open2", "{{- tool.function | tojson }}", "{{- tool | tojson }}"),
    ("solar_open2", r'{{- "\n<|im:end|>\n" }}', r'{{- "<|im:end|>\n" }}'),
    ("solar_open2", r'{{- "<|tool_arg:end|>\n" }}', '{{- "<|tool_arg:end|>" }}'),
    ("solar_open2", "not in sep_ns.rendered_ids", "in sep_ns.rendered_ids"),
    ("solar_open2", "if message.reasoning is defined", "if message.reasoning"),
    ("solar_open2", "args_value is string", "args_value is not string"),
    ("solar_open2", "if not tool_call.id", "if tool_call.id"),
    ("solar_open2", '== "json_object"', '== "json_objects"'),
    ("solar_open2", "cutoff is 2026-02", "cutoff is 2026-03"),
    ("solar_open2", "message.role == 'tool'", "message.role == 'tools'"),
    ("solar_open2", "use this following", "use the following"),
    ("hy4", "HYTK = ':", "HYTK = '"),
    ("hy4", "'<think{}>'", "'<thinks{}>'"),
    ("hy4", "set add_generation_prompt = false", "set add_generation_prompt = true"),
    ("hy4", "set preserved_thinking = true", "set preserved_thinking = false"),
    ("hy4", "['high', 'no_think']", "['high', 'no_think', 'low']"),
    ("hy4", "set reasoning_effort = 'high' %}\n{%- elif", "set reasoning_effort = 'no_think' %}\n{%- elif"),
    ("hy4", "k != 'strict'", "k != 'Strict'"),
    ("hy4", "'\": '", "'\":'"),
    ("hy4", r"'\n</tools>\n\n'", r"'\n</tools>\n'"),
    ("hy4", "hit_ns.count == 1", "hit_ns.count >= 1"),
    ("hy4", "reasoning_effort != 'no_think' and", "true and"),
    ("hy4", "loop.index0 > ns.last_user_index", "loop.index0 < ns.last_user_index"),
    ("hy4", "not (loop.last and raw_last_assistant)", "not loop.last"),
    ("hy4", "item | string", "item | tojson"),
    ("hy4", "{{- '' -}}", "{{- ' ' -}}"),
    ("hy4", "'reasoning_effort:'", "'reasoning_effort: '"),
    ("hy4", "should be no_think/high", "should be high/no_think"),
    ("ministral3_reasoning", "= '# HOW", "= '# How"),
    ("ministral3_reasoning", "messages[1:]", "messages[2:]"),
    ("ministral3_reasoning", "ns.index % 2 == 0", "ns.index % 2 == 1"),
    ("ministral3_reasoning", " | sort(attribute='type')", ""),
    ("ministral3_reasoning", "'content'] | length == 2", "'content'] | length == 3"),
    ("ministral3_reasoning", "arguments|tojson|safe", "arguments|tojson"),
    ("ministral3_reasoning", "arguments == ''", "arguments == ' '"),
    ("ministral3_reasoning", "{{- eos_token }}", "{{- '</s>' ~ eos_token }}"),
    ("ministral3_reasoning", "['image', 'image_url']", "['image']"),
    ("ministral3_reasoning", "'[TOOL_RESULTS]'", "'[TOOL_RESULTS] '"),
    ("ministral3_reasoning", "'[ARGS]'", "'[ARGS] '"),
    ("ministral3_reasoning", "(tools| tojson)", "(tools| tojson(indent=1))"),
    ("ministral3_reasoning", "if default_system_message != ''", "if default_system_message == ''"),
    ("domyn_small", "thinking=false", "thinking=true"),
    ("domyn_small", "'thinking on' in message", "'thinking off' in message"),
    ("domyn_small", '"thinking on" if', '"Thinking on" if'),
    ("domyn_small", r"tool_instruction + '\n\n'", r"tool_instruction + '\n'"),
    ("domyn_small", r"tool_instruction + '\n' }}", r"tool_instruction + '\n\n' }}"),
    ("domyn_small", " | trim", ""),
    ("domyn_small", " | replace('thinking off', '')", ""),
    ("domyn_small", r"<extra_id_1>User\n", "<extra_id_1>User "),
    ("domyn_small", r"'<think>\n</think>\n\n'", r"'<think>\n</think>\n'"),
    ("domyn_small", r"'<think>\n' }}", "'<think>' }}"),
    ("domyn_small", "tool_calls | length > 0", "tool_calls | length >= 0"),
    ("domyn_small", "enable_thinking is defined and enable_thinking", "enable_thinking is defined"),
    ("domyn_small", r"'</tool_response>\n'", "'</tool_response>'"),
    ("domyn_small", "Don't make", "Do not make"),
    ("domyn_small", "has_system = true", "has_system = false"),
]  # fmt: skip


def missed(template: str, old: str, new: str) -> str:
    """An original with the first place that reads `old` changed."""
    assert old in TEXTS[template]
    return TEXTS[template].replace(old, new, 1)


@pytest.mark.parametrize(("template", "old", "new"), MISSES)
def test_a_near_miss_is_another_template(template: str, old: str, new: str) -> None:
    text = missed(template, old, new)
    for written_out, final, line_end in FORMS:
        assert detect(form(text, written_out, final, LINE_ENDS[line_end])) is None
    words = explain(text)
    assert f"It is nearest to that of {CLASSES[template].model}" in words
    i, line = next((i, line) for i, line in enumerate(text.split("\n")) if line != TEXTS[template].split("\n")[i])
    assert f"\n    {i + 1}: {line[:100]}" in words


@pytest.mark.parametrize("template", TEMPLATES)
def test_near_misses_do_render_something_otherwise(jinja: ModuleType, template: str) -> None:
    original = jinja.Original(template)
    outcomes = {name: original.outcome(load(template, name)) for name in names(template)}
    for _, old, new in [miss for miss in MISSES if miss[0] == template]:
        other = original_of(jinja, template, missed(template, old, new))
        assert any(not same(other.outcome(load(template, name)), outcomes[name]) for name in outcomes), (old, new)


@pytest.mark.parametrize("template", TEMPLATES)
def test_forms_that_were_never_seen_are_not_known(template: str) -> None:
    """Some of these even render the same. But no one has shown that, so they are other templates."""
    text = TEXTS[template]
    others = {
        "two newlines at its end": text + "\n\n",
        "a space at its end": text + " ",
        "a byte order mark": "\ufeff" + text,
        "line ends written out": text.replace("\n", "\\n"),
        "some newlines written out": text.replace("\\n", "\n", 1),
        "a comment more": text + "{# #}",
        "a line's indentation": text.replace("\n", "\n ", 1),
        "the last line missing": text[: text.rindex("\n")],
        "twice": text + text,
        "a lone surrogate": text + "\ud800",
        "a null character": text + "\0",
        "vertical tabs for newlines": text.replace("\n", "\v"),
        "capitals": text.upper(),
    }
    assert [name for name, other in others.items() if detect(other) is not None] == []


# --- other families' templates

LOOP, END = "{% for m in messages %}", "{% endfor %}"
ASK = "{% if add_generation_prompt %}"
OTHERS = {
    "chatml": LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" + END
    + ASK + "<|im_start|>assistant\n{% endif %}",
    "chatml, trimmed": "{%- for m in messages %}\n{{- '<|im_start|>' + m['role'] + '\\n' }}\n"
    "{{- m['content'] | trim + '<|im_end|>\\n' }}\n{%- endfor %}",
    "chatml, default system": "{% if messages[0].role != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n{% endif %}"
    + LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" + END,
    "colons": LOOP + "<|im:start|>{{ m.role }}<|im:content|>{{ m.content }}<|im:end|>\n" + END,
    "inst": "{{ bos_token }}" + LOOP + "{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}" + END,
    "inst with a system block": "{{- bos_token }}{%- for m in messages %}\n{%- if m.role == 'system' %}\n"
    "{{- '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}\n{%- elif m.role == 'user' %}\n"
    "{{- '[INST]' + m.content + '[/INST]' }}\n{%- else %}\n{{- m.content + eos_token }}\n{%- endif %}\n"
    "{%- endfor %}",
    "sys in the first inst": LOOP + "{% if loop.first and m.role == 'user' %}[INST] <<SYS>>\nHelp.\n<</SYS>>\n\n"
    "{{ m.content }} [/INST]{% else %} {{ m.content }} </s>{% endif %}" + END,
    "header ids": "{{ bos_token }}" + LOOP + "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>" + END,
    "header ids, prompted": LOOP + "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' }}"
    "{{ m['content'] + '<|eot_id|>' }}" + END + ASK + "<|start_header_id|>assistant<|end_header_id|>{% endif %}",
    "turns": LOOP + "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>\n" + END,
    "short roles": LOOP + "<|{{ m.role }}|>\n{{ m.content }}<|end|>\n" + END + "<|assistant|>\n",
    "short roles, eos": LOOP + "<|{{ m.role }}|>\n{{ m.content + eos_token }}\n" + END,
    "upper case roles": LOOP + "{{ m.role.upper() }}: {{ m.content }}\n" + END + "ASSISTANT:",
    "hashes": LOOP + "### {{ 'Instruction' if m.role == 'user' else 'Response' }}:\n{{ m.content }}\n\n" + END,
    "human": LOOP + "{{ 'Human: ' if m.role == 'user' else 'Assistant: ' }}{{ m.content }}\n\n" + END,
    "turn tokens": LOOP + "<|START_OF_TURN_TOKEN|><|{{ m.role | upper }}_TOKEN|>{{ m.content }}"
    "<|END_OF_TURN_TOKEN|>" + END,
    "wide bars": "{{ bos_token }}" + LOOP + "<｜{{ m.role | capitalize }}｜>{{ m.content }}" + END,
    "wide bars, middle": LOOP + "<｜hy_start｜>{{ m.role }}<｜hy_middle｜>{{ m.content }}<｜hy_end｜>" + END,
    "a suffix": "{%- set HYTK = ':opensource' %}\n" + LOOP + "{{ '<｜hy_start{}｜>'.format(HYTK) ~ m.content }}" + END,
    "extra ids": LOOP + "{{ '<extra_id_1>' + m.role | capitalize }}\n{{ m.content }}\n" + END,
    "extra ids, thinking": "<extra_id_0>System\n{{ 'thinking on' if enable_thinking else 'thinking off' }}\n"
    + LOOP + "<extra_id_1>{{ m.role }}\n{{ m.content }}\n" + END + ASK + "<extra_id_1>Assistant\n{% endif %}",
    "think block": LOOP + "<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n" + END
    + "<|im_start|>assistant\n<think>\n{% if enable_thinking is false %}\n</think>\n\n{% endif %}",
    "channels": LOOP + "<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}<|end|>" + END,
    "role tags": LOOP + "<{{ m.role }}>{{ m.content }}</{{ m.role }}>" + END,
    "json lines": LOOP + '{"role": "{{ m.role }}", "content": {{ m.content | tojson }}}\n' + END,
    "json": "{{ messages | tojson }}",
    "tools in json": "{% if tools %}<tools>\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}</tools>\n{% endif %}"
    + LOOP + "{{ m.role }}: {{ m.content }}\n" + END,
    "tool calls": LOOP + "{% if m.tool_calls %}{% for call in m.tool_calls %}<tool_call>\n"
    "{{ call.function | tojson }}\n</tool_call>\n{% endfor %}{% else %}{{ m.content }}\n{% endif %}" + END,
    "alternation": LOOP + "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('no') }}"
    "{% endif %}{{ m.content }}" + END,
    "a date": "Today is {{ strftime_now('%Y-%m-%d') }}.\n" + LOOP + "{{ m.content }}\n" + END,
    "parts": LOOP + "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{{ part.text if part.type == 'text' else '<image>' }}{% endfor %}{% endif %}" + END,
    "a macro": "{% macro turn(m) %}[{{ m.role }}] {{ m.content }}\n{% endmacro %}" + LOOP + "{{ turn(m) }}" + END,
    "nothing but contents": LOOP + "{{ m.content }}" + END,
    "no variables": "You are a model.\n",
    "only bos": "{{ bos_token }}",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_families_are_not_known(name: str) -> None:
    assert detect(OTHERS[name]) is None
    assert explain(OTHERS[name]) == "This is no template that chatfmt has, nor like one. detect gives None."


def test_other_templates_are_different_ones_that_render(jinja: ModuleType) -> None:
    messages = [{"role": role, "content": f"{role} says"} for role in ("user", "assistant", "user")]
    variables = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
    texts = {jinja.environment().from_string(text).render(**variables, tools=None) for text in OTHERS.values()}
    assert len(texts) >= 30
    assert len({missed(*miss) for miss in MISSES}) + len(set(OTHERS.values())) >= 90


def test_explain_does_not_slow_down_on_a_long_template() -> None:
    assert "nor like one" in explain("{% if x %}\n" * 100_000)


# --- where templates are found


def config(template: object, **more: object) -> str:
    return json.dumps({"bos_token": "<s>", "chat_template": template, **more})


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return folder


def test_files(tmp_path: Path) -> None:
    solar, hy4 = TEXTS["solar_open2"], TEXTS["hy4"].replace(_detect.SUFFIX, ":abc")
    write(tmp_path, {"chat_template.jinja": solar.replace("\n", "\r\n"), "tokenizer_config.json": config(hy4),
                     "chat_template.json": config(solar), "list.json": config([{"name": "default", "template": solar}]),
                     "object.json": config({"default": solar}), "none.json": "{}", "null.json": config(None),
                     "other.txt": solar})  # fmt: skip
    for name in ("chat_template.jinja", "chat_template.json", "list.json", "object.json", "other.txt"):
        assert detect(tmp_path / name) is detect(str(tmp_path / name)) is chatfmt.SolarOpen2
    assert detect(tmp_path / "tokenizer_config.json").keywords == {"token_suffix": ":abc"}  # type: ignore[union-attr]
    for name in ("none.json", "null.json"):
        assert detect(tmp_path / name) is None
        assert explain(tmp_path / name) == "There is no chat template in it, so detect gives None."
    words = explain(str(tmp_path / "other.txt"))
    assert words == f"{tmp_path}/other.txt is the template of upstage/Solar-Open2-250B: SolarOpen2()."


S, D, M = TEXTS["solar_open2"], TEXTS["domyn_small"], TEXTS["ministral3_reasoning"]
NEAR = missed("solar_open2", "value=-1", "value=0")
USES = "additional_chat_templates/tool_use.jinja"


FOLDERS: list[tuple[dict[str, str | bytes], str | None]] = [
    ({"chat_template.jinja": S}, "solar_open2"),
    ({"tokenizer_config.json": config(D)}, "domyn_small"),
    ({"chat_template.json": config(M)}, "ministral3_reasoning"),
    ({"chat_template.jinja": S, "tokenizer_config.json": config(D)}, "solar_open2"),  # as transformers has it
    ({"chat_template.jinja": NEAR, "tokenizer_config.json": config(S)}, None),
    ({"tokenizer_config.json": "{}", "chat_template.jinja": S}, "solar_open2"),
    ({"tokenizer_config.json": "{}", "chat_template.json": config(M)}, "ministral3_reasoning"),
    ({"tokenizer_config.json": config(M), "chat_template.json": config(M + "\n")}, "ministral3_reasoning"),
    ({"tokenizer_config.json": config(S), "chat_template.json": config(M)}, None),
    ({"chat_template.jinja": S, "chat_template.json": config(NEAR)}, None),
    ({"tokenizer_config.json": "{}"}, None),
    ({"chat_template.jinja": S, USES: S + "\n"}, "solar_open2"),
    ({"chat_template.jinja": S, USES: D}, None),
    ({"chat_template.jinja": S, "additional_chat_templates/rag.jinja": D}, "solar_open2"),
    ({"chat_template.jinja": S, "additional_chat_templates/README.md": D}, "solar_open2"),
    ({"chat_template.jinja": S, "additional_chat_templates/default.jinja": D}, "domyn_small"),
    ({"tokenizer_config.json": config(S), USES: S}, None),  # transformers has no default then
    ({"tokenizer_config.json": config([{"name": "default", "template": S}, {"name": "tool_use", "template": S}])},
     "solar_open2"),
    ({"tokenizer_config.json": config([{"name": "default", "template": S}, {"name": "tool_use", "template": D}])},
     None),
    ({"tokenizer_config.json": config([{"name": "rag", "template": S}])}, None),
    ({"tokenizer_config.json": config({"default": S, "rag": "{{ x }}"})}, "solar_open2"),
    ({"tokenizer_config.json": config([])}, None),
    ({"config.json": "{}", "tokenizer.json": "{}", "tokenizer_config.json": config(D + "\n")}, "domyn_small"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "found"), FOLDERS)
def test_folders(tmp_path: Path, files: dict[str, str | bytes], found: str | None) -> None:
    folder = write(tmp_path, files)
    expected = CLASSES[found] if found else None
    assert detect(folder) is detect(str(folder)) is expected
    assert (CLASSES[found].model in explain(folder)) if found else ("detect gives None." in explain(folder))


@pytest.mark.parametrize(
    ("files", "found"), [folder for folder in FOLDERS if "chat_template.json" not in folder[0]]
)  # which only processors read
def test_folders_are_read_as_transformers_reads_them(
    tmp_path: Path, files: dict[str, str | bytes], found: str | None
) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers and transformers, to load a folder")
    transformers = pytest.importorskip("transformers", reason="needs tokenizers and transformers, to load a folder")
    write(tmp_path, files)
    words = tokenizers.models.WordLevel({"a": 0, "?": 1}, unk_token="?")
    tokenizers.Tokenizer(words).save(str(tmp_path / "tokenizer.json"))
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(str(tmp_path))
    used = set()
    for tools in (None, [{"name": "f"}]):
        try:
            used.add(detect(tokenizer.get_chat_template(tools=tools)))
        except ValueError:  # there is no template, or none without a name
            used.add(None)
    assert detect(tokenizer) is detect(tmp_path) is (used.pop() if len(used) == 1 else None)
    assert detect(tmp_path) is (CLASSES[found] if found else None)


def test_explain_says_where_each_template_is(tmp_path: Path) -> None:
    write(tmp_path, {"chat_template.jinja": S, USES: D, "additional_chat_templates/rag.jinja": "{{ x }}"})
    lines = explain(tmp_path).split("\n")
    assert lines[:3] == [
        f"{tmp_path}/additional_chat_templates/rag.jinja, 'rag', is no template that chatfmt has, nor like one. "
        "detect gives None.",
        f"{tmp_path}/additional_chat_templates/tool_use.jinja, 'tool_use', is the template of domyn/Domyn-Small-v1.0: "
        "DomynSmall().",
        f"{tmp_path}/chat_template.jinja is the template of upstage/Solar-Open2-250B: SolarOpen2().",
    ]
    assert lines[3:] == [
        'Only those named "default" and "tool_use" are used unless a caller names one.',
        "Those in use are not all the same template, so detect gives None.",
    ]


def test_objects() -> None:
    for template, text in TEXTS.items():
        assert detect(SimpleNamespace(chat_template=text)) is CLASSES[template]
        assert detect(SimpleNamespace(chat_template={"default": text, "other": "{{ x }}"})) is CLASSES[template]
    assert detect(SimpleNamespace(chat_template={"default": S, "tool_use": D})) is None
    assert detect(SimpleNamespace(chat_template={"tool_use": S})) is None
    assert detect(SimpleNamespace(chat_template=None)) is None
    assert detect(SimpleNamespace(apply_chat_template=len)) is None  # such as one that builds its prompts without Jinja
    words = explain(SimpleNamespace(chat_template=S))
    assert (
        words == "The chat_template of this SimpleNamespace is the template of upstage/Solar-Open2-250B: SolarOpen2()."
    )
    assert '"default"' in explain(SimpleNamespace(chat_template={"tool_use": S}))


def test_a_string_is_a_text_where_it_has_a_mark_of_one_and_else_a_path(tmp_path: Path) -> None:
    write(tmp_path, {"{{x}}": S, "plain": S})
    assert detect(str(tmp_path / "plain")) is chatfmt.SolarOpen2
    assert detect(str(tmp_path / "{{x}}")) is None
    assert detect(tmp_path / "{{x}}") is chatfmt.SolarOpen2
    for text in ("{{ x }}", "{% if x %}{% endif %}", "{# x #}", "two\nlines"):
        assert detect(text) is None


# --- errors


@pytest.mark.parametrize("ask", [detect, explain])
def test_what_cannot_be_read_is_an_error(tmp_path: Path, ask: Any) -> None:
    write(tmp_path, {"bytes.jinja": b"\xff", "text.json": "{{ x }}", "array.json": "[]", "deep.json": "[" * 100_000,
                     "number.json": config(5), "numbers.json": config([1]), "names.json": config([{"name": "default"}]),
                     "empty/config.json": "{}"})  # fmt: skip
    with pytest.raises(
        FileNotFoundError,
        match=r"^'no_such_file' is no file or folder here",
    ):
        ask("no_such_file")
    with pytest.raises(FileNotFoundError, match=r"^'' is no file or folder"):
        ask("")
    with pytest.raises(FileNotFoundError, match=r"no_such_file' is no file or folder"):
        ask(tmp_path / "no_such_file")
    with pytest.raises(FileNotFoundError, match=r"empty holds no chat_template.jinja, no tokenizer_config.json and no"):
        ask(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"bytes\.jinja is not UTF-8: invalid start byte at byte 0"):
        ask(tmp_path / "bytes.jinja")
    for name in ("text.json", "deep.json"):
        with pytest.raises(ValueError, match=rf"{name} is not JSON: "):
            ask(tmp_path / name)
    with pytest.raises(ValueError, match=r"array\.json must hold an object"):
        ask(tmp_path / "array.json")
    for name, kind in (("number", "int"), ("numbers", "list"), ("names", "dict")):
        with pytest.raises(
            ValueError, match=rf"{name}\.json must be a template's text, or texts with names, not {kind}"
        ):
            ask(tmp_path / f"{name}.json")
    for source in (None, 5, b"{{ x }}", [S], {"chat_template": S}):
        with pytest.raises(
            TypeError, match=r"^source must be a template's text, a path, or an object with a chat_templ"
        ):
            ask(source)
    with pytest.raises(TypeError, match=r"^The chat_template of this SimpleNamespace must be a template's text"):
        ask(SimpleNamespace(chat_template=5))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    write(tmp_path, {"chat_template.jinja": S})
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError):
        detect(tmp_path)


# --- what differs


def test_the_numbers_of_the_originals_lines_are_theirs() -> None:
    for template, text in TEXTS.items():
        lines = [zlib.crc32(line.encode("utf-8")) for line in text.split("\n")]
        data = base64.b85encode(struct.pack(f">{len(lines)}I", *lines)).decode("ascii")
        assert _detect.ORIGINAL_LINES[CLASSES[template]] == data


def test_explain_shows_what_differs() -> None:
    lines = TEXTS["domyn_small"].split("\n")
    first = [*lines[:17], "{% set x = 1 %}", "\x1b[31m", *lines[17:20], "{# new #}", *lines[21:30]]
    assert explain("\n".join([*first, *lines[33:], "z" * 200])) == (
        "This is no template that chatfmt has. detect gives None.\n"
        "It is nearest to that of domyn/Domyn-Small-v1.0 (DomynSmall; in chatfmt's repository, "
        "golden/domyn_small/template.jinja). It has 119 of that one's 123 lines, and 4 others. What differs, with the "
        "numbers of that one's lines and these lines themselves:\n"
        "after line 17, added:\n"
        "    18: {% set x = 1 %}\n"
        "    19: \\x1b[31m\n"
        "line 21, replaced by:\n"
        "    23: {# new #}\n"
        "lines 31 to 33, missing.\n"
        "after line 123, added:\n"
        f"    123: {'z' * 119}…"
    )


def test_explain_is_short() -> None:
    text = "\n".join(line + (" " if i % 3 else "") for i, line in enumerate(TEXTS["hy4"].split("\n")))
    lines = explain(text).split("\n")
    assert len(lines) == 2 + _detect.SHOWN_LINES + 1
    assert lines[-1].startswith("and so on, ")


def test_detect_loads_little_until_it_is_asked() -> None:
    code = "import sys; before = set(sys.modules); import chatfmt._detect; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=GOLDEN.parent)
    assert not {"hashlib", "json", "re", "difflib", "base64", "zlib"} & set(run.stdout.split())
