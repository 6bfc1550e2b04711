# SPDX-License-Identifier: Apache-2.0
"""--publish: a server inside answers on 127.0.0.1 of this machine, and nowhere else. host.bawn.internal: a service of this machine, by rule only."""

import contextlib
import os
import signal
import subprocess

import pytest
from inside import Inside, until

SERVE = """
import threading
def serve(port, answer=None):
    s = socket.create_server(("127.0.0.1", port), backlog=100)
    def one(c):
        c.sendall(answer) if answer else [c.sendall(d) for d in iter(lambda: c.recv(65536), b"")]
        c.shutdown(socket.SHUT_WR)
    def all():
        while True:
            threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
    threading.Thread(target=all, daemon=True).start()
"""

CLIENT = """
import hashlib, socket, sys, threading
def talk(address, port, data=b"ping"):
    s = socket.create_connection((address, port))
    t = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    t.start()
    got = b"".join(iter(lambda: s.recv(65536), b""))
    t.join()
    return got
"""


def client(net, script):
    return net.outside("/usr/bin/python3", "-c", CLIENT + script)


def answer_of(net, address, port):
    """What a server there says first; the name of the error if there is none."""
    r = client(net, f"""
try:
    print(socket.create_connection(("{address}", {port})).recv(100).decode() or "closed")
except OSError as e:
    print(type(e).__name__)
""")
    assert r.rc == 0, r
    return r.out.decode().strip()


@contextlib.contextmanager
def outer_server(net, address, port, word, listens=False):
    """A service of the machine itself; listens: it lets the client speak first."""
    p = net.popen("/usr/bin/python3", "-c", f"""
import socket
s = socket.create_server(("{address}", {port}), family=socket.AF_INET6 if ":" in "{address}" else socket.AF_INET)
print("up", flush=True)
while True:
    c, _ = s.accept()
    {listens} and c.recv(65536)
    c.sendall(b"{word}")
    c.close()
""", stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    try:
        yield
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        p.stdout.close()


@pytest.mark.parametrize("words, there", [(["3000"], {3000: 3000}), (["3000:8080"], {8080: 3000}),
                                          (["3000", "3001:3002", "3001:3003"], {3000: 3000, 3002: 3001, 3003: 3001})])
def test_ports(net, words, there):
    with Inside(net, options=[word for w in words for word in ("--publish", w)]) as inside:
        inside(SERVE + "".join(f"serve({port}, b'this is {port}')\n" for port in set(there.values())))
        for outside, port in there.items():
            assert answer_of(net, "127.0.0.1", outside) == f"this is {port}"
        for port in {3000, 3001, 3002, 3003, 8080} - set(there):
            assert answer_of(net, "127.0.0.1", port) == "ConnectionRefusedError"
        inside.end()
    for outside in there:
        assert answer_of(net, "127.0.0.1", outside) == "ConnectionRefusedError", "it ends with the run"


def test_any_free_port_is_told(net):
    with Inside(net, options=["--publish", "3000:0"]) as inside:
        inside(SERVE + "serve(3000, b'here')")
        line = until(lambda: [text for text in inside.err().splitlines() if "is published on 127.0.0.1, port" in text])
        assert answer_of(net, "127.0.0.1", int(line[0].split()[-1])) == "here"


def test_only_loopback(net):
    """Neither the machine's other addresses nor other machines get in."""
    with Inside(net, options=["--publish", "3000"]) as inside:
        inside(SERVE + "serve(3000, b'here')")
        assert answer_of(net, "127.0.0.1", 3000) == "here"
        for address in ("172.31.0.1", "11.255.0.1", "11.255.0.2", "::1", "fd99::1"):
            assert answer_of(net, address, 3000) == "ConnectionRefusedError"
        there = ["nsenter", f"--net=/proc/{net.world.inet}/ns/net", "--", "bash", "-c"]
        r = subprocess.run([*there, "exec 3<>/dev/tcp/172.31.0.1/3000"], capture_output=True)
        assert r.returncode != 0 and b"refused" in r.stderr


def test_another_address_by_name(net):
    with Inside(net, options=["--publish", "172.31.0.1:3000:3001", "--publish", "[::1]:3000:3002"]) as inside:
        inside(SERVE + "serve(3000, b'here')")
        assert answer_of(net, "172.31.0.1", 3001) == answer_of(net, "::1", 3002) == "here"
        assert answer_of(net, "127.0.0.1", 3001) == answer_of(net, "127.0.0.1", 3002) == "ConnectionRefusedError"


def test_a_port_that_is_taken(net):
    """A clear error, and nothing was started."""
    with outer_server(net, "127.0.0.1", 3000, "somebody else"):
        r = net.bawn("run", "--publish", "3001", "--publish", "3000", "--", "touch", "started")
        assert r.rc == 125 and b"port 3000 of 127.0.0.1 is in use" in r.err, r
        assert not (net.runner.workspace / "started").exists()
        assert answer_of(net, "127.0.0.1", 3001) == "ConnectionRefusedError"


@pytest.mark.parametrize("word", ["0", "65536", "x", "3000:", ":3000", "1.2.3:3000:3000", "3000:65536", "a:1:2"])
def test_words_that_mean_nothing(net, word):
    r = net.bawn("run", "--publish", word, "--", "touch", "started")
    assert r.rc == 64 and not (net.runner.workspace / "started").exists(), r


def test_a_server_that_comes_later(net):
    with Inside(net, options=["--publish", "3000"]) as inside:
        assert inside("1") == 1
        for _ in range(3):
            assert answer_of(net, "127.0.0.1", 3000) in ("closed", "ConnectionResetError")
        inside(SERVE + "serve(3000, b'here')")
        assert answer_of(net, "127.0.0.1", 3000) == "here"


@pytest.mark.parametrize("family, address", [("AF_INET", "0.0.0.0"), ("AF_INET6", "::")])
def test_a_server_on_every_address_inside(net, family, address):
    with Inside(net, options=["--publish", "3000"]) as inside:
        inside(f"s = socket.create_server(('{address}', 3000), family=socket.{family}, dualstack_ipv6={family == 'AF_INET6'})")
        inside.start("c, peer = s.accept(); c.sendall(b'here'); c.close()\npeer[0]")
        assert answer_of(net, "127.0.0.1", 3000) == "here"
        assert inside.result() in ("127.0.0.1", "::ffff:127.0.0.1")


def test_much_data_both_ways(net):
    with Inside(net, options=["--publish", "3000"]) as inside:
        inside(SERVE + "serve(3000)")
        r = client(net, """
data = bytes(range(256)) * 200000
print(talk("127.0.0.1", 3000, data) == data)
""")
        assert r.out == b"True\n", r


def test_many_at_once(net):
    with Inside(net, options=["--publish", "3000"]) as inside:
        inside(SERVE + "serve(3000)")
        r = client(net, """
results, gate = [], threading.Barrier(50)
def one(i):
    gate.wait()
    results.append(talk("127.0.0.1", 3000, b"%d " % i * 1000) == b"%d " % i * 1000)
threads = [threading.Thread(target=one, args=(i,)) for i in range(50)]
[t.start() for t in threads]
[t.join() for t in threads]
print(results == [True] * 50)
""")
        assert r.out == b"True\n", r


def test_half_closed(net):
    """Each side can end what it says and still hear the other."""
    with Inside(net, options=["--publish", "3000"]) as inside:
        inside("s = socket.create_server(('127.0.0.1', 3000))")
        inside.start("c, _ = s.accept(); got = all_of(c); c.sendall(b'then: ' + got); c.close()\ngot.decode()")
        assert client(net, "print(talk('127.0.0.1', 3000, b'question').decode())").out == b"then: question\n"
        assert inside.result() == "question"


def test_two_sandboxes(net):
    """Each has ports of its own, and neither reaches the other's: a published port is the machine's."""
    with Inside(net, options=["--publish", "3000:3001"]) as one, Inside(net, options=["--publish", "3000:3002", "--network", "full"]) as two:
        one(SERVE + "serve(3000, b'one')")
        two(SERVE + "serve(3000, b'two')")
        assert (answer_of(net, "127.0.0.1", 3001), answer_of(net, "127.0.0.1", 3002)) == ("one", "two")
        assert two("dial('127.0.0.1', 3001)") == "ConnectionRefusedError"
        assert two("dial('host.bawn.internal', 3001).recv(10).decode()") in ("gaierror", "ConnectionResetError", "")
        assert two("dial('172.31.0.1', 3001).recv(10).decode()") in ("ConnectionResetError", "")


# host.bawn.internal

def test_the_machine_by_rule_only(net):
    with outer_server(net, "127.0.0.1", 4000, "service"), outer_server(net, "127.0.0.1", 4001, "secret"):
        assert answer_of(net, "127.0.0.1", 4000) == "service" and answer_of(net, "127.0.0.1", 4001) == "secret"
        with Inside(net, allow=["host.bawn.internal:4000"]) as inside:
            assert inside("dial('host.bawn.internal', 4000).recv(10).decode()") == "service"
            assert inside("dial('host.bawn.internal', 4001).recv(10).decode()") in ("ConnectionResetError", "")
            assert inside("dial('127.0.0.1', 4000)") == "ConnectionRefusedError"
            for name in ("host.bawn.internal.", "HOST.Bawn.Internal"):
                assert inside(f"dial('{name}', 4000).recv(10).decode()") == "service"
        net.names["rebound.example.com"] = ["127.0.0.1"]
        with Inside(net, allow=["rebound.example.com", "*.bawn.internal", "localhost"], options=["--network", "full"]) as inside:
            for name in ("rebound.example.com", "host.bawn.internal", "172.31.0.1", "11.255.0.1", "0.0.0.0"):
                assert inside(f"dial('{name}', 4000).recv(10).decode()") in ("ConnectionResetError", "gaierror", "", "ConnectionRefusedError"), name
        assert set(net.queries()) == {"A rebound.example.com", "AAAA rebound.example.com"}, "the machine's name is never looked up"


@pytest.mark.parametrize("way", ["CONNECT host.bawn.internal:4000 HTTP/1.1\\r\\n\\r\\n",
                                 "GET http://host.bawn.internal:4000/ HTTP/1.1\\r\\nHost: host.bawn.internal:4000\\r\\n\\r\\n"])
def test_the_machine_through_the_proxy(net, way):
    with outer_server(net, "127.0.0.1", 4000, "HTTP/1.1 200 OK\\r\\nContent-Length: 7\\r\\n\\r\\nservice", listens=True):
        for allow, seen in ((["host.bawn.internal:4000"], True), (["ok.example.com"], False)):
            with Inside(net, allow=allow) as inside:
                got = inside(f"s = dial(*PROXY); s.sendall(b'{way}hello'); s.shutdown(socket.SHUT_WR); all_of(s).decode()")
                assert ("service" in got) == seen and ("BAWN_NET_DENIED_HOST" in got) != seen, got
