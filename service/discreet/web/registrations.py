"""What accompanies a content: the settings of a dataset or the name of a block, and where the
content is, if elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from discreet.errors import InvalidInput
from discreet.problems import DATASETS
from discreet.problems.datasets import DatasetSettings, DraftId
from discreet.problems.descriptions import completed
from discreet.problems.numbers import Flag
from discreet.usecases.places.rules import Located
from discreet.usecases.requests import BlockRequest, CorrectionRequest, Where
from discreet.web import bodies

_DRAFT: TypeAdapter[str] = TypeAdapter(DraftId)
_STAYS: TypeAdapter[bool] = TypeAdapter(Flag)
_WHERE: TypeAdapter[str] = TypeAdapter(Where)
_SETTINGS: TypeAdapter[DatasetSettings] = TypeAdapter(DatasetSettings)
_BLOCK: TypeAdapter[BlockRequest] = TypeAdapter(BlockRequest)


@dataclass(frozen=True)
class Draft:
    """A content that was sent before (`POST /v1/reads`)."""

    id: str


@dataclass(frozen=True)
class BlockSettings:
    """What accompanies the content of a block."""

    block: str
    accept_doubts: bool = False
    """Whether its owner insists on a content that is doubted."""
    already_read: bool = False
    names: dict[str, Any] = field(default_factory=dict)
    """Rules of the source's reader that are not stored there."""


_CORRECTION: TypeAdapter[CorrectionRequest] = TypeAdapter(CorrectionRequest)

Elsewhere = Located | Draft
"""Where a content is that is not sent."""
Correction = tuple[dict[str, Any], Elsewhere | None, bool, bool]
"""What is different in a public part; where the content lies, where that is said; whether it came
with it, and as what its description has made of it."""
Beside = tuple[str, Any, DatasetSettings, Elsewhere | None]
"""Kind, public part and settings of a dataset; and where its content lies, where that is said in
its place."""
BesideBlock = tuple[BlockSettings, Elsewhere | None]
"""Name and settings of a block of a source, and where its content lies, where that is said in its
place."""


def metadata_fields(fields: Any, content: bool | None) -> dict[str, Any]:
    """The fields of a form's metadata, or of a body in whose content's place null stands.

    `content`: whether the body has one; None for a form, where it is a part of its own. A body
    without one says where it is.
    """
    if not isinstance(fields, dict):
        raise InvalidInput(
            "a JSON object is needed", pointer="/metadata" if content is None else ""
        )
    if content is not None:
        if not content and not {"content_from", "draft"} & fields.keys():
            raise InvalidInput("this field is needed", pointer="/content")
        if content and (twice := [name for name in ("content_from", "draft") if name in fields]):
            says = "give either the content itself or its address"
            raise InvalidInput(says, pointer=f"/{twice[0]}")
        fields.pop("content", None)
    if "content" in fields:
        raise InvalidInput("the content is a part of its own here", pointer="/content")
    return fields


def block_of(metadata: bytes, content: bool | None) -> BesideBlock:
    """What accompanies the content of a block."""
    fields: Any = bodies.value_of(metadata)
    rest, where = metadata_fields(fields, content), None
    if content is None or content:
        asked = bodies.validate(_BLOCK, {**rest, "content": {}})
    else:
        rest, where = _elsewhere(rest)
        asked = bodies.validate(_BLOCK, {**rest, "content": {}})
    names = {} if asked.reader is None else asked.reader.model_dump(by_alias=True)
    names = {name: one for name, one in names.items() if one is not None}
    return BlockSettings(asked.block, asked.accept_doubts, asked.already_read, names), where


def settings_and_place(metadata: bytes, content: bool | None) -> Beside:
    """Of a dataset, as of `beside`."""
    fields = metadata_fields(bodies.value_of(metadata), content)
    if content is False:
        return placed(fields)
    return (*_settings_of(fields), None)


def correction(metadata: bytes, content: bool | None) -> Correction:
    """Of a dataset, as of `beside`: a body may have no content, and then what is stored is checked
    anew."""
    fields: Any = bodies.value_of(metadata)
    if content is None:
        asked = bodies.validate(_CORRECTION, metadata_fields(fields, None))
        return asked.public, None, True, asked.already_read
    asked = bodies.validate(_CORRECTION, fields)
    where: Elsewhere | None = None
    if asked.content_from is not None:
        where = Located(asked.content_from, asked.content_stays)
    elif asked.draft is not None:
        where = Draft(asked.draft)
    if where is not None and content:
        raise InvalidInput("give either the content itself or its address", pointer="/content_from")
    return asked.public, where, content, asked.already_read


def placed(fields: dict[str, Any]) -> Beside:
    """The registration of a body whose content is read from an address, or was sent before."""
    rest, where = _elsewhere(fields)
    return (*_settings_of(rest), where)


def _elsewhere(fields: dict[str, Any]) -> tuple[dict[str, Any], Elsewhere]:
    """The other fields of a body without a content, and where that is."""
    if "draft" not in fields:
        return _placed(fields)
    if given := [name for name in ("content", "content_from") if name in fields]:
        raise InvalidInput("a draft is a content: give one of them", pointer=f"/{given[0]}")
    try:
        draft = bodies.validate(_DRAFT, fields["draft"])
    except InvalidInput as error:
        raise error.under("/draft") from None
    return {name: fields[name] for name in fields if name != "draft"}, Draft(draft)


def _placed(fields: dict[str, Any]) -> tuple[dict[str, Any], Located]:
    """The other fields of such a body, and the address."""
    if "content" in fields:
        raise InvalidInput("give either the content itself or its address", pointer="/content_from")
    try:
        where = bodies.validate(_WHERE, fields["content_from"])
    except InvalidInput as error:
        raise error.under("/content_from") from None
    rest = {name: fields[name] for name in fields if name not in ("content_from", "content_stays")}
    try:
        stays = bodies.validate(_STAYS, fields.get("content_stays", False))
    except InvalidInput as error:
        raise error.under("/content_stays") from None
    return rest, Located(where, stays)


def _settings_of(fields: dict[str, Any]) -> tuple[str, Any, DatasetSettings]:
    """Kind, public part and settings of what stands beside a content."""
    kind = DATASETS.get(str(fields.get("kind")))
    if kind is None:
        raise InvalidInput(f"one of {', '.join(DATASETS)}", pointer="/kind")
    annotation: Any = kind.model_fields["public"].annotation
    said = completed(str(fields["kind"]), fields.get("public"))
    try:
        public = bodies.validate(TypeAdapter[Any](annotation), said)
    except InvalidInput as error:
        raise error.under("/public") from None
    plain = {name: value for name, value in fields.items() if name not in ("kind", "public")}
    return str(fields["kind"]), public, bodies.validate(_SETTINGS, plain)
