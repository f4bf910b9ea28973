"""What the contract says of the contents of datasets: their fields in JSON, and the arrays that may stand for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Forms = Mapping[str, Any]
"""`fields`: names of the fields in JSON. `arrays`: one mapping for each array that may be given instead. Its `axes` and
`value` are the columns that it becomes, one row a number; an axis that is null has none. `first`: the number of the
first position on each axis, 0 where it is left out; `sparse`: numbers that are 0 have no row; `integers`: there are no
others in it."""


def forms_in(contract: Mapping[str, Any]) -> dict[str, Forms]:
    """By kind."""
    schemas, found = contract["components"]["schemas"], {}
    for schema in schemas.values():
        properties = schema.get("properties", {})
        if {"public", "content"} <= properties.keys() and "const" in properties.get("kind", {}):
            content = schemas[properties["content"]["$ref"].rpartition("/")[2]]
            found[properties["kind"]["const"]] = {
                "fields": sorted(content["properties"]),
                "arrays": content.get("x-arrays", []),
            }
    return dict(sorted(found.items()))
