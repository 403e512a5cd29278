"""The benchmark times what it says it does, and times it on equal texts. How long anything takes is not tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bench
import pytest
from cases import TEMPLATES, Case

NUMBERS = {  # messages, calls, tools
    "short chat": (3, 0, 0),
    "tool chat": (10, 4, 5),
    "agent run": (200, 132, 20),
    "long run": (1000, 664, 20),
    "50 calls": (52, 50, 20),
}


def calls_of(case: Case) -> list[list[Any]]:
    return [message["tool_calls"] for message in case["messages"] if "tool_calls" in message]


@pytest.mark.parametrize("name", bench.WORKLOADS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_workload_has_the_stated_numbers(template: str, name: str) -> None:
    case = bench.workload(template, name)
    calls = [call for turn in calls_of(case) for call in turn]
    assert (len(case["messages"]), len(calls), len(case["tools"] or [])) == NUMBERS[name]
    for call in calls:
        kinds = [type(value) for value in call["function"]["arguments"].values()]
        assert kinds == [str, str, int]
    if name in ("agent run", "long run"):
        assert {len(turn) for turn in calls_of(case)} == {2}
    if name == "50 calls":
        answered = [m["tool_call_id"] for m in case["messages"] if m["role"] == "tool"]
        assert answered == [call["id"] for call in calls][::-1]


@pytest.mark.parametrize("size", [*bench.SIZES, 101, 102, 103])
def test_agent_run_has_the_size_asked_for(size: int) -> None:
    assert len(bench.agent_run("hy4", size)["messages"]) == size


@pytest.mark.parametrize("template", TEMPLATES)
def test_workloads_hold_reasoning_that_is_printed(template: str) -> None:
    case = bench.workload(template, "agent run")
    text = bench.new_object(template, case).render(case["messages"])
    printed = text.count("I look at that file before I decide")
    assert printed == {"solar_open2": 66, "hy4": 66, "ministral3_reasoning": 66, "domyn_small": 0}[template]


@pytest.mark.parametrize("name", bench.WORKLOADS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_originals_print_the_same(template: str, name: str) -> None:
    pytest.importorskip("jinja2", reason="the originals need jinja2")
    case = bench.workload(template, name)
    expected = ("text", bench.new_object(template, case).render(case["messages"], add_generation_prompt=True))
    assert bench.jinja(template).outcome(case) == expected


@pytest.mark.parametrize("template", TEMPLATES)
def test_floor_encodes_what_a_render_encodes(template: str) -> None:
    case = bench.workload(template, "agent run")
    kept = bench.new_object(template, case)
    text = kept.render(case["messages"], add_generation_prompt=True)
    values, pieces = bench.parts(kept, case["messages"])
    assert bench.floor(values, pieces)() == text
    encoded = [json.dumps(value, ensure_ascii=False) for value in values]
    assert all(value in text for value in encoded)
    if template in ("ministral3_reasoning", "domyn_small"):  # the other two print strings as they are
        arguments = [json.dumps(call["function"]["arguments"]) for turn in calls_of(case) for call in turn]
        assert all(argument in "\n".join(encoded) for argument in arguments)


def test_quick_run_prints_every_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "QUICK", bench.Budget(workload=0, growth=0, imports=1, rounds=1, steps=20))
    monkeypatch.setattr(bench, "SIZES", (100, 200))
    file = tmp_path / "numbers.json"
    assert bench.main(["--quick", "--quartiles", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    wanted = [[template, name] for template in TEMPLATES for name in bench.WORKLOADS]
    assert [row[:2] for row in rows[2:]] == wanted
    assert {len(row) for row in rows} == {len(rows[0])}
    assert sum("#" in line for line in lines) == 2 * len(TEMPLATES)
    numbers = json.loads(file.read_text(encoding="utf-8"))
    assert [[row["template"], row["workload"]] for row in numbers["workloads"]] == wanted
    assert all(row["microseconds"]["kept"]["median"] > 0 for row in numbers["workloads"])


def test_texts_that_differ_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "floor", lambda values, pieces: lambda: "another text")
    with pytest.raises(SystemExit, match=r"hy4: .'floor'. and a kept object print different texts"):
        bench.contenders("hy4", bench.workload("hy4", "short chat"))
