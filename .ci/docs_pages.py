"""Pages of the documentation that are made when it is built: the HTTP API from the committed
contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

CONTRACT = Path(__file__).parents[1] / "openapi" / "openapi.json"


DOCS = CONTRACT.parents[1] / "docs"


def on_config(config: Any) -> Any:
    """Every kind of problem has its page: they stand behind the first in the navigation."""
    config.nav.insert(1, {"Problems": problem_pages(DOCS)})
    return config


def problem_pages(docs: Path) -> list[str]:
    """The pages of the kinds, in the order of their names; their headings are their titles."""
    return sorted(str(page.relative_to(docs)) for page in (docs / "problems").glob("*.md"))


def on_files(files: Files, config: Any) -> Files:
    """Add the page of the HTTP API."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests read this file where mkdocs is not installed

    files.append(
        File.generated(
            config, "reference/api.md", content=api_page(json.loads(CONTRACT.read_text()))
        )
    )
    return files


def api_page(contract: dict[str, Any]) -> str:
    """Every operation with its parameters, bodies and answers, and every schema with its fields."""
    lines = [
        f"# HTTP API {contract['info']['version']}",
        "",
        contract["info"].get("description", ""),
        "",
    ]
    for path, operations in contract["paths"].items():
        for method, operation in operations.items():
            if method in ("parameters", "summary"):
                continue
            lines += [
                f"## {method.upper()} {path}",
                "",
                f"`{operation['operationId']}` — {operation.get('summary', '')}",
                "",
            ]
            lines += [operation.get("description", ""), ""]
            if parameters := operation.get("parameters"):
                lines += ["| parameter | in | | meaning |", "|---|---|---|---|"]
                for each in parameters:
                    required = "required" if each.get("required") else ""
                    meaning = each.get("description") or each.get("schema", {}).get("description")
                    lines.append(
                        f"| `{each['name']}` | {each['in']} | {required} | {_line(meaning)} |"
                    )
                lines.append("")
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                lines += [f"Body `{kind}`: {_type(content.get('schema', {}))}", ""]
            lines += ["| answer | | |", "|---|---|---|"]
            for status, answer in operation["responses"].items():
                types = ", ".join(
                    _type(content.get("schema", {}))
                    for content in answer.get("content", {}).values()
                )
                lines.append(f"| {status} | {_line(answer.get('description'))} | {types} |")
            lines.append("")
    lines += ["# Error codes", "", "| code | status | title |", "|---|---|---|"]
    lines += [
        f"| `{code}` | {status} | {_line(title)} |"
        for code, (status, title) in sorted(error_codes(contract).items())
    ]
    lines += ["", "# Schemas", ""]
    for name, schema in contract["components"]["schemas"].items():
        lines += [f"## {name} {{ #schema-{name.lower()} }}", "", schema.get("description", ""), ""]
        if properties := schema.get("properties"):
            required = set(schema.get("required", ()))
            lines += ["| field | type | | meaning |", "|---|---|---|---|"]
            lines += [
                f"| `{field}` | {_type(each)} | {'required' if field in required else ''}"
                f"{' private' if each.get('x-private') else ''} | {_line(each.get('description'))} "
                "|"
                for field, each in properties.items()
            ]
        elif "enum" in schema:
            lines.append(", ".join(f"`{value}`" for value in schema["enum"]))
        elif variants := schema.get("oneOf") or schema.get("anyOf"):
            lines.append("One of " + ", ".join(map(_type, variants)) + ".")
        lines.append("")
    return "\n".join(lines)


def error_codes(part: Any) -> dict[str, tuple[int, str]]:
    """Status and title of every code that has an example in the contract."""
    if isinstance(part, dict) and {"code", "status", "title"} <= part.keys():
        return (
            {}
            if isinstance(part["code"], dict)
            else {part["code"]: (part["status"], part["title"])}
        )
    inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return {code: known for each in inside for code, known in error_codes(each).items()}


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#schema-{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[key])))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
