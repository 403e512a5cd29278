"""Safe tokenizing: control tokens that came from the caller, found and cut apart."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import namedtuple

from ._base import ChatFormat, Segment, checked_chat
from ._fields import fields_of
from ._values import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ._values import JSON


class Piece(namedtuple("Piece", ("text", "is_literal"))):
    """A piece of a prompt, to be tokenized on its own.

    is_literal: whether it must be encoded with special tokens off: part of a control token that came from the caller.
    All else is control text, which may hold special tokens.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        is_literal: bool


class Injection(namedtuple("Injection", ("token", "message", "path", "start", "end"))):
    """A control token that came, or partly came, from the caller.

    message: the index of the message that it stands in, None for tools and the like. path: the field, such as
    `messages[3].content` or `tools[0].function`, where the caller's part of it begins. start, end: where it stands in
    the prompt, in characters.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        token: str
        message: int | None
        path: str
        start: int
        end: int


def pieces(
    chat: ChatFormat,
    messages: JSON,
    *,
    add_generation_prompt: JSON = MISSING,
    special_tokens: Collection[str] = (),
    trust_assistant: bool = False,
) -> list[Piece]:
    """The prompt in pieces such that no control token of the caller's reaches the tokenizer whole.

    Joined, they are the text of `render`. Where nothing was injected that is one piece, so that ordinary text is
    tokenized as before. Else the caller's part of each control token is cut out as literal text, and that is cut again
    behind its first character, so that it stays text in tokenizers too where a token cannot be switched off. A token
    that the caller's text makes only together with the text around it is found as well. (A token of one character
    cannot be cut.)

    special_tokens: more texts that the tokenizer turns into ids of their own, beside `chat.control_tokens`.
    trust_assistant: whether the assistant's own words may hold control tokens, as in training data that a model wrote.
    Takes and raises what `render` does.
    """
    segments = _segments(chat, messages, add_generation_prompt)
    return pieces_of(segments, [*chat.control_tokens, *checked(special_tokens)], trust_assistant)


def pieces_of(segments: list[Segment], tokens: Collection[str], trust_assistant: bool) -> list[Piece]:
    """The pieces of a text that is given in segments. tokens: all that the tokenizer turns into ids of their own."""
    search = _Search(segments, checked(tokens), trust_assistant)
    cut: list[Piece] = []
    at = 0
    for start, end, is_literal in search.cuts():
        cut.append(Piece(search.text[start:end], is_literal))
        at = end
    if at < len(search.text):
        cut.append(Piece(search.text[at:], False))
    return cut


def injections(
    chat: ChatFormat,
    messages: JSON,
    *,
    add_generation_prompt: JSON = MISSING,
    special_tokens: Collection[str] = (),
    trust_assistant: bool = False,
) -> list[Injection]:
    """The control tokens that `pieces` cuts apart, in the order of the prompt; for a server to refuse or to log.

    Takes and raises what `pieces` does.
    """
    segments = _segments(chat, messages, add_generation_prompt)
    search = _Search(segments, [*chat.control_tokens, *checked(special_tokens)], trust_assistant)
    fields = fields_of(chat, messages, segments) if search.found else []
    return [
        Injection(token, segments[owner].message, fields[owner].path, start, start + len(token))
        for start, token in search.found
        for owner in [search.owners[search.first_literal(start)]]
    ]


def _segments(chat: ChatFormat, messages: JSON, add_generation_prompt: JSON) -> list[Segment]:
    """As `segments`, also of the classes of another copy of this package, whose MISSING is not this one."""
    keywords = {} if add_generation_prompt is MISSING else {"add_generation_prompt": add_generation_prompt}
    return checked_chat(chat).segments(messages, **keywords)


def checked(tokens: Collection[str]) -> Collection[str]:
    if isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
        raise TypeError("special tokens must be several strings, such as tokenizer.get_added_vocab()")
    return tokens


class _Search:
    """Looks for tokens in a prompt that hold, even in part, a text of the caller's."""

    def __init__(self, segments: list[Segment], tokens: Collection[str], trust_assistant: bool) -> None:
        kinds = ("content",) if trust_assistant else ("content", "output")
        self.text = "".join([segment.text for segment in segments])
        self.tokens = tuple(sorted(filter(None, {*tokens}), key=len, reverse=True))
        self.reach = len(self.tokens[0]) - 1 if self.tokens else 0  # how far before a text a token can begin
        self.starts: list[int] = []  # where each text of the caller's begins
        self.ends: list[int] = []
        self.owners: list[int] = []  # the index of its segment
        end = 0
        for n, segment in enumerate(segments):
            start, end = end, end + len(segment.text)
            if segment.kind in kinds:
                self.starts.append(start)
                self.ends.append(end)
                self.owners.append(n)
        self.found: list[tuple[int, str]] = []  # where each token begins, and the longest one that does there
        for start in sorted(self.beginnings()):
            token = next(token for token in self.tokens if self.text.startswith(token, start))
            if self.starts[self.first_literal(start)] < start + len(token):
                self.found.append((start, token))

    def beginnings(self) -> set[int]:
        """Where tokens begin in a text of the caller's, or shortly before one."""
        text, tokens = self.text, self.tokens
        firsts = {token[0] for token in tokens}
        found: set[int] = set()
        known: dict[str, list[int]] = {}
        for start, end in zip(self.starts, self.ends):
            before = text[max(0, start - self.reach) : start]
            distances = known.get(before)
            if distances is None:
                distances = known[before] = self.distances(before, firsts)
            found.update([start - distance for distance in distances if text.startswith(tokens, start - distance)])
            for first in firsts:
                at = text.find(first, start, end)
                while at >= 0:
                    if text.startswith(tokens, at):
                        found.add(at)
                    at = text.find(first, at + 1, end)
        return found

    def distances(self, before: str, firsts: set[str]) -> list[int]:
        """How far before its end a text begins as a token does that is longer than what is left of it."""
        found = []
        for k, character in enumerate(before):
            if character in firsts:
                rest = before[k:]
                if any(len(token) > len(rest) and token.startswith(rest) for token in self.tokens):
                    found.append(len(rest))
        return found

    def first_literal(self, start: int) -> int:
        """Which text of the caller's is the first that ends behind a place. There is one behind each candidate."""
        return bisect_right(self.ends, start)

    def cuts(self) -> Iterator[tuple[int, int, bool]]:
        """The pieces up to the end of the last token: start, end, and whether it is literal."""
        at = 0
        for start, end in self.literal_runs():
            if at < start:
                yield at, start, False
            yield start, end, True
            at = end

    def literal_runs(self) -> Iterator[tuple[int, int]]:
        """The caller's characters of all tokens, in order, cut behind the first character of each token."""
        breaks = [start + 1 for start, _ in self.found]
        for start, end in joined(sorted(self.overlaps())):
            inside = breaks[bisect_right(breaks, start) : bisect_left(breaks, end)]
            yield from zip([start, *inside], [*inside, end])

    def overlaps(self) -> Iterator[tuple[int, int]]:
        """Of each token, each run of the caller's characters."""
        for start, token in self.found:
            end = start + len(token)
            k = self.first_literal(start)
            while k < len(self.starts) and self.starts[k] < end:
                yield max(start, self.starts[k]), min(end, self.ends[k])
                k += 1


def joined(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs in order, those that overlap or touch as one."""
    found: list[tuple[int, int]] = []
    for start, end in runs:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
