"""Renders generated inputs with chatfmt and with the originals, and shows where they differ. Needs jinja2.

    python tests/differential.py --cases 100000 --seed 7 --jobs 2
    python tests/differential.py --template hy4 --level hostile --package acme._vendor.chatfmt
    python tests/differential.py --seed 7 --template hy4 --only hostile:123

--cases is per template, over the levels of generate.py. Case 123 of a level depends on the seed, the template and the
level alone ("mutated" on the golden inputs too), so --only makes it again. Where ../shared/real/ lies beside the
project, its conversations are rendered as well, as they are and in what three kinds of servers make of them.

Compared are the text, the words of a refusal, and whether a failure is one. On chatfmt's side also: that segments and
a second render of the same object agree with the first, that the input is unchanged, that only the package's own
errors are raised, and that they name a place. A difference is made small and printed as an .input.json for golden/.

Not differences, so not generated: the sandbox's limit of 100,000 on range(), and nesting that neither Python stands.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gzip
import importlib
import json
import multiprocessing
import pickle
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT), str(ROOT / "golden")]

import cases  # noqa: E402
import generate  # noqa: E402
import regenerate  # noqa: E402
from cases import Case, Outcome  # noqa: E402

REAL = ROOT.parent / "shared" / "real" / "conversations.jsonl.gz"
SHARES = {"well_formed": 0.15, "sloppy": 0.3, "hostile": 0.3, "mutated": 0.25}
KINDS = ("text", "TemplateError", "InputError")
CHUNK = 500  # cases of one task: small enough that two processes end together
Bad = Callable[[Case], bool]

# ---- one case ---------------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    what: str  # the call that differs, such as "segments", or the promise that is broken
    original: Outcome
    found: Outcome


class Pair:
    """A template's original, and the package's port of it."""

    def __init__(self, template: str, package: str) -> None:
        self.template = template
        self.package = importlib.import_module(package)
        self.original = regenerate.Original(template)

    def check(self, case: Case, thorough: bool = True) -> tuple[str, Difference | None]:
        """The kind of the original's outcome, and the first difference from it."""
        before = frozen(case)
        original = Outcome(*self.original.outcome(case))
        found: Outcome | None = None
        for what, outcome in self.outcomes(case, thorough):
            if not outcome.same(original):
                return original.kind, Difference(what, original, outcome)
            if outcome.kind != "text" and not path_is_good(outcome):
                return original.kind, Difference(f"the path that {what} gives: {outcome.path!r}", original, outcome)
            if found is not None and outcome != found:  # the words or the path of an error: the text is the original's
                return original.kind, Difference(f"{what} ({found} before)", original, outcome)
            found = outcome
        if frozen(case) != before:
            return original.kind, Difference("the input, which was changed", original, found or original)
        return original.kind, None

    def outcomes(self, case: Case, thorough: bool) -> Iterator[tuple[str, Outcome]]:
        """What the package makes of the case, in several ways that all must agree."""
        messages = case["messages"]
        keywords = {key: case[key] for key in ("add_generation_prompt",) if key in case}
        try:
            chat = cases.chat(self.package, self.template, case)
        except Exception:  # it may refuse what render would refuse
            yield "the constructor", self.outcome(lambda: str(cases.chat(self.package, self.template, case)))
            return
        yield "render", self.outcome(lambda: chat.render(messages, **keywords))
        yield "segments", self.outcome(lambda: joined(chat.segments(messages, **keywords), messages))
        yield "a second render", self.outcome(lambda: chat.render(messages, **keywords))
        if thorough:
            again = pickle.loads(pickle.dumps(chat))
            yield "render of a pickled object", self.outcome(lambda: again.render(messages, **keywords))
            other = cases.chat(self.package, self.template, case)
            self.outcome(lambda: other.render([{"role": "user", "content": "Hi"}]))
            yield "render after other messages", self.outcome(lambda: other.render(messages, **keywords))

    def outcome(self, act: Callable[[], str]) -> Outcome:
        try:
            return Outcome("text", act())
        except (self.package.TemplateError, self.package.InputError) as error:
            return Outcome(type(error).__name__, str(error), error.path)
        except Exception as error:
            return Outcome(f"bug ({type(error).__name__})", "".join(traceback.format_exc().splitlines(True)[-7:]))


def joined(segments: Any, messages: Any) -> str:
    pieces = list(segments)
    for piece in pieces:
        assert piece.text, "a segment without text"
        assert piece.message is None or 0 <= piece.message < len(messages), f"a segment of message {piece.message}"
    return "".join([piece.text for piece in pieces])


def path_is_good(outcome: Outcome) -> bool:
    if outcome.path is None:
        return outcome.kind == "TemplateError"  # which may concern the conversation as a whole
    return isinstance(outcome.path, str) and bool(outcome.path)


def frozen(case: Case) -> str:
    """The case as a text that tells apart what == does not: 1, 1.0 and True, the order of keys; and NaN is itself."""
    try:
        return repr(case)
    except ValueError:  # an integer longer than Python prints
        return pickle.dumps(copy.deepcopy(case)).hex()


@functools.cache
def pair(template: str, package: str) -> Pair:
    return Pair(template, package)


@functools.cache
def goldens(template: str) -> list[Case]:
    return [cases.load(template, name) for name in cases.names(template)]


def case_of(template: str, level: str, seed: int, index: int) -> Case:
    if level in REAL_LEVELS:
        return real_case(template, level, index)
    rng = random.Random(f"{seed} {template} {level} {index}")
    return generate.case(template, level, rng, goldens(template))


# ---- real conversations -----------------------------------------------------------------------------------------


@functools.cache
def real() -> list[Case]:
    with gzip.open(REAL, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def parsed(value: Any) -> Any:
    """Arguments as an object, where they are an object's JSON text."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
    return found if isinstance(found, dict) else value


def without_strings(messages: list[Any]) -> None:
    """As vLLM hands messages to a template: arguments are objects."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            if isinstance(call.get("function"), dict) and "arguments" in call["function"]:
                call["function"]["arguments"] = parsed(call["function"]["arguments"])


def without_nulls(messages: list[Any]) -> None:
    """As transformers does: keys whose value is null are dropped; and the contents that are missing then are empty."""
    without_strings(messages)
    for message in messages:
        for key in [key for key, value in message.items() if value is None]:
            del message[key]
        message.setdefault("content", "")


def without_parts(messages: list[Any]) -> None:
    """As servers of text models do: the texts of parts are joined, and a developer is the system."""
    without_nulls(messages)
    for message in messages:
        if isinstance(message["content"], list):
            message["content"] = "\n".join(part.get("text") or "" for part in message["content"])
        if message.get("role") == "developer":
            message["role"] = "system"


REAL_LEVELS: dict[str, Callable[[list[Any]], None]] = {
    "real_as_is": lambda messages: None,
    "real_parsed": without_strings,
    "real_filled": without_nulls,
    "real_joined": without_parts,
}


def real_case(template: str, level: str, index: int) -> Case:
    """Real conversation number index // 3, with one of three draws of options and of the generation prompt."""
    source = real()[index // 3]
    case: Case = {"messages": copy.deepcopy(source["messages"]), "tools": copy.deepcopy(source["tools"])}
    REAL_LEVELS[level](case["messages"])
    generate.put_options(generate.Draw(template, random.Random(f"{level} {index}")), case)
    return case


# ---- making a case small ----------------------------------------------------------------------------------------


def shrunk(case: Case, bad: Bad, budget: int = 1500) -> Case:
    """A smaller case that is still bad: nothing can be taken away or simplified, or the budget of tries is spent."""
    left = [budget]

    def still_bad(smaller: Case) -> bool:
        left[0] -= 1
        return left[0] >= 0 and bad(smaller)

    size = None
    while size != len(frozen(case)) and left[0] > 0:
        size = len(frozen(case))
        case = without_slices(case, still_bad)
        for change in (removals, simplifications):
            case = changed(case, change, still_bad)
    return case


def without_slices(case: Case, bad: Bad) -> Case:
    """Takes away halves, quarters and so on of the messages."""
    size = len(case["messages"]) // 2 if isinstance(case["messages"], list) else 0
    while size > 1:
        start = 0
        while start < len(case["messages"]):
            smaller = {**case, "messages": case["messages"][:start] + case["messages"][start + size :]}
            if bad(smaller):
                case = smaller
            else:
                start += size
        size //= 2
    return case


def changed(case: Case, change: Callable[[Any, Any], Iterator[Any]], bad: Bad) -> Case:
    """Makes the change at every place where the case stays bad."""
    at = 0
    while at < len(generate.places(case)):
        for choice in change(*generate.places(case)[at]):
            smaller = copy.deepcopy(case)
            holder, name = generate.places(smaller)[at]
            if choice is GONE:
                del holder[name]
            else:
                holder[name] = copy.deepcopy(choice)
            if "messages" in smaller and bad(smaller):
                case = smaller
                break
        else:
            at += 1
    return case


GONE = object()


def removals(holder: Any, name: Any) -> Iterator[Any]:
    yield GONE


def simplifications(holder: Any, name: Any) -> Iterator[Any]:
    """Values that are simpler than the one there; never one that could be made this one again."""
    value = holder[name]
    if isinstance(value, str):
        yield from (simpler for simpler in ("", "x") if len(simpler) < len(value))
        if len(value) > 3:
            yield from (value[: len(value) // 2], value[len(value) // 2 :])
    elif isinstance(value, (dict, list)):
        yield from list(value.values() if isinstance(value, dict) else value)[:4]
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and repr_length(value) > 3:
        yield from (0, 1.5)


def repr_length(value: float) -> int:
    try:
        return len(repr(value))
    except ValueError:
        return 5000


# ---- reports ----------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    template: str
    level: str
    seed: int
    start: int
    stop: int
    package: str


class Report(NamedTuple):
    counts: dict[str, int]  # of the kinds of outcomes that the originals gave
    differing: list[int]  # the indexes of cases that differ
    seconds: float


def thorough(index: int) -> bool:
    """Pickling takes longer than rendering: an eighth of the cases is enough."""
    return index % 8 == 0


def run(task: Task) -> Report:
    both = pair(task.template, task.package)
    counts, differing, start = dict.fromkeys(KINDS, 0), [], time.perf_counter()
    for index in range(task.start, task.stop):
        case = case_of(task.template, task.level, task.seed, index)
        kind, difference = both.check(case, thorough(index))
        counts[kind] += 1
        if difference:
            differing.append(index)
    return Report(counts, differing, time.perf_counter() - start)


def merged(reports: list[Report]) -> Report:
    counts = {kind: sum(report.counts[kind] for report in reports) for kind in KINDS}
    differing = [index for report in reports for index in report.differing]
    return Report(counts, differing, sum(report.seconds for report in reports))


def row(template: str, level: str, report: Report) -> str:
    total = sum(report.counts.values())
    shares = [f"{count:>8} {count / max(total, 1):>4.0%}" for count in report.counts.values()]
    speed = total / max(report.seconds, 1e-9)
    return f"{template:<21} {level:<12} {total:>8} {' '.join(shares)} {len(report.differing):>11} {speed:>8.0f}"


HEADER = (
    f"{'template':<21} {'level':<12} {'cases':>8} {'rendered':>13} {'refused':>13} {'failed':>13} "
    f"{'differences':>11} {'a second':>8}"
)


def smallest(task: Task, index: int) -> tuple[Case, Difference] | None:
    """A differing case, made small; None where it differs no more, so depends on what was rendered before."""
    both, deep = pair(task.template, task.package), thorough(index)
    case = case_of(task.template, task.level, task.seed, index)
    first = both.check(case, deep)[1]
    small = shrunk(case, lambda smaller: alike(both.check(smaller, deep)[1], first))
    difference = both.check(small, deep)[1]
    return (small, difference) if difference else None


def explained(task: Task, indexes: list[int], most: int) -> Iterator[str]:
    """Differences that are distinct once they are small, each with how to make its original case again."""
    seen: list[tuple[Case, Difference] | None] = []
    for index in indexes[: 3 * most]:
        found = smallest(task, index)
        if found in seen or len(seen) == most:
            continue
        seen.append(found)
        again = f"--seed {task.seed} --template {task.template} --only {task.level}:{index}"
        if found:
            yield f"{shown(found[1])}\n{pasted(found[0], f'found by tests/differential.py {again}')}"
        else:
            yield f"differs no more, made again by {again}"


def alike(one: Difference | None, other: Difference | None) -> bool:
    """Of one sort, so that a case does not turn into another difference while it is made small."""
    if one is None or other is None:
        return False
    return one.what == other.what and one.original.kind == other.original.kind and one.found.kind == other.found.kind


def shown(difference: Difference) -> str:
    original, found = difference.original, difference.found
    if original.kind == found.kind and original.kind != "InputError":
        at = next((k for k, (a, b) in enumerate(zip(original.text, found.text)) if a != b), None)
        at = min(len(original.text), len(found.text)) if at is None else at
        sides = [f"at {at} of {len(text)}: …{around(text, at)}" for text in (original.text, found.text)]
    else:
        sides = [f"{kind} {text if kind.startswith('bug') else text[-200:]!r}" for kind, text, _ in (original, found)]
    return f"differs: {difference.what}\n  original {sides[0]}\n  chatfmt  {sides[1]}"


def around(text: str, at: int) -> str:
    return f"{text[max(0, at - 60) : at]!r} ⟶ {text[at : at + 60]!r}"


def pasted(case: Case, about: str) -> str:
    """The case as an .input.json; characters that a reader could not see are escaped."""
    keys = [key for key in ("messages", "tools", "add_generation_prompt", "options") if key in case]
    kept = {key: case[key] for key in keys if key != "options" or case[key]}
    try:
        text = json.dumps({"about": about, **kept}, ensure_ascii=False, indent=1)
    except ValueError:
        return f"(holds an integer that is too long to be printed; {about})"
    unseen = re.compile(r"[^\S \n]|[\x7f-\x9f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
    return unseen.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


# ---- the command ------------------------------------------------------------------------------------------------


def levels(arguments: argparse.Namespace) -> dict[str, int]:
    """How many cases of which levels, per template."""
    count = 3 * len(real()) if REAL.exists() else 0
    sizes = {level: int(arguments.cases * share) for level, share in SHARES.items()}
    if arguments.level == "real":
        return dict.fromkeys(REAL_LEVELS, count)
    if arguments.level:
        return {arguments.level: arguments.cases}
    return {**sizes, **dict.fromkeys(REAL_LEVELS, count)} if count else sizes


def tasks_of(template: str, level: str, count: int, arguments: argparse.Namespace) -> list[Task]:
    size = CHUNK if level in SHARES else 60
    starts = range(0, count, size)
    return [Task(template, level, arguments.seed, k, min(k + size, count), arguments.package) for k in starts]


def report_all(arguments: argparse.Namespace, reports: Callable[[list[Task]], Iterator[Report]]) -> int:
    """Prints the table as it fills, and then the differences."""
    rows = [(template, level, tasks_of(template, level, count, arguments))
            for template in arguments.templates for level, count in levels(arguments).items()]  # fmt: skip
    found = reports([task for *_, tasks in rows for task in tasks])
    differing: list[tuple[Task, list[int]]] = []
    print(HEADER)
    for template, level, tasks in rows:
        report = merged([next(found) for _ in tasks])
        print(row(template, level, report), flush=True)
        if report.differing:
            differing.append((tasks[0], report.differing))
    for task, indexes in differing:
        print(f"\n{task.template} {task.level}: {len(indexes)} differences, at {str(indexes[:20])[1:-1]}")
        for text in explained(task, indexes, arguments.show):
            print(text)
    print(f"\nseed {arguments.seed}: {sum(len(indexes) for _, indexes in differing)} differences")
    return 1 if differing else 0


def show_only(arguments: argparse.Namespace) -> int:
    level, _, index = arguments.only.partition(":")
    differs = 0
    for template in arguments.templates:
        both = pair(template, arguments.package)
        case = case_of(template, level, arguments.seed, int(index))
        print(f"{template} {arguments.only}\n{pasted(case, '')}\n\noriginal {Outcome(*both.original.outcome(case))}")
        for what, outcome in both.outcomes(case, thorough=True):
            print(f"{what}: {outcome}")
        task = Task(template, level, arguments.seed, int(index), int(index) + 1, arguments.package)
        if run(task).differing:
            print(*explained(task, [int(index)], 1))
            differs = 1
    return differs


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10000, help="cases per template (default 10000)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--template", dest="templates", action="append", choices=cases.TEMPLATES)
    parser.add_argument("--level", choices=[*SHARES, *REAL_LEVELS, "real"], help="all cases on one level")
    parser.add_argument("--package", default="chatfmt", help="chatfmt, or a copy under another name")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", type=int, default=3, help="differences shown per template and level (default 3)")
    parser.add_argument("--only", metavar="LEVEL:INDEX", help="one case: what both sides make of it")
    arguments = parser.parse_args()
    arguments.templates = arguments.templates or cases.TEMPLATES
    return arguments


def main() -> int:
    arguments = read_arguments()
    if arguments.only:
        return show_only(arguments)
    print(f"{importlib.import_module(arguments.package).__file__}, seed {arguments.seed}")
    if not REAL.exists():
        print(f"no real conversations: {REAL} is not there")
    if arguments.jobs == 1:
        return report_all(arguments, lambda tasks: map(run, tasks))
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        return report_all(arguments, lambda tasks: pool.imap(run, tasks))


if __name__ == "__main__":
    sys.exit(main())
