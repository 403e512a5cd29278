"""Times chatfmt beside the compiled originals, and beside what no renderer in Python can avoid.

    python tests/bench.py [--quick] [--quartiles] [--json FILE]

Prints a table in Markdown, then what an import costs, the memory that a render takes, and how time grows with the
conversation. Without jinja2 it says so and times chatfmt alone. Where minijinja is installed and prints the same
text, it is timed as well. Times are reported, never judged: the exit code is 1 only where texts differ.

All contenders of a workload are timed in one process, in turns, so that whatever else the machine does falls on each
of them alike; a ratio is the median of the ratios within each round. The garbage collector stays on, as in a server.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from cases import MANIFEST, NOW, TEMPLATES, Case

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "golden")]  # the package beside this file, whatever is installed

import chatfmt  # noqa: E402

JSON = Any
Message = dict[str, JSON]
Contenders = dict[str, Callable[[], Any]]
Samples = dict[str, list[float]]  # seconds, of each contender, round by round
Results = dict[str, Any]

# --- Workloads -------------------------------------------------------------------------------------------------------

SIZES = (100, 200, 400, 800, 1600, 3200)  # of the agent runs that show how time grows
WORKLOADS = {
    "short chat": "3 messages",
    "tool chat": "10 messages, 4 calls, 5 tools",
    "agent run": "200 messages, 132 calls, 2 a turn, 20 tools",
    "long run": "1,000 messages, 664 calls, 2 a turn, 20 tools",
    "50 calls": "one turn, answered in reverse; 52 messages, 20 tools",
}
WITH_REASONING_FIELD = {"solar_open2", "hy4"}
WITH_THINKING_CHUNKS = {"ministral3_reasoning"}  # Domyn Small reads reasoning nowhere


def tool(k: int) -> JSON:
    properties = {
        "path": {"type": "string", "description": "The file or folder to look at, relative to the repository."},
        "query": {"type": "string", "description": "What to look for: words, or a regular expression."},
        "limit": {"type": "integer", "description": "How many results to return.", "minimum": 1, "default": 20},
    }
    parameters = {"type": "object", "properties": properties, "required": ["path", "query"]}
    about = f"Searches index {k} of the repository and returns the matching lines, the most relevant first."
    return {
        "type": "function",
        "function": {"name": f"search_index_{k}", "description": about, "parameters": parameters},
    }


def call(k: int) -> JSON:
    """A tool call whose arguments are two short strings and an integer."""
    arguments = {"path": f"src/module_{k}.py", "query": f"def handle_{k}", "limit": 10 + k % 90}
    function = {"name": f"search_index_{k % 5}", "arguments": arguments}
    return {"id": f"call_{k:05}", "type": "function", "function": function}


def response(k: int) -> Message:
    lines = [f"src/module_{k}.py:{n}: def handle_{k}(request, *, limit=None): ..." for n in range(4, 40, 12)]
    return {"role": "tool", "tool_call_id": f"call_{k:05}", "content": "\n".join(lines)}


def assistant(template: str, text: str, calls: Sequence[JSON] = ()) -> Message:
    """A message of the assistant, with reasoning where the template reads it."""
    reasoning = "The request goes through the handler first, so I look at that file before I decide what to change."
    message: Message = {"role": "assistant", "content": text}
    if template in WITH_THINKING_CHUNKS:
        chunks = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": text}]
        message["content"] = chunks if text else chunks[:1]
    elif template in WITH_REASONING_FIELD:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls)
    return message


def system() -> Message:
    return {"role": "system", "content": "You are a careful engineer. Read before you write, and keep answers short."}


def exchange(template: str) -> list[Message]:
    answer = "It is read once at start-up, from the file that the environment names, and never written."
    return [{"role": "user", "content": "Where is the configuration read, and when?"}, assistant(template, answer)]


def question() -> Message:
    return {"role": "user", "content": "Find out why requests above the limit are dropped, and mend it."}


def turn(template: str, first: int, calls: int) -> list[Message]:
    """The assistant makes some calls, and gets its responses in their order."""
    numbers = range(first, first + calls)
    return [assistant(template, "", [call(k) for k in numbers]), *map(response, numbers)]


def agent_run(template: str, size: int) -> Case:
    """A conversation of so many messages, most of them turns of two calls; one or two exchanges fill it up."""
    messages = [system(), *exchange(template) * (2 - size % 3), question()]
    for k in range((size - len(messages)) // 3):
        messages += turn(template, 2 * k, 2)
    return case(messages, 20)


def tool_chat(template: str) -> Case:
    answer = assistant(template, "The limit is checked twice; the second check is the one that drops requests.")
    return case([system(), question(), *turn(template, 0, 2), answer, question(), *turn(template, 2, 2)], 5)


def many_calls(template: str) -> Case:
    calling, *responses = turn(template, 0, 50)
    return case([question(), calling, *responses[::-1]], 20)


def case(messages: list[Message], tools: int) -> Case:
    shown = [tool(k) for k in range(tools)] or None
    return {"messages": messages, "tools": shown, "add_generation_prompt": True}


def workload(template: str, name: str) -> Case:
    if name == "short chat":
        return case([*exchange(template), question()], 0)
    if name == "tool chat":
        return tool_chat(template)
    if name == "50 calls":
        return many_calls(template)
    return agent_run(template, {"agent run": 200, "long run": 1000}[name])


# --- Contenders ------------------------------------------------------------------------------------------------------


def installed(package: str) -> str | None:
    """Its version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def maker(template: str, case: Case) -> Callable[[], Any]:
    """What makes a fresh object for a case."""
    return partial(chatfmt.TEMPLATES[template], **MANIFEST["templates"][template]["passed"], tools=case["tools"])


def new_object(template: str, case: Case) -> Any:
    return maker(template, case)()


def jinja(template: str) -> Any:
    """The original, compiled; None without jinja2, which `regenerate` imports."""
    return importlib.import_module("regenerate").Original(template) if installed("jinja2") else None


def minijinja(template: str) -> Any:
    """The original as the Rust engine compiles it, with the same functions in Python; raises where it cannot."""
    engine, regenerate = importlib.import_module("minijinja"), importlib.import_module("regenerate")
    environment = engine.Environment(trim_blocks=True, lstrip_blocks=True, debug=False)
    environment.add_filter("tojson", regenerate.to_json)
    environment.add_function("raise_exception", regenerate.raise_exception)
    environment.add_function("strftime_now", NOW.strftime)
    environment.add_template("chat", (ROOT / "golden" / template / "template.jinja").read_bytes().decode("utf-8"))
    return environment


def with_minijinja(template: str, variables: Message, text: str) -> tuple[Contenders, str]:
    """How minijinja renders the same, or nothing and why not."""
    if not installed("minijinja"):
        return {}, "it is not installed"
    try:
        environment = minijinja(template)
        if environment.render_template("chat", **variables) != text:
            return {}, "it prints another text"
    except Exception as error:  # whatever its engine raises
        return {}, f"it fails with {type(error).__name__}: {error}".splitlines()[0]
    return {"minijinja": lambda: environment.render_template("chat", **variables)}, ""


def kept_encoder() -> Callable[[JSON, int], Sequence[str]]:
    """What turns a value, at an indentation of 0, into pieces of JSON: one C encoder; without it, what Python has."""
    encoder: Any = json.encoder
    try:
        pieces: Callable[[JSON, int], Sequence[str]] = encoder.c_make_encoder(
            None, None, encoder.encode_basestring, None, ": ", ", ", False, False, True
        )
        pieces({"": [1]}, 0)
    except (AttributeError, TypeError):
        plain = json.JSONEncoder(ensure_ascii=False).encode
        return lambda value, indentation: (plain(value),)
    return pieces


def parts(chat: Any, messages: list[Message]) -> tuple[list[JSON], list[str]]:
    """The values that a render encodes as JSON, and the pieces that it writes, by an object with its tools written."""
    values: list[JSON] = []
    pieces: list[str] = []
    module, write = sys.modules[type(chat).__module__], pieces.append
    plain = vars(module)["to_json"]

    def to_json(value: JSON, *path: str | int) -> Any:
        values.append(value)
        return plain(value, *path)

    verbs = dict.fromkeys(("control", "content", "output", "output_control"), write)
    with mock.patch.object(module, "to_json", to_json):
        chat.write(SimpleNamespace(**verbs, block=lambda block: write(block.text)), messages, True)
    return values, pieces


def floor(values: list[JSON], pieces: list[str]) -> Callable[[], str]:
    """What a renderer in Python cannot avoid: to encode the values, to append the pieces, to join them."""
    encode = kept_encoder()

    def run() -> str:
        for value in values:
            "".join(encode(value, 0))
        texts: list[str] = []
        append = texts.append
        for piece in pieces:
            append(piece)
        return "".join(texts)

    return run


def contenders(template: str, case: Case) -> tuple[Contenders, str]:
    """Everything that is timed on a case, once all of it gives the same text; and why minijinja is not there."""
    messages, make = case["messages"], maker(template, case)
    kept = make()
    text = kept.render(messages, add_generation_prompt=True)
    found: Contenders = {
        "kept": lambda: kept.render(messages, add_generation_prompt=True),
        "new": lambda: make().render(messages, add_generation_prompt=True),
        "segments": lambda: kept.segments(messages, add_generation_prompt=True),
        "floor": floor(*parts(kept, messages)),
    }
    texts = {"new": found["new"](), "segments": "".join(s.text for s in found["segments"]()), "floor": found["floor"]()}
    reason = "it needs jinja2 here"
    original = jinja(template)
    if original:
        variables = original.variables(case)
        found["jinja"] = lambda: original.template.render(**variables)
        texts["jinja"] = found["jinja"]()
        other, reason = with_minijinja(template, variables, text)
        found.update(other)
    different = [name for name in texts if texts[name] != text]
    if different:
        sys.exit(f"{template}: {different} and a kept object print different texts, so there is nothing to time.")
    return found, reason


# --- Timing ----------------------------------------------------------------------------------------------------------


class Budget(NamedTuple):
    workload: float  # seconds for the rounds of one workload
    growth: float  # seconds for the rounds of one template
    imports: int  # pairs of processes
    rounds: int  # at least so many, however long they take
    steps: int  # messages that come one at a time


FULL = Budget(workload=4.0, growth=2.5, imports=60, rounds=5, steps=1000)
QUICK = Budget(workload=0.18, growth=0.3, imports=10, rounds=2, steps=200)
SAMPLE = 0.0002  # seconds that a sample lasts at least: a fast function is called many times in it


class Spread(NamedTuple):
    """Quartiles."""

    q1: float
    median: float
    q3: float


def spread(values: Sequence[float], scale: float = 1.0) -> Spread:
    scaled = [value * scale for value in values]
    return Spread(*statistics.quantiles(scaled if len(scaled) > 1 else scaled * 2, n=4, method="inclusive"))


def ratio(samples: Samples, above: str, below: str) -> Spread | None:
    if above not in samples or below not in samples:
        return None
    return spread([a / b for a, b in zip(samples[above], samples[below])])


def timed(function: Callable[[], Any], number: int) -> float:
    """Seconds that so many calls take."""
    calls = itertools.repeat(None, number)
    start = time.perf_counter()
    for _ in calls:
        function()
    return time.perf_counter() - start


def number_of_calls(function: Callable[[], Any]) -> int:
    """How often to call a function for one sample."""
    number = 1
    while timed(function, number) < SAMPLE:
        number *= 2
    return number


def sampled(functions: Contenders, seconds: float, at_least: int) -> Samples:
    """Seconds per call of each function, in rounds; each round begins with another one."""
    gc.collect()
    order = [(name, function, number_of_calls(function)) for name, function in functions.items()]
    samples: Samples = {name: [] for name in functions}
    end = time.perf_counter() + seconds
    while len(samples[order[0][0]]) < at_least or time.perf_counter() < end:
        for name, function, number in order:
            samples[name].append(timed(function, number) / number)
        order = order[1:] + order[:1]
    return samples


# --- What is measured ------------------------------------------------------------------------------------------------

MICRO = 1e6


def measured(template: str, name: str, budget: Budget) -> Results:
    """One row of the table: times in microseconds, and ratios."""
    case = workload(template, name)
    functions, reason = contenders(template, case)
    samples = sampled(functions, budget.workload, budget.rounds)
    times = {key: spread(values, MICRO) for key, values in samples.items()}
    ratios = {
        "jinja/kept": ratio(samples, "jinja", "kept"),
        "jinja/new": ratio(samples, "jinja", "new"),
        "minijinja/kept": ratio(samples, "minijinja", "kept"),
        "kept/floor": ratio(samples, "kept", "floor"),
    }
    return {
        "template": template,
        "workload": name,
        "messages": len(case["messages"]),
        "characters": len(functions["kept"]()),
        "rounds": len(samples["kept"]),
        "microseconds": times,
        "ratios": ratios,
        "no minijinja": reason,
    }


def import_times(pairs: int) -> Results:
    """Milliseconds of a process that imports chatfmt, beside one that does all the same but that."""
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    codes = {"bare": path + "pass", "with import": path + "import chatfmt"}
    with tempfile.TemporaryDirectory() as folder:  # for the bytecode, so that a tree that is not writable has some too
        command = [sys.executable, "-I", "-X", f"pycache_prefix={folder}", "-c"]
        runs = {name: partial(subprocess.run, [*command, code], check=True) for name, code in codes.items()}
        for run in runs.values():
            run()
        samples: Samples = {name: [] for name in runs}
        for _ in range(pairs):
            for name, run in runs.items():
                samples[name].append(timed(run, 1))
    difference = [b - a for a, b in zip(samples["bare"], samples["with import"])]
    return {name: spread(values, 1000) for name, values in {**samples, "difference": difference}.items()}


def peak_memory(template: str) -> Results:
    """The most bytes that a render of the long run holds, its text included."""
    case = workload(template, "long run")
    chat = new_object(template, case)
    chat.render(case["messages"], add_generation_prompt=True)
    tracemalloc.start()
    try:
        text = chat.render(case["messages"], add_generation_prompt=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return {"peak": peak, "text as Python holds it": sys.getsizeof(text), "text in UTF-8": len(text.encode("utf-8"))}


def growth(template: str, budget: Budget) -> Results:
    """Microseconds of a kept object by number of messages, and each one's ratio to the size before."""
    functions: Contenders = {}
    for size in SIZES:
        case = agent_run(template, size)
        render = new_object(template, case).render
        functions[str(size)] = partial(render, case["messages"], add_generation_prompt=True)
    samples = sampled(functions, budget.growth, budget.rounds)
    return {
        str(size): {"microseconds": spread(samples[str(size)], MICRO), "ratio": ratio(samples, str(size), str(before))}
        for before, size in zip((None, *SIZES), SIZES)
    }


def machine() -> Results:
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "jinja2": installed("jinja2"),
        "minijinja": installed("minijinja"),
    }


def processor() -> str:
    """Its name, which Python itself knows on few systems."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    try:
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()


# --- The report ------------------------------------------------------------------------------------------------------

# of each column: heading, where its numbers are in a row, under which key
COLUMNS = (
    ("Jinja µs", "microseconds", "jinja"),
    ("chatfmt µs", "microseconds", "kept"),
    ("× faster", "ratios", "jinja/kept"),
    ("× faster, new object", "ratios", "jinja/new"),
    ("× the floor", "ratios", "kept/floor"),
    ("segments µs", "microseconds", "segments"),
    ("minijinja µs", "microseconds", "minijinja"),
)


def digits(value: float) -> str:
    """A number with as many digits as say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(value: Spread | None, quartiles: bool) -> str:
    if value is None:
        return "—"
    around = f" ({digits(value.q1)}–{digits(value.q3)})" if quartiles else ""
    return digits(value.median) + around


def table(budget: Budget, quartiles: bool) -> Iterator[Results]:
    """Prints each row as soon as it is measured, and yields it."""
    headings = ["template".ljust(20), "workload".ljust(10), *(heading for heading, _, _ in COLUMNS)]
    print("| " + " | ".join(headings) + " |")
    print("| --- | --- |" + " ---: |" * len(COLUMNS))
    for template in TEMPLATES:
        for name in WORKLOADS:
            row = measured(template, name, budget)
            cells = [cell(row[part].get(key), quartiles).rjust(len(heading)) for heading, part, key in COLUMNS]
            print("| " + " | ".join([template.ljust(20), name.ljust(10), *cells]) + " |", flush=True)
            yield row


def step_by_step(size: int, samples: int = 10) -> Results:
    """Seconds for all prompts of a Solar agent run whose messages come one at a time.

    Jinja's total is measured at some lengths, each standing for those around it: all of them would take minutes.
    """
    case = agent_run("solar_open2", size)
    messages, render = case["messages"], new_object("solar_open2", case).render
    conversation = chatfmt.Conversation(new_object("solar_open2", case))
    start = time.perf_counter()
    for message in messages:
        conversation.extend([message], add_generation_prompt=True)
    found = {"messages": size, "Conversation": time.perf_counter() - start}
    start = time.perf_counter()
    for count in range(1, size + 1):
        render(messages[:count], add_generation_prompt=True)
    found["render"] = time.perf_counter() - start
    if installed("jinja2"):
        original, found["Jinja"] = jinja("solar_open2"), 0.0
        for sample in range(samples):
            part = messages[: (2 * sample + 1) * size // (2 * samples)]
            variables = original.variables({**case, "messages": part})
            start = time.perf_counter()
            original.template.render(**variables)
            found["Jinja"] += (time.perf_counter() - start) * size / samples
    return found


def notes(rows: list[Results]) -> Iterator[str]:
    yield "Workloads: " + "; ".join(f"{name}: {about}" for name, about in WORKLOADS.items()) + "."
    yield (
        "Medians; a ratio is the median of the ratios within each round. chatfmt keeps one object, whose tools are "
        "written once; a new object writes them again. The floor encodes the same values as JSON with one kept C "
        "encoder, appends the same pieces to a list and joins them."
    )
    for reason in sorted({row["no minijinja"] for row in rows} - {""}):
        where = [f"{row['template']}, {row['workload']}" for row in rows if row["no minijinja"] == reason]
        yield f"No minijinja ({'everywhere' if len(where) == len(rows) else '; '.join(where)}): {reason}."


def plot(template: str, by_size: Results) -> Iterator[str]:
    """A bar for each size, as long as its time."""
    longest = max(entry["microseconds"].median for entry in by_size.values())
    yield f"{template}: messages, µs, times the row before"
    for size, entry in by_size.items():
        time_taken = entry["microseconds"].median
        ratio_to_before = f"{entry['ratio'].median:.2f}" if entry["ratio"] else ""
        bar = "#" * max(1, round(60 * time_taken / longest))
        yield f"{int(size):>6,} {digits(time_taken):>7} {ratio_to_before:>5} {bar}"


def report(budget: Budget, quartiles: bool) -> Results:
    """Measures and prints everything; all the numbers."""
    about = machine()
    if not about["jinja2"]:
        print("jinja2 is not installed: chatfmt is timed alone, and its texts are compared with nothing.\n")
    engines = [f"{name} {about[name]}" for name in ("jinja2", "minijinja") if about[name]]
    print(f"{about['date']}, {about['processor']}, {about['cores']} cores, " + ", ".join([about["python"], *engines]))
    print()
    rows = list(table(budget, quartiles))
    print("", *notes(rows), sep="\n")
    imports = import_times(budget.imports)
    parts = ", ".join(f"{name} {cell(value, True)} ms" for name, value in imports.items())
    print(f"\nImport, with quartiles: {parts}.\n")
    memory = {template: peak_memory(template) for template in TEMPLATES}
    for template, sizes in memory.items():
        parts = ", ".join(f"{name} {size:,} bytes" for name, size in sizes.items())
        print(
            f"Memory of the long run, {template}: {parts}; {sizes['peak'] / sizes['text in UTF-8']:.2f} times the text."
        )
    steps = step_by_step(budget.steps)
    print(f"\nAll prompts of a Solar agent run of {steps['messages']:,} messages, one message at a time: ", end="")
    print(
        ", ".join(f"{name} {steps[name]:,.3f} s" for name in ("Jinja", "render", "Conversation") if name in steps) + "."
    )
    print("\n```text")
    grown = {}
    for template in TEMPLATES:
        grown[template] = growth(template, budget)
        print(*plot(template, grown[template]), sep="\n", flush=True)
    print("```")
    return {
        "machine": about,
        "workloads": rows,
        "import milliseconds": imports,
        "memory": memory,
        "steps": steps,
        "growth": grown,
    }


def plain(value: Any) -> JSON:
    """Results as JSON: quartiles as objects."""
    if isinstance(value, Spread):
        return {key: round(number, 4) for key, number in value._asdict().items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Times chatfmt beside the compiled originals.")
    parser.add_argument("--quick", action="store_true", help="ten seconds instead of two minutes")
    parser.add_argument("--quartiles", action="store_true", help="show quartiles in the table")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all numbers to a file")
    arguments = parser.parse_args(argv)
    results = report(QUICK if arguments.quick else FULL, arguments.quartiles)
    if arguments.json:
        arguments.json.write_text(json.dumps(plain(results), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
