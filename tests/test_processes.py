"""A pool of processes renders the same bytes as one process, with one object sent to all of them."""

from __future__ import annotations

import gzip
import hashlib
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from cases import TEMPLATES, load, names

import chatfmt

REAL = Path(__file__).resolve().parent.parent.parent / "shared" / "real" / "conversations.jsonl.gz"


def digest(work: tuple[chatfmt.ChatFormat, Any]) -> str:
    """The prompt, or what is wrong, short enough to be sent back."""
    format, messages = work
    try:
        return hashlib.sha256(format.render(messages).encode("utf-8", "surrogatepass")).hexdigest()
    except chatfmt.ChatFormatError as error:
        return f"{type(error).__name__} {error.path} {error}"


def compare(conversations: list[Any]) -> None:
    work = [(template(), messages) for template in chatfmt.TEMPLATES.values() for messages in conversations]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(digest, work, chunksize=50) == [digest(item) for item in work]


def test_golden_conversations() -> None:
    compare([load(template, name)["messages"] for template in TEMPLATES for name in names(template)[:40]])


@pytest.mark.skipif(not REAL.exists(), reason="the real conversations are not here")
def test_real_conversations() -> None:
    with gzip.open(REAL, "rt", encoding="utf-8") as lines:
        compare([json.loads(line)["messages"] for line in lines])
