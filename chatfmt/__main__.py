"""The command line: `python -m chatfmt render TEMPLATE FILE`, `view TEMPLATE FILE` and `list`."""

from __future__ import annotations

import argparse
import datetime
import difflib
import functools
import json
import os
import pathlib
import shlex
import sys

from . import TEMPLATES, ChatFormat, ChatFormatError, InputError, Segment, __version__
from ._facts import FACTS, list_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Made = TypeVar("Made")

KEYS = ("messages", "tools", "add_generation_prompt", "options")
COLOURS = {"control": "36", "content": "0", "output": "32", "output_control": "1;35"}  # cyan, plain, green, magenta


class BadInputError(Exception):
    """What is wrong with the input, in one sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and gives its exit code: 0, or 1 for bad input. Wrong usage exits with 2, as argparse does."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except BadInputError as error:
        complain(str(error))
        return 1
    except BrokenPipeError:
        discard_output()
        return 1
    except KeyboardInterrupt:
        return 130


def complain(words: str) -> None:
    """One line on standard error, if there is one."""
    if sys.stderr is not None:
        print("chatfmt: " + visible(words, keep=""), file=sys.stderr)


def discard_output() -> None:
    """Sends what is still to be written nowhere, so that Python does not stumble over it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Chat templates in plain Python.")
    parser.add_argument("--version", action="version", version=f"chatfmt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="render | view | check | detect | list", required=True)
    render = commands.add_parser("render", help="write the prompt of a conversation to standard output")
    add_conversation_arguments(render, run_render)
    form = render.add_mutually_exclusive_group()
    form.add_argument("--segments", action="store_true", help="one JSON object a line: text, kind and message")
    form.add_argument("--show", action="store_true",
                      help="for reading: invisible characters escaped; on a terminal, in colours")  # fmt: skip
    view = commands.add_parser("view", help="write a page of HTML that shows the prompt, and who wrote what of it")
    add_conversation_arguments(view, run_view)
    view.add_argument("-o", metavar="FILE", dest="output", default="-",
                      help="where to write the page; standard output if left out, or if it is -")  # fmt: skip
    checking = commands.add_parser("check", help="name what the prompt shows wrong; exit with 1 if that is an error")
    add_conversation_arguments(checking, run_check)
    checking.add_argument("--trust-assistant", action="store_true",
                          help="let the assistant's own words hold control tokens, such as think tags")  # fmt: skip
    checking.add_argument("--json", action="store_true", help="one JSON object a line: path, code, sentence, severity")
    detecting = commands.add_parser(
        "detect", help="say which template a file or a model's folder holds, or what differs"
    )
    detecting.add_argument("path", help="chat_template.jinja, tokenizer_config.json, or a folder with one of them")
    detecting.set_defaults(run=run_detect)
    listing = commands.add_parser("list", help="name the templates, their models, options, defaults and tokens")
    listing.set_defaults(run=run_list)
    return parser


def add_conversation_arguments(command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    """The arguments of a command that renders a conversation."""
    command.add_argument("template", choices=list(TEMPLATES))
    command.add_argument("file", help="JSON: a list of messages, or an object with messages and, as needed, tools, "
                        "add_generation_prompt and options; - is standard input")  # fmt: skip
    command.add_argument("--from", choices=["openai"], dest="source",
                         help="openai: the file is a request of OpenAI's API, or its messages, to be normalized; its "
                         "tools, reasoning_effort and chat_template_kwargs count")  # fmt: skip
    command.add_argument("--option", action="append", default=[], metavar="NAME=JSON", type=option,
                        help="an option of the template, over that of the file; see list")  # fmt: skip
    command.add_argument("--generation-prompt", action=argparse.BooleanOptionalAction, dest="add_generation_prompt",
                        help="whether to open the assistant's turn, over what the file says")  # fmt: skip
    command.set_defaults(run=run, parser=command)


def option(argument: str) -> tuple[str, Any]:
    """The name and the value of a NAME=JSON argument."""
    name, separator, value = argument.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{argument!r} must be NAME=JSON")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        example = f"{name}={json.dumps(value[:40])}"
        raise argparse.ArgumentTypeError(f"the value of {name} must be JSON; write a string as {example!r}") from None
    except (ValueError, RecursionError):
        words = f"the value of {name} is nested too deep, or holds an integer of too many digits"
        raise argparse.ArgumentTypeError(words) from None


def run_render(args: argparse.Namespace) -> int:
    segments = made(args, ChatFormat.segments)
    if args.segments:
        lines = [json.dumps(segment._asdict()) + "\n" for segment in segments]
        write("".join(lines).encode("ascii"))
    elif args.show:
        write(show(segments, sys.stdout is not None and sys.stdout.isatty()).encode("utf-8"))
    else:
        write(b"".join([encoded(segment, name_of(args.file)) for segment in segments]))
    return 0


def run_view(args: argparse.Namespace) -> int:
    from ._view import page

    title = os.path.basename(name_of(args.file))
    data = made(args, functools.partial(page, title=title)).encode("utf-8")
    if args.output == "-":
        write(data)
        return 0
    try:
        with open(args.output, "wb") as stream:
            stream.write(data)
    except OSError as error:
        raise BadInputError(f"{name_of(args.output)} cannot be written: {error.strerror}") from None
    return 0


def name_of(path: str) -> str:
    """A file, for a reader."""
    return "standard input" if path == "-" else path or "''"


def made(args: argparse.Namespace, make: Callable[..., Made]) -> Made:
    """What `make` makes of the object that renders, the messages and, if it is given, add_generation_prompt."""
    file = name_of(args.file)
    template = TEMPLATES[args.template]
    given = dict(args.option)
    known = options_of(template)
    for name in given:
        if name not in known:
            args.parser.error(f"{args.template} has no option {name}; its options are {', '.join(known)}")
    read = read_request if args.source else read_conversation
    conversation = read(args.file, file, template)
    keywords = {}
    if args.add_generation_prompt is not None:
        keywords["add_generation_prompt"] = args.add_generation_prompt
    elif "add_generation_prompt" in conversation:
        keywords["add_generation_prompt"] = conversation["add_generation_prompt"]
    options = {"tools": conversation.get("tools"), **conversation.get("options", {}), **given}
    try:
        chat = template(**with_date(options))
    except TypeError as error:  # options that are no variables of the template have a type
        raise BadInputError(f"{'--option' if str(error).split()[0] in given else file}: {error}") from None
    try:
        return make(chat, conversation["messages"], **keywords)
    except ChatFormatError as error:
        path = error.path or ""
        source = "--option" if path.partition("[")[0].partition(".")[0] in given else file
        where = f"{path}: " if path and not str(error).startswith(path) else ""
        hint = "; a request of OpenAI's API needs --from openai" if "decode the JSON" in str(error) else ""
        raise BadInputError(f"{source}: {where}{error}{hint}") from None


def run_check(args: argparse.Namespace) -> int:
    from ._check import check

    findings = made(args, functools.partial(check, trust_assistant=args.trust_assistant))
    if args.json:
        lines = [json.dumps(finding._asdict()) for finding in findings]
    else:
        lines = [visible(f"{found.severity}: {found.sentence} ({found.code})", keep=" ") for found in findings]
    write("".join([line + "\n" for line in lines]).encode("utf-8"))
    return int(any(finding.severity == "error" for finding in findings))


def run_detect(args: argparse.Namespace) -> int:
    from ._detect import detect, explain

    path = pathlib.Path(args.path)  # no string, which could be a template's text
    try:
        found, words = detect(path), explain(path)
        if found is not None:
            options = getattr(found, "keywords", {})
            arguments = [shlex.quote(f"{name}={json.dumps(value)}") for name, value in options.items()]
            template: Any = getattr(found, "func", found)
            command = f"python -m {__package__} view {template.name} FILE -o page.html"
            words += "\n" + " --option ".join([command, *arguments])
        write((words + "\n").encode("utf-8"))
        return int(found is None)
    except (OSError, ValueError) as error:
        raise BadInputError(str(error)) from None


def run_list(args: argparse.Namespace) -> int:
    lines = [line + "\n" for facts in FACTS.values() for line in list_lines(facts)]
    write("".join(lines).encode("utf-8"))
    return 0


def options_of(template: type[ChatFormat]) -> list[str]:
    """The names of a template's options."""
    return [option.name for option in FACTS[template.name].options]


def read_conversation(path: str, file: str, template: type[ChatFormat]) -> dict[str, Any]:
    """The object in a file, or one made around the list of messages in it."""
    conversation = read_json(path, file)
    for key in conversation:
        meant = difflib.get_close_matches(key, KEYS, cutoff=0.8)
        if meant and key not in KEYS:
            raise BadInputError(f"{file}: the key {key} is unknown, and looks like {meant[0]}")
    check_options(conversation.get("options", {}), "options", file, template)
    for name in options_of(template):
        if name in conversation and name != "tools":
            raise BadInputError(f"{file}: {name} is an option, and must be under the key options")
    return conversation


def read_request(path: str, file: str, template: type[ChatFormat]) -> dict[str, Any]:
    """What a request of OpenAI's API comes to: messages and tools that the template reads, and its options."""
    from ._openai import from_openai, tools_from_openai

    request = read_json(path, file)
    facts = FACTS[template.name]
    options = {name: fact.value for name, fact in facts.recommended.items()}
    effort, efforts = request.get("reasoning_effort"), facts.efforts.value
    if effort is not None:
        if effort not in list(efforts) or efforts[effort] is None:
            known = ", ".join([level for level, found in efforts.items() if found is not None])
            raise BadInputError(f"{file}: reasoning_effort must be one of {known} for {template.name}")
        options.update(efforts[effort])
    response_format = request.get("response_format")
    if response_format not in (None, {"type": "text"}) and "response_format" in options_of(template):
        options["response_format"] = response_format
    more = {} if request.get("chat_template_kwargs") is None else request["chat_template_kwargs"]
    check_options(more, "chat_template_kwargs", file, template)
    try:
        messages = from_openai(template, request["messages"])
        tools = tools_from_openai(template, request.get("tools", request.get("functions")))
    except InputError as error:
        raise BadInputError(f"{file}: {error}") from None
    return {"messages": messages, "tools": tools, "options": {**options, **more}, "add_generation_prompt": True}


def check_options(options: Any, key: str, file: str, template: type[ChatFormat]) -> None:
    if not isinstance(options, dict):
        raise BadInputError(f"{file}: {key} must be an object")
    known = options_of(template)
    for name in options:
        if name not in known:
            raise BadInputError(f"{file}: {key}.{name} is unknown, but must be one of {', '.join(known)}")


def read_json(path: str, file: str) -> dict[str, Any]:
    """The object with messages that a file holds; a list is its messages."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise BadInputError(f"{file} is closed")
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as stream:
                data = stream.read()
        found = json.loads(data)
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise BadInputError(f"{file} is nested too deep, but must be flatter") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} is not JSON: {error}") from None
    except ValueError:
        raise BadInputError(f"{file} holds an integer of too many digits") from None
    if isinstance(found, list):
        found = {"messages": found}
    if not isinstance(found, dict) or "messages" not in found:
        raise BadInputError(f"{file} holds no messages, but must be a list of them or an object with the key messages")
    return found


def with_date(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the date that the option `now` writes as text. Raises TypeError where it is none."""
    if options.get("now") is None:
        return options
    try:
        return {**options, "now": datetime.datetime.strptime(options["now"], "%Y-%m-%d")}
    except (TypeError, ValueError):
        raise TypeError("now must be a date such as 2026-02-14") from None


def encoded(segment: Segment, file: str) -> bytes:
    """A segment as UTF-8, which has no form for a lone surrogate."""
    try:
        return segment.text.encode("utf-8")
    except UnicodeEncodeError:
        where = "tools or options" if segment.message is None else f"messages[{segment.message}]"
        raise BadInputError(
            f"{file}: {where} holds a lone surrogate, which no UTF-8 text can hold (see --show)"
        ) from None


def show(segments: list[Segment], in_colour: bool) -> str:
    """The prompt for a reader. What a terminal would act upon is escaped, so that a text cannot colour itself."""
    if not in_colour:
        return visible("".join([segment.text for segment in segments])) + "\n"
    shown = "".join([f"\x1b[{COLOURS[segment.kind]}m{visible(segment.text)}\x1b[0m" for segment in segments])
    legend = " ".join([f"\x1b[{colour}m{kind}\x1b[0m" for kind, colour in COLOURS.items()])
    return f"{shown}\n\n{legend}\n"


def visible(text: str, keep: str = "\n\t ") -> str:
    """The text with escapes for the characters that cannot be seen, but for those to keep."""
    return "".join([c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text])


def write(data: bytes) -> None:
    """The bytes on standard output, and nothing else."""
    if sys.stdout is None:
        raise BadInputError("standard output is closed")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise BadInputError(f"standard output cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
