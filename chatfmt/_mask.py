"""Which characters of a prompt, and which of its tokens, a model is trained on."""

from __future__ import annotations

from bisect import bisect_right
from collections import namedtuple

from ._base import ChatFormat, checked_chat
from ._fields import parts_of
from ._values import last_index, roles_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Union

    from ._base import Segment
    from ._values import JSON

    Span = tuple[int, int]
    Turns = Union[str, Collection[int]]


class Spans:
    """What a text with spans can do."""

    __slots__ = ()
    spans: list[Span]

    def token_mask(self, offsets: Iterable[Sequence[int]]) -> list[int]:
        """For each token 1 or 0: whether to train on it.

        offsets: where each token stands in the text, (start, end) in characters, as fast tokenizers return them. A
        token counts when all of it lies inside one span. So one that straddles a border does not, nor does an empty
        one, such as a begin token that the tokenizer adds.
        """
        starts = [start for start, _ in self.spans]
        ends = [0, *(end for _, end in self.spans)]  # by how many spans have started
        return [int(start < end <= ends[bisect_right(starts, start)]) for start, end in offsets]


class Mask(namedtuple("Mask", ("text", "spans")), Spans):
    """A text, and the spans of it to train on: (start, end) in characters, in order, none empty, none touching."""

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        spans: list[Span]


def mask(
    chat: ChatFormat,
    messages: JSON,
    *,
    add_generation_prompt: JSON = False,
    turns: Turns = "all",
    reasoning: bool = True,
    tool_calls: bool = True,
    tool_responses: bool = False,
) -> Mask:
    """A prompt, and what of it the model itself would have written.

    That is, of the assistant's turns: reasoning that the prompt shows, content and tool calls, each with the control
    tokens that the model writes for it, and the token that ends the turn. It is never the opener of a turn, a think
    tag that the generation prompt prefills, an empty think block, or the newline after an end token.

    turns: "all", "last", or the indices of the assistant's messages to train on. reasoning, tool_calls: whether to
    train on these parts; the end token stays. tool_responses: whether to train on the texts of tool messages too, those
    that come after a turn to train on and before the assistant's next one; with "all", all of them.
    Raises what `render` raises, and ValueError for turns that are no messages of the assistant.
    """
    segments = checked_chat(chat).segments(messages, add_generation_prompt=add_generation_prompt)
    roles = roles_of(messages)
    trained = chosen_turns(turns, roles)
    if tool_responses:
        trained |= responses_after(trained, roles, isinstance(turns, str) and turns == "all")
    parts = {"content", "end"} | ({"reasoning"} if reasoning else set()) | ({"tool_calls"} if tool_calls else set())
    kept = [
        message in trained and (kind == "content" or part in parts)
        for (_, kind, message), part in zip(segments, parts_of(chat, segments))
    ]
    return Mask("".join([segment.text for segment in segments]), spans_of(segments, kept))


def chosen_turns(turns: Turns, roles: list[JSON]) -> set[int]:
    """The indices of the assistant's messages that are meant."""
    every = {i for i, role in enumerate(roles) if role == "assistant"}
    if isinstance(turns, str):
        if turns not in ("all", "last"):
            raise ValueError(f'turns is {turns!r}, but must be "all", "last" or indices of messages')
        return every if turns == "all" else {last_index(roles, "assistant")} - {-1}
    chosen = set(turns)
    for i in chosen - every:
        raise ValueError(f"turns holds {i}, but messages[{i}] is no message of the assistant")
    return chosen


def responses_after(turns: set[int], roles: list[JSON], everywhere: bool) -> set[int]:
    """The indices of the tool messages between the turns and the assistant's next ones; or everywhere."""
    found, is_after = set(), everywhere
    for i, role in enumerate(roles):
        if role == "assistant":
            is_after = everywhere or i in turns
        elif role == "tool" and is_after:
            found.add(i)
    return found


def spans_of(segments: list[Segment], kept: list[bool]) -> list[Span]:
    """Where the segments to keep stand; those that touch are one span."""
    spans: list[Span] = []
    end = 0
    for segment, is_kept in zip(segments, kept):
        start, end = end, end + len(segment.text)
        if is_kept and spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif is_kept:
            spans.append((start, end))
    return spans
