#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server that tells whoever asks what it was sent: the worst friend a credential can have.

    secret_echo.py FOLDER LISTEN...    LISTEN: ADDRESS:PORT (plain), ADDRESS:PORT:CERT:KEY (TLS, HTTP/1.1), ADDRESS:PORT:CERT:KEY:h2

What it tells is the value of x-api-key, or of authorization, or the query. The path says how: /PLACE/FORM. PLACES are the functions that begin with tell_,
FORMS how it is spelt. FOLDER/seen.jsonl has each request as {"to": address, "port": ..., "text": all its bytes (latin-1), of HTTP/2: fields and body}; one
that did not come to its end has "cut". /hold tells the first half, and the second when FOLDER/go is there.
"""

import base64
import gzip
import html
import html.entities
import json
import pathlib
import quopri
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

from lines import json_lines

HERE = pathlib.Path(__file__).resolve()


def percent(s, digits="%02X"):
    return "".join("%" + digits % b for b in s.encode())


def in_base64(s, before, encode=base64.b64encode):
    return encode(b"x" * before + s.encode()).decode()


def escaped(s, how, also=""):
    """Each character that is no letter or digit, or is in also, as how makes it from its number."""
    return "".join(how(ord(c)) if not c.isalnum() or c in also else c for c in s)


NAMES = {c: name for name, c in html.entities.html5.items() if len(c) == 1 and c.isascii() and name.endswith(";") and name.lower() != "nbsp;"}


def piped(*command):
    """What another program's own encoder makes of it."""
    return lambda s: subprocess.run(command, input=s.encode(), stdout=subprocess.PIPE, check=True).stdout.decode().rstrip("\n")


# Encoders of other languages, where they are installed
OTHERS = {
    **{"jq-" + word: ("jq", "-Rrs", "@" + word) for word in ("json", "html", "uri", "base64", "sh")},
    "node-json": ("node", "-e", "process.stdout.write(JSON.stringify(require('fs').readFileSync(0, 'utf8')))"),
    "node-uri": ("node", "-e", "process.stdout.write(encodeURIComponent(require('fs').readFileSync(0, 'utf8')))"),
    "node-escape": ("node", "-e", "process.stdout.write(escape(require('fs').readFileSync(0, 'utf8')))"),
    "perl-quotemeta": ("perl", "-0777", "-ne", "print quotemeta"),
    "perl-base64": ("perl", "-MMIME::Base64", "-0777", "-ne", "print encode_base64(('x' x 50).$_)"),
    "perl-qp": ("perl", "-MMIME::QuotedPrint", "-0777", "-ne", "print encode_qp(('x' x 60).$_)"),
    "php-json": ("php", "-r", "echo json_encode(stream_get_contents(STDIN));"),
    "php-json-hex": ("php", "-r", "echo json_encode(stream_get_contents(STDIN), 15);"),
    "php-html": ("php", "-r", "echo htmlentities(stream_get_contents(STDIN), ENT_QUOTES | ENT_HTML5);"),
}

FORMS = {
    "raw": str,
    "json-gson": lambda s: re.sub("[<>&='+]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(s)),
    "json-upper": lambda s: escaped(s, "\\u{:04X}".format),
    "json-json": lambda s: json.dumps(json.dumps(s)),
    "js-hex": lambda s: escaped(s, "\\x{:02X}".format),
    "js-braces": lambda s: escaped(s, "\\u{{{:x}}}".format),
    "c-octal": lambda s: escaped(s, "\\{:03o}".format),
    "html-decimal": lambda s: escaped(s, "&#{};".format),
    "html-hex": lambda s: escaped(s, "&#x{:X};".format),
    "html-names": lambda s: "".join("&" + NAMES[c] if c in NAMES else c for c in s),
    "html-html": lambda s: html.escape(html.escape(s)),
    "html-all": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "js-all": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "qp": lambda s: quopri.encodestring(s.encode()).decode(),
    "qp-wrapped": lambda s: quopri.encodestring(b"x" * 60 + s.encode(), quotetabs=True).decode(),
    "url-url": lambda s: urllib.parse.quote(urllib.parse.quote(s, safe=""), safe=""),
    "form-form": lambda s: urllib.parse.quote_plus(urllib.parse.quote_plus(s)),
    "base64-lines": lambda s: base64.encodebytes(b"x" * 48 + s.encode()).decode(),
    "base64-crlf": lambda s: base64.encodebytes(b"x" * 48 + s.encode()).decode().replace("\n", "\r\n"),
    "base64-lines-json": lambda s: json.dumps(base64.encodebytes(b"x" * 48 + s.encode()).decode()),
    "base64-lines-url": lambda s: urllib.parse.quote(base64.encodebytes(b"x" * 48 + s.encode()).decode(), safe=""),
    "base32": lambda s: base64.b32encode(s.encode()).decode(),
    "base32-3": lambda s: base64.b32encode(b"xxx" + s.encode()).decode().lower(),
    "utf-16-le": lambda s: s.encode("utf-16-le").decode("latin-1"),
    "utf-16-be": lambda s: s.encode("utf-16-be").decode("latin-1"),
    "hex-colons": lambda s: s.encode().hex(":"),
    "unforeseen": lambda s: escaped(s, "{{{}}}".format),
    **{name: piped(*command) for name, command in OTHERS.items() if shutil.which(command[0])},
    "json": json.dumps,
    "json-slash": lambda s: json.dumps(s).replace("/", "\\/"),
    "json-html": lambda s: re.sub("[<>&]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(s)),
    "html": html.escape,
    "html-go": lambda s: html.escape(s).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    "base64-0": lambda s: in_base64(s, 0),
    "base64-1": lambda s: in_base64(s, 1),
    "base64-2": lambda s: in_base64(s, 2),
    "base64url": lambda s: in_base64(s, 0, base64.urlsafe_b64encode),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "percent": lambda s: percent(s, "%02x"),
    "PERCENT": percent,
    "url": lambda s: urllib.parse.quote(s, safe=""),
    "form": urllib.parse.quote_plus,
    "reversed": lambda s: s[::-1],
    "twice": lambda s: s[:7] + s + s,  # begins like the value, and is not yet it
}


def core_of(form, value):
    """What must not come back of a value in this form: base64 without the digits that also hold bits of its neighbours."""
    text = FORMS[form](value)
    if form == "unforeseen":  # only the runs of letters are covered
        return max(re.split(r"[^A-Za-z0-9]", value), key=len)
    if "base64-lines" in form or form in ("base64-crlf", "perl-base64"):
        return [line for line in re.split(r"[\r\n]+|\\n|%0A", text) if len(line) > 8][-1].strip('"=')[:-4]
    if form in ("base32", "base32-3"):
        return text.strip("=")[8:-4]
    if form.endswith("qp") or form == "qp-wrapped":
        return max(text.split("=\n"), key=lambda part: len(part.strip("x"))).strip("x\n=")
    if form == "jq-base64":
        return text[:-4]
    if form.startswith("base64-"):
        return text[{0: 0, 1: 2, 2: 3}[int(form[-1])]:-4]
    return text[:-4] if form == "base64url" else text.strip('"') if form.startswith("json") else value if form == "twice" else text


def left_of(form, value, answer):
    """The longest piece of the value in this form that an answer (of the same length, with stars in it) still shows."""
    text, other = FORMS[form](value), FORMS[form]("?" + value[1:-1] + "?")
    assert len(answer) == len(text) and all(b in ("*", a) for a, b in zip(text, answer)), (form, text, answer)
    begin = next(i for i, (a, b) in enumerate(zip(text, other)) if a != b)
    end = len(text) - next(i for i, (a, b) in enumerate(zip(text[::-1], other[::-1])) if a != b)
    return max((piece for piece in answer[begin:end].split("*")), key=len)


def key(value):
    return {"hosts": ["echo.example.com", "echo2.example.com"], "header": "x-api-key", "env": ["API_KEY"], "store": "command", "command": ["printf", "%s", value]}


class Server:
    """Started in the internet namespace of a world; seen() is what came so far."""

    def __init__(self, world, *listen, name="echo"):
        import servers  # only here: as a program this file has no pytest
        self.folder = servers.fresh(world, name)
        self.forget()
        address, port = listen[0].split(":")[:2]
        self.program = servers.Server(world, self.folder, "/usr/bin/python3", HERE, self.folder, *listen, ready=(address, port))

    def prepare(self, net, key, names):
        """For one test: nothing seen yet, the server's names, and the secret."""
        import secret_tools
        self.forget()
        net.names.update(names)
        net.save_names()
        secret_tools.define(net, "key", **key)
        return self

    def seen(self):
        return json_lines(self.folder / "seen.jsonl")

    def forget(self):
        (self.folder / "seen.jsonl").write_text("")
        (self.folder / "go").unlink(missing_ok=True)

    def go_on(self):
        (self.folder / "go").write_text("")

    def end(self):
        self.program.end()


# The program

FOLDER, LOCK = None, threading.Lock()


def note(sock, text, **more):
    to = sock.getsockname()
    with LOCK, open(FOLDER / "seen.jsonl", "a") as f:
        f.write(json.dumps({"to": to[0], "port": to[1], "text": text.decode("latin-1") if isinstance(text, bytes) else text, **more}) + "\n")


def told(fields, target):
    return next((v for name in ("x-api-key", "authorization") for n, v in fields if n == name), target.partition("?")[2])


def wait_for_go():
    while not (FOLDER / "go").exists():
        time.sleep(0.01)


# HTTP/1.1: each is given (send, text)

def answer(send, body, *fields, status="200 OK"):
    body = body.encode("latin-1") if isinstance(body, str) else body
    send("\r\n".join([f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body)


def tell_body(send, text):
    answer(send, text)


def tell_header(send, text):
    answer(send, "", f"X-Told: {text}", f"X-{re.sub('[^A-Za-z0-9-]', '', text)}: 1")


def tell_cookie(send, text):
    answer(send, "", f"Set-Cookie: a=1; path=/; b={text}", f"Set-Cookie: {text}=1")


def tell_location(send, text):
    answer(send, "", f"Location: https://other.example.com/?{text}", status="302 Found")


def tell_reason(send, text):
    answer(send, "", status=f"401 not {text}")


def tell_error(send, text):
    answer(send, f"who are you, {text}?", "WWW-Authenticate: Basic realm=x", status="401 Unauthorized")


def tell_early(send, text):
    send(f"HTTP/1.1 103 Early Hints\r\nLink: </{text}>\r\n\r\n".encode("latin-1"))
    answer(send, "")


def tell_chunks(send, text):
    """Each byte in a chunk, and the next one in a trailer."""
    send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for byte in text.encode("latin-1"):
        send(b"1;x=y\r\n%c\r\n" % byte)
    send(b"0\r\n\r\n")


def tell_trailer(send, text):
    send(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-End: {text}\r\n\r\n".encode("latin-1"))


def tell_records(send, text):
    """Each byte in a TLS record, and a packet of its own."""
    send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n".encode("latin-1"))
    for byte in text.encode("latin-1"):
        send(b"%c" % byte)


def tell_until_end(send, text):
    send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text.encode("latin-1"))


def tell_gzip(send, text):
    answer(send, gzip.compress(text.encode("latin-1")), "Content-Encoding: gzip")


def tell_websocket(send, text):
    send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
    send(bytes([0x81, 126]) + len(text).to_bytes(2, "big") + text.encode("latin-1"))


def tell_hold(send, text):
    half = len(text) // 2
    send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text[:half]}".encode("latin-1"))
    wait_for_go()
    send(text[half:].encode("latin-1"))


PLACES = {name[5:]: fn for name, fn in list(globals().items()) if name.startswith("tell_")}


def read_request(s):
    """(all its bytes, target, fields), or None at the end; a request that is cut raises."""
    f = s.makefile("rb")
    text = b""
    while (line := f.readline()):
        text += line
        if line == b"\r\n":
            break
    if not text:
        return None
    try:
        lines = text.decode("latin-1").split("\r\n")
        fields = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:] if line)]
        named = dict(fields)
        if named.get("expect"):
            s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in named.get("transfer-encoding", ""):
            size = 1
            while size:
                line = f.readline()
                size = int(line.split(b";")[0], 16)
                data = f.read(size)
                assert len(data) == size
                text += data
                while size == 0 and (line := f.readline()) != b"\r\n":
                    assert line
                    text += line
                if size:
                    f.readline()
        n = int(named.get("content-length", 0))
        body = f.read(n)
        text += body
        assert len(body) == n
        return text, lines[0].split(" ")[1], fields
    except Exception:
        note(s, text, cut=True)
        raise


PAUSE = 4  # seconds: longer than the gate holds anything


def say(s, how, text):
    """What the client wants to hear, and a second word after a while; how: "text", "length", "event-stream", "websocket"."""
    if how == "websocket":
        return say_again(s)
    second = b";end"
    chunk = (lambda data: data) if how == "length" else lambda data: b"%x\r\n%s\r\n" % (len(data), data)
    kind = b"text/event-stream" if how == "event-stream" else b"text/plain"
    if how == "event-stream":
        text, second = b"data: " + text + b"\n\n", b"data: ;end\n\n"
    length = b"Content-Length: %d" % len(text + second) if how == "length" else b"Transfer-Encoding: chunked"
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n" % (kind, length) + chunk(text))
    time.sleep(PAUSE)
    s.sendall(chunk(second) + (b"" if how == "length" else b"0\r\n\r\n"))


def say_again(s):
    """A WebSocket that sends back what comes."""
    s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
    f = s.makefile("rb")
    while len(head := f.read(2)) == 2:
        mask = f.read(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(f.read(head[1] & 127)))
        s.sendall(bytes([head[0], len(data)]) + data)


def h1_connection(s):
    while (request := read_request(s)):
        text, target, fields = request
        note(s, text)
        _, place, form = (target.partition("?")[0] + "//").split("/")[:3]
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", dict(fields).get("range", ""))
        if place == "say":
            say(s, form, urllib.parse.unquote_to_bytes(target.partition("?")[2]))
        elif place == "last":  # shows the key of an earlier request
            answer(s.sendall, "the last key was " + LAST[0])
        elif part:
            answer(s.sendall, told(fields, target)[int(part[1]):int(part[2]) + 1], "Content-Range: bytes 0-9/99", status="206 Partial Content")
        else:
            LAST[0] = told(fields, target) or LAST[0]
            PLACES.get(place, tell_body)(s.sendall, FORMS.get(form, str)(told(fields, target)))
        if dict(fields).get("connection", "").lower() == "close" or place in ("until_end", "websocket"):
            break
    s.unwrap() if isinstance(s, ssl.SSLSocket) else s.shutdown(socket.SHUT_WR)


# HTTP/2

def h2_tell(c, stream, place, text):
    ok = [(":status", "200")]
    if place == "header":
        c.send_headers(stream, ok + [("x-told", text), ("set-cookie", "a=" + text), ("location", "/" + text)], end_stream=True)
    elif place == "trailer":
        c.send_headers(stream, ok)
        c.send_data(stream, b"ok")
        c.send_headers(stream, [("x-end", text)], end_stream=True)
    elif place == "early":
        c.send_headers(stream, [(":status", "103"), ("link", text)])
        c.send_headers(stream, ok, end_stream=True)
    elif place == "gzip":
        c.send_headers(stream, ok + [("content-encoding", "gzip")])
        c.send_data(stream, gzip.compress(text.encode("latin-1")), end_stream=True)
    else:
        c.send_headers(stream, ok)
        for byte in text.encode("latin-1"):  # each in a frame of its own
            c.send_data(stream, b"%c" % byte)
        c.end_stream(stream)


LAST = [""]


def h2_say(s, c, stream, how, text):
    second = b";end"
    if how == "event-stream":
        text, second = b"data: " + text + b"\n\n", b"data: ;end\n\n"
    c.send_headers(stream, [(":status", "200"), ("content-type", "text/" + how.replace("text", "plain"))])
    c.send_data(stream, text)
    s.sendall(c.data_to_send())
    time.sleep(PAUSE)
    c.send_data(stream, second, end_stream=True)


def h2_ended(s, c, stream, fields, body):
    target = dict(fields)[":path"]
    if target.startswith("/say/"):
        how, _, words = target[5:].partition("?")
        return h2_say(s, c, stream, how, urllib.parse.unquote_to_bytes(words))
    note(s, "".join(f"{n}: {v}\r\n" for n, v in fields) + "\r\n" + body.decode("latin-1"))
    _, place, form = (target.partition("?")[0] + "//").split("/")[:3]
    return h2_tell(c, stream, place, FORMS.get(form, str)(told(fields, target)))


def h2_connection(s):
    import h2.config
    import h2.connection
    import h2.events
    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, validate_inbound_headers=False, header_encoding="latin-1"))
    c.initiate_connection()
    s.sendall(c.data_to_send())
    open_ = {}
    while (data := s.recv(65536)):
        for e in c.receive_data(data):
            if isinstance(e, h2.events.RequestReceived):
                open_[e.stream_id] = ([(n, v) for n, v in e.headers], bytearray())
            elif isinstance(e, h2.events.DataReceived):
                open_[e.stream_id][1].extend(e.data)
                c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            elif isinstance(e, h2.events.TrailersReceived):
                open_[e.stream_id][0].extend(e.headers)
            elif isinstance(e, h2.events.StreamEnded):
                h2_ended(s, c, e.stream_id, *open_.pop(e.stream_id))
            elif isinstance(e, h2.events.StreamReset) and e.stream_id in open_:
                fields, body = open_.pop(e.stream_id)
                note(s, "".join(f"{n}: {v}\r\n" for n, v in fields) + "\r\n" + body.decode("latin-1"), cut=True)
        s.sendall(c.data_to_send())


# Listeners

def serve(s, context, connection):
    try:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s = context.wrap_socket(s, server_side=True) if context else s
        connection(s)
    except (OSError, AssertionError, ValueError, KeyError, IndexError, LookupError):
        pass  # a client that says nonsense, or goes away, ends its own connection only
    finally:
        s.close()


def listen(address, port, cert=None, key=None, kind="http/1.1"):
    context = None
    if cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.set_alpn_protocols([kind])
    listener = socket.create_server((address, int(port)), backlog=200)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0], context, h2_connection if kind == "h2" else h1_connection), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    FOLDER = pathlib.Path(sys.argv[1])
    for where in reversed(sys.argv[2:]):  # the first is what is waited for
        listen(*where.split(":"))
    signal.pause()
