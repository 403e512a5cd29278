"""Writes what the original templates make of the inputs here; needs jinja2 (see README.md beside this file)."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jinja2
import jinja2.ext
import jinja2.runtime
import jinja2.sandbox
import jinja2.visitor
from jinja2 import nodes

HERE = Path(__file__).resolve().parent
MANIFEST: dict[str, Any] = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
NOW = datetime.datetime.fromisoformat(MANIFEST["date"])

Case = dict[str, Any]
Outcomes = dict[str, dict[str, tuple[str, str]]]  # of each template, of each case

# --- The originals ---------------------------------------------------------------------------------------------------


def to_json(value: Any, ensure_ascii: bool = False, **keywords: Any) -> str:
    """The filter `tojson` as transformers defines it."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **keywords)


def raise_exception(words: str) -> NoReturn:
    raise jinja2.TemplateError(words)


def environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """The environment in which transformers renders chat templates."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


class Original:
    """One original template, compiled."""

    def __init__(self, name: str) -> None:
        self.passed: dict[str, Any] = MANIFEST["templates"][name]["passed"]
        self.source = (HERE / name / "template.jinja").read_bytes().decode("utf-8")
        self.template = environment().from_string(self.source)

    def variables(self, case: Case) -> dict[str, Any]:
        """What a caller passes to the template: the keys of the case, its options, and what every caller passes."""
        own = {key: case[key] for key in ("messages", "tools", "add_generation_prompt") if key in case}
        return {"tools": None, **self.passed, **own, **case.get("options", {})}

    def outcome(self, case: Case) -> tuple[str, str]:
        """("text", the text), ("TemplateError", the exact words) or ("InputError", what failed, for a reader)."""
        try:
            return "text", self.template.render(**self.variables(case))
        except Exception as error:  # a template can fail with any exception
            if type(error) is jinja2.TemplateError:
                return "TemplateError", str(error)
            return "InputError", f"{type(error).__name__}: {error}"


def verify_pins() -> None:
    """Nothing is rendered unless it is the pinned original, by the pinned jinja2."""
    installed = importlib.metadata.version("jinja2")
    if installed != MANIFEST["jinja2"]:
        sys.exit(f"The goldens are what jinja2 {MANIFEST['jinja2']} prints, and jinja2 {installed} is installed.")
    for name, entry in MANIFEST["templates"].items():
        file = HERE / name / "template.jinja"
        if hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
            sys.exit(f"{name}/template.jinja is not the original: its sha256 is not the one in manifest.json.")


# --- The inputs ------------------------------------------------------------------------------------------------------

REQUIRED = {"about", "messages"}
ALLOWED = REQUIRED | {"tools", "add_generation_prompt", "options", "path"}


def load(file: Path) -> Case:
    """Reads one input. A misspelt key would test something else than its author meant, so it is an error."""
    shown = file.relative_to(HERE)
    try:
        case: Any = json.loads(file.read_bytes().decode("utf-8"))
    except ValueError as error:
        sys.exit(f"{shown} is not JSON: {error}.")
    if not isinstance(case, dict) or not isinstance(case.get("options", {}), dict):
        sys.exit(f"{shown}: an input is a JSON object, and so are its options.")
    missing, unknown = sorted(REQUIRED - set(case)), sorted(set(case) - ALLOWED)
    if missing or unknown:
        sys.exit(f"{shown}: " + ("no key " + ", ".join(missing) if missing else "unknown key " + ", ".join(unknown)))
    return case


def cases(template: str) -> dict[str, Case]:
    """All cases of a template by name: its own and the shared ones."""
    found: dict[str, Case] = {}
    for folder in (template, "conversations"):
        for file in sorted((HERE / folder).glob("*.input.json")):
            name = file.name[: -len(".input.json")]
            if name in found:
                sys.exit(f"{name}.input.json lies both in {template}/ and in conversations/.")
            found[name] = load(file)
    return found


# --- The files written -----------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """A JSON string that escapes only what a reader could not see, so that all else can be read as it is."""
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    chars = (
        json.dumps(char)[1:-1] if char in '"\\' or (char != " " and unicodedata.category(char) in hidden) else char
        for char in text
    )
    return f'"{"".join(chars)}"'


def golden(text: str, cut_before: list[str]) -> str:
    """The text as JSON strings, one a line. Two escaped halves of a surrogate pair would be read back as one
    character, so where a text has them as two, they go on two lines."""
    tokens = "|".join(map(re.escape, cut_before))
    pieces = re.split(rf"(?<=\n)|(?<=[\ud800-\udbff])(?=[\udc00-\udfff])|(?={tokens})", text)
    return "".join(escaped(piece) + "\n" for piece in pieces if piece) or '""\n'


def generated(template: str, name: str, outcome: tuple[str, str]) -> tuple[Path, bytes]:
    """The file that belongs beside an input, and its content, read back once to be sure that nothing was lost."""
    kind, words = outcome
    if kind == "text":
        file = f"{name}.golden"
        lines = content = golden(words, MANIFEST["templates"][template]["cut_before"])
    else:
        file = f"{name}.refusal"
        lines = escaped(words) + "\n" if kind == "TemplateError" else ""
        content = f"{kind}\n{lines}"
    if kind != "InputError" and "".join(json.loads(line) for line in lines.split("\n") if line) != words:
        raise AssertionError(f"{template}/{file} would not read back as what was rendered")
    return HERE / template / file, content.encode("utf-8")


class Change(NamedTuple):
    file: Path
    what: str  # "missing", "changed" or "left over"
    content: bytes | None  # None where the file is left over


def changes(outcomes: Outcomes) -> list[Change]:
    """How the files here differ from those that belong here."""
    wanted = dict(generated(t, name, outcome) for t in outcomes for name, outcome in outcomes[t].items())
    there = {file: file.read_bytes() for kind in ("golden", "refusal") for file in HERE.glob(f"*/*.{kind}")}
    found = [Change(file, "left over", None) for file in there if file not in wanted]
    for file, content in wanted.items():
        if there.get(file) != content:
            found.append(Change(file, "changed" if file in there else "missing", content))
    return sorted(found)


def apply(change: Change) -> str:
    """Makes a file what it should be; what was done."""
    if change.content is None:
        change.file.unlink()
        return "deleted"
    change.file.write_bytes(change.content)
    return "new" if change.what == "missing" else "changed"


def counts(outcomes: Outcomes) -> str:
    """One line for the end: how many cases each template has."""
    parts = []
    for template, by_name in outcomes.items():
        texts = sum(kind == "text" for kind, _ in by_name.values())
        parts.append(f"{template} {texts} texts and {len(by_name) - texts} refusals")
    return "; ".join(parts) + "."


# --- Coverage --------------------------------------------------------------------------------------------------------

Branch = tuple[int, str, int, str]  # line, kind, which one of its kind on that line (from 1), which way

WAYS = {
    "line": ("reached",),
    "if": ("true", "false"),  # `elif` too
    "inline if": ("true", "false"),
    "loop filter": ("true", "false"),  # the `if` of a `for`
    "operand": ("true", "false"),  # of `and` and `or`, counted from the left; those inside another are counted along
    "for": ("empty", "not empty"),
}


class Probes(jinja2.visitor.NodeTransformer):
    """Rewrites a parsed template so that rendering it notes each line reached and each branch taken.

    Every expression watched becomes the argument of a filter that returns it unchanged.
    """

    def __init__(self) -> None:
        self.all: set[Branch] = set()
        self.taken: set[Branch] = set()
        self.seen: Counter[tuple[int, str]] = Counter()

    @jinja2.pass_context  # so that jinja2 never computes it at compile time
    def note(self, _: jinja2.runtime.Context, value: Any, line: int, kind: str, number: int) -> Any:
        """The filter."""
        if kind != "for":
            self.taken.add((line, kind, number, "reached" if kind == "line" else "true" if value else "false"))
        elif hasattr(value, "__len__"):
            self.taken.add((line, kind, number, "not empty" if len(value) else "empty"))
        elif hasattr(value, "__next__"):  # such as `|items` gives: only the loop itself may advance it
            return self.walk(value, line, kind, number)
        return value

    def walk(self, values: Iterator[Any], line: int, kind: str, number: int) -> Iterator[Any]:
        way = "empty"
        for value in values:
            way = "not empty"
            self.taken.add((line, kind, number, way))
            yield value
        self.taken.add((line, kind, number, way))

    def watched(self, value: nodes.Node, kind: str, line: int) -> nodes.Filter:
        self.seen[line, kind] += 1
        number = 1 if kind == "line" else self.seen[line, kind]
        self.all |= {(line, kind, number, way) for way in WAYS[kind]}
        place = [nodes.Const(part, lineno=line) for part in (line, kind, number)]
        return nodes.Filter(value, "note", place, [], None, None, lineno=line)

    def marked(self, statement: nodes.Stmt, line: int) -> list[nodes.Stmt]:
        return [nodes.ExprStmt(self.watched(nodes.Const(None), "line", line), lineno=line), statement]

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """Puts a mark before each statement; where a list is returned, its parts go into the block around it."""
        visited = super().visit(node)
        if isinstance(node, nodes.Stmt) and not isinstance(node, (nodes.If, nodes.Output)):
            return self.marked(visited, node.lineno)
        return visited

    def visit_Output(self, node: nodes.Output) -> list[nodes.Stmt]:
        """The parser puts neighbouring outputs and raw text into one node; each output is marked by itself."""
        statements: list[nodes.Stmt] = []
        for part in node.nodes:
            output = nodes.Output([self.visit(part)], lineno=part.lineno)
            raw = isinstance(part, nodes.TemplateData)
            statements += [output] if raw else self.marked(output, part.lineno)
        return statements

    def visit_If(self, node: nodes.If) -> nodes.Node:
        """An elif is an If inside another and can have no mark before it, so its test is the mark."""
        node.test = self.watched(self.watched(node.test, "if", node.lineno), "line", node.lineno)
        return self.generic_visit(node)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        node.iter = self.watched(node.iter, "for", node.lineno)
        if node.test is not None:
            node.test = self.watched(node.test, "loop filter", node.lineno)
        return self.generic_visit(node)

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:
        node.test = self.watched(node.test, "inline if", node.lineno)
        return self.generic_visit(node)

    def visit_And(self, node: nodes.BinExpr) -> nodes.Node:
        node.left, node.right = self.operand(node.left), self.operand(node.right)
        return node

    visit_Or = visit_And

    def operand(self, node: nodes.Expr) -> nodes.Expr:
        inner = node
        while isinstance(inner, nodes.Not):
            inner = inner.node
        visited: nodes.Expr = self.visit(node)
        return visited if isinstance(inner, (nodes.And, nodes.Or)) else self.watched(visited, "operand", node.lineno)


class Probed(Original):
    """An original that notes which of its lines and branches are taken."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.probes = Probes()
        env = environment()
        env.filters["note"] = self.probes.note
        tree = self.probes.visit(env.parse(self.source))
        tree.set_environment(env)
        self.template = jinja2.Template.from_code(env, env.compile(tree), env.make_globals(None))


NEVER_EMPTY = "only a true value gets here, and a JSON value that is true and can be looped over is not empty"
HAS_LENGTH = "only a value with a length above 0 gets here"
PASSED = "tools is always defined, because every caller passes it"

# What no input takes, and why. Everything else has a case.
UNREACHABLE: dict[str, dict[Branch, str]] = {
    "solar_open2": {
        (21, "if", 1, "true"): "this is the first section of the only system block, so is_first_block is still true",
        (29, "for", 1, "empty"): NEVER_EMPTY,
        (41, "for", 1, "empty"): NEVER_EMPTY,
        (134, "for", 1, "empty"): "start_idx is the index of a message, so it is below the number of messages",
        (150, "for", 1, "empty"): NEVER_EMPTY,
        (151, "for", 1, "empty"): "tool_ns.items holds at least the tool message at which its run begins",
        (161, "for", 1, "empty"): "tool_ns.items holds at least the tool message at which its run begins",
        (169, "for", 1, "empty"): "tool_ns.items holds at least the tool message at which its run begins",
        (211, "for", 1, "empty"): NEVER_EMPTY,
    },
    "hy4": {
        (88, "for", 1, "empty"): NEVER_EMPTY,
        (116, "for", 1, "empty"): NEVER_EMPTY,
        (118, "operand", 1, "false"): "the system block comes first, and there a tool that is no object has no items()",
        (127, "for", 1, "empty"): NEVER_EMPTY,
        (160, "for", 1, "empty"): NEVER_EMPTY,
        (162, "for", 1, "empty"): "a tool turn is made of at least one tool message",
        (178, "for", 1, "empty"): "a tool turn is made of at least one tool message, and if ordered, has them all",
        (249, "for", 1, "empty"): NEVER_EMPTY,
        (260, "for", 1, "empty"): NEVER_EMPTY,
    },
    "ministral3_reasoning": {
        (28, "if", 1, "false"): "line 2 sets the text, and it is not empty",
        (37, "operand", 1, "false"): PASSED,
        (68, "for", 1, "empty"): HAS_LENGTH,
        (91, "for", 1, "empty"): HAS_LENGTH,
        (103, "for", 1, "empty"): HAS_LENGTH,
    },
    "domyn_small": {
        (37, "operand", 1, "false"): PASSED,
        (95, "for", 1, "empty"): HAS_LENGTH,
    },
}


def probe(template: str) -> Probed:
    """Renders all cases of a template, and sees to it that the probes change nothing."""
    original, probed = Original(template), Probed(template)
    for name, case in cases(template).items():
        if probed.outcome(case) != original.outcome(case):
            raise AssertionError(f"{template}/{name}: the probes change what is rendered")
    return probed


def show(source: str, branches: set[Branch], remarks: dict[Branch, str]) -> None:
    lines = source.split("\n")
    for branch in sorted(branches):
        line, kind, number, way = branch
        what = f"never {way}" if kind == "line" else f"{kind} {number} never {way}"
        print(f"  line {line}, {what}: {remarks.get(branch, 'NO CASE TAKES IT')}\n      {lines[line - 1].strip()}")


def covered(template: str) -> bool:
    """Prints what no case of a template takes. Is that what no input can take, and nothing else?"""
    probed, reasons = probe(template), UNREACHABLE[template]
    taken, untaken = probed.probes.taken, probed.probes.all - probed.probes.taken
    for what, kinds in (("lines", {"line"}), ("branches", set(WAYS) - {"line"})):
        total = {branch for branch in probed.probes.all if branch[1] in kinds}
        print(f"{template}: {what} {len(total & taken)} of {len(total)}")
    unreached = {line for line, kind, *_ in untaken if kind == "line"}  # what is on such a line is not named as well
    missing = {branch for branch in untaken if branch[1] == "line" or branch[0] not in unreached} - set(reasons)
    wrong = {b: "LISTED, YET TAKEN" if b in taken else "NO SUCH BRANCH" for b in reasons.keys() - untaken}
    show(probed.source, reasons.keys() & untaken, reasons)
    show(probed.source, missing | wrong.keys(), wrong)
    return not missing and not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not as generated")
    group.add_argument("--coverage", action="store_true", help="name lines and branches of the originals without case")
    arguments = parser.parse_args()
    verify_pins()
    if arguments.coverage:
        return 1 if [template for template in MANIFEST["templates"] if not covered(template)] else 0
    originals = {template: Original(template) for template in MANIFEST["templates"]}
    outcomes = {t: {n: original.outcome(c) for n, c in cases(t).items()} for t, original in originals.items()}
    drift = changes(outcomes)
    for change in drift:
        print(f"{change.file.relative_to(HERE)}: {change.what if arguments.check else apply(change)}")
    if arguments.check and drift:
        return 1
    print(counts(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
