# SPDX-License-Identifier: Apache-2.0
"""ATTACKS C4.49-51: a name that a rule allows leads to public addresses only, whatever the name server says, and whenever it says it."""

import ipaddress
import subprocess

import pytest

from attack_tools import inside, into, outside, python, recorder

PORT = 8081  # of recorders that take any address, in the internet and on the machine itself

# Scaleway, Tencent, GKE, Aeza; then Scaleway, Oracle, Akamai, Alibaba, Google
CLOUDS = ["169.254.42.42", "169.254.0.23", "169.254.169.252", "77.221.156.49", "fd00:42::42", "fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1", "fd00:100::100:200", "fd20:ce::254"]
# Operators' NAT64: the last ones behind 2a00:64:0:1::/64, which only ipv4only.arpa shows
NAT64 = ["2a00:64::a00:5", "2a00:64::7f00:1", "2a00:64::a9fe:a9fe", "2a00:64::bff:2", "2a00:64:0:1:a:0:500:0", "2a00:64:0:1:a9:fea9:fe00:0", "2a00:64:0:1:b:ff00:200:0"]
OWN = ["127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "172.31.0.1", "11.255.0.1", "11.255.0.2", "fd99::1", "::ffff:11.255.0.2"]
PRIVATE = ["10.0.0.5", "192.168.7.7", "172.16.0.9", "100.64.0.1", "fd12::1", "::ffff:10.0.0.5", "172.31.0.2"]
METADATA = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "::ffff:169.254.169.254", "::ffff:168.63.129.16", *CLOUDS]
WRAPPED = ["2002:a00:5::1", "2002:a9fe:a9fe::1", "2002:7f00:1::1", "64:ff9b::a00:5", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1",
           "64:ff9b:1::a00:5", "::a00:5",
           "2001:0:1:1::f5ff:fffa", "fec0::1", "2001:db8::1", *NAT64]
FINE = "2a00:64:0:1:b:0:a00:0"  # 11.0.0.10 behind the same prefix
RESERVED = ["198.51.100.7"]
EVERYTHING = OWN + PRIVATE + METADATA + WRAPPED + RESERVED
NOBODY = ["224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "ff02::1"]  # nothing can listen there


def name_of(address):
    return f"to-{ipaddress.ip_address(address).packed.hex()}.example.com"


@pytest.fixture(scope="module")
def wrapped(inter_net):
    """Somebody in the internet has the addresses that carry others."""
    more = [*WRAPPED, *CLOUDS, FINE]
    for a in more:
        subprocess.run(into(inter_net.inet, "ip", "addr", "add", a, "dev", "lo", *(["nodad"] if ":" in a else [])), check=True)
    yield
    for a in more:
        subprocess.run(into(inter_net.inet, "ip", "addr", "del", f"{a}/128" if ":" in a else f"{a}/32", "dev", "lo"), check=True)


@pytest.fixture
def traps(net, wrapped):
    """Recorders on every address of the internet and of the machine; every bad address has a name."""
    far, near = recorder(net, f"tcp:[::]:{PORT}"), recorder(net, f"tcp:[::]:{PORT}", pid=net.world.outer)
    net.names.update({name_of(a): [a] for a in EVERYTHING + NOBODY})
    net.names.update({"fine.example.com": ["11.0.0.10"], "fine6.example.com": [FINE], "ipv4only.arpa": ["192.0.0.170", "192.0.0.171", "2a00:64:0:1:c0:0:aa00:0"]})
    net.save_names()
    net.trapped = lambda: [h for seen in (far, near) for h in seen()]
    return net


def attempts(hosts, port=PORT):
    """The script that tries hosts by every entrance."""
    return f"""
found = {{}}
for host in {hosts!r}:
    name = host.encode()
    literal = b"[" + name + b"]" if b":" in name else name
    found[host] = [answer.decode("latin-1") for answer in (
        refusable(lambda: talk(socket.create_connection((host, {port})), get(name)))(),
        by_connect(literal, {port}), by_socks(name, {port}), by_uri(literal, {port}))]
print(json.dumps(found))
"""


def test_the_traps_work(traps):
    """Without a sandbox every one of these names and addresses reaches a recorder."""
    r = outside(traps, f"""
found = {{}}
for host in {EVERYTHING + [name_of(a) for a in EVERYTHING]!r}:
    s = socket.create_connection((host, {PORT}))
    s.sendall(get(b"x"))
    found[host] = s.recv(1000).decode()
print(json.dumps(found))
""")
    assert r.rc == 0 and all("got there" in answer for answer in r.json().values()), r


def refused(found, hosts):
    assert sorted(found) == sorted(hosts)
    assert {host: answers for host, answers in found.items() if any("got there" in a or " 200 " in a for a in answers)} == {}


RULES = {"by name": {"allow": [f"*.example.com:{PORT}", "*.example.com"]}, "full": {"options": ["--network", "full"]}}


@pytest.mark.parametrize("rules", RULES)
def test_names_that_lead_home(traps, rules):
    """Claim: an allowed name with such an address is not dialled, by any entrance: this machine, its networks, metadata, wrapped forms (49-51)."""
    names = [name_of(a) for a in EVERYTHING + NOBODY]
    found = inside(traps, attempts(names + ["fine.example.com"], PORT), **RULES[rules])
    assert all("got there" in answer for answer in found.pop("fine.example.com")), "the rule itself opens the port"
    assert {h["to"] for h in traps.trapped()} == {"::ffff:11.0.0.10"}
    refused(found, names)
    asked = {q.split()[1] for q in traps.queries()} - {"ipv4only.arpa"}
    assert asked == set(names) | {"fine.example.com"}, "the gate did not even ask, so its filter was not tried"


def test_translator_to_a_public_address(traps):
    """The harmless twin: what the network's translator carries to a public address is reached, and its prefix was asked for."""
    found = inside(traps, attempts(["fine6.example.com"]), allow=["fine6.example.com"])
    assert all("got there" in answer for answer in found["fine6.example.com"]), found
    assert "ipv4only.arpa" in {q.split()[1] for q in traps.queries()}


def test_denied_network_behind_a_translator(traps):
    """Claim: a deny of an IPv4 network holds for the same host by the translator's address, too."""
    traps.rules({"action": "deny", "host": "11.0.0.0/24"}, {"action": "allow", "host": "fine6.example.com"})
    refused(inside(traps, attempts(["fine6.example.com"])), ["fine6.example.com"])
    assert traps.trapped() == []


@pytest.mark.parametrize("rules", [{"options": ["--network", "full"]}, {"allow": ["*.platformequinix.com"]}], ids=["full", "wildcard"])
def test_metadata_service_with_a_public_address(traps, rules):
    """Claim: a metadata service with a public address has to be named exactly, too."""
    traps.names["metadata.platformequinix.com"] = ["11.0.0.10"]
    traps.save_names()
    refused(inside(traps, attempts(["metadata.platformequinix.com"]), **rules), ["metadata.platformequinix.com"])
    assert traps.trapped() == []


@pytest.mark.parametrize("rules", [{"options": ["--network", "full"]}, {"allow": ["0.0.0.0/0"]}, {"allow": ["::/0"]}, {"allow": ["ok.example.com"]}],
                         ids=["full", "every v4", "every v6", "a name"])
def test_literal_addresses(traps, rules):
    """Claim: no rule that is wider than the block itself opens such an address by number (48-51)."""
    addresses = EVERYTHING + NOBODY
    refused(inside(traps, attempts(addresses), **rules), addresses)
    assert traps.trapped() == [] and traps.hits() == []


def test_addresses_by_socks_bytes(traps):
    """Claim: the binary addresses of SOCKS5 are judged as their text is (48, 50)."""
    table = {a: list(ipaddress.ip_address(a).packed) for a in EVERYTHING}
    found = inside(traps, f"""
@refusable
def knock(packed):
    s = open_socks(bytes(packed), {PORT}, 1 if len(packed) == 4 else 4)
    return s if isinstance(s, bytes) else talk(s, get(b"x"))
shown({{a: knock(packed) for a, packed in {table!r}.items()}})
""", options=["--network", "full"])
    refused({a: [answer] for a, answer in found.items()}, EVERYTHING)
    assert traps.trapped() == [] and traps.hits() == []


@pytest.mark.parametrize("order", [["10.0.0.5", "11.0.0.10"], ["11.0.0.10", "10.0.0.5"],
                         ["169.254.169.254", "127.0.0.1", "11.255.0.1", "11.0.0.10", "::1", "fd12::1"]])
def test_mixed_answers(traps, order):
    """Claim: of several addresses only the public one is dialled, wherever it stands (49)."""
    traps.names["mixed.example.com"] = order
    traps.save_names()
    found = inside(traps, attempts(["mixed.example.com"]), allow=["mixed.example.com"])
    assert all("got there" in answer for answer in found["mixed.example.com"]), found
    assert {h["to"] for h in traps.trapped()} == {"::ffff:11.0.0.10"}


@pytest.mark.parametrize("bad", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "11.255.0.2", "::ffff:10.0.0.5"])
def test_rebinding(traps, bad):
    """Claim: a name that was public a moment ago and now leads home does not lead there: no second lookup is dialled unjudged (49)."""
    traps.names["rebind.example.com"] = ["11.0.0.10"]
    command = traps.command(*python(traps, f"""
for line in sys.stdin:
    address = addresses(dns(question(b"rebind.example.com")))[0] if line == "first\\n" else address
    print(json.dumps([a.decode("latin-1") for a in (by_dns(b"rebind.example.com", {PORT}), by_connect(b"rebind.example.com", {PORT}),
                     by_socks(b"rebind.example.com", {PORT}), refusable(lambda: talk(dial(address, {PORT}), get(HONEST)))())]), flush=True)
"""), allow=["rebind.example.com"])
    p = traps.popen(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def step(word, addresses):
        traps.names["rebind.example.com"] = addresses
        traps.save_names()
        p.stdin.write(word + "\n")
        p.stdin.flush()
        return p.stdout.readline()

    first, second, third = step("first", ["11.0.0.10"]), step("second", [bad]), step("third", [bad, "11.0.0.10"])
    p.stdin.close()
    assert p.wait() == 0, p.stderr.read()
    assert first.count("got there") == 4, first
    assert {h["to"] for h in traps.trapped()} == {"::ffff:11.0.0.10"}, (second, third)
    assert "rebind.example.com" in {q.split()[1] for q in traps.queries()}


def test_open_connection_is_not_moved(traps):
    """Claim: a connection that is kept alive goes on to the address that was judged, whatever the name says later (49)."""
    traps.names["rebind.example.com"] = ["11.0.0.10"]
    command = traps.command(*python(traps, """
s = socket.create_connection(("rebind.example.com", 80))
for line in sys.stdin:
    s.sendall(b"GET /" + line.strip().encode() + b" HTTP/1.1\\r\\nHost: rebind.example.com\\r\\n\\r\\n")
    print(b" 200 " in s.recv(65536), flush=True)
"""), allow=["rebind.example.com"])
    p = traps.popen(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for word in ("one", "two", "three"):
        p.stdin.write(word + "\n")
        p.stdin.flush()
        assert p.stdout.readline() == "True\n"
        traps.names["rebind.example.com"] = ["10.0.0.5"]
        traps.save_names()
    p.stdin.close()
    assert p.wait() == 0
    assert [(h["to"], h["line"]) for h in traps.hits(kind="request")] == [("11.0.0.10", f"GET /{w} HTTP/1.1") for w in ("one", "two", "three")]


@pytest.mark.parametrize("rules", [{"allow": ["ok.example.com"]}, {"options": ["--network", "full"]}, {"allow": ["*.bawn.internal"]}],
                         ids=["a name", "full", "wildcard"])
def test_the_machine_has_to_be_named(traps, rules):
    """Claim: host.bawn.internal, localhost and the gate's own addresses lead nowhere without a rule that names the machine (51)."""
    hosts = ["host.bawn.internal", "localhost", "198.18.0.1", "198.18.0.2", "0.0.0.0", "127.0.0.1", "::1", "::ffff:127.0.0.1"]
    refused(inside(traps, attempts(hosts), **rules), hosts)
    assert traps.trapped() == [] and traps.queries() == []


def test_the_machine_can_be_named(traps):
    """The other half: the trap on the machine's loopback is there, for who is allowed to."""
    found = inside(traps, attempts(["host.bawn.internal"]), allow=[f"host.bawn.internal:{PORT}"])
    assert all("got there" in answer for answer in found["host.bawn.internal"]), found
