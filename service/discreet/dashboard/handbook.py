"""The documentation as pages: the text of `docs/`, in the wheel or at the top of a source tree,
read without network.

There is one copy of the text. Links lead to other pages here; what is not served, such as a file of
the repository, is named instead. Comments and raw HTML of the text are not passed through.
"""

from __future__ import annotations

import posixpath
import re
import struct
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from discreet.dashboard import assets
from discreet.errors import NotFound

START = "index"
"""The page that the others are found from."""
PLACE = "/help"
ELSEWHERE = {"reference/api.md": "/docs"}
"""What is made when the site is built, and where this server has the same."""
NOT_PAGES = ("reference/",)
"""Only the site can make these: they are taken from docstrings."""
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Section:
    """A heading, and the words below it up to the next one."""

    level: int
    anchor: str
    title: str
    text: str


@dataclass(frozen=True)
class HelpPage:
    """One page, ready to be shown."""

    title: str
    body: Markup
    """With its title as the first heading."""
    sections: tuple[Section, ...]


def folder() -> Path:
    """Where the text lies: inside the wheel, or at the top of a source tree."""
    shipped = Path(str(resources.files("discreet"))) / "_docs"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "docs"


@cache
def names() -> tuple[str, ...]:
    """The pages, by their path without suffix, such as `problems/routing`."""
    found = (
        path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob("*.md")
    )
    return tuple(sorted(name for name in found if not name.startswith(NOT_PAGES)))


def address(name: str) -> str:
    """Where the page is found on this server."""
    return PLACE if name == START else f"{PLACE}/{name}"


@cache
def page(name: str) -> HelpPage:
    """The page. NotFound where there is none of this name."""
    if name not in names():
        raise NotFound("there is no such page of help")
    tokens = _markdown.parse((folder() / f"{name}.md").read_text(encoding="utf-8"))
    sections = _sections(tokens)
    for place, token in enumerate(tokens):
        if token.type in ("th_open", "td_open"):
            _align(token)
        if token.type == "th_open" and not tokens[place + 1].content:
            token.tag = tokens[place + 2].tag = "td"  # an empty cell is the heading of nothing
        if token.children is not None:
            token.children = _resolve(token.children, posixpath.dirname(name))
    body = _markdown.renderer.render(tokens, _markdown.options, {})
    return HelpPage(sections[0].title, Markup(body), tuple(sections))  # noqa: S704 - html of the text is escaped


@cache
def picture(name: str) -> assets.Asset:
    """A picture that pages show. NotFound for any other name."""
    path = folder() / "pictures" / name
    if path not in (folder() / "pictures").glob("*") or path.suffix not in PICTURES:
        raise NotFound("there is no such picture")
    return assets.of_bytes(path.read_bytes(), PICTURES[path.suffix])


def anchor(title: str) -> str:
    """The anchor of a heading, as the site of the documentation makes it, so that links hold in
    both."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _sections(tokens: Sequence[Token]) -> list[Section]:
    """The headings in order, each with the anchor that it gets here, which no other has."""
    starts = [place for place, token in enumerate(tokens) if token.type == "heading_open"]
    sections: list[Section] = []
    for place, end in pairwise([*starts, len(tokens)]):
        heading, title = tokens[place], _words(tokens[place + 1])
        taken, name, count = {section.anchor for section in sections}, anchor(title), 0
        while (unique := f"{name}_{count}" if count else name) in taken:
            count += 1
        heading.attrSet("id", unique)
        below = " ".join(filter(None, map(_words, tokens[place + 2 : end])))
        sections.append(Section(int(heading.tag[1:]), unique, title, below))
    return sections


def _words(token: Token) -> str:
    """What a token says, without its marks."""
    if token.type in ("fence", "code_block"):
        return token.content
    said = (" " if each.type == "softbreak" else each.content for each in token.children or ())
    return "".join(said) if token.type == "inline" else ""


def _align(cell: Token) -> None:
    """A class instead of the inline style, which the policy of pages refuses."""
    if "right" in str(cell.attrs.pop("style", "")):
        cell.attrSet("class", "number")


def _resolve(tokens: Sequence[Token], base: str) -> list[Token]:
    """The tokens of a line with their links and pictures leading to this server, or to nowhere."""
    kept: list[Token] = []
    ends: list[list[Token]] = []
    for token in tokens:
        if token.type == "image":
            target = posixpath.normpath(posixpath.join(base, str(token.attrs["src"])))
            asset = picture(posixpath.basename(target))
            token.attrSet("src", f"{PLACE}/{target}?v={asset.version}")
            token.attrs |= _size(asset.data)
        if token.type == "link_open":
            lead, instead = _destination(str(token.attrs["href"]), base)
            if lead is None:
                ends.append([_text(" ("), _code(instead), _text(")")])
                continue
            token.attrSet("href", lead)
            if instead:
                token.attrSet("rel", instead)
            ends.append([token])
        elif token.type == "link_close":
            end = ends.pop()
            if end[0].type != "link_open":
                kept += end
                continue
        kept.append(token)
    return kept


def _size(data: bytes) -> dict[str, str | int | float]:
    """Width and height of a PNG, so that nothing below it moves when it comes; others are asked for
    at once."""
    if not data.startswith(b"\x89PNG"):
        return {}
    width, height = struct.unpack(">II", data[16:24])
    return {"width": width, "height": height, "loading": "lazy"}


def _destination(target: str, base: str) -> tuple[str | None, str]:
    """Where a link leads, with its `rel`; or None, and what it names in the repository."""
    parts = urlsplit(target)
    if parts.scheme:
        return target, "noreferrer"
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    if not parts.path:
        return fragment, ""
    path = posixpath.normpath(posixpath.join(base, parts.path))
    if path in ELSEWHERE:
        return ELSEWHERE[path], ""
    name, suffix = posixpath.splitext(path)
    if suffix == ".md" and name in names():
        return address(name) + fragment, ""
    return None, posixpath.normpath(posixpath.join("docs", path))


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _code(content: str) -> Token:
    return Token("code_inline", "code", 0, content=content)


def _raw(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: OptionsDict,
    environment: EnvType,
) -> str:
    """Comments are for whoever keeps the text; whatever else looks like HTML is shown as it is
    written."""
    return str(escape(re.sub(r"<!--.*?-->\n?", "", tokens[place].content, flags=re.DOTALL)))


def _open_table(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: OptionsDict,
    environment: EnvType,
) -> str:
    """A table scrolls in itself on a phone, and is reached with the keyboard: the first of a page
    is Table 1."""
    number = sum(token.type == "table_open" for token in tokens[: place + 1])
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table {number}"><table>'


def _close_table(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: OptionsDict,
    environment: EnvType,
) -> str:
    return "</table></div>"


_markdown = MarkdownIt("commonmark").enable("table")
for _kind, _rule in {
    "html_block": _raw,
    "html_inline": _raw,
    "table_open": _open_table,
    "table_close": _close_table,
}.items():
    _markdown.add_render_rule(_kind, _rule)
