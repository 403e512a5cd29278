r"""Which template is this? `detect` knows a text by its sha256, and by nothing else; `explain` is for a reader.

`detect(source)` returns what makes chats of that template: call it as you would call the class,
`detect(source)(tools=tools, **options)`. It is None where the template is none of ours, and the class itself wherever
the class renders that very template without further options. Hy4's checkpoints differ in the suffix of their tokens;
for another suffix than the class has by default it is `functools.partial(Hy4, token_suffix=…)`, since the bare class
would render the wrong tokens, and nobody would notice. (`inspect.signature(found)` gives the options of both;
`getattr(found, "func", found)` is the class.)

Tokens that the tokenizer has and the template only prints (Ministral's `bos_token`) are no part of the answer.

A template is known in any form that Jinja reads as the same: with or without one newline at its end, with any kind of
line ends (Jinja makes them all `\n`), and with the `\n` in its strings all written as the newlines they mean, which
is what becomes of a template pasted into a JSON file as it is. Whatever else differs, it is another template.
"""

from __future__ import annotations

import os
from collections import namedtuple
from functools import partial

from .domyn_small import DomynSmall
from .hy4 import Hy4
from .ministral3_reasoning import Ministral3Reasoning
from .solar_open2 import SolarOpen2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._base import ChatFormat

    Known = tuple[type[ChatFormat], dict[str, str]]  # the class, and the options without which it renders otherwise

# Each was shown to render as its original does: tests/test_detect.py.
REVISIONS: dict[str, type[ChatFormat]] = {
    "e0fc8fdaff3c2c11edb32e33f655976f8ba4ac2e4f2c3e2d0b33e70f7c2027ac": SolarOpen2,
    "b80ea41e3e230f8ebfca6fb46ddf65f6f58df14eb018e12044f823406c255e55": Hy4,
    # with a newline at its end, 39f03c38…, it is in llama.cpp too: mistralai-Ministral-3-14B-Reasoning-2512.jinja
    "31b50c917746ef1c2611c2fef122d3ebee690aca5748ab37832734f9ad375da1": Ministral3Reasoning,
    "79c86bd67511c0a3b7a24647eacf9a164303497bd46de8e38c7b54eaf8cb646b": DomynSmall,
    # the same four, with every `\n` in their strings written as a newline
    "905100830619a409ec6ead9f01dad38682fdbd4bee86e7069d7c9dcdd6ff09b3": SolarOpen2,
    "701e132c8bcef251885588b7324f93b295a6269facaea5fb959f8728e5303780": Hy4,
    "01d14d38557f171292238fcf1b9b66822ee16d75cd7c5bf048920430694a8ed5": Ministral3Reasoning,
    "effa1233ae4d8ee241072547f2cba6f5fcba0358b9f2d247fb6c013597e75ad4": DomynSmall,
}

SUFFIX_BEGIN, SUFFIX_END = "{%- set HYTK = '", "' %}\n"  # hy4, jinja 2
SUFFIX = ":opensource"  # of the revisions above
SUFFIX_LENGTH = 64  # more is no suffix of a token

FILES = ("chat_template.jinja", "tokenizer_config.json", "chat_template.json")
MORE_FILES = "additional_chat_templates"
USED = ("default", "tool_use")  # what transformers takes of several templates where the caller names none


class Template(namedtuple("Template", ("place", "name", "text"))):
    """A template, where it is (for a reader), and its name where a place has several; else the name is "default"."""

    __slots__ = ()
    if TYPE_CHECKING:
        place: str
        name: str
        text: str


def detect(source: object) -> Callable[..., ChatFormat] | None:
    """What makes chats of a template: its class, or a `functools.partial` of it, or None where it is none of ours.

    source: a template's text; the path of a file that holds one (`chat_template.jinja`, `tokenizer_config.json`,
    `chat_template.json`) or of a model's folder; or a tokenizer or processor, or any object with a `chat_template`.
    A string is a template's text if it holds `{{`, `{%`, `{#` or a newline, else a path; an `os.PathLike` is a path.

    Where there are several templates, those are looked at that transformers would take: in a folder
    `chat_template.jinja` and `additional_chat_templates/` before `tokenizer_config.json`, and of templates with
    names "default" and "tool_use" (which it takes where there are tools). If these, and a `chat_template.json` (which
    only processors read), are not all the same template, the answer is None.

    Raises OSError where a file cannot be read, FileNotFoundError where it or every such file in a folder is missing,
    ValueError where what it holds is no UTF-8, no JSON or no template, TypeError for a source of another type. A file
    or a tokenizer that could have a template and has none gives None.
    """
    used = [template for template in templates_of(source) if template.name in USED]
    if not any(template.name == "default" for template in used):
        return None
    found = known(used[0].text)
    if found is None or any(known(template.text) != found for template in used[1:]):
        return None
    template, options = found
    return partial(template, **options) if options else template


def known(text: str) -> Known | None:
    """The class that renders a template, and the options that it needs for that."""
    from hashlib import sha256

    text, suffix = without_suffix(normalized(text))
    template = REVISIONS.get(sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    if template is None:
        return None
    return template, {"token_suffix": suffix} if template is Hy4 and suffix != SUFFIX else {}


def normalized(text: str) -> str:
    """A template as Jinja reads it: all its line ends `\\n`, and none at its end."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if text.endswith("\n") else text


def without_suffix(text: str) -> tuple[str, str]:
    """A template with the default suffix in place of its own, and its own; one without a suffix as it is."""
    head, begin, rest = text.partition(SUFFIX_BEGIN)
    suffix, end, tail = rest.partition(SUFFIX_END)
    if not (begin and end and is_suffix(suffix)):
        return text, SUFFIX
    return head + begin + SUFFIX + end + tail, suffix


def is_suffix(text: str) -> bool:
    """Whether a text is what checkpoints of the family have: nothing, or a colon and a word (`:6124c78e`)."""
    word = text[1:].replace("_", "a").replace("-", "a").replace(".", "a")
    return not text or (text[0] == ":" and len(text) <= SUFFIX_LENGTH and word.isascii() and word.isalnum())


# --- where templates are


def templates_of(source: object) -> list[Template]:
    """All templates of a source of any kind; see `detect`."""
    if isinstance(source, str):
        if any(mark in source for mark in ("{{", "{%", "{#", "\n")):
            return [Template("This", "default", source)]
        return templates_at(source)
    if isinstance(source, os.PathLike):
        return templates_at(os.fsdecode(source))
    if not (hasattr(source, "chat_template") or hasattr(source, "apply_chat_template")):  # some have no Jinja
        words = "a template's text, a path, or an object with a chat_template"
        raise TypeError(f"source must be {words}, not {type(source).__name__}")
    value = getattr(source, "chat_template", None)
    return named(value, f"The chat_template of this {type(source).__name__}", TypeError)


def templates_at(path: str) -> list[Template]:
    if os.path.isdir(path):
        return templates_in_folder(path)
    if not os.path.exists(path):
        words = "is no file or folder here (a name on a hub is none), and no template, which would hold {{, {% or {#"
        raise FileNotFoundError(f"{cut(path)!r} {words}")
    return templates_in_file(path)


def templates_in_file(path: str) -> list[Template]:
    text = read(path)
    if not path.endswith(".json"):
        return [Template(path, "default", text)]
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold an object, with a chat_template in it")
    return named(value.get("chat_template"), path, ValueError)


def templates_in_folder(folder: str) -> list[Template]:
    """Those that transformers reads: of the tokenizer, and of the processor if that has one of its own."""
    jinja, config, legacy = [os.path.join(folder, file) for file in FILES]
    more = os.path.join(folder, MORE_FILES)
    files = sorted(os.listdir(more)) if os.path.isdir(more) else []
    found = {file[: -len(".jinja")]: os.path.join(more, file) for file in files if file.endswith(".jinja")}
    if os.path.isfile(jinja):
        found.setdefault("default", jinja)
    templates = [Template(file, name, read(file)) for name, file in found.items()]
    if not templates and os.path.isfile(config):
        templates = templates_in_file(config)
    elif not templates and not os.path.isfile(legacy):
        raise FileNotFoundError(f"{folder} holds no {FILES[0]}, no {FILES[1]} and no {FILES[2]}")
    return templates + (templates_in_file(legacy) if os.path.isfile(legacy) else [])


def named(value: object, place: str, error: type[Exception]) -> list[Template]:
    """The templates in a `chat_template`: none, one, or several with names, as an object or as a list of objects."""
    if value is None:
        return []
    if isinstance(value, str):
        return [Template(place, "default", value)]
    if isinstance(value, (list, tuple)) and all(isinstance(item, dict) for item in value):
        value = {item.get("name"): item.get("template") for item in value}
    if isinstance(value, dict) and all(isinstance(part, str) for item in value.items() for part in item):
        return [Template(place, name, text) for name, text in value.items()]
    raise error(f"{place} must be a template's text, or texts with names, not {type(value).__name__}")


def read(path: str) -> str:
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


# --- for a reader

SHOWN_LINES, SHOWN_WIDTH = 40, 120  # of what differs: how many lines, and how many characters of each
ALIKE = 0.2  # the share of lines in common from which on a template is compared with an original


def explain(source: object) -> str:
    """Which template this is, or which it is nearest to and what differs, in sentences for a person to read.

    Takes and raises what `detect` does. Likeness decides nothing: it only finds what to compare with.
    """
    templates = templates_of(source)
    if not templates:
        return "There is no chat template in it, so detect gives None."
    parts = [explained(template) for template in templates]
    used = [known(template.text) for template in templates if template.name in USED]
    if not any(template.name == "default" for template in templates):
        parts.append('None is named "default", so none is used unless a caller names it, and detect gives None.')
    elif len(used) < len(templates):
        parts.append('Only those named "default" and "tool_use" are used unless a caller names one.')
    if any(one != used[0] for one in used):
        parts.append("Those in use are not all the same template, so detect gives None.")
    return "\n".join(parts)


def explained(template: Template) -> str:
    place = template.place if template.name == "default" else f"{template.place}, {template.name!r},"
    found = known(template.text)
    if found is not None:
        maker, options = found
        arguments = ", ".join([f"{name}={value!r}" for name, value in options.items()])
        return f"{visible(place)} is the template of {maker.model}: {maker.__name__}({arguments})."
    lines = normalized(template.text).split("\n")
    maker, share = nearest(lines)
    if share < ALIKE:
        return f"{visible(place)} is no template that chatfmt has, nor like one. detect gives None."
    return f"{visible(place)} is no template that chatfmt has. detect gives None.\n{compared(maker, lines)}"


def nearest(lines: list[str]) -> tuple[type[ChatFormat], float]:
    """The class whose original has most lines in common with these, and the share of those in the lines of both."""
    here = set(codes(lines))
    shares = {}
    for template in ORIGINAL_LINES:
        there = set(original_codes(template))
        shares[template] = len(here & there) / len(here | there)
    best = max(shares, key=lambda template: shares[template])
    return best, shares[best]


def compared(template: type[ChatFormat], lines: list[str]) -> str:
    """What differs from an original, line by line. Of the original's lines only the numbers can be shown."""
    from difflib import SequenceMatcher

    original, here = original_codes(template), codes(lines)
    matcher = SequenceMatcher(None, original, here, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    shown = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            shown.append(changed(tag, i1, i2))
            shown += [f"    {j + 1}: {cut(lines[j])}" for j in range(j1, j2)]
    left = len(shown) - SHOWN_LINES
    if left > 0:
        shown[SHOWN_LINES:] = [f"and so on, {left} more lines."]
    head = (
        f"It is nearest to that of {template.model} ({template.__name__}; in chatfmt's repository, "
        f"golden/{template.name}/template.jinja). It has {same} of that one's {len(original)} lines, and "
        f"{len(here) - same} others. What differs, with the numbers of that one's lines and these lines themselves:"
    )
    return "\n".join([head, *shown])


def changed(tag: str, i1: int, i2: int) -> str:
    """What has become of an original's lines from i1 up to i2, or what comes between."""
    if tag == "insert":
        return f"after line {i1}, added:" if i1 else "before line 1, added:"
    where = f"line {i1 + 1}" if i2 - i1 == 1 else f"lines {i1 + 1} to {i2}"
    return f"{where}, missing." if tag == "delete" else f"{where}, replaced by:"


def cut(line: str) -> str:
    return visible(line if len(line) <= SHOWN_WIDTH else line[: SHOWN_WIDTH - 1] + "…")


def visible(text: str) -> str:
    """The text with escapes for characters that cannot be seen: a terminal is not to act upon them."""
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])


def codes(lines: list[str]) -> list[int]:
    """A number for each line, by which it can be found again."""
    from zlib import crc32

    return [crc32(line.encode("utf-8", "surrogatepass")) for line in lines]


def original_codes(template: type[ChatFormat]) -> list[int]:
    from base64 import b85decode
    from struct import unpack

    data = b85decode(ORIGINAL_LINES[template])
    return list(unpack(f">{len(data) // 4}I", data))


# The lines of the originals, as `codes` has them: their text belongs to their publishers and is not in the package.
# fmt: off
ORIGINAL_LINES: dict[type[ChatFormat], str] = {
    SolarOpen2: (
        "+2A}A!o4~{wSD~}^qQxZ^Wd@C00000Hm*E;@@6Wb00000OZyXp@w7An32-i!lLUY#4AoqtsVz0L=|{I800000h~b>E9(Ue_Xd%Z?4Z^W=NosX#"
        "X!_e-sVz0L><|Bd4Z^W=NosX#thkCok*<E|11#b~B+58ULaIKjsVz0Lv+oDd00000$Sn!%oKD#eD<^RI>)E&$G&>8US3&CwjLPxz&roMJdfZv<"
        "Jh!oJd?YYOk*_uYyCk#~URf_Cv+oDd00000T$6RTM1M(p;!@V%qS07-M4fhI;=rL#O>rV3t7WzpkYAn$UC>8G-v+f+xIzUtU&(esbB(&5oKD#e"
        "D<^RI2v#{ae#k6ZOW6*5apyYDxw+U1jND*b&)_i<<XK3%Gnm79v+oDd00000T$6RTofa&u^*92ha&WyuQOc0<n7DS(%~e#f2ZgfT=PfuB!@V^}"
        "U&(esCNC`sZ9I(OhYIuR8!<l|ZIku}q|Y;`Jh!oJv+oDd00000m3j(^Sdv1%32-i!CqcgN)gpZ`sVz0L=|{I800000K-pE^31D)}%Tw+q^gf^N"
        "-3@)ppKHH#$BD;OX|~{*pKHH#r|+@_6N`;a00000?MGKo32-i!lLUY#RZiK8ii-yFnM^(L#!3mu*D$(ra`izw+<2;FySex8A6oB_NJ0uRNs~#m"
        "Qod4o0ZPb2<V&XLy^@}X4f2ADFJQor(m#SNPpFFPih<42o9H4)00000BBdDE00000TtMB?ciyoQiZ$W%oD1LB%J_EAER(?Q0NG=*DJDgz4HdXZ"
        "i`XZCi*f=k7#0sv)~=GpiEcBBx%5T5;P4*WYXvuYz3W-*<##Q+v24&+PpFFPiEcBBDgg1B;P4*WXYYh*(+_u^iEcBByLn%W00000m0$`N*D$(r"
        ">?x}q8v7%b00000B2Lymt=B0Q36~j--NUhp1;k{cWpL%qmPN*j*D$(r00000-W6>pLiVYqm`j*)*g9r5Dgg1BN?d(pyLn%WKZYMtG+OXr*g9r5"
        "Dgg1BN?d(pyLn%W*D$(r00000nUj2YWnw_du-HB$*D$(r00000ujLq2JDDwLERQk1huSr?SbJ=qih<42Ny-I)|H+(+{+B<WWEZ>AMh6{^`UJ2J"
        "o9H4)0|PK5*D$(rmKPvgsVz0L=|{I800000t`s`>?DHRY0yQjI$%C1|U>bL$sVz0L6N`;a"
    ),
    Hy4: (
        "3alYs`t}irir%NDuV6srq142G0VZ?vG>Gr*S~lAQ#dW>-Frn(rOXOC90#y<|@c5O|**zFrcue2<PTNtLV0Utqt=sk+00000X`^H|jK71GDN5o?"
        "MHV=X&(I*O&U|r-!~~5lExKjqX}W}HGnm79MHV=X000008^S@YftlycWvEMw_(~PE9pU9sExKjq?ZJw7Gnm79MHV=X00000iXBOOftlycDN5o?"
        "MHV=XCh{#en{Wu>MHV=X00000%D8n)l822%T*ClmtuXD^?L3LE!_>QK&Ur-!xfkwr*D$(rv-r-uikjniaiD3f00000P->hATim!5Fzp?#S#4gj"
        "22w8q4;rKl9q{|;L6(6t0@n-ZDgg1Bb7r~vyLn%WU*#bckrGaB_vpMg$%C1|A)BXRsVz0LaiD3f00000Ua|yqvOI7rm0Y1HRqP=ZTPXM#7ef4t"
        ";1CuE@ypmWlgq4@6xL0BLZ|)n*D$(rv-r-un09M%P&kOn5OR_&l*A1I2r#alsfko$`e#FBt5;J*KuP0^E88(EDvZPUaiD3f00000bK2xdB_5&)"
        "Tim!5(41_Vab`XhNH^g^&rXj_D)rZIh1EU?wf+ieYhJNul97+Lih<42o9H4)U*#bcz3*|%*^*?i_0n3%D)rZIV~yKBU*#bc$%C1|$HvB(sVz0L"
        "aiD3f00000kIUi7Bha|F{JMGfrqS0E?@Y2bB8Bq~s)@p7WpL%q3VG2yd_ubve!wycyLn%W$68(g*D$(rv-r-uZ@nwOtU$n*sVz0L@p`eAaiD3f"
        "00000{3&JzvB8%Wd^}Ktz7KN;^UDY?^mMAeS~~Y|v4vXvW!M$4DYlv)ZgG)Cih<42o9H4)77BlYfp=`pDgg1Be8$F}yLn%WU*#bc$%C1|>0%l5"
        "sVz0L(&-Nlv}-cTv-r-uaiD3f00000@+v$^f7IY200000X2#0dyOaGq-}Br)MHV=XD_)VdVQ^;evrXfuGnm79h7k#q000002N-6Ae5Hj&Z|-&}"
        "=g*oTGn?y?Gnm79;l{PLsi0v+MHV=X00000oD~6uQaF|6D_)Vdmjf^#wXe2rRJUb$p>H`cT{pbR9tgF8&>O2DdL!4`!PQk+G?bMTyLn%WCG$Px"
        "`n)aKVm~O&=3o2qpKHH#KfKrLndg5FD%hdDTs&N7KfKrLuevY{qy6t-RUL1awY#PjsOOUtm&@+zhjrxC$-k<0pKHH#;3$(Xv&0kIKT;DLVm~O&"
        "yNEW~pKHH#>xaH`A57re!Sth)sTWj89r$Tc2oQA5Uai-FNj?x}*vAeeg2pV`Mh6{^F5}x(l79K&CG$Px5c3f>oVNYrdw0QvcJ_)N>@^#Tu%cxp"
        "s6TWq0IG?+3xsK9PpFFP|7lrJiEcBB<uW=(o9H4)*$x?-Vm~O&GBEYvO9{lB&Dkz)P>UF8&>O2DpKHH#Z%I&RG>y%;tiVuHpKHH#i+F>tFpd7-"
        "`3$vNKfKrLExKjqCTAkbTs&N7KfKrLGnm791Z=Y>S&_K2Gnm79sG;c;{eWe?Gnm79h7k#qXH$`V90aAPORxei_sOmYVm~O&x#hrapKHH#Gnm79"
        "MHV=X"
    ),
    Ministral3Reasoning: (
        "K*~#o>i83x00000)y*x%{tBe100000E(2;U`z=)G6(B<sJ0r$;izms0?UtFZy&%^o`@5@Nc=pJ&|0r0GI8-DYByyAj&Dkz)Ba5>g&>O2DLaIKj"
        "Gnm79k#V13WZGTHe*gid#@fn$?~*o3EcXXJGnm79MHV=X0000000000E>41Ibp$H{sJ%k7@3n6_qnOdL5QLPzU+wJKMHV=X00000<6dC=DK!CR"
        "H-J;JWC|PPf%||#s6UF~pKHH#%J+m&Gnm79h7k#q00000YT)$NH-J;J00000(~pxmVQ^;ef)l3OYaw!JrGM-$=WB;3pHaSAkO!E_&Dkz))+kEK"
        "&>O2DoI{aAW|eo@UChy&oF+v$JK>_;*vAeeMc38lMh6{^F5}x(KD!PFVm~O&fzwkMpKHH#00000o-cGnuevY{L<(khe5pVdpKHH#00000QFcop"
        "2ktU{rGM-$W=C1LW|eo@UChy&A%bzr3Re~D*vAeeN)9?%Mh6{^F5}x(pKHH#qY*<Tp4JO>9r$TcI2tad;|sl*+TpdqZ2`ndQLA{ZZLbM5o&;j<"
        "Mh6{^U^zweF5}x(pKHH#00000X%QuU00000AS#y!i+F>tLw<>~00000HnWHrExKjqKD60WGnm79h7k#q"
    ),
    DomynSmall: (
        "Zhr@vogdzqau=_M00000%%NYqR)^v^G7Y@H?<^9KKFjm?00000aSkyTL70okL|2W`00000?=VUN-dV4wU&(esMIx+Su7TAL00000WO?QhEBr8C"
        "NthStMHV=X00000=tUMnH-J;Jje7v=_LJ}q(|>}|NthStMHV=XMHV=Xh7k#q000008ahFpB~s$>9zGqnsq|>3|H5gP#->D%0(^*So`qeUgZ?VE"
        ";-8)B=ED|EnP$7YJ97)SuLBi#y3yUnMHV=X00000@~j>O*OYl=000006P;7%4H>9ghn{yrZ$}J8KTsZJ2VggQe*gidZ$}J82VggQMHV=XPF{Z_"
        "MHV=X00000EZT)?H-J;J00000^w&g-je7v=UGp$*QvK3UZ$}J8hn{yrJ5j42MHV=XaMl0Nxy+K}MHV=X2VggQPF{Z_00000Q#kapgP%|OQQ#cY"
        "42hB^00000VC?+62<rU<lvh`O#T+e++JXY;>@V4)h)#ZfWKW+;h7k#qe*gid#T+e+42hB^MHV=X00000Sa%lBkpQz>QQ#cYx9{En42hB^?h!$C"
        "00000MHV=Xh7k#q00000JGo4ZXH$`V#T+e+YF!%P%vN&|e*gid!!>QjMHV=XMHV=X"
    ),
}
# fmt: on
