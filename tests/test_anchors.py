"""The comments `# jinja 12-34` tie functions to lines of the original. Such numbers go wrong, so they are checked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import GOLDEN, TEMPLATES

ROOT = Path(__file__).resolve().parent.parent
ANCHOR = re.compile(r"# jinja (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)$")
ORDER = [
    "__init__", "write", "write_beginning", "write_made_up_system", "write_system", "tools_block", "write_tools",
    "write_response_format",
    "write_user", "write_other", "write_assistant", "write_thinking", "write_chunks", "write_tool_calls",
    "write_tool_arguments", "write_tool_responses", "write_tool_response", "write_referenced_tools",
    "write_generation_prompt", "preserves_thinking", "first_rewritten", "as_sampled",
]  # fmt: skip


class Anchored(NamedTuple):
    name: str
    source: str  # of the function or constant
    lines: list[int]  # of the original


def template_lines(template: str) -> list[str]:
    """The original's lines, with its comments blanked, so that line n is item n."""
    text = (GOLDEN / template / "template.jinja").read_text(encoding="utf-8")
    blanked = re.sub(r"\{#.*?#\}", lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.DOTALL)
    return ["", *blanked.split("\n")]


def anchored(template: str) -> Iterator[Anchored]:
    source = (ROOT / "chatfmt" / f"{template}.py").read_text(encoding="utf-8")
    python = source.split("\n")
    tree = ast.parse(source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Assign))]
    for node in sorted(nodes, key=lambda node: node.lineno):
        match = ANCHOR.search(python[node.lineno - 1])
        if match:
            lines = [line for part in match.group(1).split(", ") for line in numbers(part)]
            name = node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.targets[0])
            yield Anchored(name, ast.get_source_segment(source, node) or "", lines)


def numbers(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def literals(lines: list[str]) -> list[str]:
    """The words and control tokens in the strings that some lines of an original print or compare with."""
    lines = [line.replace("%Y-%m-%d", "").replace("{}", "") for line in lines]
    tags = " ".join(re.findall(r"\{[{%].*?[}%]\}", "\n".join(lines), flags=re.DOTALL))
    strings = re.findall(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", tags)
    text = " ".join(one or other for one, other in strings).replace("\\n", " ").replace("\\'", "'")
    return re.findall(r"<[^<>\s]+>|\[/?[A-Z_]+\]|\w[\w'/-]*", text)


def all_sources(template: str) -> dict[str, str]:
    """Functions and constants of a module by name; strings joined and without the names in f-strings."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse((ROOT / "chatfmt" / f"{template}.py").read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.Assign)):
            target = ast.Name(node.name) if isinstance(node, ast.FunctionDef) else node.targets[0]
            strings = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
            attributes = [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
            joined = "".join(string for string in strings if isinstance(string, str))
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    words = [found.get(name.id, ""), joined, *map(str, strings), *names, *attributes]
                    found[name.id] = " ".join(words)
    return found


def reach(name: str, sources: dict[str, str]) -> str:
    """The source of a name and of all that it names in turn."""
    seen: list[str] = []
    todo = [name]
    while todo:
        name = todo.pop()
        if name in sources and name not in seen:
            seen.append(name)
            todo.extend(re.findall(r"\w+", sources[name]))
    return " ".join(sources[name] for name in seen)


@pytest.mark.parametrize("template", TEMPLATES)
def test_anchors_cover_the_original(template: str) -> None:
    """Every line of the original that does something is some function's, and no anchor begins or ends on another."""
    lines = template_lines(template)
    working = {number for number, line in enumerate(lines) if line.strip()}
    covered: set[int] = set()
    for _, _, numbered in anchored(template):
        assert {numbered[0], numbered[-1]} <= working
        covered.update(numbered)
    assert sorted(working - covered) == []


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_the_anchored_lines_say_is_in_the_function(template: str) -> None:
    """Each word and control token of those lines stands in the function, or in what it names."""
    lines = template_lines(template)
    rows = list(anchored(template))
    sources = all_sources(template)
    for name, _, numbered in rows:
        reachable = reach(name, sources)
        missing = [word for word in literals([lines[number] for number in numbered]) if word not in reachable]
        assert missing == [], name


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_function_is_anchored_and_in_order(template: str) -> None:
    tree = ast.parse((ROOT / "chatfmt" / f"{template}.py").read_text(encoding="utf-8"))
    (format,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.bases]
    methods = [node.name for node in format.body if isinstance(node, ast.FunctionDef)]
    assert methods == [name for name in ORDER if name in methods]
    functions = methods + [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    anchors = {row.name for row in anchored(template)}
    assert set(functions) - anchors <= UNANCHORED | ({"__init__"} if template in WITHOUT_OPTIONS_BLOCK else set())


UNANCHORED = {  # what the originals don't have: paths of errors, prompts that grow, and samples
    "tools_block", "first_rewritten", "as_sampled",
    "path_of_function", "place_of_call_id", "place_of_chunk", "chunks_of",
}  # fmt: skip
WITHOUT_OPTIONS_BLOCK = ("ministral3_reasoning", "domyn_small")


@pytest.mark.parametrize("file", sorted((ROOT / "chatfmt").glob("*.py")), ids=lambda file: file.name)
def test_functions_are_small(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 40, node.name
