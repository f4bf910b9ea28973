"""The forms of datasets' contents, as the contract has them: their fields in JSON, and the arrays
that may be given instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Forms = Mapping[str, Any]
"""`fields`: names of the fields in JSON. `arrays`: one mapping for each array that may be given
instead. Its `axes` and `value` name the columns that it becomes, with one row for each number; an
axis that is null has none. `first`: the number of the first position on each axis, by default 0;
`sparse`: zeros have no row; `integers`: it may hold integers only."""


def forms_in(contract: Any) -> dict[str, Forms]:
    """The forms of each kind. Empty for anything but a contract, such as a gateway's answer in its
    place: then the service checks contents."""
    found: dict[str, Forms] = {}
    schemas = _mapping(_mapping(_mapping(contract).get("components")).get("schemas"))
    for schema in schemas.values():
        properties = _mapping(_mapping(schema).get("properties"))
        kind = _mapping(properties.get("kind")).get("const")
        if isinstance(kind, str) and {"public", "content"} <= properties.keys():
            content = _mapping(
                schemas.get(str(_mapping(properties["content"]).get("$ref")).rpartition("/")[2])
            )
            if fields := sorted(_mapping(content.get("properties"))):
                arrays = content.get("x-arrays")
                whole = (
                    [array for array in arrays if _is_whole(array)]
                    if isinstance(arrays, list)
                    else []
                )
                found[kind] = {"fields": fields, "arrays": whole}
    return dict(sorted(found.items()))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_whole(array: Any) -> bool:
    """Whether it names a column for each axis and for the value."""
    named = _mapping(array)
    return isinstance(named.get("axes"), list) and isinstance(named.get("value"), str)
