#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Scripted models: the APIs that the agents of the tests speak, over https, each with one key that it takes and no other.

    model_servers.py FOLDER ADDRESS           serves on ADDRESS:443 until killed, prints "ready"
    model_servers.py FOLDER ADDRESS PORT      plain http, as a model on one's own machine does, which takes every key

FOLDER/models.pem, models-key.pem   certificate for the hosts of APIS
FOLDER/keys.json       {"api.anthropic.com": "sk-ant-...", ...}; every other key gets the API's own 401
FOLDER/echo            if it is there, answers hold the key that came: in a header, in the command to run, and in the last words, also in base64
FOLDER/hold            while it is there, the last answer of a conversation waits
FOLDER/models.jsonl    every request: {"host", "line", "headers", "body", "key": "real" | "wrong" | "none", "turn"}

Each conversation has three turns, told apart by the tool results that came back: run a shell command that makes a file, read the file,
say what was read. A request without tools (a title, a summary) is answered with a word. Streams are cut into chunks of CHUNK bytes,
wherever that falls.
"""

import asyncio
import base64
import json
import pathlib
import re
import ssl
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "network"))
from world import read_body, read_head, reuse  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1]) if __name__ == "__main__" else None
MADE, CONTENT, MARKER = "made-by-the-agent.txt", "hello-from-the-agent", "DONE-4711"
LAST, CHUNK = 2, 61
COMMAND = f'echo {CONTENT} > {MADE} && echo "folder=$PWD;"'


def note(**what):
    with open(FOLDER / "models.jsonl", "a") as f:
        f.write(json.dumps(what) + "\n")


# What a turn says: ("text", words) or ("call", tool's name, arguments)

def tool_named(tools, *names):
    """The first of these that the agent offers: (its name, its parameters)."""
    return next(((n, tools[n]) for n in names if n in tools), (None, {}))


def shell_call(tools, command):
    name, parameters = tool_named(tools, "mcp__bawn__exec", "bawn_exec", "Bash", "bash", "run_shell_command", "exec_command", "exec")
    if name == "exec":  # of Codex: a program that calls the tools
        return ("call", name, f"text((await tools.exec_command({json.dumps({'cmd': command})})).output)")
    words = {"command": command, "cmd": command, "description": "A test"}
    return ("call", name, {p: word for p, word in words.items() if p in parameters}) if name else None


def read_call(tools, folder):
    name, parameters = tool_named(tools, "mcp__bawn__read_file", "bawn_read_file", "Read", "read", "read_file")
    key = next((p for p in ("file_path", "filePath", "path", "absolute_path") if p in parameters), None)
    return ("call", name, {key: f"{folder}/{MADE}"}) if name and key else shell_call(tools, f"cat {MADE}")


def turn(tools, results, key):
    """What to say after these tool results; tools: {name: parameters}."""
    echo = (FOLDER / "echo").exists()
    if not shell_call(tools, COMMAND):
        return ("text", "Title")
    if not results:
        return shell_call(tools, f"{COMMAND} # {key}" if echo else COMMAND)
    if len(results) == 1:
        folder = re.findall(r"folder=(/[^;]+);", results[0])
        return read_call(tools, folder[-1] if folder else ".")
    read = "read it" if CONTENT in results[-1] else f"did not read it: {results[-1][:300]}"
    return ("text", f"{MARKER} {read}." + (f" key={key} {base64.b64encode(key.encode()).decode()}." if echo else ""))


def pieces(text):
    """What one event of a stream has; a key stays whole, because nobody could find it in the parts."""
    return re.findall(r"\S+\s*|\s+", text)


def event(data, name=None):
    return ((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n").encode()


# Anthropic: POST /v1/messages

def anthropic_results(body):
    blocks = [b for m in body.get("messages", []) if isinstance(m["content"], list) for b in m["content"]]
    return [json.dumps(b.get("content")) for b in blocks if b.get("type") == "tool_result"]


def anthropic_block(said):
    if said[0] == "text":
        return {"type": "text", "text": said[1]}
    return {"type": "tool_use", "id": f"toolu_{abs(hash(str(said))):024d}", "name": said[1], "input": said[2]}


def anthropic_message(model, content, stop):
    return {"id": "msg_01", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": stop, "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}


def anthropic_stream(model, said, stop):
    block = anthropic_block(said)
    empty = {**block, "text": ""} if said[0] == "text" else {**block, "input": {}}
    deltas = ([{"type": "text_delta", "text": p} for p in pieces(said[1])] if said[0] == "text"
              else [{"type": "input_json_delta", "partial_json": p} for p in pieces(json.dumps(said[2]))])
    yield {"type": "message_start", "message": anthropic_message(model, [], None)}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


def anthropic(path, body, key):
    if path == "/v1/messages/count_tokens":
        return 0, {"input_tokens": 10}
    if path != "/v1/messages":
        return 0, None
    tools = {t["name"]: t.get("input_schema", {}).get("properties", {}) for t in body.get("tools", [])}
    results = anthropic_results(body)
    said = turn(tools, results, key)
    stop = "end_turn" if said[0] == "text" else "tool_use"
    if not body.get("stream"):
        return len(results), anthropic_message(body["model"], [anthropic_block(said)], stop)
    return len(results), [event(e, e["type"]) for e in anthropic_stream(body["model"], said, stop)]


def anthropic_wrong(_key):
    return {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}


# OpenAI: POST /v1/responses

def openai_item(said, n):
    if said[0] == "text":
        return {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": said[1], "annotations": []}]}
    call = {"id": f"fc_{n}", "call_id": f"call_{n}", "name": said[1], "status": "completed"}
    if isinstance(said[2], str):
        return {**call, "type": "custom_tool_call", "input": said[2]}
    return {**call, "type": "function_call", "arguments": json.dumps(said[2])}


def openai_stream(model, said, n):
    response = {"id": f"resp_{n}", "object": "response", "created_at": 0, "model": model, "status": "in_progress", "output": []}
    item = openai_item(said, n)
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0},
             "total_tokens": 20}
    yield {"type": "response.created", "response": response}
    if said[0] == "text":
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}}
        for piece in pieces(said[1]):
            yield {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "content_index": 0, "delta": piece}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": [item], "usage": usage}}


def openai_tools(offered):
    flat = [t for one in offered for t in (one["tools"] if one.get("type") == "namespace" else [one])]
    return {t["name"]: t.get("parameters", {}).get("properties", {}) for t in flat if t.get("type") in ("function", "custom")}


def openai(path, body, key):
    if path != "/v1/responses":
        return 0, None
    items = body["input"] if isinstance(body.get("input"), list) else []
    tools = openai_tools(body.get("tools", []) + [t for i in items for t in i.get("tools", [])])
    results = [json.dumps(i.get("output")) for i in items if i.get("type") in ("function_call_output", "custom_tool_call_output")]
    said = turn(tools, results, key)
    return len(results), [event(e, e["type"]) for e in openai_stream(body["model"], said, len(results))]


def openai_wrong(key):
    return {"error": {"message": f"Incorrect API key provided: {key[:4]}****.", "type": "invalid_request_error", "param": None,
                      "code": "invalid_api_key"}}


# Google: POST /v1beta/models/MODEL:streamGenerateContent

def gemini_reply(parts, finish):
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **({"finishReason": "STOP"} if finish else {})}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}, "modelVersion": "gemini"}


def gemini_tools(body):
    declared = [d for t in body.get("tools", []) for d in t.get("functionDeclarations", [])]
    return {d["name"]: (d.get("parametersJsonSchema") or d.get("parameters") or {}).get("properties", {}) for d in declared}


def gemini_parts(said):
    if said[0] == "text":
        return [[{"text": p}] for p in pieces(said[1])]
    return [[{"functionCall": {"name": said[1], "args": said[2]}}]]


def gemini(path, body, key):
    method = path.rpartition(":")[2]
    if method == "countTokens":
        return 0, {"totalTokens": 10}
    if method not in ("streamGenerateContent", "generateContent"):
        return 0, None
    results = [json.dumps(p["functionResponse"]) for c in body["contents"] for p in c.get("parts", []) if "functionResponse" in p]
    said = turn(gemini_tools(body), results, key)
    if body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        said = ("text", json.dumps({"reasoning": "a test", "model_choice": "flash", "complexity_reasoning": "a test", "complexity_score": 1}))
    parts = gemini_parts(said)
    if method == "generateContent":
        return len(results), gemini_reply([p for some in parts for p in some], True)
    return len(results), [event(gemini_reply(p, p is parts[-1])) for p in parts]


def gemini_wrong(_key):
    return {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
                      "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]}}


# A company's gateway speaks all of them, below paths of its own.

GATEWAY, BELOW = "llm.corp.example", "/models"


def gateway(path, body, key):
    path = path.removeprefix(BELOW)
    api = anthropic if path.startswith("/v1/messages") else openai if path.startswith("/v1/responses") else gemini
    return api(path, body, key)


def gateway_wrong(_key):
    return {"error": {"message": "error: no key of the company", "type": "authentication_error"}}


# A server of one's own, which wants no key; what it is called depends on where it is seen from.
LOCAL, LOCAL_PORT = "host.bawn.internal", 11434

# host: (the API, what a wrong key gets, its status)
APIS = {
    "api.anthropic.com": (anthropic, anthropic_wrong, "401 Unauthorized"),
    "api.openai.com": (openai, openai_wrong, "401 Unauthorized"),
    "generativelanguage.googleapis.com": (gemini, gemini_wrong, "400 Bad Request"),
    GATEWAY: (gateway, gateway_wrong, "401 Unauthorized"),
}


def keys_in(headers, query):
    """Every credential that a request has."""
    found = [v.removeprefix("Bearer ") for k, v in headers if k in ("x-api-key", "x-goog-api-key", "authorization")]
    return found + urllib.parse.parse_qs(query).get("key", [])


def plain(status, body, extra=""):
    data = json.dumps(body).encode()
    return [f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{extra}\r\n".encode(), data]


def streamed(events, extra):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{extra}\r\n".encode()
    data = b"".join(events)
    chunks = [data[i:i + CHUNK] for i in range(0, len(data), CHUNK)]
    return [head, *(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks), b"0\r\n\r\n"]


def respond(host, line, headers, body):
    """The turn, and the answer in the pieces in which it is sent."""
    path, _, query = line.split(" ")[1].partition("?")
    real = json.loads((FOLDER / "keys.json").read_text()).get(host)
    found = keys_in(headers, query)
    state = "none" if not found else "real" if set(found) == {real} else "wrong"
    text = body.decode("utf-8", "replace")
    api, wrong, status = APIS.get(host, (None, None, None))
    if host == LOCAL:
        api, state = gateway, "real"
    number, said = 0, None
    if api and state == "real" and line.startswith("POST "):
        number, said = api(path, json.loads(text) if text.startswith("{") else {}, real)
    note(host=host, line=line, headers=headers, body=text, key=state, turn=number)
    extra = f"X-Echo: {real}\r\n" if state == "real" and (FOLDER / "echo").exists() else ""
    if api and state != "real":
        return 0, plain(status, wrong(found[0] if found else ""))
    if "websocket" in dict(headers).get("upgrade", ""):
        return 0, plain("426 Upgrade Required", {"error": {"message": "no websockets here", "type": "invalid_request_error"}})
    if said is None:
        return 0, plain("404 Not Found", {"error": {"message": "not here", "type": "not_found_error"}})
    return number, streamed(said, extra) if isinstance(said, list) else plain("200 OK", said, extra)


async def serve(reader, writer):
    try:
        while (head := await read_head(reader)):
            line, headers = head
            body = await read_body(reader, headers)
            host = dict(headers).get("host", "").partition(":")[0]
            number, answer = respond(host, line, headers, body)
            while number == LAST and (FOLDER / "hold").exists():
                await asyncio.sleep(0.05)
            for piece in answer[:1] if line.startswith("HEAD ") else answer:
                writer.write(piece)
                await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "models.pem", FOLDER / "models-key.pem")
    context.set_alpn_protocols(["http/1.1"])
    if len(sys.argv) > 3:
        await asyncio.start_server(serve, sock=reuse(sys.argv[2], int(sys.argv[3])), limit=16 << 20)
    else:
        await asyncio.start_server(serve, sock=reuse(sys.argv[2], 443), ssl=context, limit=16 << 20)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
