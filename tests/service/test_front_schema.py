# SPDX-License-Identifier: Apache-2.0
"""Requests made from spec/openapi.yaml: what is valid reaches bawnd as it was sent, what is not is refused with its field, and nothing else happens."""

import json
import os
import re
import urllib.parse

import hypothesis
import hypothesis.strategies as st
import jsonschema
import pytest
from fake_core import SPEC, TABLES, Core

EXAMPLES = 400 if os.environ.get("BAWN_ALL") else 8
CALM = hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
                           suppress_health_check=list(hypothesis.HealthCheck))
PROBLEM = TABLES.resolve(SPEC["components"]["schemas"]["Problem"])
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)


def plain(pattern):
    """Strings that a pattern has, from an alphabet that keeps them printable."""
    return st.from_regex(pattern.replace("$", r"\Z").replace("\\u0000", "\\x00"))


def text_of(row):
    if row["values"]:
        return st.sampled_from(row["values"])
    patterns = {"none": None, **PATTERNS}
    made = plain(patterns[row["check"]]) if patterns[row["check"]] else TEXT
    return made.filter(lambda s: can_be_sent(s) and row["min"] <= len(s.encode()) <= row["max"])


def can_be_sent(text):
    """Patterns also make half a pair of UTF-16, which no UTF-8 has."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def find_patterns(node, found):
    if isinstance(node, dict):
        if "x-check" in node:
            found.setdefault(node["x-check"], set()).add(node["pattern"])
        for value in node.values():
            find_patterns(value, found)
    elif isinstance(node, list):
        for value in node:
            find_patterns(value, found)
    return found


ALL_PATTERNS = find_patterns(SPEC, {})
PATTERNS = {name: next(iter(found)) for name, found in ALL_PATTERNS.items()}


def one_of(row):
    kind = row["type"]
    if kind == "integer":
        return st.integers(row["minimum"], min(row["maximum"], 2**62))
    if kind == "boolean":
        return st.booleans()
    if kind == "object":
        return object_of(TABLES.subs[row["sub"]])
    return text_of(row)


def value_of(row):
    if row["shape"] == "array":
        return st.lists(one_of(row), min_size=row["min_items"], max_size=min(row["max_items"], 4))
    if row["shape"] == "map":
        key = plain(PATTERNS[row["key_check"]]).filter(lambda s: len(s.encode()) <= row["key_max"])
        return st.dictionaries(key, one_of(row), max_size=min(row["max_items"], 3))
    return one_of(row)


def object_of(rows):
    """A body whose members are those of the rows, nested by their names."""
    members = {r["name"]: value_of(r) for r in rows}
    needed = {r["name"] for r in rows if r["required"] and "." not in r["name"]}
    inner = {r["name"]: r["name"].rpartition(".")[0] for r in rows if r["required"] and "." in r["name"]}

    @st.composite
    def build(draw):
        chosen = needed | set(draw(st.lists(st.sampled_from(sorted(members)), max_size=5, unique=True)) if members else [])
        for name, parent in inner.items():
            if any(c.startswith(parent + ".") for c in chosen):
                chosen.add(name)
        body = {}
        for name in sorted(chosen):
            *path, last = name.split(".")
            at = body
            for part in path:
                at = at.setdefault(part, {})
            at[last] = draw(members[name])
        return body

    return build()


def parameters(route, place):
    rows = [r for r in route["rows"] if r["place"] == place]

    @st.composite
    def build(draw):
        return {r["wire"]: draw(value_of(r)) for r in rows if r["required"] or place == "path" or draw(st.booleans())}

    return build()


def spelled(value):
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def flat(rows, body):
    """What bawnd must get for a body."""
    want = {}
    for row in rows:
        at = body
        for part in row["name"].split("."):
            at = at.get(part) if isinstance(at, dict) else None
        if at is None:
            continue
        items = at if row["shape"] == "array" else [at] if row["shape"] == "one" else at.items()
        want[row["name"]] = sorted(encoded(i, row) for i in items) if row["shape"] == "map" else [encoded(i, row) for i in items]
    return {k: v for k, v in want.items() if v}


def same_json(value):
    """As encoded() writes it: the service may write the same in another way (\\u001F)."""
    name, _, text = value.partition(b"\0")
    return encoded((name.decode(), json.loads(text)), None)


def encoded(item, row):
    if isinstance(item, tuple):
        return item[0].encode() + b"\0" + encoded(item[1], row)
    if isinstance(item, dict):
        return json.dumps(item, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return (str(int(item)) if isinstance(item, (bool, int)) else item).encode()


def address(route, draw):
    path = route["path"]
    for name, value in draw(parameters(route, "path")).items():
        path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
    query = draw(parameters(route, "query"))
    headers = {k: spelled(v) for k, v in draw(parameters(route, "header")).items()}
    return path + ("?" + urllib.parse.urlencode({k: spelled(v) for k, v in query.items()}) if query else ""), query, headers


ROUTES = [r for r in TABLES.routes if r["body"] != "bytes" and r["answer"] != "websocket"]


@pytest.fixture(scope="module")
def shared():
    cores = {}
    yield cores
    for core in cores.values():
        assert core.end() == (0, b"")


def share(runner, shared):
    """One front for all operations of a user: a crash is seen in the next one."""
    if runner.name not in shared:
        shared[runner.name] = Core(runner)
    core = shared[runner.name]
    core.on = lambda r: r.answer(200, {})
    assert core.proc.poll() is None
    return core


def check_problem(status, headers, body):
    assert 400 <= status < 500, (status, body)
    assert headers["Content-Type"] == "application/problem+json" and body["status"] == status and body["instance"] == headers["Request-Id"]
    jsonschema.validate(body, PROBLEM)


def headers_fit(headers):
    return all(v == v.strip() and v.isascii() and v.isprintable() for v in headers.values())


@pytest.mark.parametrize("op", [r["op"] for r in ROUTES])
def test_what_is_valid_arrives_as_it_was_sent(runner, shared, op):
    core, route = share(runner, shared), next(r for r in ROUTES if r["op"] == op)
    rows = [r for r in route["rows"] if r["place"] == "body"]
    client = core.client()

    @CALM
    @hypothesis.given(st.data())
    def examine(data):
        path, query, headers = address(route, data.draw)
        hypothesis.assume(headers_fit(headers))
        body = data.draw(object_of(rows)) if route["body"] == "json" else None
        core.seen.clear()
        status, _, answer = core.call(route["method"].upper(), path, body, headers, client)
        assert status == (204 if op == "session_end" else 200), answer  # the front itself answers the end of a session
        (r,) = core.seen
        got = {k: sorted(v) if k in ("env", "labels", "agent.skills", "agent.mcp_servers") else v for k, v in r.fields.items()}
        if "agent.mcp_servers" in got:
            got["agent.mcp_servers"] = sorted(map(same_json, got["agent.mcp_servers"]))
        assert r.op == op and {k: got.get(k) for k in flat(rows, body or {})} == flat(rows, body or {})
        for name, value in query.items():
            assert r.one(name) == (str(int(value)) if isinstance(value, bool) else str(value))

    if route["answer"] != "stream":
        examine()


@pytest.mark.parametrize("op", [r["op"] for r in ROUTES if r["body"] == "json"])
def test_what_is_not_valid_is_refused(runner, shared, op):
    """One change to a valid body: a member more, one of another type, one too long. jsonschema has the second opinion."""
    core, route = share(runner, shared), next(r for r in ROUTES if r["op"] == op)
    rows = [r for r in route["rows"] if r["place"] == "body"]
    client = core.client()
    odd = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**70), st.floats(allow_nan=False, allow_infinity=False), TEXT, st.lists(TEXT, max_size=3),
                    st.dictionaries(TEXT, TEXT, max_size=3), st.just("x" * 300000))

    @CALM
    @hypothesis.given(st.data())
    def examine(data):
        path, _, headers = address(route, data.draw)
        hypothesis.assume(headers_fit(headers))
        body = data.draw(object_of(rows))
        name = data.draw(st.one_of(st.sampled_from([r["name"] for r in rows]), TEXT.filter(lambda s: s and "." not in s)))
        *parents, last = name.split(".")
        at = body
        for part in parents:
            at = at.setdefault(part, {})
        at[last] = data.draw(odd)
        core.seen.clear()
        status, answer_headers, answer = core.call("POST" if route["method"] == "post" else route["method"].upper(), path, body, headers, client)
        if status == 200:  # it was valid after all
            (r,) = core.seen
            wanted = flat(rows, body)
            assert {k: v for k, v in wanted.items() if k not in r.fields} == {}
        else:
            check_problem(status, answer_headers, answer)
            assert answer["code"] in ("bad_field", "bad_json") and not core.seen, answer

    examine()


@pytest.mark.parametrize("check", sorted(ALL_PATTERNS))
def test_each_check_says_what_its_pattern_says(runner, shared, check):
    """By a field that has it: the tables in C and the pattern for everyone else agree on every string that is tried."""
    core = share(runner, shared)
    assert len(ALL_PATTERNS[check]) == 1
    pattern = re.compile(PATTERNS[check].replace("$", r"\Z"))
    route, row = next(((a, r) for a in ROUTES for r in a["rows"] if check in (r["check"], r.get("key_check")) and r["place"] in ("body", "query")),
                      (None, None))
    if not row:
        route, row = next((a, r) for a in ROUTES for r in a["rows"] if r["check"] == check and r["place"] == "header")
    client = core.client()
    near = st.one_of(plain(PATTERNS[check]), st.text("abzAZ019._-:*[]@/+ TZkKmsd=é\n", max_size=24),
                     plain(PATTERNS[check]).flatmap(lambda s: st.sampled_from([s + "x", s[1:], s[:-1], s + "\n", "/" + s, s + "/..", s.upper(), s + "é"])))

    @CALM
    @hypothesis.given(near)
    def examine(text):
        size = row["key_max"] if row.get("key_check") == check else row["max"]
        hypothesis.assume(can_be_sent(text) and 0 < len(text.encode()) <= size and (row["place"] != "header" or headers_fit({"x": text})))
        wrapped = {text: "x"} if row.get("key_check") == check else [text] if row["shape"] == "array" else text
        path = re.sub(r"{\w+}", lambda m: {"{id}": "run_0123456789abcdef", "{kind}": "runs"}.get(m[0], "x"), route["path"])
        body, headers = None, {}
        if row["place"] == "query":
            path += "?" + urllib.parse.urlencode({row["wire"]: text})
        elif row["place"] == "header":
            headers = {row["wire"]: text}
        else:
            body = wrapped
            for part in reversed(row["name"].split(".")):
                body = {part: body}
            for other in route["rows"]:
                if other["required"] and other["place"] == "body" and other["name"] not in body and "." not in other["name"]:
                    body[other["name"]] = ["x"] if other["shape"] == "array" else (other["values"] or ["a.example"])[0]
        status, answer_headers, answer = core.call(route["method"].upper(), path, body, headers, client)
        if status != 200:
            check_problem(status, answer_headers, answer)
        assert (status == 200) == bool(pattern.match(text)), (text, answer)

    examine()
