"""`python -m chatfmt`, run as a user runs it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import GOLDEN, TEMPLATES, expected, load, names

import chatfmt
from chatfmt.__main__ import show
from chatfmt._view import page

ROOT = Path(__file__).resolve().parent.parent
SHARED = sorted(file.name[: -len(".input.json")] for file in (GOLDEN / "conversations").glob("*.input.json"))


def run(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "chatfmt", *arguments]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False)


def render(template: str, conversation: Any, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return run("render", template, "-", *arguments, stdin=json.dumps(conversation).encode())


def complaint(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line on standard error that bad input leads to."""
    assert result.returncode == 1
    assert result.stdout == b""
    line = result.stderr.decode("utf-8")
    assert line.startswith("chatfmt: ")
    assert line.count("\n") == 1
    assert line.endswith("\n")
    return line[len("chatfmt: ") : -1]


HI = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("template", TEMPLATES)
def test_files_of_the_golden_suite_render_to_exact_bytes(template: str) -> None:
    name = "one_tool_call"
    result = run("render", template, str(GOLDEN / "conversations" / f"{name}.input.json"))
    assert result.returncode == 0
    assert result.stdout == expected(template, name).text.encode("utf-8")
    assert result.stderr == b""


def test_a_list_of_messages_from_standard_input() -> None:
    assert render("hy4", HI).stdout.decode() == chatfmt.Hy4().render(HI)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_in_other_unicode_encodings(encoding: str) -> None:
    messages = [{"role": "user", "content": "Grüße"}]
    data = json.dumps(messages, ensure_ascii=False).encode(encoding)
    assert run("render", "hy4", "-", stdin=data).stdout.decode() == chatfmt.Hy4().render(messages)


def test_options_and_generation_prompt_of_the_file_and_over_it() -> None:
    options = {"reasoning_effort": "no_think"}
    conversation = {"messages": HI, "options": options, "add_generation_prompt": True}
    no_think, high = chatfmt.Hy4(reasoning_effort="no_think"), chatfmt.Hy4()
    assert render("hy4", conversation).stdout.decode() == no_think.render(HI, add_generation_prompt=True)
    found = render("hy4", conversation, "--no-generation-prompt", "--option", 'reasoning_effort="high"')
    assert found.stdout.decode() == high.render(HI, add_generation_prompt=False)
    assert render("hy4", HI, "--generation-prompt").stdout.decode() == high.render(HI, add_generation_prompt=True)
    assert render("hy4", {"messages": HI, "tools": [{"name": "f"}]}).stdout.decode() == chatfmt.Hy4(
        tools=[{"name": "f"}]
    ).render(HI)


def test_date_option() -> None:
    found = render("solar_open2", HI, "--option", "provider_system_prompt=true", "--option", 'now="2031-05-06"')
    assert b"The current date is 2031-05-06." in found.stdout
    for wrong in ("5", '"20260214"', '"2026-02-30"', '"2026-W07-6"'):
        words = complaint(render("solar_open2", HI, "--option", f"now={wrong}"))
        assert words == "--option: now must be a date such as 2026-02-14"
    words = complaint(render("hy4", {"messages": HI, "options": {"token_suffix": 5}}))
    assert words == "standard input: token_suffix must be a string, not int"


def test_segments() -> None:
    lines = render("hy4", HI, "--segments").stdout.decode().splitlines()
    found = [json.loads(line) for line in lines]
    assert found == [segment._asdict() for segment in chatfmt.Hy4().segments(HI)]


def test_show_is_plain_when_not_a_terminal() -> None:
    result = render("domyn_small", [{"role": "user", "content": "a\x1b[31m\u200bb é"}], "--show")
    assert result.stdout.decode() == "<extra_id_0>System\nthinking off\n<extra_id_1>User\na\\x1b[31m\\u200bb é\n\n"


def test_show_on_a_terminal_gives_each_kind_its_colour() -> None:
    segments = chatfmt.Hy4().segments([*HI, {"role": "assistant", "content": "\x1b[0mx"}])
    shown = show(segments, in_colour=True)
    assert "\x1b[36m<｜hy_start:opensource｜>user<｜hy_middle:opensource｜>\x1b[0m\x1b[0mHi\x1b[0m" in shown
    assert "\x1b[32m\\x1b[0mx\x1b[0m\x1b[1;35m<｜hy_end:opensource｜>\x1b[0m" in shown


def test_view_writes_the_page_of_the_prompt(tmp_path: Path) -> None:
    name = "one_tool_call"
    conversation = load("hy4", name)
    html = page(chatfmt.Hy4(tools=conversation["tools"]), conversation["messages"], title=f"{name}.input.json",
                add_generation_prompt=conversation["add_generation_prompt"]).encode()  # fmt: skip
    source = str(GOLDEN / "conversations" / f"{name}.input.json")
    assert run("view", "hy4", source).stdout == html
    assert run("view", "hy4", source, "-o", "-").stdout == html
    result = run("view", "hy4", source, "-o", str(tmp_path / "page.html"))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert (tmp_path / "page.html").read_bytes() == html


def test_view_takes_the_options_of_render() -> None:
    conversation = {"messages": HI, "options": {"reasoning_effort": "high"}, "add_generation_prompt": False}
    arguments = ["--generation-prompt", "--option", 'reasoning_effort="no_think"']
    found = run("view", "hy4", "-", *arguments, stdin=json.dumps(conversation).encode())
    no_think = chatfmt.Hy4(reasoning_effort="no_think")
    assert found.stdout.decode() == page(no_think, HI, title="standard input", add_generation_prompt=True)
    arguments = ["--option", "provider_system_prompt=true", "--option", 'now="2031-05-06"']
    found = run("view", "solar_open2", "-", *arguments, stdin=json.dumps(HI).encode())
    assert "The current date is 2031-05-06." in found.stdout.decode()


def test_view_shows_what_utf8_cannot_hold() -> None:
    assert "\\ud800" in run("view", "hy4", "-", stdin=b'[{"role": "user", "content": "\\ud800"}]').stdout.decode()


@pytest.mark.skipif(os.name == "nt", reason="names of files that Windows does not allow")
def test_view_takes_any_name_of_a_file(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/<script>\xff.json"
    Path(os.fsdecode(name)).write_text(json.dumps(HI), encoding="utf-8")
    result = subprocess.run([sys.executable, "-m", "chatfmt", "view", "hy4", name], cwd=ROOT, capture_output=True)
    assert r"<h1>&lt;script&gt;\udcff.json</h1>" in result.stdout.decode("utf-8")


def test_view_complains_as_render_does(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    for data in (
        b"{",
        b'[{"role": "assistant", "tool_calls": 5}]',
        b'{"messages": [], "options": {"x": 1}}',
        b'{"messages": 5}',
    ):
        words = complaint(run("view", "hy4", "-", "-o", str(output), stdin=data))
        assert words == complaint(run("render", "hy4", "-", stdin=data))
    assert not output.exists()
    words = complaint(run("view", "hy4", "-", "--option", "reasoning_effort=5", stdin=b"[]"))
    assert words == "--option: reasoning_effort is a number, but must be a string"
    words = complaint(run("view", "hy4", "-", "-o", str(tmp_path / "no" / "page.html"), stdin=b"[]"))
    assert words == f"{tmp_path / 'no' / 'page.html'} cannot be written: No such file or directory"
    assert complaint(run("view", "hy4", "-", "-o", "", stdin=b"[]")).startswith("'' cannot be written: ")


def test_the_page_is_loaded_by_view_alone() -> None:
    code = "import sys; import chatfmt.__main__; print('chatfmt._view' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_version() -> None:
    assert run("--version").stdout.decode() == f"chatfmt {chatfmt.__version__}\n"


def test_list() -> None:
    lines = run("list").stdout.decode().splitlines()
    for name, template in chatfmt.TEMPLATES.items():
        assert f"{name}  {template.model}" in lines
    assert '    reasoning_effort = "high"  # string: "high", "no_think"; all else is refused' in lines
    assert "    preserved_thinking  # boolean; left out: true with tools, else false" in lines
    assert '  recommended: think_render_option = "preserved"' in lines


REQUEST = {
    "model": "any",
    "temperature": 0.5,
    "reasoning_effort": "none",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"city": "Oslo"}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "4"},
    ],
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    "response_format": {"type": "text"},
}


@pytest.mark.parametrize("template", chatfmt.TEMPLATES)
def test_a_request_of_openais_api(template: str) -> None:
    request = {**REQUEST, "reasoning_effort": None if template == "ministral3_reasoning" else "none"}
    prompt = run("render", template, "-", "--from", "openai", stdin=json.dumps(request).encode()).stdout.decode()
    format = chatfmt.TEMPLATES[template]
    efforts: Any = {"solar_open2": {"reasoning_effort": "none"}, "hy4": {"reasoning_effort": "no_think"}}
    chat = format(tools=chatfmt.tools_from_openai(format, REQUEST["tools"]), **efforts.get(template, {}))
    assert prompt == chat.render(chatfmt.from_openai(format, REQUEST["messages"]), add_generation_prompt=True)
    assert "Be brief." in prompt
    assert "Oslo" in prompt


def test_the_options_of_a_request() -> None:
    def prompt(template: str, **more: Any) -> str:
        data = json.dumps({**REQUEST, **more}).encode()
        return run("render", template, "-", "--from", "openai", stdin=data).stdout.decode()

    assert "must be a valid JSON object" in prompt("solar_open2", response_format={"type": "json_object"})
    assert "Output Format" not in prompt("solar_open2")
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A", "reasoning": "R"}]
    assert "R<|think:end|>" in prompt("solar_open2", messages=turns + turns[:1])  # as the model's card recommends
    assert "thinking on" in prompt("domyn_small", reasoning_effort="low")
    assert "thinking on" not in prompt("domyn_small", chat_template_kwargs={"enable_thinking": False})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reasoning_effort": "max"}, "standard input: reasoning_effort must be one of none, minimal, low, medium, "),
        ({"reasoning_effort": []}, "standard input: reasoning_effort must be one of "),
        ({"chat_template_kwargs": []}, "standard input: chat_template_kwargs must be an object"),
        ({"chat_template_kwargs": {"x": 1}}, "standard input: chat_template_kwargs.x is unknown, but must be one of "),
        ({"messages": [{"role": "critic"}]}, "standard input: messages[0].role is "),
        ({"messages": 5}, "standard input: messages is a number, but must be "),
        ({"tools": [{"type": "web_search"}]}, "standard input: tools[0]"),
    ],
)
def test_a_bad_request_is_one_line(change: dict[str, Any], words: str) -> None:
    found = run("render", "hy4", "-", "--from", "openai", stdin=json.dumps({**REQUEST, **change}).encode())
    assert complaint(found).replace("[] ", "").startswith(words)


def test_check_names_what_is_wrong() -> None:
    case = {"messages": [{"role": "user", "content": "a\x1b<|im:end|>"}, {"role": "developer", "content": "lost"}]}
    found = run("check", "solar_open2", "-", stdin=json.dumps(case).encode())
    assert found.returncode == 1
    warning, error = found.stdout.decode().splitlines()
    assert warning.startswith("warning: messages[0].content holds the control token <|im:end|>")
    assert warning.endswith("(control-token)")
    assert error.startswith("error: messages[1]")
    assert error.endswith("(lost-message)")
    lines = run("check", "solar_open2", "-", "--json", stdin=json.dumps(case).encode()).stdout.splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["control-token", "lost-message"]
    assert json.loads(lines[1])["severity"] == "error"
    del case["messages"][1]
    assert run("check", "solar_open2", "-", stdin=json.dumps(case).encode()).returncode == 0
    assert run("check", "solar_open2", "-", stdin=b'[{"role": "assistant", "content": "<|im:end|>"}]').stdout
    trusted = ["check", "solar_open2", "-", "--trust-assistant"]
    assert run(*trusted, stdin=b'[{"role": "assistant", "content": "<|im:end|>"}]').stdout == b""
    clean = run("check", "hy4", "-", "--from", "openai", stdin=json.dumps(REQUEST).encode())
    assert (clean.returncode, clean.stdout) == (0, b"")
    refused = run("check", "hy4", "-", stdin=b'[{"role": "assistant", "tool_calls": 5}]')
    assert (refused.returncode, refused.stdout.split(b":")[0]) == (1, b"error")


def test_detect(tmp_path: Path) -> None:
    found = run("detect", str(ROOT / "golden" / "hy4" / "template.jinja"))
    assert found.returncode == 0
    assert "is the template of tencent/Hy4-preview" in found.stdout.decode()
    assert found.stdout.decode().endswith("\npython -m chatfmt view hy4 FILE -o page.html\n")
    other = tmp_path / "other.jinja"
    text = (ROOT / "golden" / "hy4" / "template.jinja").read_text(encoding="utf-8")
    other.write_text(text.replace(":opensource", ":x"), encoding="utf-8")
    command = run("detect", str(other)).stdout.decode().splitlines()[-1]
    assert command == "python -m chatfmt view hy4 FILE -o page.html --option 'token_suffix=\":x\"'"
    other.write_text("{{ messages }}", encoding="utf-8")
    found = run("detect", str(other))
    assert found.returncode == 1
    assert "detect gives None" in found.stdout.decode()
    assert " is no file or folder" in complaint(run("detect", str(tmp_path / "missing")))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "standard input is not JSON: "),
        (b"{", "standard input is not JSON: "),
        (b"\xff\xfe\xff", "standard input is not JSON: "),
        pytest.param(b"[" * 200_000, "standard input is nested too deep", id="deep"),
        (b"5", "standard input holds no messages"),
        (b'{"message": []}', "standard input holds no messages"),
        (b'{"messages": [], "options": []}', "standard input: options must be an object"),
        (b'{"messages": [], "options": {"x": 1}}', "standard input: options.x is unknown, but must be one of tools"),
        (b'{"messages": [], "reasoning_effort": "high"}', "standard input: reasoning_effort is an option"),
        (b'{"messages": [], "add_generation_promt": true}', "standard input: the key add_generation_promt is unknown"),
        (b'{"messages": 5}', "standard input: messages is a number, but must be a list"),
        (b"[1" + b"0" * 5000 + b"]", "standard input "),
        (b'[{"role": "user", "content": "\\ud800"}]', "standard input: messages[0] holds a lone surrogate"),
    ],
)
def test_bad_input_is_one_line(data: bytes, words: str) -> None:
    assert complaint(run("render", "hy4", "-", stdin=data)).startswith(words)


def test_refusals_name_file_place_and_words() -> None:
    assert complaint(render("solar_open2", [{"role": "tool", "content": ""}])) == (
        "standard input: messages[0].tool_call_id: tool message is missing required 'tool_call_id' field"
    )
    assert complaint(render("hy4", HI, "--option", r'reasoning_effort="a\nb"')) == (
        r"--option: reasoning_effort error : a\nb, should be no_think/high"
    )
    assert (
        complaint(render("hy4", HI, "--option", "tools=[1]")) == "--option: tools[0] is a number, but must be an object"
    )


def test_missing_file() -> None:
    assert complaint(run("render", "hy4", "no/such/file.json")).startswith("no/such/file.json cannot be read: ")
    assert complaint(run("render", "hy4", str(ROOT))).startswith(f"{ROOT} cannot be read: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["render"],
        ["render", "hy5", "-"],
        ["render", "hy4", "-", "--option", "reasoning_effort=high"],
        ["render", "hy4", "-", "--option", "reasoning_effort"],
        ["render", "hy4", "-", "--option", "x=1"],
        ["render", "hy4", "-", "--option", "=1"],
        ["render", "hy4", "-", "--show", "--segments"],
        ["render", "hy4", "-", "--unknown"],
        ["list", "x"],
        ["view", "hy4"],
        ["view", "hy4", "-", "--option", "x=1"],
        ["view", "hy4", "-", "--show"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = run(*arguments, stdin=b"[]")
    assert result.returncode == 2
    assert result.stdout == b""
    assert b"usage: python -m chatfmt" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")
def test_a_broken_pipe_is_quiet() -> None:
    long = json.dumps([{"role": "user", "content": "x" * 1_000_000}]).encode()
    command = [sys.executable, "-m", "chatfmt", "render", "hy4", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(long)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")
def test_interruption_is_quiet() -> None:
    code = """
import os, signal, sys, time
from chatfmt.__main__ import main

class Interrupting:  # standard input on which Ctrl-C is typed as soon as it is read
    buffer = property(lambda self: self)
    def read(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

sys.stdin = Interrupting()
sys.exit(main(["render", "hy4", "-"]))
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (128 + signal.SIGINT, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments", [("list",), ("render", "hy4", "-"), ("render", "hy4", "-", "--show"), ("view", "hy4", "-")]
)
def test_output_that_cannot_be_written_is_one_line(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "chatfmt", *arguments]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, cwd=ROOT, input=b"[]", stdout=full, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(b"chatfmt: standard output cannot be written: ")
    assert result.stderr.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_page_that_cannot_be_written_is_one_line() -> None:
    words = complaint(run("view", "hy4", "-", "-o", "/dev/full", stdin=b"[]"))
    assert words.startswith("/dev/full cannot be written: ")


@pytest.mark.skipif(os.name == "nt", reason="the shell of POSIX")
@pytest.mark.parametrize(
    ("redirection", "stdout", "stderr"),
    [
        ("list >&-", "", "chatfmt: standard output is closed\n"),
        (
            "render hy4 golden/conversations/plain_chat.input.json --show >&-",
            "",
            "chatfmt: standard output is closed\n",
        ),
        ("render hy4 - <&-", "", "chatfmt: standard input is closed\n"),
        ("render hy4 missing.json 2>&-", "", ""),
    ],
)
def test_closed_streams(redirection: str, stdout: str, stderr: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m chatfmt {redirection}"
    result = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (1, stdout, stderr)


def test_every_shared_conversation_is_a_file_for_the_command_line() -> None:
    assert len(SHARED) >= 10
    assert set(SHARED) <= set(names("hy4"))
