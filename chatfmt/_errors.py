"""The two ways in which rendering can refuse an input. Any other exception is a bug in chatfmt."""

from __future__ import annotations


class ChatFormatError(ValueError):
    """The input has no prompt. `str(error)` is one sentence, `error.path` the place at fault, or None.

    A path reads like `messages[3].tool_calls[0].function.arguments`; options are named as the constructor names
    them (`reasoning_effort`, `tools[0].function`).
    """

    path: str | None

    def __init__(self, words: str, path: str | None = None) -> None:
        super().__init__(words)
        self.path = path


class TemplateError(ChatFormatError):
    """The original template refuses this input: `str(error)` holds exactly the words of its `raise_exception`."""


class InputError(ChatFormatError):
    """The original template fails on this input: a value is missing, or of a type that it cannot use there.

    So are values that Python cannot print: nested too deep, or integers of too many digits.

    The sentence says where, what was found and what is needed.
    """
