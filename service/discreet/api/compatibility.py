"""What in a new contract breaks programs written for the old one.

What programs send must still be accepted, and what they read must still arrive. So removing a
call, a field, an enumerated value, an answer or a media type breaks them; so does renaming one,
a field that is now required or may now be missing, and a type or a bound that became narrower
for requests or wider for answers. Anything may be added: programs ignore fields of answers, and
enumerated values in them, that they do not know. A call that was announced as
deprecated may go once its sunset has passed (`docs/api.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

Schema = Mapping[str, Any]
Direction = Literal["sent", "read"]

_METHODS = ("get", "put", "post", "delete", "patch")
_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LET_IN = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_EXACT = ("pattern", "format", "multipleOf")


def breaks(old: Schema, new: Schema, now: datetime | None = None) -> list[str]:
    """One sentence for each breaking change; empty when the new contract serves programs written
    for the old one."""
    return list(dict.fromkeys(_Comparison(old, new, now or datetime.now(UTC)).all()))


class _Comparison:
    def __init__(self, old: Schema, new: Schema, now: datetime) -> None:
        self._old, self._new, self._now = old, new, now
        self._compared: set[tuple[int, int, str]] = set()

    def all(self) -> Iterator[str]:
        for path, calls in self._old["paths"].items():
            for method in (name for name in _METHODS if name in calls):
                call, where = calls[method], f"{method.upper()} {path}"
                found = self._new["paths"].get(path, {}).get(method)
                if found is not None:
                    yield from self._call(call, found, where)
                elif not self._has_set(call):
                    yield f"{where} is gone"
        # No call names these: a result is an open object in the calls, whose fields depend on
        # its kind.
        results, now = (
            document["components"]["schemas"].get("Results", {})
            for document in (self._old, self._new)
        )
        yield from self._fields(results, now, "read", "Results")

    def _has_set(self, call: Schema) -> bool:
        return "x-sunset" in call and parsedate_to_datetime(call["x-sunset"]) <= self._now

    def _call(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{where}: the name {old['operationId']} became {new['operationId']}"
        for role in set(old.get("x-roles", ())) - set(new.get("x-roles", ())):
            yield f"{where}: the role {role} is no longer allowed"
        if old.get("x-roles") == [] and new.get("x-roles") != []:
            yield f"{where}: a key is needed now"
        yield from self._parameters(old, new, where)
        yield from self._body(old.get("requestBody"), new.get("requestBody"), where)
        for status, answer in old["responses"].items():
            if not status.startswith("2"):
                continue
            found = new["responses"].get(status)
            if found is None:
                yield f"{where}: the answer {status} is gone"
                continue
            for header in set(answer.get("headers", ())) - set(found.get("headers", ())):
                yield f"{where} {status}: the header {header} is gone"
            yield from self._contents(answer, found, "read", f"{where} {status}")

    def _parameters(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        before = {(one["in"], one["name"]): one for one in old.get("parameters", ())}
        after = {(one["in"], one["name"]): one for one in new.get("parameters", ())}
        for key, one in before.items():
            at = f"{where}: {key[0]} parameter {key[1]}"
            if key not in after:
                yield f"{at} is gone"
                continue
            if after[key].get("required") and not one.get("required"):
                yield f"{at} must be sent now"
            yield from self._schema(one.get("schema", {}), after[key].get("schema", {}), "sent", at)
        for key in after.keys() - before.keys():
            if after[key].get("required"):
                yield f"{where}: {key[0]} parameter {key[1]} must be sent now"

    def _body(self, old: Schema | None, new: Schema | None, where: str) -> Iterator[str]:
        if new is not None and new.get("required") and not (old or {}).get("required"):
            yield f"{where}: a body must be sent now"
        if old is not None:
            yield from self._contents(old, new or {}, "sent", f"{where} body")

    def _contents(
        self, old: Schema, new: Schema, direction: Direction, where: str
    ) -> Iterator[str]:
        for kind, content in old.get("content", {}).items():
            found = new.get("content", {}).get(kind)
            if found is None:
                yield f"{where}: the media type {kind} is gone"
            else:
                yield from self._schema(
                    content.get("schema", {}), found.get("schema", {}), direction, where
                )

    def _schema(self, old: Schema, new: Schema, direction: Direction, where: str) -> Iterator[str]:
        before, after = _alternatives(old, self._old), _alternatives(new, self._new)
        any_before, any_after = before.keys() == {"any"}, after.keys() == {"any"}
        if any_before != any_after:
            if any_before == (direction == "sent"):
                yield (
                    f"{where}: anything was allowed, now {_names(after if any_before else before)}"
                )
            return
        for name, one in before.items():
            label = name
            if name == "integer" and "integer" not in after and "number" in after:
                label = "number"
                if direction == "read":
                    yield f"{where}: a number where there was an integer"
            if label not in after:
                # An integer where there was a number is narrower: fine to read.
                if not (direction == "read" and name == "number" and "integer" in after):
                    yield f"{where}: {name} is gone"
                continue
            at = f"{where} {name}" if len(before) > 1 else where
            yield from self._alternative(one, after[label], direction, at)
        if direction == "read" and "null" in after and "null" not in before:
            yield f"{where}: it may be null now"

    def _alternative(
        self, old: Schema, new: Schema, direction: Direction, where: str
    ) -> Iterator[str]:
        key = (
            id(old),
            id(new),
            direction,
        )  # a schema that many calls share is compared and reported once
        if key in self._compared:
            return
        self._compared.add(key)
        yield from self._values(old, new, direction, where)
        if direction == "sent":
            yield from _narrower(old, new, where)
        yield from self._fields(old, new, direction, where)
        for name in ("items", "additionalProperties"):
            if isinstance(old.get(name), Mapping) and isinstance(new.get(name), Mapping):
                yield from self._schema(old[name], new[name], direction, f"{where}/*")
        if len(old.get("prefixItems", ())) != len(new.get("prefixItems", ())):
            yield f"{where}: the number of items changed"
        for number, pair in enumerate(
            zip(old.get("prefixItems", ()), new.get("prefixItems", ()), strict=False)
        ):
            yield from self._schema(*pair, direction, f"{where}/{number}")

    def _values(self, old: Schema, new: Schema, direction: Direction, where: str) -> Iterator[str]:
        before, after = _enumerated(old), _enumerated(new)
        if before is not None and after is not None:
            for value in before:
                if value not in after:
                    yield f"{where}: the value {value!r} is gone"
        elif after is not None and direction == "sent":
            yield f"{where}: only {after} is allowed now"
        elif before is not None and direction == "read":
            yield f"{where}: values other than {before} may come now"

    def _fields(self, old: Schema, new: Schema, direction: Direction, where: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        must, must_now = set(old.get("required", ())), set(new.get("required", ()))
        for name, one in before.items():
            at = f"{where}/{name}"
            if name not in after:
                yield f"{at} is gone"
                continue
            if direction == "sent" and name in must_now - must:
                yield f"{at} must be sent now"
            if direction == "read" and name in must - must_now:
                yield f"{at} may be missing now"
            if bool(one.get("x-private")) and not after[name].get("x-private"):
                yield f"{at} was private"
            if "x-asked-again" in one and "x-asked-again" not in after[name]:
                yield f"{at} could be asked again for a release"
            for column in set(one.get("x-table", ())) - set(after[name].get("x-table", ())):
                yield f"{at}: the column {column} of its table is gone"
            yield from self._schema(one, after[name], direction, at)
        if direction == "sent":
            for name in must_now - before.keys():
                yield f"{where}/{name} must be sent now"
            if (
                new.get("additionalProperties") is False
                and old.get("additionalProperties", True) is True
            ):
                yield f"{where}: no further fields are allowed now"


def _alternatives(schema: Schema, document: Schema) -> dict[str, Schema]:
    """What a value may be, by a stable name: the `kind` or `type` that tells objects apart, or
    the JSON type."""
    schema = _resolved(schema, document)
    found: dict[str, Schema] = {}
    for one in schema.get("anyOf") or schema.get("oneOf") or ():
        for name, each in _alternatives(one, document).items():
            if name == "object":  # of alternatives within alternatives the name is told already
                told = [
                    str(value["const"])
                    for key, value in sorted(each.get("properties", {}).items())
                    if key in ("kind", "type") and "const" in value
                ]
                found[" ".join([name, *told])] = each
            else:
                found[name] = each
    if found:
        return found
    types = schema.get("type")
    if types is None:
        values = _enumerated(schema)
        return {"any" if values is None else "value": schema}
    return dict.fromkeys([types] if isinstance(types, str) else types, schema)


def _resolved(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _enumerated(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def _narrower(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Where less may be sent than before. A bound that was exclusive and is now inclusive is
    wider."""
    old = {**{inner: old[outer] for outer, inner in _LET_IN.items() if outer in old}, **old}
    for name in _LEAST:
        if name in new and (name not in old or new[name] > old[name]):
            yield f"{where}: {name} is {new[name]}, was {old.get(name, 'none')}"
    for name in _MOST:
        if name in new and (name not in old or new[name] < old[name]):
            yield f"{where}: {name} is {new[name]}, was {old.get(name, 'none')}"
    for name in _EXACT:
        if name in new and new[name] != old.get(name):
            yield f"{where}: {name} is {new[name]}, was {old.get(name, 'none')}"


def _names(alternatives: Mapping[str, Schema]) -> str:
    return " or ".join(alternatives)
