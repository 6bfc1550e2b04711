# SPDX-License-Identifier: Apache-2.0
"""Real servers, reached by name from inside, without proxy variables: spliced, and with the gate looking into TLS."""

import hashlib

import pytest

import servers

DIRECT = ["env", *(word for name in ("http", "https", "all") for word in ("-u", f"{name}_proxy", "-u", f"{name.upper()}_PROXY"))]
LOOKS = {"spliced": False, "looked into": True}


def module_fixture(start):
    def serve(inter_net):
        server = start(inter_net)
        yield server
        server.end()
    return pytest.fixture(scope="module")(serve)


nginx, stream, grpc, sshd, redis, postgres = map(module_fixture, (servers.nginx, servers.stream, servers.grpc, servers.sshd, servers.redis,
                                                                  servers.postgres))


@pytest.fixture(params=LOOKS)
def look(request, net):
    """Allows *.example.com, with and without a look into TLS; the value says which."""
    net.rules({"id": "dev", "action": "allow", "host": "*.example.com", "inspect": LOOKS[request.param]})
    return LOOKS[request.param]


def python(net, script, **kw):
    r = net.sandbox(*DIRECT, "/usr/bin/python3", "-c", script, **kw)
    assert r.rc == 0, r
    return r


def was_looked_into(net, look):
    """The gate logs requests only where it reads them; look is what the rule said."""
    assert any(e["kind"] == "request" and e["port"] == 443 for e in net.log()) == look, net.log()


# nginx

def test_download(net, nginx, look):
    nginx.forget()
    r = net.sandbox(*DIRECT, "sh", "-c", "for v in --http1.1 --http2; do curl -sSf $v https://dev.example.com/big.bin | sha256sum; done")
    assert r.rc == 0 and r.out.decode().split() == [hashlib.sha256(nginx.big).hexdigest(), "-"] * 2, r
    assert [e["proto"] for e in nginx.wait_for("/big.bin", 2)] == ["HTTP/1.1", "HTTP/2.0"]
    was_looked_into(net, look)


def test_keep_alive(net, nginx, look):
    nginx.forget()
    urls = "-o /dev/null https://dev.example.com/page.html " * 4
    r = net.sandbox(*DIRECT, "sh", "-c", f"for v in --http1.1 --http2; do curl -sSf $v -w '%{{num_connects}} ' {urls}; done")
    assert r.rc == 0 and r.out == b"1 0 0 0 1 0 0 0 ", r
    served = nginx.wait_for("/page.html", 8)
    assert [e["proto"] for e in served] == ["HTTP/1.1"] * 4 + ["HTTP/2.0"] * 4
    assert [len({e["connection"] for e in part}) for part in (served[:4], served[4:])] == [1, 1], served
    was_looked_into(net, look)


def test_upload(net, nginx, look):
    """By length after 100-continue, then of unknown length."""
    data = nginx.big[:3_000_000]
    net.runner.write("data.bin", data)
    r = net.sandbox(*DIRECT, "sh", "-ec", """
for v in http1.1 http2; do
    put="curl -sSf -v --$v -H Expect:100-continue"
    $put -T data.bin https://dev.example.com/up/$v-length
    cat data.bin | $put -T - https://dev.example.com/up/$v-stream
done""")
    assert r.rc == 0 and r.err.count(b"< HTTP/1.1 100 Continue") == 2, r
    arrived = {path.name: path.read_bytes() == data for path in (nginx.www / "up").iterdir()}
    assert arrived == {name: True for name in ("http1.1-length", "http1.1-stream", "http2-length", "http2-stream")}
    for name in arrived:
        (nginx.www / "up" / name).unlink()
    was_looked_into(net, look)


def test_trailers(net, nginx, look):
    """curl shows those of HTTP/1.1, nghttp those of HTTP/2."""
    servers.need("nghttp")
    nginx.forget()
    url = "https://dev.example.com/trailer.bin"
    r = net.sandbox(*DIRECT, "sh", "-ec", f"curl -sSf -i --http1.1 -H 'TE: trailers' {url}; nghttp --no-dep -v -H 'te: trailers' {url}")
    assert r.rc == 0 and b"\r\n\r\nbody\nx-end: yes\r\n" in r.out and b"x-end: yes\n" in r.out, r
    assert [e["proto"] for e in nginx.wait_for("/trailer.bin", 2)] == ["HTTP/1.1", "HTTP/2.0"]
    was_looked_into(net, look)


ANSWERS = [  # curl's arguments, path, status, length of the body (None: whatever nginx says)
    ("-I", "/page.html", 200, 0), ("", "/page.html", 200, "all"), ("-r 5-9", "/page.html", 206, 5), ("-r 99999-", "/page.html", 416, None),
    ("", "/empty", 204, 0), ("", "/moved", 302, None), ("-L", "/moved", 200, "all"), ("", "/nothing", 404, None),
    ("-H 'If-None-Match: *'", "/page.html", 304, 0), ("-X DELETE", "/page.html", 405, None), ("-X OPTIONS", "/page.html", 405, None),
    ("", "/page.html", 200, "all"),
]


def test_answers(net, nginx, look):
    """What has a body, and how long it is, depends on more than its headers; all on one connection."""
    asked = [f"-sS $v {args} -w '%{{http_code}} %{{size_download}}\\n' -o /dev/null https://dev.example.com{path}" for args, path, _, _ in ANSWERS]
    r = net.sandbox(*DIRECT, "sh", "-c", f"for v in --http1.1 --http2; do curl {' --next '.join(asked)}; done")
    lengths = {"all": (nginx.www / "page.html").stat().st_size}
    got = [tuple(map(int, line.split())) for line in r.out.splitlines()]
    want = [(status, lengths.get(length, length)) for _, _, status, length in ANSWERS] * 2
    assert r.rc == 0 and len(got) == len(want) and all(g == w or (w[1] is None and g[0] == w[0]) for g, w in zip(got, want)), (r, want)
    was_looked_into(net, look)


REFUSED_UPLOADS = """
for v in --http1.1 --http2; do for e in Expect:100-continue Expect:; do
    curl -sS $v -H $e -H 'Accept: application/json' -T data.bin -w '%{http_code}\n' https://dev.example.com/small/a
done; done"""


def test_upload_that_the_server_refuses(net, nginx, look):
    """The answer comes before the body was sent, and the client reads it."""
    net.runner.write("data.bin", nginx.big[:3_000_000])
    r = net.sandbox(*DIRECT, "sh", "-c", REFUSED_UPLOADS)
    assert r.rc == 0 and r.out.count(b"</html>\r\n413\n") == 4, r
    was_looked_into(net, look)


def test_upload_that_a_rule_refuses(net, nginx):
    nginx.forget()
    net.rules({"action": "allow", "host": "dev.example.com", "methods": ["GET"]})
    net.runner.write("data.bin", nginx.big[:3_000_000])
    r = net.sandbox(*DIRECT, "sh", "-c", REFUSED_UPLOADS)
    assert r.rc == 0 and [line for line in r.out.split(b"\n") if line[:1] != b"{"] == [b"403"] * 4 + [b""], r
    assert r.out.count(b'"BAWN_NET_DENIED_METHOD"') == 4, r
    assert nginx.log() == []


def test_server_ends_connections(net, nginx, look):
    """After some requests, and while they are idle: no client notices."""
    nginx.forget()
    urls = "-o /dev/null https://hasty.example.com/page.html " * 25
    r = net.sandbox(*DIRECT, "sh", "-c", f"""
for v in --http1.1 --http2; do curl -sSf $v -w '%{{http_code}} ' {urls} || exit 1; done
/usr/bin/python3 -c '
import requests, time
s = requests.Session()
urls = ["http://hasty.example.com/page.html", "https://hasty.example.com/page.html"]
print([s.get(url).status_code for url in urls])
time.sleep(1.5)
print([s.get(url).status_code for url in urls])
'""")
    assert r.rc == 0 and r.out == b"200 " * 50 + b"[200, 200]\n[200, 200]\n", r
    assert len(nginx.wait_for("/page.html", 54)) == 54
    was_looked_into(net, look)


def test_many_streams_looked_into(net, nginx):
    """HTTP/2 on both sides: 20 streams at once on each of two connections."""
    servers.need("h2load")
    nginx.forget()
    net.rules({"action": "allow", "host": "dev.example.com", "inspect": True})
    r = net.sandbox(*DIRECT, "h2load", "-n", "400", "-c", "2", "-m", "20", "https://dev.example.com/page.html")
    assert r.rc == 0 and b"status codes: 400 2xx, 0 3xx, 0 4xx, 0 5xx" in r.out and b"Application protocol: h2" in r.out, r
    served = nginx.wait_for("/page.html", 400)
    assert len(served) == 400 and {e["proto"] for e in served} == {"HTTP/2.0"}
    assert len({e["connection"] for e in served}) == 2, "a connection of the sandbox is one connection outside"
    assert len([e for e in net.log() if e["kind"] == "request"]) == 400


# Protocols that are not HTTP

def test_ssh(net, sshd):
    net.runner.write("id", (sshd.folder / "id").read_bytes(), 0o600)
    net.runner.write("known", b"ssh.example.com " + (sshd.folder / "host.pub").read_bytes())
    net.runner.write("data.bin", bytes(range(256)) * 4000)
    options = "-F none -i id -o ProxyCommand=none -o BatchMode=yes -o UserKnownHostsFile=known -o StrictHostKeyChecking=yes"
    r = net.sandbox(*DIRECT, "sh", "-ec", f"""
ssh {options} dev@ssh.example.com 'id -un; cat; exit 7' </etc/hostname && exit 1; test $? = 7
scp -q {options} data.bin dev@ssh.example.com:there
scp -q {options} dev@ssh.example.com:there back.bin
cmp data.bin back.bin
""", allow=["ssh.example.com:22"])
    assert r.rc == 0 and r.out.startswith(b"dev\n"), r
    assert (sshd.folder / "home" / "there").stat().st_size == 256 * 4000


def test_redis(net, redis):
    r = net.sandbox(*DIRECT, "sh", "-c", """
redis-cli -h redis.example.com set k v; redis-cli -h redis.example.com get k
seq 2000 | sed 's/.*/RPUSH list &/' | redis-cli -h redis.example.com | tail -1
redis-cli -h redis.example.com del list""", allow=["redis.example.com:6379"])
    assert r.rc == 0 and r.out == b"OK\nv\n2000\n1\n", r


def test_postgres(net, postgres):
    """Without TLS, and with the server's own: it is not at the start of the connection, so the gate never sees it."""
    url = "postgresql://dev@postgres.example.com/postgres?sslmode="
    r = net.sandbox(*DIRECT, "sh", "-ec", f"""
psql -XAtq '{url}disable' -c 'select count(*) from generate_series(1, 100000)' -c 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'
psql -XAtq '{url}verify-full&sslrootcert=/etc/ssl/certs/ca-certificates.crt' -c 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'
""", allow=["postgres.example.com:5432"])
    assert r.rc == 0 and r.out == b"100000\nf\nt\n", r


# Streams in both directions

def test_websocket(net, look):
    r = python(net, """
import asyncio, websockets
async def talk(scheme):
    async with websockets.connect(scheme + "://ok.example.com/ws", compression=None) as ws:
        for i in range(50):
            await ws.send("text " + str(i))
            assert await ws.recv() == "text " + str(i)
        await asyncio.gather(*(ws.send(bytes([i]) * 60000) for i in range(20)))
        assert [await ws.recv() for i in range(20)] == [bytes([i]) * 60000 for i in range(20)]
        await (await ws.ping())
    print(scheme, ws.close_code)
asyncio.run(talk("ws"))
asyncio.run(talk("wss"))
""")
    assert r.out == b"ws 1000\nwss 1000\n", r
    assert [(h["port"], h["line"]) for h in net.hits(kind="request")] == [(80, "GET /ws HTTP/1.1"), (443, "GET /ws HTTP/1.1")]
    was_looked_into(net, look)


def test_events_are_not_held_back(net, stream, look):
    """The server sends the last event only once the client has read the first."""
    r = python(net, """
from http.client import HTTPConnection, HTTPSConnection
for Connection in (HTTPConnection, HTTPSConnection):
    c = Connection("stream.example.com")
    c.request("GET", "/sse")
    events = c.getresponse()
    print(events.readline(), events.readline())
    d = Connection("stream.example.com")
    d.request("GET", "/go")
    print(d.getresponse().status, events.read())
""")
    assert r.out == b"b'data: first\\n' b'\\n'\n204 b'data: last\\n\\n'\n" * 2, r
    was_looked_into(net, look)


def test_grpc(net, grpc, look):
    r = python(net, """
import grpc, time
roots = open("/etc/ssl/certs/ca-certificates.crt", "rb").read()
channel = grpc.secure_channel("grpc.example.com:443", grpc.ssl_channel_credentials(roots))
upper, echo = channel.unary_unary("/t.T/Upper"), channel.stream_stream("/t.T/Echo")
answer, call = upper.with_call(b"abc", metadata=(("x-start", "here"),))
print(answer, dict(call.trailing_metadata())["x-end"], call.code().name)
print(upper(b"x" * 3_000_000) == b"X" * 3_000_000)
try:
    upper(b"fail")
except grpc.RpcError as e:
    print(e.code().name, e.details())

# Each message is made from the answer to the one before it: neither direction may be held back.
answers = []
def messages():
    yield b"0"
    for _ in range(30):
        while not answers:
            time.sleep(0.001)
        yield answers.pop()
last = None
for last in echo(messages()):
    answers.append(last)
print(last)

calls = [upper.future(b"n%d" % i) for i in range(50)]
print([c.result() for c in calls] == [b"N%d" % i for i in range(50)])
""")
    assert r.out.decode().splitlines() == ["b'ABC' here OK", "True", "FAILED_PRECONDITION as asked", repr(b"0" + b"!" * 31), "True"], r
    was_looked_into(net, look)
