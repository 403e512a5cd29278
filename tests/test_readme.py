"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cases import MANIFEST, TEMPLATES

import chatfmt

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
PROGRAMS = [
    (code, output)
    for (kind, code), (next_kind, output) in zip(BLOCKS, BLOCKS[1:])
    if kind == "python" and next_kind == "text"
]
(LABELS,) = [
    code for kind, code in BLOCKS if kind == "python" and "def ids_and_labels" in code
]  # see test_tokenizers.py
(SERVER,) = [code for kind, code in BLOCKS if kind == "python" and "ThreadingHTTPServer" in code]  # see test_server.py
COMMANDS = [line for kind, code in BLOCKS if kind == "sh" for line in code.splitlines() if "-m chatfmt" in line]


@pytest.mark.parametrize(("code", "output"), PROGRAMS)
def test_programs_print_what_follows_them(code: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    python, *arguments = shlex.split(command.replace("page.html", shlex.quote(str(page))))
    assert python == "python"
    result = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
    assert page.stat().st_size if "page.html" in command else result.stdout
    assert result.stderr == b""


def test_the_blocks_were_found() -> None:
    assert not {SERVER, LABELS} & {code for code, _ in PROGRAMS}
    assert len(PROGRAMS) + 2 == sum(kind == "python" for kind, _ in BLOCKS) == 9
    assert len(COMMANDS) == 9


@pytest.mark.parametrize("template", TEMPLATES)
def test_tables_name_class_model_sha256_and_options(template: str) -> None:
    facts = MANIFEST["templates"][template]
    (row,) = [line for line in README.splitlines() if f"`{template}`" in line and facts["sha256"] in line]
    format = chatfmt.TEMPLATES[template]
    assert f"`{format.__name__}`" in row
    assert format.model in row
    options = "\n".join(line for line in README.splitlines() if line.startswith("| ") and "`tools=None`" in line)
    for parameter in list(inspect.signature(format.__init__).parameters.values())[1:]:
        default = str(parameter.default) if not isinstance(parameter.default, str) else f'"{parameter.default}"'
        shown = parameter.name if parameter.name == "preserved_thinking" else f"{parameter.name}={default}"
        assert f"`{shown}`" in options
