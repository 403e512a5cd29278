"""Mistakes that a porter of these templates makes, each made on purpose: is it noticed?

    python tests/mistakes.py [--cases 1500] [--markdown]

Each mistake is a change of a few words in one module, made in a copy of the package. The copy then renders all golden
cases and, where jinja2 is installed, generated ones. A mistake that neither notices makes the exit code 1, and so does a table in README.md that is outdated.
"""

from __future__ import annotations

import argparse
import importlib
import random
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from cases import TEMPLATES, Case, Outcome, expected, load, names, rendered

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "golden"))

SOLAR, HY4, MINISTRAL, DOMYN = TEMPLATES


CASES = 400  # generated ones, a template and level, for the table in README.md
MARKDOWN = "| {} | {} | {} | {} | {} |"


class Mistake(NamedTuple):
    what: str
    module: str
    right: str  # stands once in the module
    wrong: str


ENCODERS = "_encode, _encode_text = _encoders()\n"
JSON_INSTEAD = (
    "import json\n_encode_text = json.JSONEncoder({0}).encode\n\ndef _encode(value, level):\n"
    "    return _encode_text(value)\n"
)
PRINTS_AS_PYTHON = "        return str(value)\n    except ValueError:\n"

MISTAKES = [
    Mistake("The generation prompt is off unless asked for", SOLAR,
            "default_generation_prompt = True", "default_generation_prompt = False"),
    Mistake("A null `reasoning` falls back to `reasoning_content`", SOLAR,
            'return "reasoning" if "reasoning" in message', 'return "reasoning" if message.get("reasoning")'),
    Mistake("Reasoning is kept from the last user message on, where there is none too: `>=`", SOLAR,
            "message, i > last_user)", "message, i >= last_user > -1)"),
    Mistake("An unknown think_render_option still prints an empty think block", SOLAR,
            'elif option == "preserved" or option == "interleaved":', "else:"),
    Mistake("A low effort leaves the think block of the generation prompt open", SOLAR,
            '("medium", "high", "xhigh")', '("low", "medium", "high", "xhigh")'),
    Mistake("A null effort is taken for the default", SOLAR,
            "if self.reasoning_effort not in THINKING", 'if (self.reasoning_effort or "high") not in THINKING'),
    Mistake("A system message without content is skipped", SOLAR,
            'if roles[i] == "system":', 'if roles[i] == "system" and "content" in message:'),
    Mistake("A null system content prints nothing", SOLAR,
            'out.content(shown(message.get("content", MISSING), "messages"',
            'out.content(shown(message.get("content") or "", "messages"'),
    Mistake("The tools section ends without its newline", SOLAR, '    "<|tool_call:end|>\\n"\n', '    "<|tool_call:end|>"\n'),
    Mistake("The whole tool definition is printed, not its `function`", SOLAR,
            'to_json(tool.get("function", MISSING)', "to_json(tool"),
    Mistake("A flat tool definition is accepted", SOLAR,
            'to_json(tool.get("function", MISSING)', 'to_json(tool.get("function", tool)'),
    Mistake("A response_format of another type prints nothing", SOLAR,
            "if self.response_format:\n            out.control(separator)",
            'if field(self.response_format, "type") in ("json_schema", "json_object"):\n            out.control(separator)'),
    Mistake("No newline between the last call and the end of the turn", SOLAR,
            '            start = "\\n" + TOOL_CALL_START\n        output_control("\\n")\n',
            '            start = "\\n" + TOOL_CALL_START\n'),
    Mistake("Arguments of text are written as JSON", SOLAR,
            "if not isinstance(value, str):\n                value = to_json", "if True:\n                value = to_json"),
    Mistake("Null arguments are no arguments", SOLAR,
            'if "arguments" in function:', 'if function.get("arguments") is not None:'),
    Mistake("A call id of 0 is an id", SOLAR, 'if not isinstance(tool_call, dict) or not tool_call.get("id"):',
            'if field(tool_call, "id") in (None, "", MISSING):'),
    Mistake("A tool_call_id of 0 is an id", SOLAR,
            'if not message.get("tool_call_id"):', 'if message.get("tool_call_id") in (None, ""):'),
    Mistake("All ids of a run are checked before it is written", SOLAR,
            "                    self.write_tool_responses(out, messages, roles, i)",
            '                    if not all(m.get("tool_call_id") for m in messages[i : run_end(roles, i)]):\n'
            '                        raise TemplateError("tool message is missing required \'tool_call_id\' field")\n'
            "                    self.write_tool_responses(out, messages, roles, i)"),
    Mistake("Ids are compared as text, so 1 and true differ", "_values",
            "    for k, value in enumerate(ids):\n", "    ids, wanted = list(map(repr, ids)), list(map(repr, wanted))\n"
            "    for k, value in enumerate(ids):\n"),
    Mistake("A response is written once though two calls share its id", SOLAR,
            "answers = [run[k] for hits in positions(ids, wanted) for k in hits]",
            "answers = list(dict.fromkeys(run[k] for hits in positions(ids, wanted) for k in hits))"),
    Mistake("Responses to no call come first", SOLAR, "return answers + [k for k in run if k not in answered]",
            "return [k for k in run if k not in answered] + answers"),
    Mistake("Responses to no call are dropped", SOLAR, "return answers + [k for k in run if k not in answered]", "return answers"),
    Mistake("Responses are put in order across a message in between", SOLAR,
            'if start > 0 and roles[start - 1] == "assistant":\n            tool_calls = messages[start - 1].get("tool_calls")',
            'last = max([k for k in range(start) if roles[k] == "assistant"], default=-1)\n        if last >= 0:\n'
            '            tool_calls = messages[last].get("tool_calls")'),
    Mistake("A content of 0 is printed", SOLAR, "        if content:\n            out.output(",
            '        if content not in (None, "", MISSING):\n            out.output('),
    Mistake("A user content of parts is joined", SOLAR,
            '        if not isinstance(content, str):\n            raise wrong(content, "a string", "messages", i, "content")\n'
            "        out.control(USER)",
            "        if isinstance(content, list):\n"
            '            content = "".join(str(field(part, "text")) for part in content)\n'
            '        if not isinstance(content, str):\n            raise wrong(content, "a string", "messages", i, "content")\n'
            "        out.control(USER)"),
    Mistake("The system block is left out where nothing asks for it", HY4,
            'if not start and (not roles or roles[0] != "system"):', 'if self.tools and not start and (not roles or roles[0] != "system"):'),
    Mistake("The names in a tool definition are escaped", HY4, "f'\"{key}\": {to_json(value, \"tools\", k)}'",
            "f'{to_json(key)}: {to_json(value, \"tools\", k)}'"),
    Mistake("`strict` of a tool is printed", HY4, 'if key != "defer_loading" and key != "strict":', 'if key != "defer_loading":'),
    Mistake("`defer_loading` beside `function` counts", HY4, 'if not field(function, "defer_loading"):',
            'if not field(function, "defer_loading") and not field(tool, "defer_loading"):'),
    Mistake("A blank line follows the tools even where the system content is empty", HY4,
            '                if content:\n                    out.control("\\n\\n")', '                out.control("\\n\\n")'),
    Mistake("A later system message prints the effort too", HY4, "        if i == 0:\n            if self.tools:",
            "        if True:\n            if self.tools and i == 0:"),
    Mistake("preserved_thinking=None is taken for left out", HY4, "if self.preserved_thinking is MISSING",
            "if self.preserved_thinking in (None, MISSING)"),
    Mistake("Without tools, too, reasoning is preserved", HY4, "bool(self.tools) if self.preserved_thinking", "True if self.preserved_thinking"),
    Mistake("A reasoning that is no text is printed", HY4, "    if isinstance(reasoning, str) and reasoning:\n        return reasoning\n",
            "    if reasoning:\n        return str(reasoning)\n"),
    Mistake("The effort is checked after the fallback has replaced it", HY4,
            "effort = checked_effort(self.reasoning_effort)\n",
            'effort = checked_effort("high" if self.fallback_strategy else self.reasoning_effort)\n'),
    Mistake("The retry fallback keeps the generation prompt", HY4, 'effort, add_generation_prompt = "high", False', 'effort = "high"'),
    Mistake("A generation prompt follows an assistant message", HY4,
            'if add_generation_prompt and not (roles and roles[last] == "assistant"):', "if add_generation_prompt:"),
    Mistake("A prefill has think tags", HY4, "if tool_calls or not is_prefill:", "if True:"),
    Mistake("Prefill means the last assistant message, not the last message", HY4,
            "i == last and self.raw_last_assistant", 'i == last_index(roles, "assistant") and self.raw_last_assistant'),
    Mistake("Parts that are not text are skipped", HY4, "    return shown(part, *path)\n",
            '    return part if isinstance(part, str) else ""\n'),
    Mistake("Null parts print nothing", HY4, "    return shown(part, *path)\n", '    return "" if part is None else shown(part, *path)\n'),
    Mistake("Objects are printed as JSON", HY4, 'return "" if content is None else shown(content, *path)',
            'return "" if content is None else to_json(content, *path)'),
    Mistake("Responses that match are put in order though one is left over", HY4, "if len(ids) != len(run):",
            "if len(ids) > len(run):"),
    Mistake("The `id` of a response counts where tool_call_id is null", HY4,
            'messages[k].get("tool_call_id", messages[k].get("id", MISSING)) for k in run',
            'messages[k].get("tool_call_id") or messages[k].get("id", MISSING) for k in run'),
    Mistake("A call without id is passed over when responses are put in order", HY4,
            "return ids if all(ids) else []", "return [call_id for call_id in ids if call_id]"),
    Mistake("A part with `output` counts wherever it stands", HY4,
            'elif field(first, "output") is not MISSING:',
            'elif isinstance(content, list) and any(field(part, "output") is not MISSING for part in content):'),
    Mistake("A null `output` is no output", HY4, 'elif field(first, "output") is not MISSING:', 'elif field(first, "output"):'),
    Mistake("Tool references leave deferred tools out", HY4, 'if field(function, "name") == name:',
            'if field(function, "name") == name and not field(function, "defer_loading"):'),
    Mistake("The name of a call is not escaped as HTML", MINISTRAL, "name if is_text else html_escaped(name)", "name"),
    Mistake("Python's own html.escape, which writes &#x27; and &quot;", MINISTRAL, "return name if name.isidentifier() else name.translate(HTML_ESCAPES)",
            'return __import__("html").escape(name)'),
    Mistake("Blank arguments become {}", MINISTRAL, '"[ARGS]" if arguments else "[ARGS]{}"', '"[ARGS]" if arguments.strip() else "[ARGS]{}"'),
    Mistake("The parts of a user message are always sorted", MINISTRAL, "if len(chunks) == 2 else enumerate(chunks)",
            "if len(chunks) > 1 else enumerate(chunks)"),
    Mistake("The parts of a user message are never sorted", MINISTRAL, "sorted_by_type(chunks, i) if len(chunks) == 2 else enumerate(chunks)",
            "enumerate(chunks)"),
    Mistake("Parts without a type are sorted as if it were empty", MINISTRAL, 'kind = field(item[1], "type")\n        return [',
            'kind = str(field(item[1], "type"))\n        return ['),
    Mistake("Null content beside tool calls is nothing", MINISTRAL, "            self.write_chunks(out, i, content)\n",
            "            self.write_chunks(out, i, content or [])\n"),
    Mistake("Tool results count in the alternation", MINISTRAL, 'if role == "user" or (role == "assistant" and not has_tool_calls',
            'if role == "user" or role == "tool" or (role == "assistant" and not has_tool_calls'),
    Mistake("Calling turns count in the alternation", MINISTRAL, '(role == "assistant" and not has_tool_calls(messages[i], i))',
            '(role == "assistant" and has_tool_calls(messages[i], i) in (True, False))'),
    Mistake("Alternation is checked as the messages are written", MINISTRAL, "        check_alternation(messages, roles, first)\n", ""),
    Mistake("Alternation is checked before the system message is written", MINISTRAL,
            "        if not start:\n            self.write_beginning(out, messages)\n",
            '        if messages:\n            known = roles_of(messages)\n'
            '            check_alternation(messages, known, 1 if known[0] == "system" else 0)\n'
            "        if not start:\n            self.write_beginning(out, messages)\n"),
    Mistake("An empty list of tools is printed", MINISTRAL, 'if self.tools is not None and size(self.tools, "tools") > 0:',
            "if self.tools is not None:"),
    Mistake("An empty system message brings the default one back", MINISTRAL, 'if field(messages[0], "role") == "system":',
            'if field(messages[0], "role") == "system" and messages[0].get("content"):'),
    Mistake("Null content of a tool message prints nothing", MINISTRAL, 'content = message.get("content", MISSING)\n        out.control("[TOOL_RESULTS]")',
            'content = message.get("content") or ""\n        out.control("[TOOL_RESULTS]")'),
    Mistake("Only \"image\" is an image", MINISTRAL, 'kind in ("image", "image_url")', 'kind in ("image",)'),
    Mistake("A thinking chunk may hold a list", MINISTRAL,
            'if not isinstance(thinking, str):\n                    raise wrong(thinking, "a string", "messages", i,',
            'if isinstance(thinking, list):\n                    thinking = str(thinking)\n'
            '                if not isinstance(thinking, str):\n                    raise wrong(thinking, "a string", "messages", i,'),
    Mistake("Content beside calls is written", DOMYN, "            self.write_tool_calls(out, i, tool_calls)\n",
            '            out.output(message.get("content") or "")\n            self.write_tool_calls(out, i, tool_calls)\n'),
    Mistake("Arguments that are JSON text are not encoded again", DOMYN,
            '            arguments = to_json(arguments, "messages"',
            '            arguments = arguments if isinstance(arguments, str) else to_json(arguments, "messages"'),
    Mistake("\"thinking on\" counts in any case", DOMYN, 'found = "thinking on" in content or found', 'found = "thinking on" in str(content).lower() or found'),
    Mistake("\"thinking off\" is cut out first", DOMYN, '.replace("thinking on", "").replace("thinking off", "")',
            '.replace("thinking off", "").replace("thinking on", "")'),
    Mistake("Words are cut out only once", DOMYN, '.replace("thinking on", "")', '.replace("thinking on", "", 1)'),
    Mistake("enable_thinking=False overrules the words", DOMYN,
            "asks_for_thinking(messages, roles) or self.enable_thinking\n",
            "asks_for_thinking(messages, roles) and self.enable_thinking is not False or self.enable_thinking\n"),
    Mistake("With enable_thinking the system contents are not searched, so that no null fails", DOMYN,
            "asks_for_thinking(messages, roles) or self.enable_thinking\n",
            "self.enable_thinking or asks_for_thinking(messages, roles)\n"),
    Mistake("Only spaces and newlines are stripped", DOMYN, ".strip()", '.strip(" \\n\\t")'),
    Mistake("A null tool_calls is none", DOMYN, 'tool_calls = message.get("tool_calls", MISSING)', 'tool_calls = message.get("tool_calls") or MISSING'),
    Mistake("The made-up system block has no blank line behind the tools", DOMYN, 'out.control("\\n\\n")', 'out.control("\\n")'),
    Mistake("The mode is that of each system message alone", DOMYN, "        if has_tools:\n            out.block(self.tools_block)\n"
            '            out.control("\\n")\n',
            '        mode = "thinking on\\n" if self.enable_thinking or "thinking on" in content else "thinking off\\n"\n'
            "        if has_tools:\n            out.block(self.tools_block)\n"
            '            out.control("\\n")\n'),
    Mistake("The tools are printed only in the first system block", DOMYN, "        if has_tools:\n            out.block(self.tools_block)\n"
            '            out.control("\\n")\n',
            "        if has_tools and i == 0:\n            out.block(self.tools_block)\n"
            '            out.control("\\n")\n'),
    Mistake("No blank line behind the closed think block", DOMYN, '"<think>\\n</think>\\n\\n"', '"<think>\\n</think>\\n"'),
    Mistake("JSON escapes what is not ASCII", "_values",
            ENCODERS, JSON_INSTEAD.format("")),
    Mistake("JSON without spaces", "_values", ENCODERS,
            JSON_INSTEAD.format("ensure_ascii=False, separators=(',', ':')")),
    Mistake("JSON with sorted keys", "_values", ENCODERS,
            JSON_INSTEAD.format("ensure_ascii=False, sort_keys=True")),
    Mistake("JSON without NaN and Infinity", "_values", ENCODERS,
            JSON_INSTEAD.format("ensure_ascii=False, allow_nan=False")),
    Mistake("A missing value is null", "_values", "raise TypeError\n", "return None\n"),
    Mistake("Values print as JSON, not as Python", "_values", PRINTS_AS_PYTHON,
            '        return "".join(_encode(value, 0))\n    except ValueError:\n'),
    Mistake("Null prints nothing", "_values", PRINTS_AS_PYTHON,
            PRINTS_AS_PYTHON.replace("str(value)", '"" if value is None else str(value)')),
    Mistake("The keys of an object are not looped over", "_values", """    if isinstance(value, (list, dict, str, tuple)) or value is MISSING:
        return value
""",
            """    if isinstance(value, (list, str, tuple)) or value is MISSING:
        return value
"""),
]  # fmt: skip


def generated(count: int) -> dict[str, list[tuple[Case, Outcome]]]:
    """Generated cases of each template and level, with what the original makes of them."""
    import generate
    import regenerate

    found: dict[str, list[tuple[Case, Outcome]]] = {}
    for template in TEMPLATES:
        original = regenerate.Original(template)
        rng = random.Random(f"mistakes {template}")
        cases = [generate.case(template, level, rng) for level in generate.LEVELS for _ in range(count)]
        found[template] = [(case, Outcome(*original.outcome(case))) for case in cases]
    return found


def goldens() -> dict[str, list[tuple[Case, Outcome]]]:
    return {
        template: [(load(template, name), expected(template, name)) for name in names(template)]
        for template in TEMPLATES
    }


def noticed(package: ModuleType, cases: dict[str, list[tuple[Case, Outcome]]]) -> int:
    """How many cases come out otherwise. An exception that is not the package's own is noticed as well."""
    count = 0
    for template, rows in cases.items():
        for case, outcome in rows:
            try:
                count += not rendered(package, template, case).same(outcome)
            except Exception:
                count += 1
    return count


def mistaken(mistake: Mistake, folder: Path, name: str) -> ModuleType:
    """The package with the mistake in it, imported under another name."""
    shutil.copytree(ROOT / "chatfmt", folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / name / f"{mistake.module}.py"
    source = file.read_text(encoding="utf-8")
    if source.count(mistake.right) != 1:
        sys.exit(f"{mistake.module}.py holds this {source.count(mistake.right)} times, not once:\n{mistake.right}")
    file.write_text(source.replace(mistake.right, mistake.wrong), encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=CASES, help="generated cases per template and level")
    parser.add_argument("--markdown", action="store_true", help="print the table of tests/README.md")
    args = parser.parse_args()
    suites = {"goldens": goldens(), "generated cases": generated(args.cases) if args.cases else {}}
    form = MARKDOWN if args.markdown else "{:>2} {:<22} {:>5} {:>5}  {}"
    missed, table = 0, []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for number, mistake in enumerate(MISTAKES, 1):
            package = mistaken(mistake, Path(folder), f"mistaken_{number}")
            counts = [noticed(package, cases) for cases in suites.values()]
            missed += not any(counts)
            print(form.format(number, mistake.module, *counts, mistake.what), flush=True)
            table.append(MARKDOWN.format(number, mistake.module, *counts, mistake.what))
    sizes = ", ".join(f"{sum(map(len, cases.values()))} {name}" for name, cases in suites.items())
    print(f"{len(MISTAKES)} mistakes, {missed} of them noticed by nothing ({sizes})")
    is_outdated = args.cases == CASES and "\n".join(table) not in (ROOT / "tests" / "README.md").read_text("utf-8")
    if is_outdated:
        print("tests/README.md has another table: run with --markdown, and put this one in")
    return 1 if missed or is_outdated else 0


if __name__ == "__main__":
    sys.exit(main())
