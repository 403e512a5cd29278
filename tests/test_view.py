"""The page that shows a prompt: read with Python's own parser, and in a headless browser where there is one."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple

import pytest
from browser import Browser, executable
from cases import TEMPLATES, Case, chat, expected, load, names

import chatfmt
from chatfmt import DomynSmall, Hy4, InputError, Ministral3Reasoning, SolarOpen2, injections, mask
from chatfmt._fields import fields_of
from chatfmt._view import HINT, LEGEND, LOOKS, SCRIPT, STYLE, page

ESCAPED = re.compile("[\0\ud800-\udfff]")
GOLDENS = [(template, name) for template in TEMPLATES for name in names(template)]
TEXTS = [(template, name) for template, name in GOLDENS if expected(template, name).kind == "text"]


def keywords(case: Case) -> dict[str, Any]:
    return {key: case[key] for key in ("add_generation_prompt",) if key in case}


def page_of(template: str, name: str) -> str:
    case = load(template, name)
    return page(chat(chatfmt, template, case), case["messages"], title=name, **keywords(case))


def carried(prompt: str) -> str:
    """The prompt as a page holds it: U+0000 and lone surrogates, which HTML has no way to write, as escapes."""
    return ESCAPED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), prompt)


class Shown(NamedTuple):
    """A segment, as a page shows it."""

    text: str
    look: str
    message: int | None
    path: str
    is_trained: bool


class Reader(HTMLParser):
    """Reads a page: all its elements, the texts outside the prompt, and the segments in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.segments: list[Shown] = []
        self.blocks: list[dict[str, str | None]] = []
        self.marked: dict[str, str] = {}  # the text of each mark, by id
        self.prompt: str | None = None
        self.outside = ""
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        assert len(found) == len(attributes)
        self.elements.append((tag, found))
        if tag not in ("meta", "br"):
            self.open.append((tag, found))
        if tag == "pre":
            self.prompt = ""
        in_prompt = [element for element in self.open if element[0] == "pre"]
        if in_prompt and len(self.open) - self.open.index(in_prompt[0]) == 2:
            self.blocks.append(found)
        elif in_prompt and len(self.open) - self.open.index(in_prompt[0]) == 3:
            i, path = self.blocks[-1].get("data-i"), found.get("data-path") or ""
            path = f"messages[{i}]{path}" if path.startswith(".") else path
            look = (found["class"] or "").split()[0]
            self.segments.append(Shown("", look, None if i is None else int(i), path, tag == "u"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if not any(tag == "pre" for tag, _ in self.open):
            self.outside += data
            return
        self.prompt = (self.prompt or "") + data
        self.segments[-1] = self.segments[-1]._replace(text=self.segments[-1].text + data)
        for tag, attributes in self.open:
            if tag == "mark" and attributes.get("id"):
                name = attributes["id"] or ""
                self.marked[name] = self.marked.get(name, "") + data


# ---- what a page holds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("template", "name"), TEXTS)
def test_the_text_of_the_prompt_is_the_prompt(template: str, name: str) -> None:
    html = page_of(template, name)
    assert (Reader(html).prompt or "") == carried(expected(template, name).text)
    html.encode("utf-8")


@pytest.mark.parametrize(("template", "name"), [case for case in GOLDENS if case not in TEXTS])
def test_what_cannot_be_rendered_fails_as_in_render(template: str, name: str) -> None:
    case = load(template, name)
    with pytest.raises(chatfmt.ChatFormatError) as wanted:
        chat(chatfmt, template, case).render(case["messages"], **keywords(case))
    with pytest.raises(type(wanted.value)) as found:
        page_of(template, name)
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize(("template", "name"), TEXTS)
def test_each_segment_is_shown_as_what_it_is(template: str, name: str) -> None:
    """Its kind, message, field, and whether it is trained on."""
    case = load(template, name)
    format = chat(chatfmt, template, case)
    segments = format.segments(case["messages"], **keywords(case))
    add_generation_prompt = case.get("add_generation_prompt", format.default_generation_prompt)
    spans = mask(format, case["messages"], add_generation_prompt=add_generation_prompt).spans
    found = Reader(page_of(template, name)).segments
    assert len(found) == len(segments)
    end = 0
    for shown, segment, field in zip(found, segments, fields_of(format, case["messages"], segments)):
        start, end = end, end + len(segment.text)
        is_trained = any(first <= start and end <= last for first, last in spans)
        assert shown.text == carried(segment.text)
        assert (LOOKS[shown.look][0], shown.message) == (segment.kind, segment.message)
        assert (shown.path, shown.is_trained) == (carried(field.path).replace("\n", "\\n"), is_trained)


CALL = {"id": "a", "type": "function", "function": {"name": "w", "arguments": {"c": "Oslo"}}}
TOOL = {"type": "function", "function": {"name": "w"}}
MESSAGES: list[Any] = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "Q"},
    {"role": "assistant", "content": "T", "reasoning": "R", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "a", "content": "4"},
    {"role": "critic", "content": "C"},
    {"role": "assistant", "content": "A"},
]
ALL_LOOKS = Hy4(tools=[TOOL])


def test_what_is_told_apart() -> None:
    """The looks of a conversation in which each kind of text comes up, by hand."""
    found = [(s.look, s.text) for s in Reader(page(ALL_LOOKS, MESSAGES)).segments if len(s.text) < 60]
    o = ":opensource"
    assert found == [
        ("control", f"<｜hy_start{o}｜>system<｜hy_middle{o}｜>"), ("schema", '{"name": "w"}'), ("control", "\n\n"),
        ("system", "S"), ("control", f"<｜reasoning_mode{o}｜>reasoning_effort:high"), ("control", f"<｜hy_end{o}｜>"),
        ("control", f"<｜hy_start{o}｜>user<｜hy_middle{o}｜>"), ("user", "Q"), ("control", f"<｜hy_end{o}｜>"),
        ("control", f"<｜hy_start{o}｜>assistant<｜hy_middle{o}｜>"), ("control", f"<think{o}>"), ("reasoning", "R"),
        ("reasoning-token", f"</think{o}>"), ("answer", "T"), ("call-token", f"<tool_calls{o}>"),
        ("call-token", f"<tool_call{o}>"), ("call", "w"), ("call-token", f"<arg_key{o}>"), ("call", "c"),
        ("call-token", f"</arg_key{o}><arg_value{o}>"), ("call", "Oslo"), ("call-token", f"</arg_value{o}>"),
        ("call-token", f"</tool_call{o}>"), ("call-token", f"</tool_calls{o}>"), ("end", f"<｜hy_end{o}｜>"),
        ("control", f"<｜hy_start{o}｜>tool<｜hy_middle{o}｜>"), ("control", f"<tool_response{o}>"), ("tool", "4"),
        ("control", f"</tool_response{o}>"), ("control", f"<｜hy_end{o}｜>"),
        ("control", f"<｜hy_start{o}｜>"), ("other", "critic"), ("control", f"<｜hy_middle{o}｜>"), ("other", "C"),
        ("control", f"<｜hy_end{o}｜>"),
        ("control", f"<｜hy_start{o}｜>assistant<｜hy_middle{o}｜>"), ("control", f"<think{o}></think{o}>"),
        ("answer", "A"), ("end", f"<｜hy_end{o}｜>"),
    ]  # fmt: skip


def test_labels_of_the_blocks() -> None:
    def labels(format: Any, messages: Any) -> list[str]:
        blocks = Reader(page(format, messages, add_generation_prompt=True)).blocks
        return [f"{block.get('data-i', '')} {block['data-role']}".strip() for block in blocks]

    assert labels(ALL_LOOKS, [*MESSAGES, {"content": "x"}, {"role": 5, "content": "x"}]) == [
        "0 system", "template", "0 system", "1 user", "2 assistant", "3 tool", "4 critic", "5 assistant", "6 no role",
        "7 role of a wrong type", "generation prompt",
    ]  # fmt: skip
    late = [{"role": "user", "content": "Q"}, {"role": "system", "content": "S"}]
    assert labels(SolarOpen2(), late) == ["template", "1 system", "template", "0 user", "generation prompt"]


def test_what_the_prompt_does_not_show_is_noted() -> None:
    """Dropped reasoning at its turn and at the top, with its length; lost messages at the top."""
    messages: list[Any] = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "A", "reasoning": "R" * 1234},
        {"role": "developer", "content": "D"},
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "A", "reasoning": "kept", "thinking": "T"},
    ]
    read = Reader(page(SolarOpen2(), messages))
    assert [block["data-lost"] for block in read.blocks if "data-lost" in block] == ["reasoning", "thinking"]
    assert [block["id"] for block in read.blocks if "data-lost" in block] == ["m1", "m4"]
    noted = "the prompt does not show (2)messages[1].reasoning, 1,234 charactersmessages[4].thinking, 1 character\n"
    assert noted in read.outside
    assert [a["href"] for tag, a in read.elements if tag == "a"] == ["#m1", "#m4"]
    assert "Messages of which the prompt shows nothing (1)messages[2] (developer)" in read.outside
    plain = Reader(page(Hy4(preserved_thinking=True), messages[:2])).outside
    assert "does not show" not in plain
    assert "shows nothing" not in plain


def test_content_beside_calls_is_noted() -> None:
    read = Reader(page(DomynSmall(), MESSAGES[:4]))
    assert [block["data-lost"] for block in read.blocks if "data-lost" in block] == ["reasoning, content"]


@pytest.mark.parametrize(("template", "name"), [case for case in TEXTS if "control_tokens" in case[1]])
def test_injections_are_marked_and_listed(template: str, name: str) -> None:
    case = load(template, name)
    format = chat(chatfmt, template, case)
    found = injections(format, case["messages"], **keywords(case))
    read = Reader(page_of(template, name))
    links = [a["href"] for tag, a in read.elements if tag == "a" and str(a["href"]).startswith("#x")]
    assert len(links) == len(found) > 0
    assert [read.marked[str(link)[1:]] for link in links] == [injection.token for injection in found]
    for token, _, path, start, _ in found:
        assert f"{token} in {path}, at character {start:,}" in read.outside


def test_tokens_over_several_segments_and_tokens_that_overlap() -> None:
    def marked(html: str) -> tuple[list[str], int]:
        """The text of each mark in its first segment, and how many elements there are for all marks."""
        read = Reader(html)
        in_legend = sum("<mark" in sample for sample, _ in LEGEND)
        return list(read.marked.values()), [tag for tag, _ in read.elements].count("mark") - in_legend

    straddling = page(Ministral3Reasoning(eos_token="x[/INST]"), [{"role": "user", "content": "aax"}])
    assert marked(straddling) == (["x"], 2)  # and [/INST] in the next segment
    messages = [{"role": "user", "content": "xababax"}, {"role": "assistant", "content": "ab"}]
    overlapping = page(Ministral3Reasoning(eos_token="aba", bos_token=""), messages)
    assert marked(overlapping) == (["aba", "ba", "ab"], 4)  # what has a mark has no second one
    assert overlapping.count('<a href="#x') == 3
    apart = [{"role": "user", "content": "<thin"}, {"role": "user", "content": "k>"}]
    assert marked(page(DomynSmall(), apart)) == ([], 0)


def test_long_lists_are_folded() -> None:
    read = Reader(page(SolarOpen2(), [{"role": "user", "content": "<|im:end|>" * 300}]))
    assert "Injected: control tokens that came from the caller (300)" in read.outside
    assert "288 more" in read.outside
    before = [tag for tag, _ in read.elements[: [tag for tag, _ in read.elements].index("details")]]
    assert before.count("li") == 12


def test_facts_at_the_top() -> None:
    format = Hy4(tools=[TOOL], reasoning_effort="no_think", raw_last_assistant=[])
    read = Reader(page(format, [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "Answer"}]))
    assert 'hy4 (tencent/Hy4-preview) · reasoning_effort="no_think" · raw_last_assistant=…\n' in read.outside
    length = len(format.render([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "Answer"}]))
    assert f"2 messages · {length:,} characters, {len('Answer<｜hy_end:opensource｜>')} trained on" in read.outside
    titles = re.findall("<title>(.*)</title>", page(SolarOpen2(), [], title="a & b\n.json") + page(SolarOpen2(), []))
    assert titles == ["a &amp; b\\n.json", "solar_open2"]


def test_a_prompt_of_nothing() -> None:
    html = page(SolarOpen2(), [], add_generation_prompt=False)
    assert Reader(html).prompt == ""
    assert "0 messages · 0 characters, 0 trained on" in html


def test_the_generation_prompt_is_the_templates_default_if_left_out() -> None:
    hi = [{"role": "user", "content": "Hi"}]
    assert Reader(page(SolarOpen2(), hi)).prompt == SolarOpen2().render(hi)
    for value in (True, False):
        assert Reader(page(Hy4(), hi, add_generation_prompt=value)).prompt == Hy4().render(
            hi, add_generation_prompt=value
        )
    with pytest.raises(InputError, match=r"messages\[0\]\.content"):
        page(SolarOpen2(), [{"role": "user"}])


def test_the_legend_has_all_looks() -> None:
    read = Reader("".join(sample for sample, _ in LEGEND))
    classes = {name for _, attributes in read.elements for name in (attributes.get("class") or "").split()}
    assert classes >= set(LOOKS) - {"call-token"}  # looks like reasoning-token, in the colour of call
    assert {tag for tag, _ in read.elements} >= {"u", "mark", "i", "b"}
    assert all(words in page(SolarOpen2(), []) for _, words in LEGEND)


# ---- nothing from elsewhere, and no markup of the caller's -------------------------------------------------------


def test_the_policy_allows_the_pages_own_style_and_script_alone() -> None:
    html = page(ALL_LOOKS, MESSAGES)
    (policy,) = [a["content"] for tag, a in Reader(html).elements if a.get("http-equiv") == "Content-Security-Policy"]

    def hashed(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    (style,) = re.findall("<style>(.*?)</style>", html, flags=re.DOTALL)
    (script,) = re.findall("<script>(.*?)</script>", html, flags=re.DOTALL)
    assert (policy or "").split("; ") == [
        "default-src 'none'", f"style-src {hashed(style)}", f"script-src {hashed(script)}", "base-uri 'none'",
        "form-action 'none'",
    ]  # fmt: skip
    assert (style, script) == (STYLE, SCRIPT)
    for word in ("url(", "@import", "http:", "https:", "fetch", "innerHTML", "eval("):
        assert word not in STYLE + SCRIPT


HOSTILE = (
    "</pre></span></u></mark><script>hacked=1</script><img src=x onerror=hacked=1><svg onload=hacked=1>"
    "&lt;b&gt;&amp;&#60;i>]]><!-- <style>*{display:none}</style> \" onmouseover=\"hacked=1\" x=' onfocus='hacked=1' `>"
    "\x00\r\n\t\u202e\u2028</title></textarea></style></script><a href=javascript:hacked=1>"
)
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "section", "ul", "li", "a", "details",
    "summary", "dl", "div", "dt", "dd", "main", "pre", "span", "u", "mark", "i", "b", "script",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "href", "id", "role", "tabindex", "hidden", "open",
    "aria-label", "aria-describedby", "aria-live",
    "data-i", "data-role", "data-path", "data-lost", "data-code", "data-unknown",
}  # fmt: skip


def hostile(template: str, text: str) -> str:
    """A page with a text in every place where the caller's text can be."""
    call = {"id": text, "type": text, "function": {"name": text, "arguments": {text: text, "k": {text: [text]}}}}
    tool = {"type": "function", "function": {"name": text, "description": text, "parameters": {text: text}}}
    options: dict[str, dict[str, Any]] = {
        "solar_open2": {
            "response_format": {"type": "json_schema", "json_schema": {"schema": {text: text}}},
            "reasoning_effort": text,
        },
        "hy4": {"token_suffix": text, "fallback_strategy": text},
        "ministral3_reasoning": {"bos_token": text, "eos_token": text},
        "domyn_small": {"enable_thinking": text},
    }
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": text},
        {"role": "user", "content": text},
        {"role": "assistant", "content": text, "reasoning": text, "thinking": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": text, "name": text, "content": text},
        {"role": "assistant", "content": text, "reasoning": text},
        {"role": "user", "content": text},
    ]
    if template != "ministral3_reasoning":
        messages.insert(3, {"role": text, "content": text})
    format = chatfmt.TEMPLATES[template](tools=[tool, {"function": {"name": text}}], **options[template])
    return page(format, messages, title=text, add_generation_prompt=True)


@pytest.mark.parametrize("template", TEMPLATES)
def test_text_of_the_caller_never_becomes_markup(template: str) -> None:
    """The page has the elements and attributes that it has with a harmless text of the same odd characters."""
    found = Reader(hostile(template, HOSTILE)).elements
    assert {tag for tag, _ in found} <= TAGS
    assert {key for _, attributes in found for key in attributes} <= ATTRIBUTES
    harmless = Reader(hostile(template, "".join(re.findall("[\x00-\x1f\u202e\u2028]", HOSTILE)))).elements
    for name in TAGS - {"span", "section", "ul", "li", "a", "h2", "mark", "i", "b"}:
        assert [tag for tag, _ in found].count(name) == [tag for tag, _ in harmless].count(name), name
    assert all(str(attributes["href"]).startswith("#") for tag, attributes in found if tag == "a")


# ---- size --------------------------------------------------------------------------------------------------------


def large(size: int = 300_000) -> list[Any]:
    """An agent's conversation that is rendered as at least so many characters, in thousands of segments."""
    messages: list[Any] = [{"role": "user", "content": "Mend the date parser. " * 20}]
    while sum(len(json.dumps(message)) for message in messages[-4:]) * len(messages) / 4 < size:
        n = len(messages)
        arguments = {"path": f"src/dates_{n}.py", "first": n, "last": None, "pattern": "def parse"}
        calls = [{"id": f"{n}{k}", "function": {"name": "read_file", "arguments": arguments}} for k in "ab"]
        lines = "\n".join(f"    line {k}: return date(y, m, d) if d < 29 else None" for k in range(12))
        messages += [
            {"role": "assistant", "content": "I read on. " * 9, "reasoning": "The month. " * 9, "tool_calls": calls},
            *[{"role": "tool", "tool_call_id": call["id"], "content": lines} for call in calls],
        ]
    return messages


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_large_page_is_small_and_soon_made(template: str) -> None:
    format = chatfmt.TEMPLATES[template]()
    messages = large()
    length = len(format.render(messages).encode())
    start = time.perf_counter()
    html = page(format, messages)
    seconds = time.perf_counter() - start
    assert length > 200_000
    assert len(format.segments(messages)) > 1500
    assert len(html.encode()) < 4 * length
    assert seconds < 5


# ---- in a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    wanted = os.environ.get("CHATFMT_BROWSER")
    path = None if wanted == "none" else executable()
    if path is None:
        if wanted == "required":
            pytest.fail("CHATFMT_BROWSER is required, but there is no chromium")
        pytest.skip("CHATFMT_BROWSER is none" if wanted == "none" else "needs chromium")
    browser = Browser(path)
    yield browser
    browser.close()


@pytest.fixture
def browser(started: Browser) -> Browser:
    started.look()
    return started


def status(browser: Browser) -> Any:
    """What the status line says; the tooltip says the same, where it is to be seen."""
    text, tip, is_hidden = browser.evaluate(
        "(tip => [document.getElementById('status').textContent, tip.textContent, tip.hidden])"
        "(document.getElementById('tip'))"
    )
    assert tip in ("", text)
    return text, not is_hidden


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_browsers_dom_holds_the_prompt(browser: Browser, template: str) -> None:
    browser.open("<!DOCTYPE html><title>parser</title>")
    chosen = [name for kind, name in TEXTS if kind == template]
    assert len(chosen) > 100
    for some in (chosen[k : k + 50] for k in range(0, len(chosen), 50)):
        pages = json.dumps([page_of(template, name) for name in some])
        parsed = "new DOMParser().parseFromString(html, 'text/html').getElementById('prompt').textContent"
        texts = browser.evaluate(f"{pages}.map(html => {parsed})")
        for name, text in zip(some, texts):
            assert text == carried(expected(template, name).text), name


UNSEEN = [
    *range(32), *range(127, 161), 0xAD, 0x34F, 0x61C, 0x180E, *range(0x2000, 0x2070), 0xFE0F, 0xFEFF, 0xFFFE, 0xE0041,
]  # fmt: skip
ODD = "".join(map(chr, UNSEEN)) + "\U0001f468\u200d\U0001f469 \u05d0\u0627e\u0301 a\r\nb\rc  \n \t \n\n\ud800"

WHOLE = "range.selectNodeContents(document.getElementById('prompt'))"
MIDDLE = """
const [, first, last] = document.getElementById("prompt").children;
range.setStartBefore(first);
range.setEndAfter(last)
"""


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_is_copied_is_the_prompt(browser: Browser, template: str) -> None:
    """Labels, notes, marks and breaks for reading are not copied; all characters are, whichever they are."""
    cases: list[tuple[Any, Any, dict[str, Any]]] = []
    for name in ("agent_loop", "control_tokens_in_user_text", "unicode_text", "whitespace_kept"):
        case = load(template, name)
        cases.append((chat(chatfmt, template, case), case["messages"], keywords(case)))
    odd = [{"role": "user", "content": ODD}, {"role": "assistant", "content": ODD}]
    cases.append((chatfmt.TEMPLATES[template](), odd, {}))
    for format, messages, options in cases:
        prompt = carried(format.render(messages, **options))
        browser.open(page(format, messages, **options))
        assert browser.copy(WHOLE) == browser.evaluate("document.getElementById('prompt').textContent") == prompt
        segments = format.segments(messages, **options)
        runs = [list(run) for _, run in itertools.groupby(segments, key=lambda segment: segment.message)]
        two = carried("".join(segment.text for run in runs[1:3] for segment in run))
        assert browser.copy(MIDDLE) == two


@pytest.mark.parametrize("control", ["\u202e", "\u202b", "\u2067", "\u2066\u202e"])
def test_a_bidi_control_turns_nothing_around(browser: Browser, control: str) -> None:
    """Not the text behind it, and not the template's."""
    browser.open(page(Hy4(), [{"role": "user", "content": f"ab{control}cd"}]))
    lefts = browser.evaluate(
        """(() => {
          const texts = document.createTreeWalker(document.querySelectorAll("#prompt .block")[1], NodeFilter.SHOW_TEXT);
          const range = document.createRange(), lefts = [];
          while (texts.nextNode()) {
            for (let k = 0; k < texts.currentNode.length; k++) {
              range.setStart(texts.currentNode, k);
              range.setEnd(texts.currentNode, k + 1);
              lefts.push(range.getBoundingClientRect().left);
            }
          }
          return lefts;
        })()"""
    )
    assert len(lefts) > 40
    assert lefts == sorted(lefts)


def test_nothing_is_asked_for_and_nothing_is_complained_about(browser: Browser) -> None:
    browser.open(page(ALL_LOOKS, MESSAGES))
    browser.screenshot()
    requests = [event["params"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    assert [request["type"] for request in requests] == ["Document"]
    complaints = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
    assert [event for event in browser.events if event["method"] in complaints] == []


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_script_of_the_callers_runs(browser: Browser, template: str) -> None:
    """Not even where the browser is told to disregard the policy."""
    browser.call("Page.setBypassCSP", enabled=True)
    try:
        browser.open(hostile(template, HOSTILE))
        found = browser.evaluate(
            "Array.from(document.querySelectorAll('*'), e => [e.localName, ...Array.from(e.attributes, a => a.name)])"
        )
        assert {tag for tag, *_ in found} <= TAGS
        assert {name for _, *attributes in found for name in attributes} <= ATTRIBUTES | {"style"}
        browser.evaluate("document.querySelectorAll('*').forEach(e => { e.focus(); e.click(); })")
        assert browser.evaluate("typeof hacked") == "undefined"
        # the page's own script works, so one could have run
        browser.evaluate("document.querySelector('#prompt [tabindex]').focus()")
        assert status(browser)[0].startswith(("message", "no message"))
    finally:
        browser.call("Page.setBypassCSP", enabled=False)


def middle(browser: Browser, look: str) -> tuple[float, float]:
    """The middle of the first segment of a look, which is scrolled into sight."""
    box = browser.evaluate(
        f"(e => (e.scrollIntoView({{block: 'center'}}), (r => [r.x, r.y, r.width, r.height])(e.getClientRects()[0])))"
        f"(document.querySelector('#prompt .{look}'))"
    )
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def test_hovering_tells_what_a_piece_is(browser: Browser) -> None:
    browser.open(page(ALL_LOOKS, MESSAGES))
    assert status(browser) == (HINT, False)
    for look, words in {
        "user": "message 1 (user) · messages[1].content · content (user text) · 1 character · not trained on",
        "schema": "no message (template) · tools[0] · content (schema) · 13 characters · not trained on",
        "reasoning": "message 2 (assistant) · messages[2].reasoning · output (reasoning) · 1 character · trained on",
        "call": "message 2 (assistant) · messages[2].tool_calls[0].function.name · output (tool call) · 1 character "
        "· trained on",
        "end": "message 2 (assistant) · output_control (end of the turn) · 21 characters · trained on",
        "other": "message 4 (critic) · messages[4].role · content (text of a role that the template does not know) · "
        "6 characters · not trained on",
    }.items():
        browser.point(*middle(browser, look))
        assert status(browser) == (words, True)
    browser.point(1, 1)
    assert status(browser)[1] is False


def test_lengths_are_in_characters(browser: Browser) -> None:
    """As Python counts them: an emoji is one, and so is what is shown as an escape."""
    content = "\U0001f600\x00\ud800\u200b\r\n\ttwo <think:opensource>  "
    browser.open(page(Hy4(), [{"role": "user", "content": content}]))
    browser.point(*middle(browser, "user"))
    assert f"· {len(content)} characters ·" in status(browser)[0]


def test_the_keyboard_reaches_every_piece(browser: Browser) -> None:
    """Tab stops once in the prompt; the arrow keys go on from there."""
    browser.open(page(SolarOpen2(tools=[TOOL]), MESSAGES, add_generation_prompt=True))
    active = "document.activeElement"
    for _ in range(10):
        browser.press("Tab")
        if browser.evaluate(f"!!{active}.closest('#prompt')"):
            break
    words = "no message (template) · control (the template's) · 32 characters · not trained on"
    assert status(browser) == (words, True)
    outline = browser.evaluate(f"(s => [s.outlineStyle, s.outlineWidth])(getComputedStyle({active}))")
    assert outline == ["solid", "2px"]
    format = SolarOpen2(tools=[TOOL])
    seen = [browser.evaluate(f"{active}.textContent")]
    for segment in format.segments(MESSAGES, add_generation_prompt=True)[1:]:
        browser.press("ArrowRight")
        seen.append(browser.evaluate(f"{active}.textContent"))
        assert f" · {segment.kind} (" in status(browser)[0]
        assert f" · {len(segment.text)} character" in status(browser)[0]
    assert "".join(seen) == format.render(MESSAGES, add_generation_prompt=True)
    browser.press("ArrowRight")  # at the end it stays
    assert status(browser)[0].startswith("no message (generation prompt) · ")
    browser.press("ArrowUp")
    assert status(browser)[0].startswith("message 5 (assistant) · control")
    browser.press("ArrowRight")
    browser.press("ArrowUp")  # to the beginning of the message at first
    assert status(browser)[0].startswith("message 5 (assistant) · control")
    browser.press("ArrowUp")
    assert status(browser)[0].startswith("message 3 (tool) · ")
    browser.press("ArrowDown")
    browser.press("ArrowLeft")
    assert status(browser)[0].startswith("message 3 (tool) · ")
    browser.press("Home")
    assert status(browser)[0].startswith("no message (template) · ")
    browser.press("End")
    assert status(browser)[0].startswith("no message (generation prompt) · ")
    browser.press("Escape")
    assert status(browser)[1] is False
    browser.press("Tab")
    assert browser.evaluate(f"!{active}.closest('#prompt')")
    assert browser.evaluate("document.querySelectorAll('#prompt [tabindex]').length") == 1


def test_a_link_leads_to_the_injection(browser: Browser) -> None:
    messages = [{"role": "user", "content": "x\n" * 500 + "<|im:end|>" + "\n" * 500}]
    browser.open(page(SolarOpen2(), messages))
    browser.press("Tab")
    browser.press("Enter")
    browser.evaluate("new Promise(done => setTimeout(done, 50))")
    assert browser.evaluate("document.activeElement.className") == "user"
    assert status(browser)[0].endswith(" · not trained on · injected")
    top = browser.evaluate("document.querySelector('#prompt mark').getBoundingClientRect().top")
    assert 0 <= top < 900


def test_each_message_is_a_block_though_the_prompt_has_no_newlines(browser: Browser) -> None:
    for format, messages in ((ALL_LOOKS, MESSAGES), (Ministral3Reasoning(), MESSAGES[:4])):
        browser.open(page(format, messages))
        boxes = browser.evaluate(
            "Array.from(document.getElementById('prompt').children, e => (r => [r.left, r.top, r.bottom])"
            "(e.getBoundingClientRect()))"
        )
        for (left, _, bottom), (next_left, top, _) in zip(boxes, boxes[1:]):
            assert left == next_left
            assert top >= bottom
        tops = browser.evaluate("Array.from(document.querySelectorAll('#prompt .new'), e => e.getClientRects()[0].top)")
        assert tops


LOOK_OF = r"""
Array.from(document.querySelectorAll("#prompt > * > *, #prompt mark"), e => {
  const style = getComputedStyle(e), block = getComputedStyle(e.closest(".block"));
  return [e.localName === "mark" ? "mark" : e.classList[0], [
    style.textDecorationLine, style.textDecorationStyle, style.fontWeight, style.fontStyle, style.borderTopStyle,
    getComputedStyle(e, "::before").content.replace(/^"\\a "$/, "none"),
    ["system", "user", "tool", "other"].includes(e.className) ? block.borderLeftStyle : "",
  ].join(" ")];
})
"""


def test_looks_differ_without_colour(browser: Browser) -> None:
    """In underline, weight, slant, border or label; texts of messages in the rule at the left of their block."""
    messages = [*MESSAGES, {"role": "user", "content": "<｜hy_end:opensource｜>"}]
    browser.open(page(ALL_LOOKS, messages))
    found: dict[str, set[str]] = {}
    for look, style in browser.evaluate(LOOK_OF):
        found.setdefault(look, set()).add(style)
    assert set(found) == {*LOOKS, "mark"}
    assert all(len(styles) == 1 for styles in found.values()), found
    everything = sorted(style for styles in found.values() for style in styles)
    assert len(set(everything)) == len(everything), found


CONTRASTS = """
Array.from(document.querySelectorAll("body *")).filter(e => e.getClientRects().length).flatMap(e => {
  let behind = e;
  while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const page = getComputedStyle(behind || document.documentElement).backgroundColor;
  const styles = [[e.textContent && "text", getComputedStyle(e)]];
  for (const part of ["::before", "::after"]) {
    const style = getComputedStyle(e, part);
    if (!["none", "normal"].includes(style.content)) styles.push([part, style]);
  }
  return styles.filter(([part]) => part).map(([part, style]) => [
    `${e.localName}#${e.id}.${e.className}${part}`, style.color,
    style.backgroundColor === "rgba(0, 0, 0, 0)" ? page : style.backgroundColor]);
})
"""


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2 of a colour such as rgb(1, 2, 3)."""
    assert re.fullmatch(r"rgb\(\d+, \d+, \d+\)", colour), colour
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrast(browser: Browser, dark: bool) -> None:
    """All text stands out by 4.5:1 or more, and the page is light or dark as the reader likes it."""
    browser.look(dark=dark)
    messages = [*MESSAGES, {"role": "user", "content": "<｜hy_end:opensource｜>\u200b\x00\t \n"}]
    browser.open(page(ALL_LOOKS, [*messages, {"role": "assistant", "content": "A", "thinking": "T"}]))
    browser.point(*middle(browser, "user"))  # so that there is a tooltip
    found = browser.evaluate(CONTRASTS)
    assert (luminance(browser.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1) == dark
    assert len({name for name, _, _ in found}) > 40
    for name, text, behind in found:
        high, low = sorted([luminance(text), luminance(behind)], reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, text, behind)


@pytest.mark.parametrize("template", ["solar_open2", "domyn_small"])
def test_a_large_page_is_usable(browser: Browser, template: str) -> None:
    """It is there in a few seconds, its script does nothing for each piece, and keys answer at once."""
    format, messages = chatfmt.TEMPLATES[template](), large()
    html = page(format, messages)
    browser.call("Performance.enable")
    start = time.perf_counter()
    browser.open(html)
    browser.screenshot()
    assert time.perf_counter() - start < 5
    metrics = {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}
    assert metrics["ScriptDuration"] < 0.1
    assert browser.evaluate("document.querySelectorAll('#prompt > * > *').length") == len(format.segments(messages))
    assert browser.evaluate("document.querySelectorAll('[tabindex]').length") == 1
    browser.evaluate("document.querySelector('#prompt [tabindex]').focus()")
    start = time.perf_counter()
    browser.press("End")
    for _ in range(10):
        browser.press("ArrowUp")
    browser.screenshot()
    assert time.perf_counter() - start < 3
    assert browser.evaluate("scrollY") > 10_000
    assert browser.copy(WHOLE) == format.render(messages)


def test_a_narrow_window_needs_no_scrolling_sideways(browser: Browser) -> None:
    browser.look(width=360, height=700)
    for template in TEMPLATES:
        browser.open(page_of(template, "agent_loop"))
        assert browser.evaluate("document.documentElement.scrollWidth") <= 360
