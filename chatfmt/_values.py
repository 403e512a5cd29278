"""How a Jinja template reads JSON values: the few rules that all four templates rely on.

Functions that can fail take the path of the value, as parts: `text(value, "messages", 3, "content")`.
"""

from __future__ import annotations

import json

from ._errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Union

    JSON = Any  # a JSON value, or MISSING where a field was looked up
    Part = Union[str, int]


class _Missing:
    """Jinja's undefined value: false, empty, prints as nothing, equal only to itself, and no JSON."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"  # pickled by name, so that it stays one object

    def __str__(self) -> str:
        return ""

    def __len__(self) -> int:  # this makes it false as well
        return 0

    def __iter__(self) -> Iterator[JSON]:
        return iter(())


MISSING: JSON = _Missing()


def field(value: JSON, key: str) -> JSON:
    """`value.key` and `value["key"]`: MISSING where there is no such key, on values of every other type too."""
    return value.get(key, MISSING) if isinstance(value, dict) else MISSING


def each(value: JSON, *path: Part) -> JSON:
    """What `for` runs over: items of a list, keys of an object, characters of a string, nothing of MISSING."""
    if isinstance(value, (list, dict, str, tuple)) or value is MISSING:
        return value
    raise wrong(value, "a list", path)


def size(value: JSON, *path: Part) -> int:
    """`value | length`."""
    return len(each(value, *path))


def text(value: JSON, *path: Part) -> str:
    """The operand of a Jinja `+` beside a string: only a string will do."""
    if isinstance(value, str):
        return value
    raise wrong(value, "a string", path)


def sequence(value: JSON, *path: Part) -> JSON:
    """A list whose items are needed as objects, so that keys or characters would not do."""
    if isinstance(value, (list, tuple)):
        return value
    raise wrong(value, "a list", path)


def mapping(value: JSON, *path: Part) -> dict[str, JSON]:
    """A value whose `.items()` or fields are needed."""
    if isinstance(value, dict):
        return value
    raise wrong(value, "an object (decode the JSON text first)" if isinstance(value, str) else "an object", path)


def shown(value: JSON, *path: Part) -> str:
    """`{{ value }}`, `~` and `| string`: a string as it is, everything else as Python's str() prints it."""
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except ValueError:  # an integer of more digits than Python prints
        raise wrong(value, "printable: it holds an integer of too many digits", path) from None


_encode = json.JSONEncoder(ensure_ascii=False).encode


def to_json(value: JSON, *path: Part) -> str:
    """`value | tojson` as transformers defines it: Python's spacing, nothing escaped that JSON allows."""
    try:
        return _encode(value)
    except TypeError:  # MISSING, or a value that is no JSON
        raise wrong(value, "a JSON value", path) from None
    except ValueError:  # an integer of more digits than Python prints
        raise wrong(value, "printable: it holds an integer of too many digits", path) from None


def positions(ids: Sequence[JSON]) -> Callable[[JSON], Sequence[int]]:
    """A search for the positions of an id in `ids`, by `==`: 1, 1.0 and true are one id, lists compare by value.

    Strings and numbers are looked up, so that n calls and n tool responses take n steps; lists and objects (and NaN,
    which equals nothing) cannot be, and are compared one by one.
    """
    scalars: dict[JSON, list[int]] = {}
    others: list[int] = []
    for k, value in enumerate(ids):
        if _is_scalar(value):
            scalars.setdefault(value, []).append(k)
        else:
            others.append(k)

    def search(wanted: JSON) -> Sequence[int]:
        if _is_scalar(wanted):
            return scalars.get(wanted, ())
        return [k for k in others if ids[k] == wanted]

    return search


def _is_scalar(value: JSON) -> bool:
    return isinstance(value, (str, int, float)) and bool(value == value)


def place(*path: Part) -> str:
    """`place("messages", 3, "content")` is `messages[3].content`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def wrong(value: JSON, needed: str, path: Sequence[Part]) -> InputError:
    """The error that says where, what was found and what is needed."""
    where = place(*path)
    return InputError(f"{where} is {_found(value)}, but must be {needed}", where)


def _found(value: JSON) -> str:
    if value is MISSING:
        return "missing"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    for kind, name in ((str, "a string"), (list, "a list"), (dict, "an object"), ((int, float), "a number")):
        if isinstance(value, kind):
            return name
    return f"of type {type(value).__name__}"
