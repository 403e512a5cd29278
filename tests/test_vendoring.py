"""The folder works as a copy under any name, with the original out of reach."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_golden_suite_against_a_copy(tmp_path: Path) -> None:
    copy = tmp_path / "acme" / "_vendor" / "cf"
    shutil.copytree(ROOT / "chatfmt", copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "golden", tmp_path / "golden")
    (tmp_path / "tests").mkdir()
    for name in ("cases.py", "conftest.py", "test_golden.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    # an import of the original must fail, even where it is installed
    (tmp_path / "chatfmt.py").write_text("raise ImportError('the original is out of reach')\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--package", "acme._vendor.cf", "tests"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
    assert "skipped" not in run.stdout


def test_command_line_of_a_copy(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "chatfmt", tmp_path / "acme" / "_vendor" / "cf")
    conversation = str(ROOT / "golden" / "conversations" / "plain_chat.input.json")
    prompts = [
        subprocess.run([sys.executable, "-m", name, "render", "hy4", conversation], cwd=folder, capture_output=True,
                       check=True).stdout
        for name, folder in (("chatfmt", ROOT), ("acme._vendor.cf", tmp_path))
    ]  # fmt: skip
    assert prompts[0] == prompts[1] != b""
