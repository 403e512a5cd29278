"""How a Jinja template reads JSON values: the few rules that all four templates rely on.

Functions that can fail take the path of the value, as parts: `shown(value, "messages", 3, "content")`. Where Jinja's
`+` needs a string, or `.items()` an object, the templates check that themselves and `raise wrong(…)`.
"""

from __future__ import annotations

from ._errors import InputError

TYPE_CHECKING = False  # type checkers take it for true; at run time `typing` is not needed, and not imported
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Union

    JSON = Any  # a JSON value, or MISSING where a field was looked up
    Part = Union[str, int]
    Roles = Union[list[JSON], None]  # those of the messages, or None where they are not known yet


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
    raise wrong(value, "a list", *path)


def size(value: JSON, *path: Part) -> int:
    """`value | length`."""
    if isinstance(value, (list, dict, str, tuple)) or value is MISSING:
        return len(value)
    raise wrong(value, "a list", *path)


def sequence(value: JSON, *path: Part) -> JSON:
    """A list whose items are needed as objects, so that keys or characters would not do."""
    if isinstance(value, (list, tuple)):
        return value
    raise wrong(value, "a list", *path)


def shown(value: JSON, *path: Part) -> str:
    """`{{ value }}`, `~` and `| string`: a string as it is, everything else as Python's str() prints it."""
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except ValueError:
        raise too_many_digits(*path) from None
    except RecursionError:
        raise too_deep(*path) from None


def _no_json(value: object) -> None:
    raise TypeError


def _encoders() -> tuple[Callable[[JSON, int], Iterable[str]], Callable[[str], str]]:
    """json.dumps(value, ensure_ascii=False) as two functions: for any value, in pieces; and for a string.

    The C encoder behind the module json is made once, not for each value; and without that module, whose import takes
    longer than all else here. Where there is none, or it is made in another way, json itself serves.
    """
    try:
        from _json import encode_basestring, make_encoder

        encode = make_encoder(None, _no_json, encode_basestring, None, ": ", ", ", False, False, True)
        if "".join(encode({"": [None, 1.5, "é"]}, 0)) + encode_basestring("é") == '{"": [null, 1.5, "é"]}"é"':
            return encode, encode_basestring
    except (ImportError, TypeError):
        pass
    import json

    encoder = json.JSONEncoder(ensure_ascii=False)
    return lambda value, level: encoder.encode(value), encoder.encode


_encode, _encode_text = _encoders()


def to_json(value: JSON, *path: Part) -> str:
    """`value | tojson` as transformers defines it: Python's spacing, nothing escaped that JSON allows."""
    try:
        if type(value) is str:
            return _encode_text(value)
        if type(value) is int:
            return str(value)
        return "".join(_encode(value, 0))
    except TypeError:
        if value is MISSING:
            raise wrong(value, "given", *path) from None
        where = place(*path)
        words = f"{where} holds a value that is no JSON, but must hold strings, numbers, lists and the like"
        raise InputError(words, where) from None
    except ValueError:
        raise too_many_digits(*path) from None
    except RecursionError:
        raise too_deep(*path) from None


def roles_of(messages: JSON) -> list[JSON]:
    """The role of each message; MISSING where a message has none or is no object."""
    return [
        message.get("role", MISSING) if isinstance(message, dict) else MISSING for message in each(messages, "messages")
    ]


def last_index(roles: list[JSON], role: str) -> int:
    """Where a role comes last, -1 for nowhere."""
    return len(roles) - 1 - roles[::-1].index(role) if role in roles else -1


def run_end(roles: list[JSON], start: int) -> int:
    """The index behind a run of one role."""
    end = start + 1
    while end < len(roles) and roles[end] == roles[start]:
        end += 1
    return end


def run_joined(roles: list[JSON], start: int) -> tuple[int, str]:
    """Where the run of tool messages began that those from `start` on join; `start` and no reason where they don't."""
    if start < len(roles) and roles[start] == "tool" and roles[start - 1] == "tool":
        while start > 0 and roles[start - 1] == "tool":
            start -= 1
        return start, "tool responses join the block of those before them"
    return start, ""


def positions(ids: Sequence[JSON], wanted: Sequence[JSON]) -> list[Sequence[int]]:
    """For each id wanted, where it stands in `ids`, by `==`: 1, 1.0 and true are one id, lists compare by value.

    Strings and numbers are looked up, so that n calls and n tool responses take n steps. Lists and objects cannot be,
    and are compared one by one. NaN equals nothing, not even itself.
    """
    found: dict[JSON, list[int]] = {}
    others = []
    for k, value in enumerate(ids):
        if isinstance(value, str) or _is_number(value):
            found.setdefault(value, []).append(k)
        elif value == value:
            others.append(k)
    hits: list[Sequence[int]] = []
    for value in wanted:
        if isinstance(value, str) or _is_number(value):
            hits.append(found.get(value, ()))
        else:
            hits.append([k for k in others if ids[k] == value] if value == value else ())
    return hits


def is_distinct_text(ids: list[JSON]) -> bool:
    """Whether these are strings, each of them once."""
    try:
        "".join(ids)  # takes strings alone, and says so sooner than a look at each
    except TypeError:
        return False
    return len({*ids}) == len(ids)


def _is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and value == value


def place(*path: Part) -> str:
    """`place("messages", 3, "content")` is `messages[3].content`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def wrong_call(tool_calls: JSON, i: int, j: int, *keys: str) -> InputError:
    """The error about call j of message i, in which something is missing on the way to the keys of its `function`."""
    if not isinstance(tool_calls, (list, tuple)):
        return wrong(tool_calls, "a list", "messages", i, "tool_calls")
    path = ("messages", i, "tool_calls", j)
    if not isinstance(tool_calls[j], dict):
        return wrong(tool_calls[j], "an object", *path)
    function = tool_calls[j].get("function", MISSING)
    if not isinstance(function, dict):
        return wrong(function, "an object", *path, "function")
    key = next((key for key in keys if key not in function), keys[-1])
    return wrong(MISSING, "given", *path, "function", key)


def too_many_digits(*path: Part) -> InputError:
    """Python refuses to print integers of more than 4,300 digits."""
    where = place(*path)
    return InputError(f"{where} holds an integer of too many digits to be printed, but must hold a shorter one", where)


def too_deep(*path: Part) -> InputError:
    """Python's recursion limit refuses values that are nested by the hundreds."""
    where = place(*path)
    return InputError(f"{where} is nested too deep to be printed, but must be flatter", where)


def wrong(value: JSON, needed: str, *path: Part) -> InputError:
    """The error that says where, what was found and what is needed."""
    where = place(*path)
    is_json = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
    hint = " (decode the JSON text first)" if is_json and needed in ("an object", "a list") else ""
    return InputError(f"{where} is {_found(value)}, but must be {needed}{hint}", where)


def _found(value: JSON) -> str:
    if value is MISSING:
        return "missing"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    for kind, name in ((str, "a string"), (list, "a list"), (dict, "an object"), ((int, float), "a number")):
        if isinstance(value, kind):
            return name
    return f"of type {type(value).__name__}"
