"""What the contract says of the contents of datasets: their fields in JSON, and the arrays that may
stand for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Forms = Mapping[str, Any]
"""`fields`: names of the fields in JSON. `arrays`: one mapping for each array that may be given
instead. Its `axes` and `value` are the columns that it becomes, one row a number; an axis that is
null has none. `first`: the number of the first position on each axis, 0 where it is left out;
`sparse`: numbers that are 0 have no row; `integers`: there are no others in it."""


def forms_in(contract: Any) -> dict[str, Forms]:
    """By kind. Of what is no contract, as a gateway may answer in its place, nothing is said: then
    the service tells what is wrong with a content."""
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
    """Whether it says of each axis, and of the value, which column it becomes."""
    named = _mapping(array)
    return isinstance(named.get("axes"), list) and isinstance(named.get("value"), str)
