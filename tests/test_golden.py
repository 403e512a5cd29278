"""Every golden case, byte for byte. Runs against any copy of the package: pytest --package acme._vendor.chatfmt"""

from __future__ import annotations

import copy
from types import ModuleType

import pytest
from cases import TEMPLATES, expected, load, names, rendered

CASES = [(template, name) for template in TEMPLATES for name in names(template)]


@pytest.mark.parametrize(("template", "name"), CASES)
def test_golden(package: ModuleType, template: str, name: str) -> None:
    case = load(template, name)
    before = repr(case)
    found = rendered(package, template, case)
    assert found.same(expected(template, name)), f"{found}\n{expected(template, name)}"
    assert repr(case) == before, "an input was changed"
    if found.kind != "text":
        assert found.path == case.get("path", found.path)
        assert found.path, "an error that names no place"


@pytest.mark.parametrize(("template", "name"), CASES)
def test_rendering_again_gives_the_same(package: ModuleType, template: str, name: str) -> None:
    case = load(template, name)
    first = rendered(package, template, case)
    assert rendered(package, template, copy.deepcopy(case)) == first


@pytest.mark.parametrize("template", TEMPLATES)
def test_there_are_enough_cases(template: str) -> None:
    assert len(names(template)) >= 60
    kinds = {expected(template, name).kind for name in names(template)}
    assert kinds == ({"text", "InputError"} | ({"TemplateError"} if template != "domyn_small" else set()))
