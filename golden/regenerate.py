#!/usr/bin/env python3
"""Writes what the original templates make of the inputs here; needs jinja2 (see README.md beside this file)."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, Dict, NoReturn, Tuple

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = Path(__file__).resolve().parent
MANIFEST: Dict[str, Any] = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
NOW = datetime.datetime.fromisoformat(MANIFEST["date"])


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
        self.passed: Dict[str, Any] = MANIFEST["templates"][name]["passed"]
        source = (HERE / name / "template.jinja").read_bytes().decode("utf-8")
        self.template = environment().from_string(source)

    def variables(self, case: Dict[str, Any]) -> Dict[str, Any]:
        """What a caller passes to the template: the keys of the case, its options, and what every caller passes."""
        own = {key: case[key] for key in ("messages", "tools", "add_generation_prompt") if key in case}
        return {"tools": None, **self.passed, **own, **case.get("options", {})}

    def outcome(self, case: Dict[str, Any]) -> Tuple[str, str]:
        """("text", the text), ("TemplateError", the exact words) or ("InputError", what failed, for a reader)."""
        try:
            return "text", self.template.render(**self.variables(case))
        except Exception as error:  # a template can fail with any exception
            if type(error) is jinja2.TemplateError:
                return "TemplateError", str(error)
            return "InputError", f"{type(error).__name__}: {error}"
