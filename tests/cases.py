"""The golden cases: which there are, what each expects, and what a package makes of one. Needs no jinja2."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
MANIFEST: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text(encoding="utf-8"))
TEMPLATES: list[str] = list(MANIFEST["templates"])
NOW = datetime.datetime.fromisoformat(MANIFEST["date"])

Case = dict[str, Any]


class Outcome(NamedTuple):
    """What rendering a case comes to: a text, or a refusal and its words. InputError has no words to compare."""

    kind: str  # "text", "TemplateError" or "InputError"
    text: str = ""
    path: str | None = None  # where the error is, as the port says; the originals know no paths

    def same(self, other: Outcome) -> bool:
        return self.kind == other.kind and (self.kind == "InputError" or self.text == other.text)


def names(template: str) -> list[str]:
    """The names of all cases of a template, its own and the shared ones."""
    files = [*(GOLDEN / template).glob("*.input.json"), *(GOLDEN / "conversations").glob("*.input.json")]
    return sorted(file.name[: -len(".input.json")] for file in files)


def load(template: str, name: str) -> Case:
    own = GOLDEN / template / f"{name}.input.json"
    file = own if own.exists() else GOLDEN / "conversations" / f"{name}.input.json"
    case: Case = json.loads(file.read_text(encoding="utf-8"))
    return case


def expected(template: str, name: str) -> Outcome:
    golden = GOLDEN / template / f"{name}.golden"
    if golden.exists():
        lines = golden.read_bytes().decode("utf-8").split("\n")
        return Outcome("text", "".join(json.loads(line) for line in lines if line))
    refusal = (GOLDEN / template / f"{name}.refusal").read_bytes().decode("utf-8").split("\n")
    return Outcome(refusal[0], json.loads(refusal[1]) if refusal[0] == "TemplateError" else "")


def chat(package: ModuleType, template: str, case: Case) -> Any:
    """The object that renders a case: the template's class with the case's tools and options."""
    keywords = {**MANIFEST["templates"][template]["passed"], **case.get("options", {})}
    if "tools" in case:
        keywords["tools"] = case["tools"]
    if template == "solar_open2":
        keywords["now"] = NOW
    return package.TEMPLATES[template](**keywords)


def rendered(package: ModuleType, template: str, case: Case) -> Outcome:
    """What the package makes of a case. Any exception but its own two passes through: it is a bug."""
    keywords = {key: case[key] for key in ("add_generation_prompt",) if key in case}
    try:
        return Outcome("text", chat(package, template, case).render(case["messages"], **keywords))
    except package.TemplateError as error:
        return Outcome("TemplateError", str(error), error.path)
    except package.InputError as error:
        return Outcome("InputError", str(error), error.path)
