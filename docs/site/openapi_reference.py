"""A Markdown reference from the gateway's OpenAPI document: every path with its parameters, body and answers, and every
schema with its fields."""

import json
from pathlib import Path

from proto_reference import cell

METHODS = ("get", "post", "put", "patch", "delete")


def name_of(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]


def type_of(schema: dict) -> str:
    """The type of a value, with links to the schemas of this page."""
    if "$ref" in schema:
        name = name_of(schema["$ref"])
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_of(one) for one in schema["anyOf"])
    if "allOf" in schema:
        return " and ".join(type_of(one) for one in schema["allOf"])
    kinds = schema.get("type", "any")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    named = [f"list of {type_of(schema['items'])}" if kind == "array" and "items" in schema else kind for kind in kinds]
    text = " or ".join(named)
    if isinstance(schema.get("additionalProperties"), dict):
        text += f" of {type_of(schema['additionalProperties'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        text += f", {low} to {high}"
    elif low is not None:
        text += f", at least {low}"
    return text


def described(schema: dict) -> str:
    text = cell(schema.get("description", ""))
    if "default" in schema:
        text += f" Default: `{json.dumps(schema['default'])}`."
    return text.strip()


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n\n"


def fields(schema: dict, prefix: str = "") -> list[list[str]]:
    """The rows of a schema's fields; those of an object without a name of its own follow it."""
    rows = []
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        mark = " (required)" if name in required and not prefix and "additionalProperties" in schema else ""
        rows.append([f"`{prefix}{name}`{mark}", type_of(field), described(field)])
        for inner in (field, *field.get("anyOf", [])):
            rows += fields(inner, f"{prefix}{name}.")
            if "properties" in inner.get("items", {}):
                rows += fields(inner["items"], f"{prefix}{name}[].")
    return rows


def answers(operation: dict) -> list[list[str]]:
    rows = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            rows.append([status, f"[{name_of(answer['$ref'])}](#{name_of(answer['$ref']).lower()})", "an error"])
            continue
        content = answer.get("content", {})
        kinds = [type_of(media["schema"]) if kind == "application/json" and "schema" in media else f"`{kind}`" for kind, media in content.items()]
        rows.append([status, ", ".join(kinds), cell(answer["description"])])
    return rows


def operation_section(path: str, method: str, operation: dict, shared: list[dict]) -> str:
    text = f"## {method.upper()} {path}\n\n{cell(operation['summary'])}.\n\n"
    if "description" in operation:
        text += cell(operation["description"]) + "\n\n"
    parameters = [*shared, *operation.get("parameters", [])]
    if parameters:
        text += table(["Parameter", "In", "Type", "Description"],
                      [[f"`{p['name']}`", p["in"], type_of(p["schema"]), described({**p["schema"], **p})] for p in parameters])
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        text += "".join(f"Body `{kind}`: {type_of(media['schema'])}. {described(media['schema'])}".strip() + "\n\n"
                        for kind, media in content.items())
    return text + table(["Status", "Body", "Description"], answers(operation))


def schema_section(name: str, schema: dict) -> str:
    text = f"## {name}\n\n"
    if "properties" not in schema:
        text += type_of(schema) + "\n\n"
    if "description" in schema:
        text += cell(schema["description"]) + "\n\n"
    rows = fields(schema)
    return text + (table(["Field", "Type", "Description"], rows) if rows else "")


def page(file: Path, title: str) -> str:
    document = json.loads(file.read_text())
    text = (f"# {title}\n\n{cell(document['info']['description'])} [The HTTP API](http.md) explains it; the gateway serves this "
            "reference as OpenAPI at `/openapi.json`.\n\n")
    for path, item in document["paths"].items():
        text += "".join(operation_section(path, method, item[method], item.get("parameters", [])) for method in METHODS if method in item)
    error = document["components"]["responses"]["Error"]
    text += f"**Errors.** {cell(error['description'])}\n\n"
    return text + "".join(schema_section(name, schema) for name, schema in document["components"]["schemas"].items())
