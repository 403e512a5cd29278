"""Every golden case, byte for byte. Runs against any copy of the package: pytest --package acme._vendor.chatfmt"""

from __future__ import annotations

from types import ModuleType

import pytest
from cases import TEMPLATES, Outcome, chat, expected, load, names, rendered

CASES = [(template, name) for template in TEMPLATES for name in names(template)]


@pytest.mark.parametrize(("template", "name"), CASES)
def test_golden(package: ModuleType, template: str, name: str) -> None:
    case = load(template, name)
    before = repr(case)
    found = rendered(package, template, case)
    assert found.same(expected(template, name)), f"{found}\n{expected(template, name)}"
    assert repr(case) == before, "an input was changed"
    if found.kind != "text":
        assert found.path == case["path"], "each case that is refused says where its fault is"


@pytest.mark.parametrize(("template", "name"), CASES)
def test_one_object_renders_again(package: ModuleType, template: str, name: str) -> None:
    """With its tools written, after another conversation, and after an error, an object renders as the first time."""
    case = load(template, name)
    keywords = {key: case[key] for key in ("add_generation_prompt",) if key in case}
    kept = chat(package, template, case)
    for messages in (case["messages"], [{"role": "user", "content": "another"}], case["messages"]):
        try:
            text = kept.render(messages, **keywords)
        except package.ChatFormatError as error:
            found = Outcome(type(error).__name__, str(error), error.path)
        else:
            found = Outcome("text", text)
    assert found.same(expected(template, name))


@pytest.mark.parametrize("template", TEMPLATES)
def test_there_are_enough_cases(template: str) -> None:
    assert len(names(template)) >= 60
    kinds = {expected(template, name).kind for name in names(template)}
    assert kinds == ({"text", "InputError"} | ({"TemplateError"} if template != "domyn_small" else set()))
