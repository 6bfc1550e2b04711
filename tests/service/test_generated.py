# SPDX-License-Identifier: Apache-2.0
"""Requests made from spec/openapi.yaml, valid ones and broken ones, for the whole service: no answer from 500 on, none outside of its schema, and the
service lives. BAWN_ALL=1: many more of each."""

import json
import os
import pathlib
import random
import urllib.parse

import jsonschema
import yaml

SPEC = yaml.safe_load((pathlib.Path(__file__).resolve().parent.parent.parent / "spec/openapi.yaml").read_text())
METHODS = ("get", "put", "post", "patch", "delete")
ROUNDS = 30 if os.environ.get("BAWN_ALL") else 1
ODD = ["", "x", "..", "/etc/passwd", "a" * 5000, "\u00e4\u20ac", "-1", "0", "true", "null", "%00", "' OR 1=1", "run_0123456789abcdef0123", "*", "\t"]


def resolve(node):
    while "$ref" in node:
        target = SPEC
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def value(dice, schema, depth=0):
    """Mostly something of the schema, at times anything."""
    schema = resolve(schema)
    if dice.random() < 0.1 or depth > 6:
        return dice.choice([*ODD, 17, -5, None, True, [], {}, [[[]]], 1e300, 2 ** 70])
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "integer":
        return dice.choice([schema.get("minimum", 0), schema.get("maximum", 9), 1, 2])
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "array":
        return [value(dice, schema["items"], depth + 1) for _ in range(dice.randrange(3))]
    if kind == "object":
        made = {k: value(dice, s, depth + 1) for k, s in schema.get("properties", {}).items() if k in schema.get("required", ()) or dice.random() < 0.3}
        if isinstance(schema.get("additionalProperties"), dict):
            made[dice.choice(["A", "b", *ODD])] = value(dice, schema["additionalProperties"], depth + 1)
        return made
    return dice.choice(["true", "name", "1m", "1s", "example.com", *ODD])


def operations():
    """All but streams that have no end."""
    for path, item in SPEC["paths"].items():
        for method in METHODS:
            if method in item and not path.endswith(("/watch", "/terminal")):
                yield path, method, item[method]


def valid(body, schema):
    """By all of the schema, inner objects too."""
    jsonschema.Draft202012Validator({**resolve(schema), "components": SPEC["components"]}).validate(body)


def check(answer, operation):
    status, body, headers = answer
    assert status < 500, answer
    assert headers["Request-Id"]
    if status >= 400:
        assert body["status"] == status and headers["Content-Type"] == "application/problem+json", answer
        valid(body, SPEC["components"]["schemas"]["Problem"])
        return
    described = operation["responses"].get(str(status))
    assert described, (status, body)
    content = resolve(described).get("content", {})
    kind = (headers["Content-Type"] or "").partition(";")[0]
    assert kind in content if content else not body, (kind, body)
    if kind == "application/json":
        valid(body, content[kind]["schema"])
    elif kind == "application/x-ndjson":
        for line in body.splitlines():
            valid(json.loads(line), SPEC["components"]["schemas"]["Event"])


def request(dice, path, method, known):
    item, operation = SPEC["paths"][path], SPEC["paths"][path][method]
    query, headers = {}, {}
    for parameter in map(resolve, [*item.get("parameters", []), *operation.get("parameters", [])]):
        made = value(dice, parameter["schema"])
        text = made if isinstance(made, str) else json.dumps(made)
        if parameter["in"] == "path":
            text = dice.choice(known) if parameter["name"] == "id" and known and dice.random() < 0.7 else text
            path = path.replace("{" + parameter["name"] + "}", urllib.parse.quote(text, safe="") or "x")
        elif parameter["in"] == "query" and (parameter.get("required") or dice.random() < 0.5):
            query[parameter["name"]] = text
        elif parameter["in"] == "header" and dice.random() < 0.3 and text.isascii() and text.isprintable():
            headers[parameter["name"]] = text
    query = {k: v for k, v in query.items() if k not in ("wait", "follow")}
    if any(resolve(p)["name"] == "follow" for p in operation.get("parameters", [])):
        query["follow"] = "false"
    return path + ("?" + urllib.parse.urlencode(query) if query else ""), headers


def make(dice, path, method, operation, known):
    where, headers = request(dice, path, method, known)
    content = resolve(operation.get("requestBody", {})).get("content", {})
    body = None
    if "application/json" in content:
        body = value(dice, content["application/json"]["schema"])
        body = json.dumps({k: v for k, v in body.items() if k not in ("wait", "hold")} if isinstance(body, dict) else body).encode()
        headers["Content-Type"] = "application/json"
    elif content:
        body = dice.randbytes(dice.choice([0, 10, 5000]))
        headers["Content-Type"] = next(iter(content))
    headers.setdefault("Accept", "*/*")
    return where, headers, body


def clean_up(service, token):
    for kind, method, rest in (("sandboxes", "DELETE", ""), ("runs", "POST", "/cancel")):
        for one in service.call("GET", f"/v1/{kind}?limit=1000", token=token)[1]["items"]:
            service.call(method, f"/v1/{kind}/{one['id']}{rest}", token=token)


def test_generated_requests(service):
    token = service.token()
    dice = random.Random(17)
    try:
        for path, method, operation in list(operations()) * ROUNDS:
            known = [r["id"] for kind in ("runs", "sandboxes") for r in service.call("GET", f"/v1/{kind}?limit=3", token=token)[1]["items"]]
            where, headers, body = make(dice, path, method, operation, known)
            who = None if operation.get("x-scope") == "admin" else token
            try:
                check(service.call(method.upper(), where, body, token=who, **headers), operation)
            except AssertionError as e:
                raise AssertionError(f"{method} {where} {headers} {body}") from e
            assert service.proc.poll() is None
    finally:
        clean_up(service, token)
    assert b"bawn_fronts_started_total 1\n" in service.call("GET", "/v1/metrics")[1], (service.top / "log").read_text()  # no front has crashed
