"""The laws of masks, samples and pieces, on every golden case and on generated ones."""

from __future__ import annotations

import random

import generate
import laws
import pytest
from cases import TEMPLATES, load, names


@pytest.mark.parametrize("template", TEMPLATES)
def test_laws_hold_on_goldens(template: str) -> None:
    assert sum(laws.hold(template, load(template, name), name) for name in names(template)) > 100


@pytest.mark.parametrize("template", TEMPLATES)
def test_laws_hold_on_generated_conversations(template: str) -> None:
    rng = random.Random(f"laws {template}")
    assert (
        sum(
            laws.hold(template, generate.case(template, level, rng), str(n))
            for n in range(100)
            for level in laws.LEVELS[::2]
        )
        > 100
    )
