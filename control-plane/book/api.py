"""Writes the pages of the REST API, of ../openapi.json: one for each tag, and one with the schemas. A hook of MkDocs.

The pages exist only while the book is built, so that none can be older than the document.
"""

import json
from pathlib import Path

from mkdocs.structure.files import File

DOCUMENT = Path(__file__).resolve().parent.parent / "openapi.json"
FOLDER = "reference/api"
METHODS = ("get", "put", "post", "patch", "delete")
RANGES = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))


def on_files(files, config):
    document = json.loads(DOCUMENT.read_text())
    pages = {tag["name"]: page_of_tag(document, tag) for tag in document["tags"]}
    pages["schemas"] = page_of_schemas(document)
    for name, text in pages.items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
    return files


def page_of_tag(document, tag):
    lines = [f"# API: {tag['name']}", "", f"{tag['description']}. Generated from the OpenAPI document.", ""]
    lines.append("What all requests have in common is in [REST API](../rest-api.md), who may make them in [permissions](../permissions.md).")
    found = False
    for path, operations in document["paths"].items():
        for method in METHODS:
            if tag["name"] in operations.get(method, {}).get("tags", ()):
                lines += section_of_operation(document, f"{method.upper()} {path}", operations[method])
                found = True
    if not found:
        raise ValueError(f"no operation has the tag {tag['name']}")
    return "\n".join(lines) + "\n"


def section_of_operation(document, title, operation):
    yield from ("", f"## `{title}`", "", prose(operation["summary"]))
    if about := operation.get("description"):
        yield from ("", prose(about))
    if parameters := operation.get("parameters"):
        yield from ("", "| parameter | in | type | meaning |", "|---|---|---|---|")
        for parameter in parameters:
            name = f"`{parameter['name']}`" + (", required" if parameter.get("required") else "")
            yield row(name, parameter["in"], type_of(parameter["schema"]), parameter.get("description", ""))
    if body := operation.get("requestBody"):
        required = "" if body.get("required") else ", which may be missing"
        yield from ("", f"Body{required}: {contents(body)}")
    yield from ("", "| answer | body | meaning |", "|---|---|---|")
    for status, answer in operation["responses"].items():
        answer = resolved(document, answer)
        headers = ", ".join(f"`{name}`" for name in answer.get("headers", {}))
        # Each problem is a paragraph.
        meaning = answer["description"].replace("\n\n", "; ")
        yield row(status, contents(answer), meaning + (f" (headers: {headers})" if headers else ""))


def page_of_schemas(document):
    lines = ["# API: schemas", "", "The objects in requests and answers of the [REST API](../rest-api.md). Generated from the OpenAPI document."]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += ["", f"## {name}", "", prose(schema.get("description", ""))]
        whole = flattened(document, schema)
        if "properties" not in whole:
            lines += ["", f"Type: {type_of(whole)}"]
            continue
        lines += ["", "| field | type | meaning |", "|---|---|---|"]
        for field, of in whole["properties"].items():
            required = ", required" if field in whole.get("required", ()) else ""
            lines.append(row(f"`{field}`{required}", type_of(of), of.get("description", "")))
    return "\n".join(lines) + "\n"


def flattened(document, schema):
    """The schema with the properties of its `allOf`."""
    whole = {**schema, "properties": {}, "required": []}
    for part in [resolved(document, part) for part in schema.get("allOf", ())] + [schema]:
        part = flattened(document, part) if part is not schema and "allOf" in part else part
        whole["properties"].update(part.get("properties", {}))
        whole["required"] += part.get("required", [])
    return whole if whole["properties"] else {key: value for key, value in whole.items() if key != "properties"}


def resolved(document, value):
    while "$ref" in value:
        found = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/").replace("~0", "~")]
        value = found
    return value


def contents(value):
    """The bodies of a request or an answer, each with its media type unless that is JSON."""
    bodies = []
    for media, content in value.get("content", {}).items():
        of = type_of(content.get("schema", {}))
        bodies.append(of if media in ("application/json", "application/problem+json") else f"`{media}`: {of}")
    return " or ".join(bodies)


def type_of(schema):
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](schemas.md#{name.lower()})"
    for several, word in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
        if several in schema:
            return word.join(type_of(part) for part in schema[several])
    if values := schema.get("enum"):
        return ", ".join(f"`{json.dumps(value) if not isinstance(value, str) else value}`" for value in values)
    kinds = schema.get("type", "any")
    text = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    if items := schema.get("items"):
        text += f" of {type_of(items)}"
    if isinstance(values := schema.get("additionalProperties"), dict):
        text += f" of {type_of(values)}"
    return ", ".join([text, *bounds_of(schema)])


def bounds_of(schema):
    if "format" in schema:
        yield schema["format"]
    for least, most, unit in RANGES:
        if least in schema and most in schema:
            yield f"{schema[least]} to {schema[most]}{unit}"
        elif least in schema:
            yield f"{schema[least]}{unit} or more"
        elif most in schema:
            yield f"at most {schema[most]}{unit}"
    if "pattern" in schema:
        yield f"`{schema['pattern']}`"


def prose(text):
    return text.replace("<", "&lt;")


def row(*cells):
    return "| " + " | ".join(prose(cell).replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"
