"""Prompts of a conversation that grows: only what its new messages ask for is written."""

from __future__ import annotations

from collections import namedtuple

from ._base import ChatFormat, Out
from ._values import MISSING, roles_of, sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._values import JSON


class Prompt(namedtuple("Prompt", ("text", "unchanged", "first_rewritten", "reason"))):
    """A prompt, and how it differs from the one before.

    text: what `render` gives for all messages. unchanged: how many characters at its beginning are those of the
    prompt before, so what a KV cache can keep. first_rewritten: the index of the first message that was written for
    this prompt (0: with what comes before it; the number of messages: none was). reason: why that is a message from
    before, in one sentence; "" where only new ones were written.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        unchanged: int
        first_rewritten: int
        reason: str


class _State(namedtuple("_State", ("messages", "roles", "starts", "end", "text"))):
    """What a conversation has come to. Never changed, so that a step that fails or is interrupted leaves no trace."""

    __slots__ = ()
    if TYPE_CHECKING:
        messages: list[JSON]
        roles: list[JSON]
        starts: list[int]  # where the text of each message begins, for those with which writing can begin again
        end: int  # where the text of the messages ends, and that of the generation prompt begins
        text: str


class Conversation:
    """The messages of one conversation, and its prompt so far. Unlike a ChatFormat, not to be shared by threads.

    Messages that were handed over are not to be changed. Without its last generation prompt, the prompt is kept, and
    written on from the first message that new ones affect; so Solar's provider prompt keeps the date it was written on.
    Beside that writing, a step copies the text and glances at the roles (Ministral: back to the last turn that counts).
    """

    def __init__(self, chat: ChatFormat) -> None:
        self._chat = chat
        self._state = _State([], [], [], 0, "")

    @property
    def chat(self) -> ChatFormat:
        """The template and its options."""
        return self._chat

    @property
    def messages(self) -> list[JSON]:
        """The messages so far."""
        return list(self._state.messages)

    def extend(self, messages: JSON, *, add_generation_prompt: JSON = MISSING) -> Prompt:
        """The prompt with some more messages, a list; the text is `chat.render`'s for all messages.

        Raises what `render` raises, and then keeps none of the new messages.
        """
        before = self._state
        start = len(before.messages)
        everything = before.messages + list(sequence(messages, "messages"))
        roles = before.roles + roles_of(everything[start:])
        first, reason = start, ""
        if 0 < start < len(everything):
            first, reason = self._chat.first_rewritten(everything, roles, start)
        out = _Marking()
        self._chat.write_safely(out, everything, add_generation_prompt, roles if start else None, first)
        # what comes before the first message is written with it
        kept = before.text[: 0 if first == 0 else before.starts[first] if first < start else before.end]
        written = "".join(out.pieces)
        unchanged = len(kept) + _common(before.text[len(kept) :], written)
        lengths = out.lengths()
        starts = before.starts[:first] + [len(kept) + lengths[i] for i in range(first, len(everything))]
        prompt = Prompt(kept + written, unchanged, first, reason)
        self._state = _State(everything, roles, starts, len(kept) + lengths[None], prompt.text)
        return prompt


class _Marking(Out):
    """A sink that joins, and remembers how many pieces there were when each message began."""

    __slots__ = ("current", "marks", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.marks: dict[int | None, int] = {}
        super().__init__(self.pieces)

    @property
    def message(self) -> int | None:
        return self.current

    @message.setter
    def message(self, i: int | None) -> None:
        """The first mark of a message counts: those after it are made inside its run of tool messages. Of None the
        last one counts, which is made before the generation prompt. (A system message of Solar is marked first in the
        block at the top, where its text is; writing never begins again with one.)"""
        self.current = i
        if i is None or i not in self.marks:
            self.marks[i] = len(self.pieces)

    def lengths(self) -> dict[int | None, int]:
        """The number of characters that were written before each mark."""
        found, total, done = {}, 0, 0
        for i, count in sorted(self.marks.items(), key=lambda mark: mark[1]):
            total += sum(map(len, self.pieces[done:count]))
            found[i], done = total, count
        return found


def _common(before: str, after: str) -> int:
    """How many characters at the beginning two texts have in common."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
