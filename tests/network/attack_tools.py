#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the attack tests of the network share.

    inside(net, "shown({'answer': by_socks(b'evil.example.net')})", allow=[...])      what a hostile client found; outside(): without a sandbox
    seen = recorder(net, "tcp:[::]:8081", "udp:0.0.0.0:443")              a server that takes anything, writes it down, says "got there"

    attack_tools.py record FILE tcp:ADDRESS:PORT udp:ADDRESS:PORT ... multicast:GROUP:PORT
    attack_tools.py h2 FILE CERT KEY ADDRESS             an HTTP/2 server; one line for each request: [[name, value], ...]
"""

import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading

from lines import json_lines

HERE = pathlib.Path(__file__).resolve().parent

# Each entrance returns (and never raises) what came back: bytes of an answer, or the word for a refusal. b"got there" and 200 mean success.
CLIENT = r'''
import json, os, socket, ssl, struct, sys, time

PROXY = ("127.0.0.1", 15001)
REFUSED = (ConnectionError, BrokenPipeError, ssl.SSLError, socket.gaierror, OSError)

def refusable(fn):
    def call(*args, **kw):
        try:
            return fn(*args, **kw)
        except REFUSED as e:
            return ("refused: " + type(e).__name__ + " " + str(e)).encode()
    return call

def rest(s):
    """All that comes until the other side ends, or resets."""
    got = b""
    try:
        while (more := s.recv(65536)):
            got += more
    except REFUSED as e:
        got += b" [" + type(e).__name__.encode() + b"]"
    return got

def talk(s, data):
    s.sendall(data)
    return rest(s)

def get(host, path=b"/"):
    return b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"

def dial(address, port):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.connect((address, port))
    return s

# The proxy entrances: what they return is a socket to the target, or bytes that say no

def head(s):
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte:
            return got
        got += byte
    return got

def open_connect(name, port):
    s = socket.create_connection(PROXY)
    target = name + b":%d" % port if port is not None else name
    s.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
    answer = head(s)
    return s if b" 200 " in answer.split(b"\r\n")[0] else answer + rest(s)

def open_socks(name, port, kind=3):
    s = socket.create_connection(PROXY)
    s.sendall(b"\5\1\0")
    if s.recv(2) != b"\5\0":
        return b"no greeting"
    length = bytes([len(name)]) if kind == 3 else b""
    s.sendall(b"\5\1\0" + bytes([kind]) + length + name + struct.pack("!H", port))
    answer = s.recv(4)
    if answer[1:2] != b"\0":
        return b"socks says " + answer
    s.recv({1: 4, 4: 16}[answer[3]] + 2)
    return s

def open_uri(name, port):
    s = socket.create_connection(PROXY)
    target = name + (b":%d" % port if port != 80 else b"")
    return talk(s, b"GET http://" + target + b"/ HTTP/1.1\r\nHost: " + target + b"\r\nConnection: close\r\n\r\n")

# DNS

def question(name, qtype=1, opcode=0, rclass=1, extra=b"", counts=(1, 0, 0, 0)):
    labels = name if isinstance(name, list) else name.split(b".")
    wire = b"".join(bytes([len(label)]) + label for label in labels if label) + b"\0"
    return struct.pack("!HHHHHH", 0x4242, (opcode << 11) | 0x0100, *counts) + wire + struct.pack("!HH", qtype, rclass) + extra

TCP_DNS = "use-vc" in os.environ.get("RES_OPTIONS", "")  # in the landlock rung, which has no UDP

@refusable
def dns(packet, server="198.18.0.1", tcp=TCP_DNS):
    s = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.connect((server, 53))
    s.send(struct.pack("!H", len(packet)) + packet if tcp else packet)
    if not tcp:
        return s.recv(65536)
    size = s.recv(2)
    return s.recv(struct.unpack("!H", size)[0]) if len(size) == 2 else b""

def rcode(answer):
    return answer[3] & 15 if len(answer) >= 12 and answer[:2] == b"\x42\x42" else None

def addresses(answer):
    """The A records of an answer to question(), at its end."""
    if rcode(answer) != 0:
        return []
    at, count = 12, struct.unpack("!H", answer[6:8])[0]
    while answer[at]:
        at += 1 + answer[at]
    at += 5
    found = []
    for _ in range(count):
        at += 2 if answer[at] & 0xc0 else answer.index(b"\0", at) + 1 - at
        kind, _class, _ttl, size = struct.unpack("!HHIH", answer[at:at + 10])
        if kind == 1:
            found.append(socket.inet_ntoa(answer[at + 10:at + 14]))
        at += 10 + size
    return found

# Every way to name a host. The request itself always has the Host that the rule allows, but for by_host.

HONEST = b"ok.example.com"

@refusable
def by_dns(name, port=80):
    answer = dns(question(name))
    found = addresses(answer)
    return talk(dial(found[0], port), get(HONEST)) if found else b"no address, rcode %d" % (rcode(answer) or 0)

@refusable
def by_socks(name, port=80):
    s = open_socks(name, port)
    return s if isinstance(s, bytes) else talk(s, get(HONEST))

@refusable
def by_connect(name, port=80):
    s = open_connect(name, port)
    return s if isinstance(s, bytes) else talk(s, get(HONEST))

@refusable
def by_uri(name, port=80):
    return open_uri(name, port)

@refusable
def by_host(name, port=80):
    """An allowed connection, another Host."""
    return talk(socket.create_connection(("ok.example.com", port)), get(name))

# TLS

def client_hello(sni, extensions=b""):
    """A ClientHello with the server name as these bytes; None: without one."""
    name = b"\0\0" + struct.pack("!HHBH", len(sni) + 5, len(sni) + 3, 0, len(sni)) + sni if sni is not None else b""
    groups = bytes.fromhex("000a0004000200170017")[:8]
    more = name + groups + bytes.fromhex("000b00020100") + bytes.fromhex("000d0006000404030804") + extensions
    body = b"\3\3" + b"r" * 32 + b"\0" + bytes.fromhex("0004c02bc02f") + b"\1\0" + struct.pack("!H", len(more)) + more
    hello = b"\1" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack("!H", len(hello)) + hello

def tls_answer(s, hello):
    """The first record that comes back: "hello" means that a server took it."""
    s.sendall(hello)
    try:
        first = s.recv(7)
    except REFUSED as e:
        return b"refused: " + type(e).__name__.encode()
    return b"hello" if first[:1] == b"\x16" else b"refused: " + (b"alert %d" % first[6] if len(first) == 7 else first)

@refusable
def by_sni(name, port=443):
    return tls_answer(socket.create_connection(("ok.example.com", port)), client_hello(name))

def lax():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

@refusable
def https(s, sni, host, path=b"/"):
    if isinstance(s, bytes):
        return s
    return talk(lax().wrap_socket(s, server_hostname=sni), get(host, path))

def shown(found):
    print(json.dumps({k: v.decode("latin-1") if isinstance(v, bytes) else v for k, v in found.items()}))
'''


DIRECT = ["env", *(word for name in ("http", "https", "all") for word in ("-u", f"{name}_proxy", "-u", f"{name.upper()}_PROXY"))]


def python(net, script):
    """The command line for a script of any length that speaks to the network itself."""
    return [*DIRECT, "/usr/bin/python3", net.runner.write("attack.py", CLIENT + script)]


def outside(net, script):
    """A script without a sandbox."""
    net.save_names()
    return net.outside(*python(net, script))


def inside(net, script, **rules):
    """What a script inside printed, as JSON; it must have come to its end."""
    r = net.sandbox(*python(net, script), **rules)
    assert r.rc == 0, r
    return r.json()


def into(pid, *cmd):
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *map(os.fspath, cmd)]


def start(net, *cmd, pid=None):
    """A helper of this file in the internet (or in the namespace of pid), ended with the test; returns when it is ready."""
    p = subprocess.Popen(into(pid or net.world.inet, sys.executable, __file__, *cmd), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         start_new_session=True)  # its standard input is our pipe: it ends with us
    net.servers.append(p)
    assert p.stdout.readline() == b"ready\n", cmd
    p.stdout.close()


def recorder(net, *listen, pid=None):
    path = net.world.folder / f"record.{len(net.servers)}"
    path.write_text("")
    start(net, "record", path, *listen, pid=pid)
    return lambda: json_lines(path)


def h2_server(net, address):
    path = net.world.folder / f"record.{len(net.servers)}"
    path.write_text("")
    start(net, "h2", path, net.world.folder / "cert.pem", net.world.folder / "key.pem", address)
    return lambda: [dict(value) for value in json_lines(path)]


# The servers themselves

def note(path, what):
    with open(path, "a") as f:
        f.write(json.dumps(what) + "\n")


def tcp_recorder(path, listener):
    def serve(s):
        to = s.getsockname()
        note(path, {"proto": "tcp", "to": to[0], "port": to[1]})
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ngot there"
        try:
            while (data := s.recv(65536)):
                note(path, {"proto": "tcp", "to": to[0], "port": to[1], "data": data.decode("latin-1")})
                if answer:
                    s.sendall(answer)
                    s.shutdown(socket.SHUT_WR)
                    answer = None
        except OSError:
            pass
        s.close()

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def udp_recorder(path, s):
    to = s.getsockname()
    while True:
        data, peer = s.recvfrom(65536)
        note(path, {"proto": "udp", "to": to[0], "port": to[1], "data": data.decode("latin-1")})
        s.sendto(b"got there", peer)


def record(path, *listen):
    for where in listen:
        kind, rest = where.split(":", 1)
        address, port = rest.rsplit(":", 1)
        address = address.strip("[]")
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == "multicast":
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct_mreqn(address))
        s.bind((address, int(port)))
        if kind == "tcp":
            s.listen(1000)
        threading.Thread(target=tcp_recorder if kind == "tcp" else udp_recorder, args=(path, s)).start()
    print("ready", flush=True)


def struct_mreqn(group):
    return socket.inet_aton(group) + socket.inet_aton("0.0.0.0") + socket.if_nametoindex("down0").to_bytes(4, sys.byteorder)


def h2_connection(path, s):
    import h2.config
    import h2.connection
    import h2.events
    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, validate_inbound_headers=False, header_encoding="latin-1"))
    c.initiate_connection()
    s.sendall(c.data_to_send())
    while (data := s.recv(65536)):
        for e in c.receive_data(data):
            if isinstance(e, h2.events.RequestReceived):
                note(path, list(map(list, e.headers)))
            elif isinstance(e, h2.events.DataReceived):
                c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            elif isinstance(e, h2.events.StreamEnded):
                c.send_headers(e.stream_id, [(":status", "200")])
                c.send_data(e.stream_id, b"got there", end_stream=True)
        s.sendall(c.data_to_send())
    s.close()


def h2_serve(path, cert, key, address):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2"])
    listener = socket.create_server((address, 443), backlog=100)
    print("ready", flush=True)

    def serve(s):
        try:
            h2_connection(path, context.wrap_socket(s, server_side=True))
        except Exception as e:  # a client that says nonsense ends its own connection only
            print(repr(e), file=sys.stderr)

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    {"record": record, "h2": h2_serve}[sys.argv[1]](*sys.argv[2:])
