"""What holds of masks, samples and pieces for every conversation. Needs no jinja2.

    python tests/laws.py --cases 20000 --seed 7

--cases is per template, over the levels of generate.py. Each law is a function whose docstring is the law; it takes a
template's name and a case that renders, and asserts. The laws use `render` and plain text, not `segments`, which masks
and pieces are made from.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT)]

import cases  # noqa: E402
import generate  # noqa: E402
from cases import Case  # noqa: E402

import chatfmt  # noqa: E402
from chatfmt import InputError  # noqa: E402

MARK = "\ue123"  # a private character that no case holds
FENCES = str.maketrans("<>|[]｜", "\ue001\ue002\ue003\ue004\ue005\ue006")  # what control tokens are made of
OPENERS = {
    "solar_open2": r"<\|im:start\|>assistant<\|im:content\|>(<\|think:start\|>(<\|think:end\|>)?)?",
    "hy4": r"<｜hy_start:opensource｜>assistant<｜hy_middle:opensource｜>(<think:opensource>(</think:opensource>)?)?",
    "ministral3_reasoning": r"",
    "domyn_small": r"<extra_id_1>Assistant\n",
}
CLOSERS = {"solar_open2": "\n", "hy4": "", "ministral3_reasoning": "", "domyn_small": "\n"}

# ---- cases --------------------------------------------------------------------------------------------------------


def keywords(case: Case) -> dict[str, Any]:
    return {key: case[key] for key in ("add_generation_prompt",) if key in case}


def made(template: str, case: Case) -> Any:
    return cases.chat(chatfmt, template, case)


def turns(case: Case) -> list[int]:
    return [i for i, message in enumerate(case["messages"]) if is_of(message, "assistant")]


def is_of(message: Any, role: str) -> bool:
    return isinstance(message, dict) and message.get("role") == role


def renders(template: str, case: Case) -> bool:
    return isinstance(case["messages"], list) and cases.rendered(chatfmt, template, case).kind == "text"


def end_token(template: str, chat: Any) -> str:
    tokens = {"solar_open2": "<|im:end|>", "domyn_small": ""}
    if template == "hy4":
        return str(chat.tokens.hy_end)
    return tokens[template] if template in tokens else str(chat.eos_token)


def texts_in(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Where there are strings in a value, as paths; keys of objects are not among them."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, (list, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_in(item, *path, key)


def with_text(case: Case, path: tuple[Any, ...], change: Callable[[str], str]) -> Case:
    """The case with one of its strings changed."""
    changed = copy.deepcopy(case)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = change(holder[path[-1]])
    return changed


def marked(template: str, case: Case, rng: random.Random) -> Iterator[tuple[int, Case]]:
    """The case with a mark at the end of one string of its messages, for some of them, and that message's index."""
    paths = [path for path in texts_in(case["messages"], "messages") if path[-1] not in ("role", "type", "id")]
    for path in rng.sample(paths, min(3, len(paths))):
        changed = with_text(case, path, lambda text: text + MARK)
        if renders(template, changed):
            yield path[1], changed


# ---- laws of masks ------------------------------------------------------------------------------------------------


def mask_of_a_turn(template: str, case: Case, rng: random.Random) -> None:
    """A turn is trained on from right behind its opener to its end token, in one span, and no two turns overlap."""
    chat = made(template, case)
    end, ends_before = end_token(template, chat), 0
    for i in turns(case):
        text, spans = chatfmt.mask(chat, case["messages"], turns=[i])
        assert text == chat.render(case["messages"], add_generation_prompt=False)
        assert len(spans) <= 1
        for start, stop in spans:
            assert ends_before <= start < stop
            assert re.search(OPENERS[template] + r"\Z", text[:start])
            is_prefill = getattr(chat, "raw_last_assistant", False) and i == len(case["messages"]) - 1
            assert is_prefill or text[start:stop].endswith(end)
            assert is_prefill or text.startswith(CLOSERS[template], stop)
            ends_before = stop


def mask_of_a_mark(template: str, case: Case, rng: random.Random) -> None:
    """A character of an assistant's message is trained on wherever it is shown, and one of another message nowhere."""
    for i, changed in marked(template, case, rng):
        text, spans = chatfmt.mask(made(template, changed), changed["messages"])
        inside = [any(start <= at < stop for start, stop in spans) for at in places(text, MARK)]
        assert inside == [is_of(changed["messages"][i], "assistant")] * len(inside)


def mask_of_choices(template: str, case: Case, rng: random.Random) -> None:
    """Leaving out a part or a turn takes away, and never adds; all turns together are the turns one by one."""
    chat, messages = made(template, case), case["messages"]
    everything = characters(chatfmt.mask(chat, messages))
    one_by_one: set[int] = set()
    for i in turns(case):
        one = characters(chatfmt.mask(chat, messages, turns=[i]))
        assert not one & one_by_one
        one_by_one |= one
    assert one_by_one == everything
    without_reasoning = characters(chatfmt.mask(chat, messages, reasoning=False))
    without_calls = characters(chatfmt.mask(chat, messages, tool_calls=False))
    neither = characters(chatfmt.mask(chat, messages, reasoning=False, tool_calls=False))
    assert without_reasoning | without_calls == everything
    assert without_reasoning & without_calls == neither
    with_responses = characters(chatfmt.mask(chat, messages, tool_responses=True))
    assert with_responses >= everything


def mask_of_tokens(template: str, case: Case, rng: random.Random) -> None:
    """Of tokens of any lengths, just those count of which every character is trained on."""
    mask = chatfmt.mask(made(template, case), case["messages"])
    trained, offsets, at = characters(mask), [(0, 0)], 0
    while at < len(mask.text):
        stop = min(len(mask.text), at + rng.choice((1, 1, 2, 3, 5, 9)))
        offsets.append((at, stop))
        at = stop
    expected = [int(start < stop and all(at in trained for at in range(start, stop))) for start, stop in offsets]
    assert mask.token_mask(offsets) == expected


def characters(mask: Any) -> set[int]:
    """The places of the characters that are trained on. The spans are in order, and do not touch."""
    ends = [-1, *(end for _, end in mask.spans)]
    assert all(before < start < end for before, (start, end) in zip(ends, mask.spans))
    return {at for start, end in mask.spans for at in range(start, end)}


def places(text: str, part: str) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(part), text)]


# ---- laws of samples ----------------------------------------------------------------------------------------------


def samples_of(template: str, case: Case) -> list[Any]:
    """The samples; none where an option says that the model cannot have written one of the turns."""
    try:
        return list(chatfmt.samples(made(template, case), case["messages"]))
    except InputError as error:
        assert re.search("reasoning_effort closes|raw_last_assistant|another think block|must be a string", str(error))
        return []


def sample_of_a_turn(template: str, case: Case, rng: random.Random) -> None:
    """Each turn has one sample: its prompt is what `render` gives for the messages before it, and its completion ends
    as the turn does."""
    chat, found = made(template, case), samples_of(template, case)
    assert [sample.message for sample in found] == (turns(case) if found else [])
    for sample in found:
        before = case["messages"][: sample.message]
        if before or template != "ministral3_reasoning":
            assert sample.prompt == chat.render(before, add_generation_prompt=True)
        assert sample.completion.endswith(end_token(template, chat))


def sample_joined(template: str, case: Case, rng: random.Random) -> None:
    """Prompt and completion are, joined, what `render` gives for the messages with the turn, but for a newline after
    the end token; finished turns without the think block of the generation prompt differ in that alone."""
    chat = made(template, case)
    for sample in samples_of(template, case):
        messages = case["messages"][: sample.message + 1]
        whole = chat.render(messages, add_generation_prompt=False)
        joined = sample.prompt + sample.completion + CLOSERS[template]
        if template == "domyn_small":
            without_block = re.sub(r"<think>\n(</think>\n\n)?\Z", "", sample.prompt)
            assert whole in (joined, without_block + sample.completion + "\n")
        elif template == "solar_open2" and chat.think_render_option not in ("preserved", "interleaved"):
            options = {**case.get("options", {}), "think_render_option": "preserved"}
            preserved = made(template, {**case, "options": options}).render(messages, add_generation_prompt=False)
            think = sample.prompt[sample.prompt.rindex("<|think:start|>") :]
            assert preserved.endswith(think + sample.completion + "\n")
        else:
            assert joined == whole


def sample_of_a_mark(template: str, case: Case, rng: random.Random) -> None:
    """A character of an assistant's message is in the completion of its own turn, and so is one of a message before it
    in no completion at all; what is in none is said to be dropped, or cannot be seen in the finished turn either."""
    for i, changed in marked(template, case, rng):
        found = samples_of(template, changed)
        for sample in found:
            if sample.message != i:
                assert MARK not in sample.completion
            elif MARK not in sample.completion and not sample.dropped:
                whole = changed["messages"][: i + 1]
                assert MARK not in made(template, changed).render(whole, add_generation_prompt=False)


def texts_hold_the_samples(template: str, case: Case, rng: random.Random) -> None:
    """The training texts hold all samples and nothing else, split only where a prompt does not begin with the text so
    far, and each split has a message and a reason."""
    found = samples_of(template, case)
    if not found:
        return
    texts = chatfmt.training_texts(made(template, case), case["messages"])
    held = [
        (text.text[:start], text.text[start:end], message)
        for text in texts
        for (start, end), message in zip(text.spans, text.messages)
    ]
    assert held == [sample[:3] for sample in found]
    assert [text.text for text in texts] == [held_last(text, found) for text in texts]
    assert (texts[0].first_rewritten, texts[0].reason) == (0, "")
    for before, after in zip(texts, texts[1:]):
        prompt = after.text[: after.spans[0][0]]
        assert not prompt.startswith(before.text)
        assert after.reason
        if "think block" in after.reason:  # said of these alone, and not for want of another reason
            option = case.get("options", {}).get("think_render_option", "interleaved")
            assert template == "domyn_small" or (
                template == "solar_open2" and option not in ("preserved", "interleaved")
            )
        assert 0 <= after.first_rewritten < after.messages[0]


def held_last(text: Any, found: list[Any]) -> str:
    """The prompt and the completion of the last sample in a text."""
    (last,) = [sample for sample in found if sample.message == text.messages[-1]]
    return str(last.prompt + last.completion)


# ---- laws of pieces -----------------------------------------------------------------------------------------------


def scanned(text: str, tokens: tuple[str, ...]) -> list[str]:
    """The control tokens that a tokenizer finds in a text: from left to right, the longest first."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.findall("|".join(map(re.escape, longest_first)), text)


def harmless(template: str, case: Case) -> Case:
    """The case with all that control tokens are made of put otherwise in its messages, tools and schemas."""
    options = dict(case.get("options", {}))
    if "response_format" in options:
        options["response_format"] = translated(options["response_format"])
    changed = {**case, "messages": translated(case["messages"]), "options": options}
    if "tools" in case:
        changed["tools"] = translated(case["tools"])
    return changed


def translated(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(FENCES)
    if isinstance(value, list):
        return [translated(item) for item in value]
    if isinstance(value, dict):
        return {translated(key): translated(item) for key, item in value.items()}
    return value


def pieces_are_the_prompt(template: str, case: Case, rng: random.Random) -> None:
    """Joined, the pieces are the prompt; and they are one piece where no text of the caller's holds a part of a
    token."""
    chat = made(template, case)
    found = chatfmt.pieces(chat, case["messages"], **keywords(case))
    assert "".join(piece.text for piece in found) == chat.render(case["messages"], **keywords(case))
    assert all(piece.text for piece in found)
    if harmless(template, case) == case and has_usual_tokens(chat):
        assert len(found) <= 1
    literal = [piece for piece in found if piece.is_literal]
    assert bool(literal) == bool(chatfmt.injections(chat, case["messages"], **keywords(case)))


def has_usual_tokens(chat: Any) -> bool:
    """Whether every control token is longer than a character, so that it can be cut, and one that `harmless` puts
    otherwise; callers may choose Ministral's."""
    return all(len(token) > 1 and token != token.translate(FENCES) for token in chat.control_tokens)


def pieces_hold_no_injected_token(template: str, case: Case, rng: random.Random) -> None:
    """Tokenized piece by piece, a prompt has the control tokens that it has where the caller's texts hold none; literal
    pieces have none at all."""
    chat, calm = made(template, case), harmless(template, case)
    if not has_usual_tokens(chat) or not renders(template, calm):
        return
    found = chatfmt.pieces(chat, case["messages"], **keywords(case))
    for piece in found:
        assert not (piece.is_literal and scanned(piece.text, chat.control_tokens))
    tokens = [token for piece in found for token in scanned(piece.text, chat.control_tokens)]
    calm_prompt = made(template, calm).render(calm["messages"], **keywords(case))
    assert tokens == scanned(calm_prompt, chat.control_tokens)


def texts_hold_no_injected_token(template: str, case: Case, rng: random.Random) -> None:
    """The same is true of training texts, cut into pieces; and joined, those are the text."""
    chat, calm = made(template, case), harmless(template, case)
    if not has_usual_tokens(chat) or not renders(template, calm) or not samples_of(template, case):
        return
    texts = chatfmt.training_texts(chat, case["messages"])
    calm_texts = chatfmt.training_texts(made(template, calm), calm["messages"])
    for text in texts:
        found = text.pieces(chat.control_tokens)
        assert "".join(piece.text for piece in found) == text.text
        assert not any(piece.is_literal and scanned(piece.text, chat.control_tokens) for piece in found)
        if len(calm_texts) == len(texts):  # not where a think block of Domyn's content has become another text
            tokens = [token for piece in found for token in scanned(piece.text, chat.control_tokens)]
            assert tokens == scanned(calm_texts[texts.index(text)].text, chat.control_tokens)


def injections_are_where_they_say(template: str, case: Case, rng: random.Random) -> None:
    """An injection's token stands in the prompt where it says, and its path leads to a text that holds a part of it."""
    chat = made(template, case)
    prompt = chat.render(case["messages"], **keywords(case))
    for token, message, path, start, end in chatfmt.injections(chat, case["messages"], **keywords(case)):
        assert prompt[start:end] == token
        assert message is None or path == "tools" or path.startswith(f"messages[{message}].")
        roots = {"messages": case["messages"], "tools": case.get("tools"), **case.get("options", {})}
        text = json.dumps(at_path(roots, path), ensure_ascii=False)
        assert set(token) & {*text, *text.encode("latin-1", "ignore").decode("unicode_escape")}, (token, path)


def at_path(roots: Any, path: str) -> Any:
    """The value at a path; where a key of arguments has dots in it, all arguments."""
    path = re.sub(r"\.arguments\..*", ".arguments", path, flags=re.DOTALL)
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        roots = roots[name] if name else roots[int(index)]
    return roots


LAWS: list[Callable[[str, Case, random.Random], None]] = [
    mask_of_a_turn, mask_of_a_mark, mask_of_choices, mask_of_tokens,
    sample_of_a_turn, sample_joined, sample_of_a_mark, texts_hold_the_samples,
    pieces_are_the_prompt, pieces_hold_no_injected_token, texts_hold_no_injected_token, injections_are_where_they_say,
]  # fmt: skip


def hold(template: str, case: Case, seed: str) -> bool:
    """Asserts all laws, on an input that renders; tells whether it does."""
    if not renders(template, case):
        return False
    for law in LAWS:
        law(template, case, random.Random(f"{seed} {law.__name__}"))
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the laws of masks, samples and pieces on generated cases.")
    parser.add_argument("--cases", type=int, default=2000, help="how many that render, per template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--template", choices=cases.TEMPLATES, action="append")
    args = parser.parse_args()
    failed = 0
    for template in args.template or cases.TEMPLATES:
        done = drawn = 0
        rng = random.Random(f"laws {args.seed} {template}")
        while done < args.cases and not failed:
            drawn += 1
            case = generate.case(template, LEVELS[drawn % len(LEVELS)], rng)
            try:
                done += hold(template, case, str(drawn))
            except AssertionError:
                traceback.print_exc()
                print(json.dumps(case))
                failed += 1
        print(f"{template}: the {len(LAWS)} laws hold for {done} cases that render, of {drawn} drawn")
    return 1 if failed else 0


LEVELS = ("well_formed", "well_formed", "sloppy", "sloppy", "mutated", "hostile")

if __name__ == "__main__":
    sys.exit(main())
