"""With a real tokenizer: pieces decode to the prompt, injected tokens stay text, and masks select their text.

Needs tokenizers and jinja2, and the authors' collection of real conversations beside the project; skipped elsewhere.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from typing import Any

import pytest
from cases import TEMPLATES, Case, chat, load, names, rendered

import chatfmt

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
differential = pytest.importorskip("differential", reason="jinja2 is not installed")
if not differential.REAL.exists():
    pytest.skip("the collection of real conversations does not lie beside the project", allow_module_level=True)


@functools.cache
def real(template: str) -> list[Case]:
    """Every fourth real conversation that the template renders, in the first form of it that does."""
    found = []
    for index in range(0, len(differential.real()), 4):
        forms = [differential.real_case(template, level, 3 * index) for level in differential.REAL_LEVELS]
        found += [case for case in forms if rendered(chatfmt, template, case).kind == "text"][:1]
    return found


@functools.cache
def trained(template: str, is_special: bool = True) -> Any:
    """A byte-level BPE tokenizer that learned from the real conversations, with the template's control tokens."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator((str(case["messages"]) for case in real(template)[:60]), trainer)
    tokens = chatfmt.TEMPLATES[template].control_tokens
    added = [tokenizers.AddedToken(token, special=is_special, normalized=False) for token in tokens]
    tokenizer.add_tokens(added)
    assert all(tokenizer.token_to_id(token) is not None for token in tokens)
    return tokenizer


def encoded(tokenizer: Any, pieces: Iterable[chatfmt.Piece]) -> list[int]:
    """Each piece on its own, literal ones with special tokens off."""
    ids: list[int] = []
    for text, is_literal in pieces:
        tokenizer.encode_special_tokens = is_literal
        ids += tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    return ids


def control_ids(tokenizer: Any, template: str, ids: Iterable[int]) -> list[int]:
    of_tokens = {tokenizer.token_to_id(token) for token in chatfmt.TEMPLATES[template].control_tokens}
    return [id for id in ids if id in of_tokens]


def keywords(case: Case) -> dict[str, Any]:
    return {key: case[key] for key in ("add_generation_prompt",) if key in case}


@pytest.mark.parametrize("template", TEMPLATES)
def test_pieces_decode_to_the_prompt(template: str) -> None:
    """Encoded as told, the pieces of a real conversation decode to its prompt; without an injection they are the ids
    of plain encoding."""
    tokenizer, plain = trained(template), 0
    assert len(real(template)) > 40
    for case in real(template):
        format = chat(chatfmt, template, case)
        prompt = format.render(case["messages"], **keywords(case))
        ids = encoded(tokenizer, chatfmt.pieces(format, case["messages"], **keywords(case)))
        assert tokenizer.decode(ids, skip_special_tokens=False) == prompt
        if not chatfmt.injections(format, case["messages"], **keywords(case)):
            assert ids == tokenizer.encode(prompt, add_special_tokens=False).ids
            plain += 1
    assert plain > 40


@pytest.mark.parametrize("is_special", [True, False], ids=["special", "added"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_an_injected_token_never_becomes_a_control_id(template: str, is_special: bool) -> None:
    """With each control token put into each text of some real conversations, the prompt has the same control ids as
    without; also where the tokenizer cannot switch its tokens off, since they are added but not special."""
    tokenizer = trained(template, is_special)
    tokens = itertools.cycle(chatfmt.TEMPLATES[template].control_tokens)
    injected = 0
    for case in [case for case in real(template) if not found_in(template, case)][:20]:
        before = control_ids(tokenizer, template, encoded(tokenizer, pieces_of(template, case)))
        for i, message in enumerate(case["messages"][:6]):
            if isinstance(message.get("content"), str) and message["content"]:
                token = next(tokens)
                content = message["content"][:7] + token + message["content"][7:] + token[: len(token) // 2]
                changed = {**case, "messages": [*case["messages"]]}
                changed["messages"][i] = {**message, "content": content}
                pieces = pieces_of(template, changed)
                if len(pieces) > 1:  # some contents are not shown
                    assert found_in(template, changed)
                    assert control_ids(tokenizer, template, encoded(tokenizer, pieces)) == before
                    injected += 1
    assert injected > 20


def pieces_of(template: str, case: Case) -> list[chatfmt.Piece]:
    return chatfmt.pieces(chat(chatfmt, template, case), case["messages"], **keywords(case))


def found_in(template: str, case: Case) -> list[chatfmt.Injection]:
    return chatfmt.injections(chat(chatfmt, template, case), case["messages"], **keywords(case))


@pytest.mark.parametrize("template", TEMPLATES)
def test_goldens_with_control_tokens_in_texts(template: str) -> None:
    """Tokens in every field of the goldens: the ids that decode to control tokens are as many as the template wrote."""
    tokenizer, seen = trained(template), 0
    for name in names(template):
        case = load(template, name)
        found = rendered(chatfmt, template, case)
        if found.kind != "text" or re.search("[\ud800-\udfff]", found.text) or not found_in(template, case):
            continue  # tokenizers take no lone surrogates
        ids = encoded(tokenizer, pieces_of(template, case))
        segments = chat(chatfmt, template, case).segments(case["messages"], **keywords(case))
        by_template = "".join(s.text if s.kind in ("control", "output_control") else "\n" for s in segments)
        written = tokenizer.encode(by_template, add_special_tokens=False).ids
        assert control_ids(tokenizer, template, ids) == control_ids(tokenizer, template, written)
        seen += 1
    assert seen >= 3


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_token_mask_selects_the_text_of_the_spans(template: str) -> None:
    """The tokens of the mask, joined, are the text of the spans, but for those that straddle a border."""
    tokenizer = trained(template)
    for case in real(template):
        mask = chatfmt.mask(chat(chatfmt, template, case), case["messages"])
        offsets = tokenizer.encode(mask.text, add_special_tokens=False).offsets
        chosen = mask.token_mask(offsets)
        covered = {at for (start, end), is_in in zip(offsets, chosen) if is_in for at in range(start, end)}
        wanted = {at for start, end in mask.spans for at in range(start, end)}
        straddling = [(start, end) for start, end in offsets if 0 < len(wanted & {*range(start, end)}) < end - start]
        assert covered == wanted - {at for start, end in straddling for at in range(start, end)}
        assert template == "domyn_small" or not straddling  # there no control token stands at the borders


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_labels_of_the_readme(template: str) -> None:
    """The README's function gives the ids of the text, and as labels those of what the model wrote, and nothing else;
    an injected token is text."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from test_readme import LABELS

    program: dict[str, Any] = {}
    exec(compile(LABELS, "README.md", "exec"), program)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(template))
    token = chatfmt.TEMPLATES[template].control_tokens[0]
    turn = {"role": "assistant", "content": f"It is {token}, you know."}
    messages = [{"role": "user", "content": f"What is {token}?"}, turn, {"role": "user", "content": "And?"}, turn]
    format = chatfmt.TEMPLATES[template]()
    for text in chatfmt.training_texts(format, messages):
        ids, labels = program["ids_and_labels"](text, format, tokenizer)
        assert tokenizer.decode(ids) == text.text
        wanted = "".join(text.text[start:end] for start, end in text.spans)
        assert tokenizer.decode([id for id in labels if id != -100]) == wanted
        by_template = "".join(s.text if s.kind in ("control", "output_control") else "\n" for s in text.segments)
        written = tokenizer(by_template, add_special_tokens=False)["input_ids"]
        assert control_ids(trained(template), template, ids) == control_ids(trained(template), template, written)
