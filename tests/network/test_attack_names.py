# SPDX-License-Identifier: Apache-2.0
"""ATTACKS C4.47, 48, 52: one spelling per host, one name per connection: lookup, proxy request, Host and SNI agree or nothing goes out."""

import pytest

from attack_tools import inside, outside, recorder

ENTRANCES = ["by_dns", "by_socks", "by_connect", "by_uri", "by_host", "by_sni"]
ALLOW = ["ok.example.com", "*.wild.example.com"]


def every_entrance(name):
    """The script that tries a name by each entrance that can carry it."""
    return f"""
name = {name!r}
labels = name.split(b".")
ways = {ENTRANCES!r}
if max(map(len, labels)) > 63 or b"" in labels[:-1]:
    ways.remove("by_dns")
shown({{f: globals()[f](name) for f in ways}})
"""


def is_open(answer):
    return "200 OK" in answer or answer == "hello"


@pytest.fixture
def evil(net):
    net.names["*"] = ["11.0.0.11"]
    net.save_names()
    return net


@pytest.mark.parametrize("name", [b"ok.example.com", b"OK.Example.COM", b"ok.example.com."])
def test_the_same_host(evil, name):
    """Claim: what is the same host is allowed by every entrance, and arrives in its one spelling."""
    found = inside(evil, every_entrance(name), allow=ALLOW)
    assert all(map(is_open, found.values())), found
    hosts = {value for h in evil.hits(kind="request") for key, value in h["headers"] if key == "host"}
    assert hosts == {"ok.example.com"} and {h["to"] for h in evil.hits()} == {"11.0.0.10"}
    assert {q.split()[1] for q in evil.queries()} == {"ok.example.com"}


TRICKS = [
    # another host that looks like an allowed one
    b"evilok.example.com", b"ok.example.com.evil.example.net", b"ok-example.com", b"ok.example.comm", b"k.example.com",
    b"okexample.com", b"example.com",
    b"com", b"evilwild.example.com", b"wild.example.com", b"a.b.wild.example.com", b".wild.example.com", b"*.wild.example.com", b"*", b"*.com",
    # parts of a URL
    b"ok.example.com@evil.example.net", b"evil.example.net@ok.example.com", b"user:pw@ok.example.com", b"evil.example.net#.wild.example.com",
    b"evil.example.net/.wild.example.com", b"evil.example.net?.wild.example.com", b"evil.example.net\\.wild.example.com",
    b"evil.example.net:80#.wild.example.com",
    b"http://ok.example.com", b"//ok.example.com", b"ok.example.com/", b"ok.example.com:80:80", b"ok.example.com:", b"ok.example.com:0x50",
    # encodings
    b"ok%2eexample.com", b"ok.example%2ecom", b"%6fk.example.com", b"evil.example.net%00.wild.example.com", b"evil.example.net%2f.wild.example.com",
    b"=?utf-8?q?ok?=.example.com", "evil\u3002example.net".encode(), "\u043ek.example.com".encode(), b"xn--k-8tb.example.com", b"xn--.example.com",
    b"xn--a.wild.example.com", b"\xff\xfe.wild.example.com", b"\xc0\xae.wild.example.com", "evil.example.net\u2044.wild.example.com".encode(),
    # white space and control bytes
    b"o k.example.com", b"evil.example.net .wild.example.com", b"\tok.example.com\t.evil.example.net", b"evil.example.net\r.wild.example.com",
    b"evil.example.net\x0b.wild.example.com", b"evil.example.net\x7f.wild.example.com", b"evil.example.net\xa0.wild.example.com",
    b"ok.example.com,evil.example.net", b"ok.example.com;evil.example.net", b"evil.example.net|.wild.example.com", b"a'b.wild.example.com",
    # dots and lengths
    b"ok..example.com", b".ok.example.com", b"ok.example.com..", b"-ok.wild.example.com", b"ok-.wild.example.com", b"", b".", b"..",
    b"a" * 64 + b".wild.example.com", b"a." * 119 + b"wild.example.com", b"a" * 250,
    # addresses in spellings that only some programs know: 11.0.0.11, 127.0.0.1
    b"11.11", b"11.0.11", b"184549387", b"0x0b00000b", b"0x0b.0.0.0x0b", b"013.0.0.013", b"11.0.0.11.", b"11.0.0.011", b"11.0.0.267", b"0", b"127.1",
    b"2130706433", b"0x7f.0.0.1", b"017700000001", b"127.0.0.1.", b"::1", b"[::1]",
    b"[::ffff:127.0.0.1]", b"[::ffff:11.0.0.11]", b"[0:0:0:0:0:ffff:0b00:000b]",
    b"[fe80::1%25lo]", b"[fe80::1%lo]", b"[::ffff:0x0b.0.0.11]", b"[11.0.0.11]", b"[ok.example.com]", b"[", b"]", b"localhost",
    b"11.0.0.11", b"2a00:11::10", b"[2a00:11::10]",
]


@pytest.mark.parametrize("first", range(0, len(TRICKS), 8))
def test_spellings(evil, first):
    """Claim: none of these is an allowed host, by DNS, SOCKS5, CONNECT, absolute URI, Host header or SNI; none is looked up (46, 47)."""
    tricks = TRICKS[first:first + 8]
    for name, found in tried(evil, tricks).items():
        assert not any(map(is_open, found.values())), (name, found)
    assert {q.split()[1] for q in evil.queries()} <= {"ok.example.com"}, "of the connection that the Host header and the SNI came in"
    assert evil.requests() == [] and not any(h["to"] != "11.0.0.10" for h in evil.hits())


def tried(net, tricks):
    """{name: {entrance: answer}} from one sandbox."""
    script = "all = {}\ndef shown(found): all[name.hex()] = {k: v.decode('latin-1') for k, v in found.items()}\n"
    answers = inside(net, script + "".join(map(every_entrance, tricks)) + "print(json.dumps(all))", allow=ALLOW)
    found = {bytes.fromhex(name): of_one for name, of_one in answers.items()}
    assert set(found) == set(tricks)
    return found


# One name per connection

OPENERS = {
    "transparent": "socket.create_connection(('ok.example.com', 443))",
    "CONNECT": "open_connect(b'ok.example.com', 443)",
    "SOCKS": "open_socks(b'ok.example.com', 443)",
}


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("inspect", [False, True], ids=["spliced", "looked into"])
def test_fronting_by_sni(evil, opener, inspect):
    """Claim: a connection to an allowed name whose TLS asks for another one is ended, and no server sees that name (52)."""
    evil.rules({"action": "allow", "host": "ok.example.com", "inspect": inspect})
    found = inside(evil, f"""
shown({{sni: https({OPENERS[opener]}, sni, b"ok.example.com") for sni in (
    "ok.example.com", "evil.example.net", "other.example.com", "ok.example.com.evil.example.net")}})
""")
    assert "200 OK" in found.pop("ok.example.com") and all(a.startswith("refused") for a in found.values()), found
    assert {h["sni"] for h in evil.hits(kind="connect")} == {"ok.example.com"} and len(evil.requests()) == 1


@pytest.mark.parametrize("opener", OPENERS)
def test_fronting_by_host(evil, opener):
    """Claim: where the gate looks into TLS, the Host header is the name of the connection, else 421 (52)."""
    evil.rules({"action": "allow", "host": "ok.example.com", "inspect": True})
    found = inside(evil, f"""
shown({{host: https({OPENERS[opener]}, "ok.example.com", host.encode()) for host in (
    "ok.example.com", "evil.example.net", "other.example.com", "ok.example.com:8443",
    "ok.example.com, evil.example.net")}})
""")
    assert "200 OK" in found.pop("ok.example.com"), found
    assert {host: answer.split()[1] for host, answer in found.items()} == {
        "evil.example.net": "421", "other.example.com": "421", "ok.example.com:8443": "421",
                                                                           "ok.example.com, evil.example.net": "400"}
    assert len(evil.requests()) == 1


def test_fronting_by_plain_host(evil):
    """Claim: on port 80 the Host header is the name of the connection too (52)."""
    found = inside(evil, "shown({name: by_host(name.encode()) for name in ('ok.example.com', 'evil.example.net')})", allow=["ok.example.com"])
    assert [answer.split()[1] for answer in found.values()] == ["200", "421"], found
    assert len(evil.requests()) == 1


def test_absolute_uri_is_the_host(evil):
    """Claim: a request whose target and Host header name two hosts is not sent on, to neither (47, 54)."""
    found = inside(evil, r"""
found = {}
for where, target in (("proxy", PROXY), ("server", ("ok.example.com", 80))):
    for uri, host in ((b"evil.example.net", HONEST), (HONEST, b"evil.example.net"), (b"evil.example.net", b"evil.example.net")):
        request = b"GET http://" + uri + b"/ HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
        found[f"{where} {uri} {host}"] = refusable(lambda: talk(socket.create_connection(target), request))()
shown(found)
""", allow=["ok.example.com"])
    assert len(found) == 6 and not any(map(is_open, found.values())), found
    assert evil.requests() == [] and not any("evil" in q for q in evil.queries())


def test_sni_to_a_hard_coded_address(evil):
    """Claim: an allowed name in the SNI opens no connection to an address that a program brought along (52)."""
    direct = """
def to(opened):
    return refusable(lambda: https(opened(), "ok.example.com", HONEST))()
found = {"direct": to(lambda: dial("11.0.0.11", 443))}
"""
    assert "200 OK" in outside(evil, direct + "shown(found)").json()["direct"]
    evil.forget()
    found = inside(evil, direct + r"""
found["CONNECT"] = to(lambda: open_connect(b"11.0.0.11", 443))
found["SOCKS name"] = to(lambda: open_socks(b"11.0.0.11", 443))
found["SOCKS v4"] = to(lambda: open_socks(b"\x0b\0\0\x0b", 443, 1))
found["synthetic"] = to(lambda: dial("198.18.7.7", 443))
shown(found)
""", allow=["ok.example.com"])
    assert len(found) == 5 and not any(map(is_open, found.values())), found
    assert evil.hits() == [] and evil.queries() == []


NOT_TLS = {"HTTP": b"GET / HTTP/1.1\r\nHost: ok.example.com\r\n\r\n", "SSH": b"SSH-2.0-x\r\n", "half a word": b"G",
           "zeros": b"\0" * 64, "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           "nearly TLS": b"\x16\3\1\0\5\2\0\0\1\0", "TLS alert": b"\x15\3\1\0\2\1\0",
           "SSLv2": b"\x80\x2e\1\0\2\0\x15\0\0\0\x10", "data": b"\x17\3\3\0\5hello"}


@pytest.mark.parametrize("inspect", [False, True], ids=["spliced", "looked into"])
def test_not_tls_on_443(evil, inspect):
    """Claim: what is not TLS does not pass port 443, transparently or in a tunnel: the server gets not one byte (48)."""
    evil.names["ok.example.com"] = ["11.0.0.28"]
    seen = recorder(evil, "tcp:11.0.0.28:443")
    assert "got there" in outside(evil, "shown({'answer': talk(dial('11.0.0.28', 443), get(HONEST))})").json()["answer"]
    assert any("data" in h for h in seen()), "the recorder does not write down"
    before = len([h for h in seen() if "data" in h])
    evil.rules({"action": "allow", "host": "ok.example.com", "inspect": inspect})
    found = inside(evil, f"""
def push(s, data):
    if isinstance(s, bytes):
        return s
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    return rest(s)
shown({{way + " " + what: refusable(lambda: push(opener(), data))() for what, data in {NOT_TLS!r}.items() for way, opener in (
    ("transparent", lambda: socket.create_connection(("ok.example.com", 443))), ("CONNECT", lambda: open_connect(b"ok.example.com", 443)),
    ("SOCKS", lambda: open_socks(b"ok.example.com", 443)))}})
""")
    assert len(found) == 3 * len(NOT_TLS) and not any("got there" in answer for answer in found.values()), found
    assert len([h for h in seen() if "data" in h]) == before, seen()


HELLOS = {
    "two names": "client_hello(b'ok.example.com', client_hello(b'evil.example.net')[-49:-24])",  # the other one's extension, too
    "evil in pieces": "client_hello(b'evil.example.net')",
    "name cut short": "client_hello(b'ok.example.com')[:-30]",
    "empty name": "client_hello(b'')",
    "address as name": "client_hello(b'11.0.0.11')",
    "upper case evil": "client_hello(b'EVIL.example.net')",
}


@pytest.mark.parametrize("hello", HELLOS)
def test_hellos(evil, hello):
    """Claim: a ClientHello from which two readers could take two names never reaches a server, however it is cut into packets (52)."""
    evil.names["ok.example.com"] = ["11.0.0.28"]
    seen = recorder(evil, "tcp:11.0.0.28:443")
    found = inside(evil, f"""
def slowly(s, data, step):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(data), step):
        s.sendall(data[at:at + step])
        time.sleep(0.002)
    s.shutdown(socket.SHUT_WR)
    return rest(s)
hello = {HELLOS[hello]}
shown({{str(step): refusable(slowly)(socket.create_connection(("ok.example.com", 443)), hello, step) for step in (10000, 40, 7)}})
""", allow=["ok.example.com"])
    arrived = [h["data"] for h in seen() if "data" in h]
    assert arrived == [], found


def test_honest_hellos_arrive(evil):
    """The other half of test_hellos: in one piece, in many, and without a name."""
    evil.names["ok.example.com"] = ["11.0.0.28"]
    seen = recorder(evil, "tcp:11.0.0.28:443")
    found = inside(evil, """
def sent(data, step):
    s = socket.create_connection(("ok.example.com", 443))
    for at in range(0, len(data), step):
        s.sendall(data[at:at + step])
    return s.recv(100)
shown({"one piece": sent(client_hello(HONEST), 10000), "pieces": sent(client_hello(HONEST), 7), "no name": sent(client_hello(None), 10000)})
""", allow=["ok.example.com"])
    assert all("got there" in answer for answer in found.values()), found
    assert "".join(h["data"] for h in seen() if "data" in h).count("ok.example.com") == 2


def test_hidden_name_when_looked_into(evil):
    """Claim: where the gate looks into TLS, an encrypted ClientHello ends at the gate; the server's is the gate's own (52)."""
    evil.names["ok.example.com"] = ["11.0.0.28"]
    seen = recorder(evil, "tcp:11.0.0.28:443")
    evil.rules({"action": "allow", "host": "ok.example.com", "inspect": True})
    inside(evil, """
ech = b"\\xfe\\x0d" + struct.pack("!H", 40) + b"\\0\\0\\1\\0\\1\\0\\0\\x04abcd\\0\\x18" + b"hidden.evil.example.net!!!"
shown({"answer": refusable(lambda: tls_answer(socket.create_connection(("ok.example.com", 443)), client_hello(HONEST, ech)))()})
""")
    arrived = [h["data"] for h in seen() if "data" in h]
    assert arrived and not any("hidden" in data for data in arrived)


# Tunnels

@pytest.mark.parametrize("way", ["by_connect", "by_socks", "by_uri", "by_dns"])
def test_ports_outside_the_rule(evil, way):
    """Claim: a rule for one port opens no other one of that host, by any entrance (48)."""
    found = inside(evil, f"shown({{str(port): {way}(HONEST, port) for port in (8080, 80, 7, 22, 25, 2525, 0)}})", allow=["ok.example.com:8080"])
    assert "200 OK" in found.pop("8080") and not any(map(is_open, found.values())), found
    assert {h["port"] for h in evil.hits()} == {8080}


TARGETS = [b"ok.example.com", b"ok.example.com:", b"ok.example.com:99999", b"ok.example.com:-1",
           b"ok.example.com:443abc", b"ok.example.com:0443x", b":443", b"443",
           b"http://ok.example.com:443/", b"ok.example.com:443/x", b"11.0.0.11:443", b"[2a00:11::10]:443",
           b"127.0.0.1:15001", b"[::1]:15001", b"localhost:15001",
           b"198.18.0.1:53", b"bawn.internal:443", b"host.bawn.internal:22", b"*:443", b"0.0.0.0:15001"]


def test_connect_targets(evil):
    """Claim: CONNECT opens nothing for a target that is not exactly NAME:PORT of a rule: not by address, not the entry itself (48)."""
    found = inside(evil, f"""
def tried(target):
    s = refusable(open_connect)(target, None)
    return s if isinstance(s, bytes) else b"OPEN"
shown({{target.decode(): tried(target) for target in {TARGETS!r}}})
""", allow=["ok.example.com"])
    assert len(found) == len(TARGETS) and not any(answer == "OPEN" for answer in found.values()), found
    assert evil.hits() == [] and evil.queries() == []


@pytest.mark.parametrize("port,inspect", [(80, None), (80, True), (8080, True), (443, True)])
def test_connect_in_connect(evil, port, inspect):
    """Claim: a CONNECT inside a connection that is read as HTTP is refused; the server does not get it (48)."""
    evil.rules({"action": "allow", "host": "ok.example.com", **({"inspect": inspect} if inspect else {})})
    found = inside(evil, f"""
def tunnel(s):
    if isinstance(s, bytes):
        return s
    if {port} == 443:
        s = lax().wrap_socket(s, server_hostname="ok.example.com")
    return talk(s, b"CONNECT evil.example.net:443 HTTP/1.1\\r\\nHost: evil.example.net:443\\r\\nConnection: close\\r\\n\\r\\n")
shown({{"CONNECT": refusable(lambda: tunnel(open_connect(HONEST, {port})))(), "SOCKS": refusable(lambda: tunnel(open_socks(HONEST, {port})))(),
       "transparent": refusable(lambda: tunnel(socket.create_connection(("ok.example.com", {port}))))()}})
""")
    assert len(found) == 3 and not any(map(is_open, found.values())), found
    assert evil.requests() == []
