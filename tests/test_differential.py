"""chatfmt and the originals agree on generated inputs, and on real ones where they are; differential.py runs longer."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import generate
import pytest
from cases import TEMPLATES, Case, Outcome

import chatfmt

pytest.importorskip("jinja2", reason="needs jinja2, to render the originals")
import differential
import regenerate

SEED = 7
COUNTS = {"well_formed": 400, "sloppy": 1200, "hostile": 1000, "mutated": 700}

# What a level is for, as the least shares of cases that the original renders, refuses, and fails on; each is about two
# thirds of what was measured. Hy4 refuses nothing but an effort, Domyn nothing at all.
FLOORS: dict[str, dict[str, tuple[float, float, float]]] = {
    "well_formed": dict.fromkeys(TEMPLATES, (0.95, 0, 0)),
    "sloppy": {
        "solar_open2": (0.33, 0.12, 0.20),
        "hy4": (0.50, 0.01, 0.12),
        "ministral3_reasoning": (0.20, 0.20, 0.25),
        "domyn_small": (0.45, 0, 0.20),
    },
    "hostile": {
        "solar_open2": (0.28, 0.15, 0.22),
        "hy4": (0.45, 0.02, 0.18),
        "ministral3_reasoning": (0.18, 0.22, 0.25),
        "domyn_small": (0.40, 0, 0.25),
    },
    "mutated": {
        "solar_open2": (0.40, 0.06, 0.15),
        "hy4": (0.45, 0.015, 0.12),
        "ministral3_reasoning": (0.18, 0.20, 0.25),
        "domyn_small": (0.45, 0, 0.16),
    },
}


def compared(template: str, level: str, package: ModuleType, count: int) -> differential.Report:
    task = differential.Task(template, level, SEED, 0, count, package.__name__)
    report = differential.run(task)
    if report.differing:
        texts = differential.explained(task, report.differing, 2)
        pytest.fail(f"{len(report.differing)} differences\n" + "\n".join(texts), pytrace=False)
    return report


@pytest.mark.parametrize("level", generate.LEVELS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_generated(package: ModuleType, template: str, level: str) -> None:
    report = compared(template, level, package, COUNTS[level])
    shares = [count / COUNTS[level] for count in report.counts.values()]
    floors = FLOORS[level][template]
    assert all(share >= floor for share, floor in zip(shares, floors)), (
        f"rendered, refused, failed: {shares}, but {floors} is the least for {level}"
    )


@pytest.mark.skipif(not differential.REAL.exists(), reason="the real conversations are not here (../shared/real)")
@pytest.mark.parametrize("level", differential.REAL_LEVELS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_real(package: ModuleType, template: str, level: str) -> None:
    report = compared(template, level, package, 120)
    assert level == "real_as_is" or report.counts["text"] > 60


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_branch_of_the_original_is_taken(template: str) -> None:
    """By generated cases alone: what no case reaches, no comparison covers."""
    probed = regenerate.Probed(template)
    for level in ("well_formed", "sloppy", "hostile"):
        for index in range(500):
            probed.outcome(differential.case_of(template, level, SEED, index))
    assert probed.probes.all - probed.probes.taken == set(regenerate.UNREACHABLE[template])


# ---- the test's own tools ---------------------------------------------------------------------------------------


def digest() -> str:
    found = hashlib.sha256()
    for template in TEMPLATES:
        for level in generate.LEVELS:
            for index in range(40):
                found.update(differential.frozen(differential.case_of(template, level, SEED, index)).encode("utf-8"))
    return found.hexdigest()


def test_a_case_is_made_again() -> None:
    """In another process, under another order of sets: a seed names its cases for good."""
    code = "import differential, test_differential; print(test_differential.digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    again = subprocess.check_output([sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment)
    assert again.decode().strip() == digest()


def test_generated_cases_are_json() -> None:
    for template in TEMPLATES:
        for level in ("well_formed", "sloppy"):
            case = differential.case_of(template, level, SEED, 1)
            assert differential.frozen(json.loads(json.dumps(case))) == differential.frozen(case)
            assert set(case.get("options", {})) <= set(generate.OPTIONS[template])


class Wrong(chatfmt.DomynSmall):
    """A port with one thing wrong, told by the attribute."""

    wrong = ""

    def render(self, messages: Any, **keywords: Any) -> str:
        if self.wrong == "another exception":
            raise KeyError("role")
        if self.wrong == "another text":
            return super().render(messages, **keywords).replace("\n\n", "\n")
        if self.wrong == "the input is changed":
            for message in messages:
                message["seen"] = True
        try:
            return super().render(messages, **keywords)
        except chatfmt.InputError as error:
            if self.wrong == "no path":
                raise chatfmt.InputError(str(error), None) from None
            if self.wrong == "another error":
                raise chatfmt.TemplateError(str(error), error.path) from None
            raise

    def segments(self, messages: Any, **keywords: Any) -> Any:
        return super().segments(messages, **keywords)[1 if self.wrong == "segments" else 0 :]


@pytest.mark.parametrize(
    ("wrong", "what", "kind"),
    [
        ("another text", "render", "text"),
        ("another exception", "render", "bug (KeyError)"),
        ("another error", "render", "TemplateError"),
        ("no path", "the path that render gives: None", "InputError"),
        ("segments", "segments", "text"),
        ("the input is changed", "the input, which was changed", "text"),
    ],
)
def test_a_wrong_port_is_found(monkeypatch: pytest.MonkeyPatch, wrong: str, what: str, kind: str) -> None:
    both = differential.Pair("domyn_small", "chatfmt")
    classes = SimpleNamespace(
        TEMPLATES={"domyn_small": Wrong}, TemplateError=chatfmt.TemplateError, InputError=chatfmt.InputError
    )
    monkeypatch.setattr(both, "package", classes)
    monkeypatch.setattr(Wrong, "wrong", wrong)
    level = "well_formed" if kind == "text" else "sloppy"
    made = [differential.case_of("domyn_small", level, SEED, index) for index in range(60)]
    found = [both.check(case, thorough=False)[1] for case in made]
    assert (what, kind) in [(difference.what, difference.found.kind) for difference in found if difference]


def test_a_difference_is_made_small() -> None:
    def bad(case: Case) -> bool:
        return "thinking on" in json.dumps(case["messages"])

    case: Case = {
        "messages": [*({"role": "user", "content": "x" * k} for k in range(30)), {"a": [{"b": "! thinking on!"}]}],
        "tools": [{"function": {"name": "f"}}],
    }
    small = differential.shrunk(case, bad)
    assert bad(small)
    assert len(json.dumps(small)) < 50, small
    assert len(case["messages"]) == 31, "the case itself was changed"


def test_a_difference_is_shown_for_pasting() -> None:
    case = {"messages": [{"role": "user", "content": "é\ud800\u2028\x00 \n"}], "options": {}}
    text = differential.pasted(case, "a case")
    assert "\\ud800\\u2028\\u0000 \\n" in text
    assert json.loads(text) == {"about": "a case", "messages": case["messages"]}
    difference = differential.Difference("render", Outcome("text", "a" * 100 + "b"), Outcome("text", "a" * 100))
    assert differential.shown(difference).count("at 100 of 10") == 2
