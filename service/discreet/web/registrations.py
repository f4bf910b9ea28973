"""What accompanies a content: the settings of a dataset or the name of a block, and where the
content is, if elsewhere."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from discreet.errors import InvalidInput
from discreet.problems import DATASETS
from discreet.problems.datasets import DatasetSettings
from discreet.problems.numbers import Flag
from discreet.usecases.places.rules import Located
from discreet.usecases.requests import BlockRequest, CorrectionRequest, Where
from discreet.web import bodies

_STAYS: TypeAdapter[bool] = TypeAdapter(Flag)
_WHERE: TypeAdapter[str] = TypeAdapter(Where)
_SETTINGS: TypeAdapter[DatasetSettings] = TypeAdapter(DatasetSettings)
_BLOCK: TypeAdapter[BlockRequest] = TypeAdapter(BlockRequest)

_CORRECTION: TypeAdapter[CorrectionRequest] = TypeAdapter(CorrectionRequest)

Correction = tuple[dict[str, Any], Located | None, bool]
"""What is different in a public part; where the content lies, where that is said; and whether it
came with it."""
Beside = tuple[str, Any, DatasetSettings, Located | None]
"""Kind, public part and settings of a dataset; and where its content lies, where that is said in
its place."""
BesideBlock = tuple[str, bool, Located | None]
"""The name of a block of a source, whether its owner insists on a content that is doubted, and
where it lies, where that is said in its place."""


def beside(fields: Any, content: bool | None) -> dict[str, Any]:
    """The fields of a form's metadata, or of a body in whose content's place null stands.

    `content`: whether the body has one; None for a form, where it is a part of its own.
    """
    if not isinstance(fields, dict):
        raise InvalidInput(
            "a JSON object is needed", pointer="/metadata" if content is None else ""
        )
    if content is not None:
        if not content:
            raise InvalidInput("this field is needed", pointer="/content")
        del fields["content"]
    if "content" in fields:
        raise InvalidInput("the content is a part of its own here", pointer="/content")
    return fields


def block_of(metadata: bytes, content: bool | None) -> BesideBlock:
    """What accompanies the content of a block."""
    fields: Any = bodies.value_of(metadata)
    if content is not None and isinstance(fields, dict) and "content_from" in fields:
        rest, where = _placed(fields)
        asked = bodies.validate(_BLOCK, {**rest, "content": {}})
        return asked.block, asked.accept_doubts, where
    asked = bodies.validate(_BLOCK, {**beside(fields, content), "content": {}})
    return asked.block, asked.accept_doubts, None


def settings_and_place(metadata: bytes, content: bool | None) -> Beside:
    """Of a dataset, as of `beside`."""
    fields: Any = bodies.value_of(metadata)
    if content is not None and isinstance(fields, dict) and "content_from" in fields:
        return placed(fields)
    return (*_settings_of(beside(fields, content)), None)


def correction(metadata: bytes, content: bool | None) -> Correction:
    """Of a dataset, as of `beside`: a body may have no content, and then what is stored is checked
    anew."""
    fields: Any = bodies.value_of(metadata)
    if content is None:
        return bodies.validate(_CORRECTION, beside(fields, None)).public, None, True
    asked = bodies.validate(_CORRECTION, fields)
    where = None if asked.content_from is None else Located(asked.content_from, asked.content_stays)
    if where is not None and content:
        raise InvalidInput("give either the content itself or its address", pointer="/content_from")
    return asked.public, where, content


def placed(fields: dict[str, Any]) -> Beside:
    """The registration of a body whose content is read from an address."""
    rest, where = _placed(fields)
    return (*_settings_of(rest), where)


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
    try:
        public = bodies.validate(TypeAdapter[Any](annotation), fields.get("public"))
    except InvalidInput as error:
        raise error.under("/public") from None
    plain = {name: value for name, value in fields.items() if name not in ("kind", "public")}
    return str(fields["kind"]), public, bodies.validate(_SETTINGS, plain)
