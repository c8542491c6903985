"""A checker of JSON Schema, as much of it as OpenAPI files of this kind use. It needs no package."""

TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "null": lambda v: v is None,
}


def resolve(spec, schema):
    while "$ref" in schema:
        at = spec
        for part in schema["$ref"].lstrip("#/").split("/"):
            at = at[part]
        schema = at
    return schema


def errors(spec, schema, value, where="$"):
    """What is wrong with value; an empty list: nothing."""
    schema = resolve(spec, schema)
    if "anyOf" in schema or "oneOf" in schema:
        tries = [errors(spec, s, value, where) for s in schema.get("anyOf") or schema["oneOf"]]
        return [] if any(not t for t in tries) else min(tries, key=len)
    found = []
    kind = schema.get("type")
    if kind and not TYPES[kind](value):
        return [f"{where}: {value!r} is no {kind}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is not one of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{where}: {value!r} is not {schema['const']!r}")
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                found.append(f"{where}.{name} is missing")
        for name, sub in schema.get("properties", {}).items():
            if name in value:
                found += errors(spec, sub, value[name], f"{where}.{name}")
        if isinstance(schema.get("additionalProperties"), dict):
            for name in value.keys() - schema.get("properties", {}).keys():
                found += errors(spec, schema["additionalProperties"], value[name], f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += errors(spec, schema["items"], item, f"{where}[{i}]")
    return found


def kinds(spec, schema):
    """The types that a schema lets through, for comparing two descriptions. Any: all of them."""
    schema = resolve(spec, schema)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return set().union(*(kinds(spec, s) for s in schema[key]))
    if "type" in schema:
        return {schema["type"]}
    if "enum" in schema or "const" in schema:
        return {"string"}
    return {"any"}


def members(spec, schema):
    """name -> schema of all objects that a schema lets through."""
    schema = resolve(spec, schema)
    found = dict(schema.get("properties", {}))
    for key in ("anyOf", "oneOf", "allOf"):
        for sub in schema.get(key, []):
            found.update(members(spec, sub))
    return found


def items(spec, schema):
    schema = resolve(spec, schema)
    if "items" in schema:
        return schema["items"]
    for key in ("anyOf", "oneOf", "allOf"):
        for sub in schema.get(key, []):
            found = items(spec, sub)
            if found is not None:
                return found
    return None
