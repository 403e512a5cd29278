"""The README's server, as it stands there, over loopback: with http.client alone, and with the real openai client.

A fake model takes the place of the program's `complete`. What it was given is compared with what chatfmt and, where
jinja2 is installed, the original templates print for the same conversation, written by hand in the shape that a
template reads.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.client
import importlib
import importlib.util
import itertools
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cases import TEMPLATES
from test_readme import SERVER

import chatfmt

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT.parent / "shared" / "real" / "conversations.jsonl.gz"
PATH = "/v1/chat/completions"
THREADS = 8

Message = dict[str, Any]
Delta = tuple[Message, Any]  # with the finish_reason
Asked = tuple[str, Any]  # the prompt that the model was given, and the request

HAS_JINJA = importlib.util.find_spec("jinja2") is not None
HAS_OPENAI = importlib.util.find_spec("openai") is not None
needs_openai = pytest.mark.skipif(not HAS_OPENAI, reason="openai, the client, is not installed")
if HAS_OPENAI:
    openai: Any = importlib.import_module("openai")
    pydantic: Any = importlib.import_module("pydantic")

HI = [{"role": "user", "content": "Hi"}]
BARE_TOOL: Message = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOL: Message = {"type": "function", "function": BARE_TOOL}


def calling(arguments: Any, id: str = "c1") -> Message:
    function = {"name": "weather", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}


# --- the server, with a fake model


def echo(prompt: str, request: Any) -> Iterator[Delta]:
    yield {"role": "assistant", "content": "You sent "}, None
    yield {"content": prompt}, None
    yield {}, "stop"


class Server:
    """The README's program for a template, on a free port, with `model` in place of its `complete`."""

    def __init__(self, template: str, model: Callable[[str, Any], Iterator[Delta]] = echo) -> None:
        assert SERVER.count('"solar_open2"') == 1
        program: dict[str, Any] = {"__name__": "server"}
        exec(compile(SERVER.replace('"solar_open2"', f'"{template}"'), "README.md", "exec"), program)
        self.asked: list[Asked] = []
        self.faults: list[BaseException] = []

        def complete(prompt: str, request: Any) -> Iterator[Delta]:
            self.asked.append((prompt, request))
            return model(prompt, request)

        def handle_error(*_: Any) -> None:
            fault = sys.exc_info()[1]
            assert fault is not None
            self.faults.append(fault.with_traceback(None))

        program["complete"] = complete
        self.endpoint = program["ChatCompletions"]
        self.endpoint.log_message = lambda *_: None
        self.http = program["Server"](("127.0.0.1", 0), self.endpoint)
        self.http.handle_error = handle_error
        self.port: int = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Server:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, body: Message) -> tuple[int, Any]:
        """The answer to a single request."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, body)

    def prompt(self, body: Message) -> str:
        """The prompt of a request that is answered with 200."""
        assert self.ask(body)[0] == 200
        return self.asked[-1][0]


@pytest.fixture(params=TEMPLATES)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as server:
        yield server
    assert server.faults == []


@pytest.fixture
def solar() -> Iterator[Server]:
    with Server("solar_open2") as server:
        yield server
    assert server.faults == []


def ask(connection: http.client.HTTPConnection, body: Any, path: str = PATH) -> tuple[int, Any]:
    """The status of an answer, and its JSON. body: bytes as they are, or a value to send as JSON."""
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "application/json"
    return response.status, json.loads(response.read())


def is_error(answer: Any) -> bool:
    """Whether an answer is OpenAI's error body."""
    error = answer["error"]
    assert answer == {"error": error}
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    return (error["type"], error["code"]) == ("invalid_request_error", None)


# --- what prompts are compared with


def by_chatfmt(template: str, messages: list[Message], tools: Any, options: Message) -> str:
    return chatfmt.TEMPLATES[template](tools=tools, **options).render(messages, add_generation_prompt=True)


@functools.cache
def original(template: str) -> Any:
    return importlib.import_module("differential").regenerate.Original(template)


def by_jinja(template: str, messages: list[Message], tools: Any, options: Message) -> str:
    case = {"messages": messages, "tools": tools, "add_generation_prompt": True, "options": options}
    kind, text = original(template).outcome(case)
    assert kind == "text", text
    return str(text)


ORACLES = [
    pytest.param(by_chatfmt, id="chatfmt"),
    pytest.param(
        by_jinja, id="jinja", marks=pytest.mark.skipif(not HAS_JINJA, reason="jinja2 is not installed")
    ),
]  # fmt: skip
Oracle = Callable[[str, list[Message], Any, Message], str]

RECOMMENDED: dict[str, Message] = {
    "solar_open2": {"think_render_option": "preserved"},
    "hy4": {},
    "ministral3_reasoning": {},
    "domyn_small": {},
}


# --- http.client alone: answers


def test_an_answer(server: Server) -> None:
    connection = server.connect()
    status, answer = ask(connection, {"model": "m", "messages": HI})
    assert status == 200
    assert answer.keys() == {"id", "object", "created", "model", "choices"}
    assert answer["object"] == "chat.completion"
    assert abs(time.time() - answer["created"]) < 60
    ((prompt, _),) = server.asked
    message = {"role": "assistant", "content": f"You sent {prompt}"}
    assert answer["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]
    assert answer["id"] != ask(connection, {"messages": HI})[1]["id"]
    connection.close()


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(
    ("template", "body", "options"),
    [
        ("solar_open2", {}, {}),
        ("solar_open2", {"reasoning_effort": None, "chat_template_kwargs": None, "stream": None, "tools": None}, {}),
        ("solar_open2", {"reasoning_effort": "xhigh"}, {"reasoning_effort": "xhigh"}),
        ("solar_open2", {"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
        (
            "solar_open2",
            {"reasoning_effort": "low", "chat_template_kwargs": {"think_render_option": "interleaved"}},
            {"reasoning_effort": "low", "think_render_option": "interleaved"},
        ),
        (
            "solar_open2",
            {"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}},
            {"reasoning_effort": "high"},
        ),
        ("hy4", {}, {}),
        ("hy4", {"reasoning_effort": "none"}, {"reasoning_effort": "no_think"}),
        ("hy4", {"reasoning_effort": "minimal"}, {"reasoning_effort": "high"}),
        ("hy4", {"chat_template_kwargs": {"preserved_thinking": None}}, {"preserved_thinking": None}),
        ("ministral3_reasoning", {}, {}),
        ("ministral3_reasoning", {"reasoning_effort": "high"}, {}),
        ("domyn_small", {}, {}),
        ("domyn_small", {"reasoning_effort": "medium"}, {"enable_thinking": True}),
        ("domyn_small", {"reasoning_effort": "none"}, {"enable_thinking": False}),
        ("domyn_small", {"chat_template_kwargs": {"enable_thinking": True}}, {"enable_thinking": True}),
    ],
)
def test_options(template: str, body: Message, options: Message, oracle: Oracle) -> None:
    thoughts: Message = {"role": "assistant", "content": "Hello", "reasoning_content": "A greeting."}
    read = dict(thoughts)
    if template == "ministral3_reasoning":
        chunks = [{"type": "thinking", "thinking": "A greeting."}, {"type": "text", "text": "Hello"}]
        read = {"role": "assistant", "content": chunks}
    with Server(template) as server:
        prompt = server.prompt({"messages": [*HI, thoughts, *HI], **body})
    assert prompt == oracle(template, [*HI, read, *HI], None, {**RECOMMENDED[template], **options})
    assert server.faults == []


@pytest.mark.parametrize("oracle", ORACLES)
def test_tools_of_every_shape(server: Server, request: pytest.FixtureRequest, oracle: Oracle) -> None:
    template = request.node.callspec.params["server"]
    messages = [*HI, calling('{"city": "Oslo"}'), {"role": "tool", "tool_call_id": "c1", "content": {"snow": True}}]
    read = [
        *HI,
        {**calling({"city": "Oslo"}), "content": ""},
        {"role": "tool", "tool_call_id": "c1", "content": '{"snow": true}'},
    ]
    expected = oracle(template, read, [TOOL], RECOMMENDED[template])
    for tool in (TOOL, BARE_TOOL, {"type": "function", **BARE_TOOL}):
        assert server.prompt({"messages": messages, "tools": [tool]}) == expected


def test_parts_of_an_answer_are_joined() -> None:
    calls = [{**calling("{}", id)["tool_calls"][0], "index": index} for index, id in enumerate("ab")]

    def model(prompt: str, request: Any) -> Iterator[Delta]:
        deltas = [{"role": "assistant", "content": ""}, {"reasoning": "I "}, {"reasoning": "look."}]
        yield from [(delta, None) for delta in [*deltas, {"content": "One "}, {"content": "moment."}]]
        yield {"content": None, "tool_calls": calls[:1]}, None
        yield {"tool_calls": calls[1:]}, "tool_calls"

    with Server("hy4", model) as server:
        _, answer = server.ask({"messages": HI})
    message = {"role": "assistant", "content": "One moment.", "reasoning": "I look.", "tool_calls": calls}
    assert answer["choices"] == [{"index": 0, "message": message, "finish_reason": "tool_calls"}]


def events(response: http.client.HTTPResponse) -> list[str]:
    """The data of server-sent events."""
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    *blocks, end = response.read().decode("utf-8").split("\n\n")
    assert end == ""
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [block[len("data: ") :] for block in blocks]


def test_a_streamed_answer(server: Server) -> None:
    connection = server.connect()
    for _ in range(2):  # http.client connects again
        connection.request("POST", PATH, json.dumps({"messages": HI, "stream": True}))
        *chunks, end = events(connection.getresponse())
        assert end == "[DONE]"
        found = [json.loads(chunk) for chunk in chunks]
        assert len({chunk["id"] for chunk in found}) == 1
        assert {chunk["object"] for chunk in found} == {"chat.completion.chunk"}
        expected = list(echo(server.asked[-1][0], None))
        choices = [{"index": 0, "delta": delta, "finish_reason": reason} for delta, reason in expected]
        assert [chunk["choices"] for chunk in found] == [[choice] for choice in choices]
    assert server.prompt({"messages": HI}) == server.asked[0][0] == server.asked[1][0]


def test_a_stream_comes_as_it_is_written() -> None:
    go_on = threading.Event()

    def model(prompt: str, request: Any) -> Iterator[Delta]:
        yield {"role": "assistant", "content": "first"}, None
        assert go_on.wait(20)
        yield {"content": "second"}, "stop"

    with Server("domyn_small", model) as server:
        connection = server.connect()
        connection.request("POST", PATH, json.dumps({"messages": HI, "stream": True}))
        response = connection.getresponse()
        assert b"first" in response.readline()
        go_on.set()
        assert b"second" in response.read()
    assert server.faults == []


def test_a_client_that_goes_away_ends_its_stream_alone() -> None:
    stopped = threading.Event()

    def model(prompt: str, request: Any) -> Iterator[Delta]:
        try:
            while request["stream"]:
                yield {"content": "on and on "}, None
        finally:
            stopped.set()
        yield {"role": "assistant", "content": "short"}, "stop"

    with Server("domyn_small", model) as server:
        connection = server.connect()
        connection.request("POST", PATH, json.dumps({"messages": HI, "stream": True}))
        response = connection.getresponse()
        response.readline()
        response.close()
        connection.close()
        assert stopped.wait(20)
        status, answer = server.ask({"messages": HI, "stream": False})
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "short")
    assert [isinstance(fault, ConnectionError) for fault in server.faults] == [True]


def test_answers_belong_to_their_questions(server: Server) -> None:
    """Each of 8 threads keeps its connection, and every fifth of its requests is bad."""
    start = threading.Barrier(THREADS)

    def talk(thread: int) -> list[str]:
        connection = server.connect()
        start.wait(20)
        found = []
        for n in range(20):
            role = "nobody" if n % 5 == 4 else "user"
            status, answer = ask(connection, {"messages": [{"role": role, "content": f"I am <{thread}-{n}>."}]})
            assert status == (400 if n % 5 == 4 else 200)
            if status == 200:
                (marker,) = re.findall(r"<(\d+-\d+)>", answer["choices"][0]["message"]["content"])
                found.append(marker)
        connection.close()
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(talk, range(THREADS)))
    assert found == [[f"{thread}-{n}" for n in range(20) if n % 5 != 4] for thread in range(THREADS)]


def test_a_kept_connection_does_not_wait(solar: Server) -> None:
    """An answer sent in two parts, with Nagle's algorithm on, would wait 40 ms for the other side."""
    connection = solar.connect()
    times = []
    for _ in range(40):
        start = time.perf_counter()
        ask(connection, {"messages": HI})
        times.append(time.perf_counter() - start)
    connection.close()
    assert min(times[20:]) < 0.03


def test_connections_that_come_at_once_do_not_wait() -> None:
    """None is accepted here: the queue must hold them, or a client would try again after a second."""
    server = Server("hy4")
    with contextlib.ExitStack() as stack:
        stack.callback(server.http.server_close)
        for _ in range(4 * THREADS):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=0.8))


# --- http.client alone: bad requests

DEEP = b'{"messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
WITH_IMAGE = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]

BAD: list[tuple[Any, str | None, str]] = [
    (b"", None, "the body must be JSON"),
    (b"{", None, "the body must be JSON"),
    (b'{"messages": []} x', None, "the body must be JSON"),
    (b'{"messages": "\xff"}', None, "the body must be JSON"),
    (DEEP, None, "the body must be JSON|nested too deep"),
    ([], "messages", "must be an object"),
    ("messages", "messages", "must be an object"),
    (None, "messages", "must be an object"),
    ({}, "messages", "holds messages"),
    ({"messages": None}, "messages", "is null, but must be a list"),
    ({"messages": {"role": "user"}}, "messages", "is an object, but must be a list"),
    ({"messages": ["Hi"]}, "messages[0]", "is a string, but must be an object"),
    ({"messages": [{"content": "Hi"}]}, "messages[0].role", "is missing"),
    ({"messages": [{"role": "critic", "content": "Hi"}]}, "messages[0].role", '"critic"'),
    ({"messages": [{"role": ["user"], "content": "Hi"}]}, "messages[0].role", "is a list"),
    ({"messages": [*HI, {"role": "user", "content": 5}]}, "messages[1].content", "is a number"),
    ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, "messages[0].content[0].type", '"x"'),
    ({"messages": [*HI, calling("{not json")]}, "messages[1].tool_calls[0].function.arguments", "not JSON"),
    ({"messages": [*HI, calling("[1]")]}, "messages[1].tool_calls[0].function.arguments", "is a list"),
    ({"messages": HI, "tools": {}}, "tools", "must be a list"),
    ({"messages": HI, "tools": [{}]}, "tools[0].name", "is missing"),
    ({"messages": HI, "tools": [TOOL, {"type": "web_search"}]}, "tools[1].type", '"web_search"'),
    ({"messages": HI, "reasoning_effort": "much"}, "reasoning_effort", "must be one of "),
    ({"messages": HI, "reasoning_effort": ["high"]}, "reasoning_effort", "must be one of "),
    ({"messages": HI, "reasoning_effort": {}}, "reasoning_effort", "must be one of "),
    ({"messages": HI, "chat_template_kwargs": [1]}, "chat_template_kwargs", "must be an object"),
    (
        {"messages": HI, "chat_template_kwargs": {"effort": 1}},
        "chat_template_kwargs.effort",
        "effort is unknown, but must be one of ",
    ),
    (
        {"messages": HI, "chat_template_kwargs": {"tools": []}},
        "chat_template_kwargs.tools",
        "tools is unknown, but must be one of ",
    ),
    (
        {"messages": HI, "chat_template_kwargs": {"self": 1}},
        "chat_template_kwargs.self",
        "self is unknown, but must be one of ",
    ),
    ({"messages": HI, "response_format": "json"}, "response_format", "must be an object"),
    ({"messages": HI, "functions": [{}]}, "tools[0].name", "is missing"),
    ({"messages": HI, "chat_template_kwargs": {"bos_token": "<s>"}}, "chat_template_kwargs.bos_token", "is unknown"),
    ({"messages": HI, "chat_template_kwargs": {"token_suffix": ""}}, "chat_template_kwargs.token_suffix", "is unknown"),
    ({"messages": [{"role": "user", "content": "\ud83d"}]}, None, r"surrogates not allowed"),
]


def test_bad_requests_name_their_fault_and_the_connection_stays_usable(server: Server) -> None:
    connection = server.connect()
    connection.connect()
    kept = connection.sock
    for body, path, words in BAD:
        for more in ({}, {"stream": True}):
            sent = {**body, **more} if isinstance(body, dict) else body
            status, answer = ask(connection, sent)
            assert status == 400, sent
            assert is_error(answer)
            if body is not DEEP:  # some Pythons decode it, and then it is the messages' fault
                assert answer["error"]["param"] == path, sent
            assert re.search(words, answer["error"]["message"]), answer
    assert server.asked == []
    assert ask(connection, {"messages": HI})[0] == 200
    assert connection.sock is kept
    connection.close()


@pytest.mark.parametrize(
    ("template", "body", "path", "words"),
    [
        ("solar_open2", {"chat_template_kwargs": {"now": "2026-01-01"}}, "chat_template_kwargs.now", "is unknown"),
        (
            "solar_open2",
            {"chat_template_kwargs": {"response_format": {"type": "json_schema", "json_schema": {}}}},
            "response_format.json_schema.schema",
            "missing",
        ),
        (
            "hy4",
            {"chat_template_kwargs": {"reasoning_effort": "low"}},
            "reasoning_effort",
            "reasoning_effort error : low, should be no_think/high",
        ),
        ("hy4", {"messages": [{"role": "user", "content": WITH_IMAGE}]}, "messages[0].content[1].type", "image_url"),
        ("ministral3_reasoning", {"reasoning_effort": "none"}, "reasoning_effort", "one of minimal, low, medium"),
        ("ministral3_reasoning", {"messages": []}, "messages", "is empty"),
        ("ministral3_reasoning", {"messages": [*HI, *HI]}, "messages[1].role", "alternate user and assistant"),
        ("domyn_small", {"chat_template_kwargs": {"thinking": True}}, "chat_template_kwargs.thinking", "is unknown"),
    ],
)
def test_bad_requests_of_one_template(template: str, body: Message, path: str, words: str) -> None:
    with Server(template) as server:
        status, answer = server.ask({"messages": HI, **body})
    assert (status, is_error(answer), answer["error"]["param"]) == (400, True, path)
    assert words in answer["error"]["message"]
    assert server.faults == []
    assert server.asked == []


def damaged(value: Any, chance: random.Random) -> Any:
    """A copy of a JSON value in which one place, or none, is another JSON value."""
    others: list[Any] = [
        None,
        True,
        0,
        -1,
        1e308,
        "",
        "x",
        "\ud800",
        [],
        [[]],
        {},
        {"type": "text"},
        "{}",
        "[",
        HI,
        TOOL,
    ]
    if chance.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return chance.choice(others)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    key = chance.choice(keys)
    if chance.random() < 0.1:
        del copy[key]
    elif isinstance(copy, dict) and chance.random() < 0.1:
        copy[chance.choice(["name", "content", "tool_calls", "id", "stream", "now"])] = copy.pop(key)
    else:
        copy[key] = damaged(value[key], chance)
    return copy


OPTION: dict[str, Message] = {
    "solar_open2": {"think_render_option": "preserved"},
    "hy4": {"preserved_thinking": True},
    "ministral3_reasoning": {},
    "domyn_small": {"enable_thinking": True},
}


def test_damaged_requests_are_answered_with_200_or_400(server: Server, request: pytest.FixtureRequest) -> None:
    whole = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {**calling('{"city": "Oslo"}'), "reasoning_content": "I look."},
            {"role": "tool", "tool_call_id": "c1", "content": "Snow"},
        ],
        "tools": [TOOL],
        "reasoning_effort": "high",
        "chat_template_kwargs": OPTION[request.node.callspec.params["server"]],
    }
    connection, chance, counts = server.connect(), random.Random(6), {200: 0, 400: 0}
    for _ in range(400):
        body = damaged(whole, chance)
        for _ in range(chance.randrange(3)):
            body = damaged(body, chance)
        connection.request("POST", PATH, json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        counts[response.status] += 1
        assert response.status == 200 or is_error(json.loads(text))
    connection.close()
    assert min(counts.values()) > 40


@pytest.mark.skipif(not REAL.exists(), reason="the collection of real conversations does not lie beside the project")
def test_real_conversations(server: Server, request: pytest.FixtureRequest) -> None:
    """Sent as they were recorded; what cannot be expressed is refused as from_openai and render refuse it."""
    template = request.node.callspec.params["server"]
    format = chatfmt.TEMPLATES[template]
    connection, counts = server.connect(), {200: 0, 400: 0}
    with gzip.open(REAL, "rt", encoding="utf-8") as lines:
        conversations = [json.loads(line) for line in lines]
    for held in conversations:
        status, answer = ask(connection, {"messages": held["messages"], "tools": held["tools"]})
        counts[status] += 1
        try:
            messages = chatfmt.from_openai(format, held["messages"])
            definitions = chatfmt.tools_from_openai(format, held["tools"])
            expected = by_chatfmt(template, messages, definitions, RECOMMENDED[template])
        except chatfmt.ChatFormatError as error:
            assert (status, answer["error"]["message"], answer["error"]["param"]) == (400, str(error), error.path)
        else:
            assert (status, server.asked[-1][0]) == (200, expected)
    connection.close()
    assert len(conversations) > 300
    assert counts[200] > len(conversations) // 2


# --- bodies of unclear length, and what http.server refuses itself


def exchanged(server: Server, head: str, body: bytes = b"", *, half_close: bool = False) -> bytes:
    """All that comes back, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode("latin-1") + body)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


BODY = json.dumps({"messages": HI}).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", b""),
        ("Content-Length: many\r\n", b""),
        ("Content-Length: -1\r\n", b""),
        ("Content-Length: +5\r\n", b""),
        ("Content-Length: 1_0\r\n", b""),
        ("Content-Length: \u00b2\r\n", b""),
        ("Content-Length: 100000000\r\n", b""),
        (f"Content-Length: {len(BODY)}\r\nContent-Length: 1\r\n", BODY),
        (f"Content-Length: {'9' * 5000}\r\n", b""),
        ("Transfer-Encoding: chunked\r\n", CHUNKED),
        (f"Content-Length: {len(BODY)}\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    ],
)
def test_a_body_of_unknown_length_is_refused(solar: Server, head: str, body: bytes) -> None:
    answer = exchanged(solar, head, body)
    top, _, text = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nConnection: close" in top
    assert is_error(json.loads(text))
    assert "Content-Length must be" in json.loads(text)["error"]["message"]
    assert solar.prompt({"messages": HI})


def test_a_body_shorter_than_said(solar: Server) -> None:
    head = f"Content-Length: {len(BODY) + 1}\r\n"
    answer = exchanged(solar, head, BODY, half_close=True)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Content-Length must be" in answer
    assert 0 < solar.endpoint.timeout <= 60
    solar.endpoint.timeout = 0.2
    start = time.perf_counter()
    assert exchanged(solar, head, BODY) == b""  # the client waits, and the server does not wait for ever
    assert 0.1 < time.perf_counter() - start < 10
    assert solar.prompt({"messages": HI})


def test_a_body_longer_than_said_is_not_read_as_json(solar: Server) -> None:
    answer = exchanged(solar, f"Connection: close\r\nContent-Length: {len(BODY) - 1}\r\n", BODY)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the body must be JSON" in answer


def test_other_paths_and_methods(solar: Server) -> None:
    for method, path, status in (("POST", "/v1/completions", 404), ("GET", PATH, 501), ("PUT", PATH, 501)):
        connection = solar.connect()
        connection.request(method, path, BODY)
        assert connection.getresponse().status == status
        connection.close()
    assert solar.prompt({"messages": HI})


def test_the_program_runs() -> None:
    """As a reader starts it, with its own `complete`; only the port is another."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert SERVER.count("8000)") == 1
    program = SERVER.replace("8000)", f"{port})")
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for attempt in itertools.count():
            try:
                connection.connect()
                break
            except ConnectionRefusedError:
                assert attempt < 400
                assert process.poll() is None
                time.sleep(0.05)
        status, answer = ask(connection, {"messages": HI})
        connection.close()
    finally:
        process.terminate()
        log = process.communicate()[1]
    assert status == 200
    assert re.fullmatch(r"I read \d+ characters\.", answer["choices"][0]["message"]["content"])
    assert f'"POST {PATH} HTTP/1.1" 200' in log


# --- the openai client: conversations


class Said:
    """A message of a conversation, in no format."""

    def __init__(self, role: str, text: str = "", reasoning: str = "", calls: Any = (), id: str = "") -> None:
        self.role, self.text, self.reasoning, self.id = role, text, reasoning, id
        self.calls: list[tuple[str, str, Message]] = list(calls)  # each an id, a name and arguments


def conversation(n: int) -> list[Said]:
    """The whole of conversation n. The model answers where REQUESTS say."""
    city = f"Ålesund {n}"
    both = [(f"c{n}a", "weather", {"city": city, "days": n}), (f"c{n}b", "clock", {})]
    return [
        Said("system", f"You are assistant {n}."),
        Said("user", f"Weather and time in {city}?"),
        Said("assistant", "", f"I ask <{n}>.", both),
        Said("tool", f"{n} °C,\n“snow”", id=f"c{n}a"),
        Said("tool", f"{n}:00", id=f"c{n}b"),
        Said("assistant", f"Snow & {n} °C at {n}:00.", "Both are there."),
        Said("user", "And tomorrow?"),
        Said("assistant", "I look.", "", [(f"d{n}", "weather", {"city": city, "days": n + 1})]),
        Said("tool", '{"sun": true}', id=f"d{n}"),
        Said("assistant", "Sun 🌞.", "That was easy."),
        Said("user", "Thanks!"),
        Said("assistant", f"Goodbye {n}."),
    ]


REQUESTS = [i for i, said in enumerate(conversation(0)) if said.role == "assistant"]


def as_read(template: str, said: list[Said]) -> list[Message]:
    """Messages in the shape that a template reads."""
    messages = []
    for each in said:
        message: Message = {"role": each.role, "content": each.text}
        if each.reasoning and template == "ministral3_reasoning":
            text = [{"type": "text", "text": each.text}] if each.text else []
            message["content"] = [{"type": "thinking", "thinking": each.reasoning}, *text]
        elif each.reasoning:
            message["reasoning_content"] = each.reasoning
        if each.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id, name, arguments in each.calls
            ]
        if each.id:
            message["tool_call_id"] = each.id
        messages.append(message)
    return messages


def halves(text: str) -> list[str]:
    return [half for half in (text[: len(text) // 2], text[len(text) // 2 :]) if half]


def scripted(prompt: str, request: Any) -> Iterator[Delta]:
    """The model: what conversation n, which the client names as its user, says next, in the way of two servers."""
    n = int(request["user"])
    said = conversation(n)[len(request["messages"])]
    assert said.role == "assistant"
    yield {"role": "assistant", "content": None if n % 3 else ""}, None
    for half in halves(said.reasoning):
        yield {"reasoning" if n % 2 else "reasoning_content": half}, None
    for half in halves(said.text):
        yield {"content": half}, None
    for index, (id, name, arguments) in enumerate(said.calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        yield {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}, None
    yield {}, "tool_calls" if said.calls else "stop"


def collected(stream: Any) -> Message:
    """A streamed answer as the message that a client appends."""
    message: Message = {"role": "assistant", "content": ""}
    for chunk in stream:
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        for key in ("reasoning", "reasoning_content"):
            if getattr(delta, key, None):
                message[key] = message.get(key, "") + getattr(delta, key)
        if delta.tool_calls:
            message.setdefault("tool_calls", []).extend(delta.tool_calls)  # objects, with their index
    return message


def tools() -> list[Message]:
    weather = pydantic.create_model("weather", city=(str, ...), days=(int, ...))
    clock = {"name": "clock", "strict": True, "parameters": {"type": "object", "properties": {}}}
    return [openai.pydantic_function_tool(weather), {"type": "function", "function": clock}]


def talk(client: Any, n: int) -> list[str]:
    """Conversation n, as a client holds it; the finish reasons."""
    said = conversation(n)
    reasons: list[str] = []
    more: Message = {"reasoning_effort": "low"} if n % 2 else {}

    def answer(**keywords: Any) -> Any:
        completion = client.chat.completions.create(
            model="m", messages=messages, tools=tools(), user=str(n), **more, **keywords
        )
        if keywords:
            return collected(completion)
        reasons.append(completion.choices[0].finish_reason)
        return completion.choices[0].message

    messages: list[Any] = [
        {"role": "developer", "content": said[0].text},
        {"role": "user", "content": [{"type": "text", "text": half} for half in halves(said[1].text)]},
    ]
    messages.append(answer())  # an object, as it came
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": said[3 + k].text}
        for k, call in enumerate(messages[-1].tool_calls)
    ]
    results[0]["content"] = [{"type": "text", "text": results[0]["content"]}]
    messages += reversed(results) if n % 2 else results
    messages.append(answer(stream=True))
    messages.append({"role": "user", "content": said[6].text})
    with client.chat.completions.stream(
        model="m", messages=messages, tools=tools(), user=str(n), **more
    ) as stream:  # fmt: skip
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    reasons.append(completion.choices[0].finish_reason)
    messages.append(completion.choices[0].message)  # an object with parsed arguments beside the text
    (call,) = messages[-1].tool_calls
    assert json.loads(call.function.arguments) == said[7].calls[0][2]
    messages.append({"role": "tool", "tool_call_id": call.id, "content": json.loads(said[8].text), "name": "weather"})
    messages.append(answer().model_dump())  # with its nulls
    messages.append({"role": "user", "content": said[10].text})
    assert answer().content == said[11].text
    return reasons


def new_client(server: Server) -> Any:
    return openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1",
        api_key="none",
        max_retries=0,
        timeout=30,
        http_client=openai.DefaultHttpxClient(trust_env=False),  # no proxy
    )


@functools.cache
def talks(template: str) -> list[Asked]:
    """What the model is asked by 8 conversations at once, each in a thread, with one client."""
    with Server(template, scripted) as server, new_client(server) as client, ThreadPoolExecutor(THREADS) as pool:
        start = threading.Barrier(THREADS)

        def work(n: int) -> list[str]:
            start.wait(20)
            return talk(client, n)

        reasons = list(pool.map(work, range(THREADS)))
    assert reasons == [["tool_calls", "tool_calls", "stop", "stop"]] * THREADS
    assert server.faults == []
    return server.asked


LOW: dict[str, Message] = {
    "solar_open2": {"reasoning_effort": "low"},
    "hy4": {"reasoning_effort": "high"},
    "ministral3_reasoning": {},
    "domyn_small": {"enable_thinking": True},
}


@needs_openai
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("oracle", ORACLES)
def test_prompts_of_conversations_with_the_client(template: str, oracle: Oracle) -> None:
    asked = {(int(request["user"]), len(request["messages"])): prompt for prompt, request in talks(template)}
    assert sorted(asked) == [(n, end) for n in range(THREADS) for end in REQUESTS]
    assert len(talks(template)) == len(asked)
    for (n, end), prompt in asked.items():
        options = {**RECOMMENDED[template], **(LOW[template] if n % 2 else {})}
        assert prompt == oracle(template, as_read(template, conversation(n)[:end]), tools(), options)


@needs_openai
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("oracle", ORACLES)
def test_prompts_are_those_of_the_normalized_requests(template: str, oracle: Oracle) -> None:
    format = chatfmt.TEMPLATES[template]
    for prompt, request in talks(template):
        messages = chatfmt.from_openai(format, request["messages"])
        definitions = chatfmt.tools_from_openai(format, request["tools"])
        options = {**RECOMMENDED[template], **(LOW[template] if "reasoning_effort" in request else {})}
        assert prompt == oracle(template, messages, definitions, options)


@needs_openai
def test_conversations_are_sent_as_real_clients_send_them() -> None:
    """Else the tests above would show less than they say."""
    (request,) = [request for _, request in talks("hy4") if request["user"] == "1" and len(request["messages"]) == 11]
    messages = request["messages"]
    roles = "developer user assistant tool tool assistant user assistant tool assistant user"
    assert [message["role"] for message in messages] == roles.split()
    assert messages[2]["content"] is None
    assert isinstance(messages[2]["tool_calls"][0]["function"]["arguments"], str)
    assert messages[2]["reasoning"] == "I ask <1>."
    assert [message["tool_call_id"] for message in messages[3:5]] == ["c1b", "c1a"]
    assert messages[5]["reasoning"] == "Both are there."
    assert "parsed" in messages[7]
    assert isinstance(messages[8]["content"], dict)
    assert messages[9]["function_call"] is messages[9]["tool_calls"] is None


# --- the openai client: images, and bad requests


@needs_openai
def test_images_from_the_client() -> None:
    with Server("ministral3_reasoning") as server, new_client(server) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": WITH_IMAGE}])
    ((prompt, _),) = server.asked
    assert prompt.endswith("[INST][IMG]See[/INST]")


@needs_openai
def test_bad_requests_of_the_client(server: Server) -> None:
    with new_client(server) as client:
        for body, path, words in BAD:
            if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or path is None:
                continue  # what this client cannot send
            body = dict(body)
            effort = {"reasoning_effort": body.pop("reasoning_effort")} if "reasoning_effort" in body else {}
            options = {"chat_template_kwargs": body.pop("chat_template_kwargs", None)}
            for more in ({}, {"stream": True}):
                with pytest.raises(openai.BadRequestError) as caught:
                    client.chat.completions.create(model="m", **body, **effort, **more, extra_body=options)
                error = caught.value
                assert (error.status_code, error.type, error.code) == (400, "invalid_request_error", None)
                assert error.param == path
                assert re.search(words, error.body["message"])
                assert error.body.keys() == {"message", "type", "param", "code"}
        assert server.asked == []
        assert client.chat.completions.create(model="m", messages=HI).choices[0].finish_reason == "stop"
