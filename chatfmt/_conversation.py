"""Prompts of a conversation that grows: each costs what its new messages cost."""

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
    this prompt. reason: why that is a message from before, in one sentence; "" where only new ones were written.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        unchanged: int
        first_rewritten: int
        reason: str


class Conversation:
    """The messages of one conversation, and its prompt so far. Unlike a ChatFormat, not to be shared by threads.

    Messages that were handed over are not to be changed. Without its last generation prompt, the prompt is kept, and
    written on from the first message that new ones affect.
    """

    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat
        self.messages: list[JSON] = []
        self._roles: list[JSON] = []
        self._starts: list[int] = []  # where the text of each message begins
        self._end = 0  # where the text of the messages ends, and that of the generation prompt begins
        self._text = ""

    def extend(self, messages: JSON, *, add_generation_prompt: JSON = MISSING) -> Prompt:
        """The prompt with some more messages, a list; the text is `chat.render`'s for all messages.

        Raises what `render` raises, and then keeps none of the new messages.
        """
        start = len(self.messages)
        self.messages += sequence(messages, "messages")
        try:
            return self._extended(start, add_generation_prompt)
        except BaseException:
            del self.messages[start:], self._roles[start:]
            raise

    def _extended(self, start: int, add_generation_prompt: JSON) -> Prompt:
        self._roles += roles_of(self.messages[start:])
        first, reason = start, ""
        if 0 < start < len(self.messages):
            first, reason = self.chat.first_rewritten(self.messages, self._roles, start)
        pieces: list[str] = []
        out = _Marking(pieces)
        self.chat.write_safely(out, self.messages, add_generation_prompt, self._roles if start else None, first)
        # what comes before the first message is written with it
        kept = self._text[: 0 if first == 0 else self._starts[first] if first < start else self._end]
        written = "".join(pieces)
        unchanged = len(kept) + _common(self._text[len(kept) :], written)
        lengths = out.lengths()
        self._starts[first:] = [len(kept) + lengths[i] for i in range(first, len(self.messages))]
        self._end = len(kept) + lengths[None]
        self._text = kept + written
        return Prompt(self._text, unchanged, first, reason)


class _Marking(Out):
    """A sink that joins, and remembers how many pieces there were when each message began."""

    __slots__ = ("marks", "pieces")

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces
        self.marks: dict[int | None, int] = {}
        super().__init__(pieces)

    @property
    def message(self) -> int | None:
        return next(reversed(self.marks))

    @message.setter
    def message(self, i: int | None) -> None:
        """The first mark of a message counts: those after it are made inside its run of tool messages. Of None the
        last one counts, which is made before the generation prompt."""
        if i is None or i not in self.marks:
            self.marks.pop(i, None)
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
