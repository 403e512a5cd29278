"""Compares `chatfmt.hf` with transformers on generated inputs, and shows where they differ. Needs transformers 5.24.

    python tests/hf_differential.py --cases 20000 --seed 7 --jobs 2
    python tests/hf_differential.py --seed 7 --template hy4 --only hostile:123
    python tests/hf_differential.py --speed

--cases is per template, over the levels of generate.py; real conversations come on top, where they are. Each input is
varied in ways that only transformers knows: nulls, other names for the reasoning, objects in place of dicts, batches, a
last message to continue, unknown variables, odd tools and documents. A variation is drawn from the case's number, so
--only makes it again.

Compared are the text or the texts, the words of a refusal, whether two arguments exclude each other, and whether a
failure is one; and what the tokenizer makes of the text, its exceptions too. It is the function with a class that is
compared, and the method that `install` puts into a tokenizer; and the input must not be changed.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import enum
import functools
import importlib
import multiprocessing
import random
import statistics
import sys
import time
import traceback
import types
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT), str(ROOT / "golden")]

import cases  # noqa: E402
import differential  # noqa: E402
import generate  # noqa: E402
import jinja2  # noqa: E402
from cases import GOLDEN, MANIFEST, Case, Outcome  # noqa: E402
from differential import Difference, Report, Task  # noqa: E402

import chatfmt  # noqa: E402
import chatfmt.hf  # noqa: E402

# not imported by name, so that checking types does not read all of them
numpy: Any = importlib.import_module("numpy")
tokenizers: Any = importlib.import_module("tokenizers")
transformers: Any = importlib.import_module("transformers")

KINDS = ("text", "TemplateError", "InputError", "ValueError")
EXCLUDING = ("continue_final_message and add_generation_prompt", "continue_final_message is not compatible")

# ---- tokenizers ---------------------------------------------------------------------------------------------------


def source(template: str) -> str:
    return (GOLDEN / template / "template.jinja").read_bytes().decode("utf-8")


@functools.cache
def backend(template: str) -> str:
    """A small byte-level BPE tokenizer, as JSON, whose special tokens are the template's control tokens."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<pad>", *chatfmt.TEMPLATES[template]().control_tokens],
        show_progress=False,
    )
    texts = [cases.expected(template, name).text for name in cases.names(template)]
    tokenizer.train_from_iterator([text.encode("utf-8", "ignore").decode() for text in texts], trainer)
    text: str = tokenizer.to_str()
    return text


def tokenizer_of(template: str, tokens: str = "passed") -> Any:
    """A new tokenizer with the original template; with the special tokens of the manifest, with others, or without."""
    special = {
        "passed": MANIFEST["templates"][template]["passed"],
        "others": {"bos_token": "<bos>", "eos_token": "[/THINK]", "unk_token": "<unk>"},
        "none": {},
    }[tokens]
    fast = tokenizers.Tokenizer.from_str(backend(template))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, chat_template=source(template), pad_token="<pad>", verbose=False, **special
    )


@functools.cache
def tokenizer_pair(template: str, tokens: str) -> tuple[Any, Any]:
    """Two alike, one of them with chatfmt installed."""
    installed = tokenizer_of(template, tokens)
    assert chatfmt.hf.install(installed, chatfmt.TEMPLATES[template])
    return tokenizer_of(template, tokens), installed


# ---- variations -----------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """What apply_chat_template is called with, and which special tokens the tokenizer has."""

    conversation: Any
    keywords: dict[str, Any]
    tokens: str = "passed"


class Model:
    """An object such as pydantic's."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields

    def model_dump(self) -> Any:
        return self.fields

    def __repr__(self) -> str:
        return f"Model({self.fields!r})"


class Proxy(UserDict):  # type: ignore[type-arg]
    """A Mapping that is no dict."""


class Text(str):
    """A string of a class of its own."""

    def __str__(self) -> str:
        return "not " + super().__str__()


class Two(enum.IntEnum):
    TWO = 2


def as_dataclass(fields: dict[str, Any]) -> Any:
    if not all(key.isidentifier() and not key.startswith("__") for key in fields):
        return Model(fields)
    try:
        return dataclasses.make_dataclass("Fields", fields)(*fields.values())
    except TypeError:  # a keyword among the keys
        return Model(fields)


def weather(city: str, days: int = 1) -> str:
    """The weather in a city.

    Args:
        city: Where.
        days: How many.
    """
    return f"{city} {days}"


def undescribed(city: str) -> str:
    return city


OBJECTS: tuple[Callable[[dict[str, Any]], Any], ...] = (as_dataclass, Model, Proxy, OrderedDict, types.MappingProxyType)
VALUES: dict[type, tuple[Callable[[Any], Any], ...]] = {
    str: (Text, numpy.str_),
    bool: (numpy.bool_,),
    int: (lambda value: Two.TWO, lambda value: numpy.int64(value % 1000)),
    float: (numpy.float64,),
    list: (tuple,),
    type(None): (lambda value: numpy.zeros(2), lambda value: {1, 2}, lambda value: range(3)),
}
ALIASES = ("reasoning_content", "thinking", "reasoning")
NULLABLE = ("content", "tool_calls", "tool_call_id", "name", "refusal", *ALIASES)
NOT_TO_BE_CALLED = {"messages", "tools", "documents", "add_generation_prompt"}


class Varying:
    """Draws a call from a case."""

    def __init__(self, template: str, rng: random.Random) -> None:
        self.template = template
        self.rng = rng

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def call(self, case: Case, others: Callable[[], Case]) -> Call:
        keywords = keywords_of(case)
        conversation = self.messages(case["messages"])
        if self.chance(0.25):
            self.put_continuation(conversation, keywords)
        if self.chance(0.2):
            conversation = self.batch(conversation, others)
        elif self.chance(0.06):
            conversation = self.rng.choice(CONVERSATIONS)(conversation)
        self.put_tools(keywords)
        if self.chance(0.2):
            self.put_variables(keywords)
        return Call(conversation, keywords, self.rng.choice(("passed", "passed", "others", "none")))

    def messages(self, messages: Any) -> Any:
        """The messages, in a few cases with nulls, other names for the reasoning, or objects."""
        found = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
        for message in found:
            if self.chance(0.15):
                message.setdefault(self.rng.choice(NULLABLE), None)
            if self.chance(0.2):
                key = self.rng.choice(ALIASES)
                message[key] = message.pop(self.rng.choice(ALIASES), self.rng.choice(("Hm.", "", None, 0, ["x"])))
        return self.with_objects(messages, 0.08) if self.chance(0.3) else messages

    def with_objects(self, value: Any, share: float) -> Any:
        """The same value with objects in some places."""
        if isinstance(value, dict):
            value = {key: self.with_objects(item, share) for key, item in value.items()}
            return self.rng.choice(OBJECTS)(value) if self.chance(share) else value
        if isinstance(value, list):
            value = [self.with_objects(item, share) for item in value]
        made = VALUES.get(type(value))
        return self.rng.choice(made)(value) if made and self.chance(share / 2) else value

    def put_continuation(self, conversation: Any, keywords: dict[str, Any]) -> None:
        keys = ["content", "content", *ALIASES, "role", "tool_calls", "name", "no such key", "tool_call_id"]
        keywords["continue_final_message"] = self.rng.choice([True, True, True, True, 1, *keys])
        if self.chance(0.9):
            keywords["add_generation_prompt"] = self.rng.choice((False, False, None, 0, ""))
        if isinstance(conversation, list) and self.chance(0.6):  # else few would end in what can be continued
            text = self.rng.choice(("Half an ", " Half an", "", " \n", "an answer\n", f"{chatfmt.hf.TAG}!", "a\u3000"))
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if self.chance(0.3):
                message[self.rng.choice(ALIASES)] = self.rng.choice(("I think", " I think ", text))
            if self.chance(0.3):
                message["content"] = self.rng.choice(PARTS)(text)
            conversation.append(message)

    def batch(self, conversation: Any, others: Callable[[], Case]) -> Any:
        found = [conversation, *(self.messages(others()["messages"]) for _ in range(self.rng.randrange(3)))]
        self.rng.shuffle(found)
        if self.chance(0.2):
            found = [types.SimpleNamespace(messages=one) for one in found]
        return tuple(found) if self.chance(0.2) else found

    def put_tools(self, keywords: dict[str, Any]) -> None:
        tools = keywords.get("tools")
        if isinstance(tools, list) and self.chance(0.15):
            keywords["tools"] = self.rng.choice(TOOLS)(tools)
        elif isinstance(tools, list) and self.chance(0.1):
            keywords["tools"] = self.with_objects(tools, 0.1)

    def put_variables(self, keywords: dict[str, Any]) -> None:
        names = unread(self.template)
        for _ in range(self.rng.randrange(1, 4)):
            keywords.setdefault(self.rng.choice(names), self.rng.choice((None, True, "x", [1], {"a": 1}, 0, Model({}))))
        if self.chance(0.3):
            keywords["documents"] = self.rng.choice(([], [{"title": "t", "text": "x"}], ({},), ["x"], 5, {"a": 1}, ""))
        if self.chance(0.3):
            keywords[self.rng.choice(("bos_token", "eos_token"))] = self.rng.choice(("<b>", "", None, 1, Text("</t>")))
        for name in set(keywords) & set(generate.OPTIONS[self.template]):
            keywords[name] = self.with_objects(keywords[name], 0.2)


CONVERSATIONS: tuple[Callable[[Any], Any], ...] = (
    lambda found: tuple(found) if isinstance(found, list) else found,
    lambda found: dict(enumerate(found)).values() if isinstance(found, list) else found,
    lambda found: dict(enumerate(found)) if isinstance(found, list) else found,
    lambda found: types.SimpleNamespace(messages=found),
    lambda found: Model({"messages": found}),
    lambda found: Model(found),
    lambda found: found[0] if isinstance(found, list) and found else found,
    lambda found: {},
    lambda found: "",
    lambda found: set(),
    lambda found: [],
    lambda found: [[]],
    lambda found: None,
    lambda found: 5,
)
PARTS: tuple[Callable[[str], Any], ...] = (
    lambda text: [{"type": "text", "text": "a"}, {"type": "text", "text": text}],
    lambda text: [{"type": "text", "text": text}, {"type": "thinking", "thinking": "b"}],
    lambda text: ({"type": "text", "text": text},),
    lambda text: [{"type": "text", "text": None}],
    lambda text: [{"type": "text", "text": text}, "a text", {"type": "text"}],
    lambda text: [{"type": "text", "text": text}, ["text"]],
    lambda text: [{"type": "text", "text": "a"}, "x", None],
    lambda text: [{"type": "text", "text": text}, "x", ["y"]],
    lambda text: {"text": text},
    lambda text: [],
)
TOOLS: tuple[Callable[[list[Any]], Any], ...] = (
    tuple,
    lambda tools: dict(enumerate(tools)).values(),
    lambda tools: [*tools, weather],
    lambda tools: [weather, *tools],
    lambda tools: [*tools, undescribed],
    lambda tools: [*tools, Model({"a": 1}.copy()).model_dump],
    lambda tools: [*tools, "x"],
    lambda tools: [Proxy(tool) for tool in tools if isinstance(tool, dict)],
    lambda tools: [OrderedDict(tool) for tool in tools if isinstance(tool, dict)],
    lambda tools: {"name": "f"},
    lambda tools: {},
    lambda tools: "",
    lambda tools: "[]",
    lambda tools: 0,
    lambda tools: [len],
)


@functools.cache
def unread(template: str) -> list[str]:
    """Names of variables that the template does not read from outside, those that it sets itself among them."""
    tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(source(template))
    names = {node.name for node in tree.find_all(jinja2.nodes.Name)}
    functions = chatfmt.hf.CALLED[template]
    known = NOT_TO_BE_CALLED | functions | set(generate.OPTIONS[template]) | {"bos_token", "eos_token"}
    others = {"now", "token_suffix", "chat_template_kwargs", "unknown", "chat"}
    return sorted((names | others) - known)


def keywords_of(case: Case) -> dict[str, Any]:
    given = {str(key): case[key] for key in ("tools", "add_generation_prompt") if key in case}
    return {**given, **case.get("options", {})}


def call_of(template: str, case: Case) -> Call:
    """The call that a case stands for, made anew. Its "variation" seeds what is drawn; without one, nothing is."""
    case = copy.deepcopy(case)
    if not isinstance(case.get("variation"), str):
        return Call(case["messages"], keywords_of(case))
    rng = random.Random(case["variation"])
    return Varying(template, rng).call(case, lambda: generate.case(template, "well_formed", rng))


def case_of(template: str, level: str, seed: int, index: int) -> Case:
    """A case with its variation; every fifth is left as it is."""
    case = differential.case_of(template, level, seed, index)
    return {**case, "variation": f"{seed} {level} {index}"} if index % 5 else case


# ---- one case -------------------------------------------------------------------------------------------------------


def original(call: Call, tokenizer: Any, **more: Any) -> Outcome:
    """What transformers makes of a call."""
    try:
        return Outcome("text", comparable(tokenizer.apply_chat_template(call.conversation, **call.keywords, **more)))
    except Exception as error:
        if type(error) is jinja2.TemplateError:
            return Outcome("TemplateError", str(error))
        if isinstance(error, ValueError) and str(error).startswith(EXCLUDING):
            return Outcome("ValueError")
        return Outcome("InputError", f"{type(error).__name__}: {error}")


def found(apply: Callable[..., Any], call: Call, **more: Any) -> Outcome:
    """What chatfmt makes of a call."""
    try:
        return Outcome("text", comparable(apply(call.conversation, **call.keywords, **more)))
    except (chatfmt.TemplateError, chatfmt.InputError) as error:
        return Outcome(type(error).__name__, str(error), error.path)
    except ValueError as error:
        if type(error) is ValueError and str(error).startswith("continue_final_message leaves"):
            return Outcome("ValueError")
        return bug()
    except Exception:
        return bug()


def bug() -> Outcome:
    return Outcome("bug", "".join(traceback.format_exc().splitlines(True)[-7:]))


def comparable(result: Any) -> str:
    """A text as it is; anything else as Python prints it, with the types of its parts."""
    if isinstance(result, str):
        return result
    if hasattr(result, "encodings"):
        return "\n".join(f"{key}: {type(value).__name__} {value!r}" for key, value in result.items())
    return repr(result)


def tokenizing(rng: random.Random) -> dict[str, Any]:
    """Arguments of a call that returns tokens."""
    drawn: dict[str, Any] = {"tokenize": True}
    for name, values in TOKENIZING.items():
        if rng.random() < 0.35:
            drawn[name] = rng.choice(values)
    return drawn


TOKENIZING: dict[str, tuple[Any, ...]] = {
    "return_dict": (True, False),
    "padding": (True, "longest", "max_length"),
    "truncation": (True,),
    "max_length": (20, 300),
    "return_tensors": ("np",),
    "tokenizer_kwargs": ({"return_length": True}, {"padding": True}, {"return_offsets_mapping": True}, None),
}


def tokens(apply: Callable[..., Any], call: Call, more: dict[str, Any]) -> str:
    """What tokenizing gives, or the exception that the tokenizer raises."""
    try:
        return comparable(apply(call.conversation, **call.keywords, **more))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def check(template: str, case: Case, deep: bool = True) -> tuple[str, Difference | None]:
    """The kind of what transformers gives, and the first difference from it."""
    call = call_of(template, case)
    plain, installed = tokenizer_pair(template, call.tokens)
    expected = original(call_of(template, case), plain, tokenize=False)
    function = functools.partial(chatfmt.hf.apply_chat_template, chatfmt.TEMPLATES[template], tokenizer=plain)
    before = shown(call)
    for what, apply in (("the function", function), ("the installed method", installed.apply_chat_template)):
        outcome = found(apply, call, tokenize=False)
        if not outcome.same(expected):
            return expected.kind, Difference(what, expected, outcome)
        if shown(call) != before:
            return expected.kind, Difference("the input, which was changed", expected, outcome)
    if deep and expected.kind == "text":
        more = tokenizing(random.Random(str(case.get("variation"))))
        theirs = tokens(plain.apply_chat_template, call_of(template, case), more)
        for what, apply in (("tokens", function), ("tokens of the method", installed.apply_chat_template)):
            mine = tokens(apply, call, more)
            if mine != theirs:
                return expected.kind, Difference(f"{what} with {more}", Outcome("text", theirs), Outcome("text", mine))
    return expected.kind, None


def shown(call: Call) -> str:
    try:
        return repr(call)
    except ValueError:
        return "(holds an integer that is too long to be printed)"


# ---- the command ----------------------------------------------------------------------------------------------------


def run(task: Task) -> Report:
    counts, differing, start = dict.fromkeys(KINDS, 0), [], time.perf_counter()
    for index in range(task.start, task.stop):
        case = case_of(task.template, task.level, task.seed, index)
        kind, difference = check(task.template, case, deep=index % 4 == 0)
        counts[kind] += 1
        if difference and check(task.template, case, deep=index % 4 == 0)[1]:  # again: at midnight Solar's date changes
            differing.append(index)
    return Report(counts, differing, time.perf_counter() - start)


def merged(reports: list[Report]) -> Report:
    counts = {kind: sum(report.counts[kind] for report in reports) for kind in KINDS}
    return Report(counts, [k for report in reports for k in report.differing], sum(r.seconds for r in reports))


def explained(task: Task, indexes: list[int], most: int) -> Iterator[str]:
    """The first differences, made small, each with the call that shows it."""
    for index in indexes[:most]:
        first = check(task.template, case_of(task.template, task.level, task.seed, index))[1]

        def bad(case: Case, first: Difference | None = first) -> bool:
            return differential.alike(check(task.template, case)[1], first)

        small = differential.shrunk(case_of(task.template, task.level, task.seed, index), bad, budget=600)
        difference = check(task.template, small)[1]
        if difference:
            what = differential.shown(difference)
            yield f"{task.template} {task.level}:{index} {what}\n  {shown(call_of(task.template, small))}"


def levels(count: int) -> dict[str, int]:
    """How many cases of which levels."""
    sizes = {level: int(count * share) for level, share in differential.SHARES.items()}
    real = 3 * len(differential.real()) if differential.REAL.exists() else 0
    return {**sizes, **dict.fromkeys(differential.REAL_LEVELS, real)} if real else sizes


def tasks_of(template: str, level: str, count: int, seed: int) -> list[Task]:
    size = differential.CHUNK if level in differential.SHARES else 60
    return [Task(template, level, seed, k, min(k + size, count), "chatfmt") for k in range(0, count, size)]


def row(template: str, level: str, report: Report) -> str:
    counts = " ".join(f"{count:>13}" for count in report.counts.values())
    return f"{template:<21} {level:<12} {sum(report.counts.values()):>6} {counts} {len(report.differing):>11}"


def report_all(arguments: argparse.Namespace, reports: Callable[[list[Task]], Iterator[Report]]) -> int:
    sizes = {arguments.level: arguments.cases} if arguments.level else levels(arguments.cases)
    rows = [(template, level, tasks_of(template, level, count, arguments.seed))
            for template in arguments.templates for level, count in sizes.items()]  # fmt: skip
    results = reports([task for *_, tasks in rows for task in tasks])
    differing: list[tuple[Task, list[int]]] = []
    print(f"{'template':<21} {'level':<12} {'cases':>6} {' '.join(f'{kind:>13}' for kind in KINDS)} differences")
    for template, level, tasks in rows:
        report = merged([next(results) for _ in tasks])
        print(row(template, level, report), flush=True)
        if report.differing:
            differing.append((tasks[0], report.differing))
    for task, indexes in differing:
        print(f"\n{task.template} {task.level}: {len(indexes)} differences, at {str(indexes[:20])[1:-1]}")
        print(*explained(task, indexes, arguments.show), sep="\n")
    print(f"\nseed {arguments.seed}: {sum(len(indexes) for _, indexes in differing)} differences")
    return 1 if differing else 0


def show_only(arguments: argparse.Namespace) -> int:
    level, _, index = arguments.only.partition(":")
    for template in arguments.templates:
        case = case_of(template, level, arguments.seed, int(index))
        print(f"{template} {arguments.only}\n{shown(call_of(template, case))}\n{check(template, case)}")
    return 0


def speed(template: str, rounds: int = 40, calls: int = 10) -> str:
    """How long the golden tool chat takes with each, taken in turns, in one process: medians, in µs."""
    case = cases.load(template, "agent_loop")
    keywords = {"tools": case["tools"], "add_generation_prompt": True, "tokenize": False}
    plain, installed = tokenizer_pair(template, "passed")
    chat = chatfmt.TEMPLATES[template](tools=case["tools"])
    ways: tuple[Callable[[], str], ...] = (
        lambda: plain.apply_chat_template(case["messages"], **keywords),
        lambda: installed.apply_chat_template(case["messages"], **keywords),
        lambda: chatfmt.hf.apply_chat_template(chat, case["messages"], add_generation_prompt=True),
    )
    assert len({way() for way in ways}) == 1
    times: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for found, way in zip(times, ways):
            start = time.perf_counter()
            for _ in range(calls):
                way()
            found.append((time.perf_counter() - start) / calls * 1e6)
    theirs, mine, kept = map(statistics.median, times)
    return f"{template:<21} {theirs:>12.0f} {mine:>9.0f} {theirs / mine:>6.1f} {kept:>12.0f} {theirs / kept:>6.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=5000, help="cases per template (default 5000)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--template", dest="templates", action="append", choices=cases.TEMPLATES)
    parser.add_argument("--level", choices=[*differential.SHARES, *differential.REAL_LEVELS], help="all cases on one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", type=int, default=3, help="differences shown per template and level (default 3)")
    parser.add_argument("--only", metavar="LEVEL:INDEX", help="one case: the call, and what is found")
    parser.add_argument("--speed", action="store_true", help="compare times instead")
    arguments = parser.parse_args()
    arguments.templates = arguments.templates or cases.TEMPLATES
    if arguments.speed:
        print(f"{'template':<21} transformers installed  ratio  one object  ratio")
        print(*map(speed, arguments.templates), sep="\n")
        return 0
    if arguments.only:
        return show_only(arguments)
    if arguments.jobs == 1:
        return report_all(arguments, lambda tasks: map(run, tasks))
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        return report_all(arguments, lambda tasks: pool.imap(run, tasks))


if __name__ == "__main__":
    sys.exit(main())
