# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C2.21-26 and C4.62-64 as far as an empty network namespace goes: no socket of the host answers."""

import array
import contextlib
import os
import pathlib
import secrets
import socket
import threading

import pytest

CONNECT = """
    s = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[2]) if len(sys.argv) > 2 else socket.SOCK_STREAM)
    s.connect(sys.argv[1].replace("@", chr(0)))
    return "connected"
"""


@contextlib.contextmanager
def listening(runner, address, kind=socket.SOCK_STREAM):
    """A service of the host, open to everybody."""
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(address.replace("@", "\0"))
    if kind != socket.SOCK_DGRAM:
        s.listen(5)
    if not address.startswith("@"):
        os.chmod(address, 0o777)
    try:
        yield s
    finally:
        s.close()
        if not address.startswith("@"):
            os.unlink(address)


@pytest.mark.parametrize(
    "place", ["/tmp", "/run", "/var/run", "/dev/shm", "home", "/var/tmp", "/run/dbus", "/run/lock"]
)
def test_sockets_of_the_host_are_not_there(pyattack, place):
    """Claim: no service socket of the host can be named inside: docker, D-Bus, ssh-agent, tmux, gpg (21, 22, 23)."""
    folder = pyattack.runner.home if place == "home" else pathlib.Path(place)
    if not os.access(folder, os.W_OK):
        pytest.skip("needs root")
    address = str(folder / f"bawn-{secrets.token_hex(4)}.sock")
    with listening(pyattack.runner, address):
        pyattack(CONNECT, args=[address])


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET"])
def test_abstract_sockets_of_the_host_do_not_answer(pyattack, kind):
    """Claim: abstract names of the host (X11, D-Bus) do not exist inside (24, 25)."""
    address = "@bawn-" + secrets.token_hex(8)
    with listening(pyattack.runner, address, getattr(socket, kind)):
        pyattack(CONNECT, args=[address, kind])


def test_a_datagram_socketpair_cannot_be_reconnected_to_the_host(pyattack):
    """Claim: one end of a socketpair, connected anew to a name of the host, reaches nobody (25)."""
    address = "@bawn-" + secrets.token_hex(8)
    with listening(pyattack.runner, address, socket.SOCK_DGRAM):
        pyattack(
            """
            a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            a.connect(chr(0) + sys.argv[1][1:])
            return a.send(b"hello")
        """,
            args=[address],
        )


@pytest.mark.parametrize("name", ["io_uring_setup", "io_uring_enter", "io_uring_register"])
def test_io_uring_is_no_way_round_the_filter(cattack, name):
    """Claim: no io_uring, which would open sockets and files past the filter (25)."""
    cattack("syscall", name)


def test_i386_calls_are_no_way_round_the_filter(cattack):
    """Claim: a 32-bit call, numbered differently, kills the caller (25, 82)."""
    cattack("int80")


def test_x32_calls_are_no_way_round_the_filter(runner, probe):
    """Claim: the x32 numbers are refused as well; most kernels lack them, so that the outside half cannot be shown here (25)."""
    r = runner.bawn("run", "--", probe, "x32")
    assert r.rc == 3, r


def test_no_socket_of_ours_is_reachable(inside):
    """Claim: no listening socket of Bawn's own is visible inside; there is no control plane to talk to (12)."""
    assert inside("print(len(open('/proc/net/unix').read().splitlines()) - 1)") == "0\n"


def send_folder_to_the_first_caller(listener, folder):
    try:
        peer, _ = listener.accept()
    except OSError:
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with peer, contextlib.suppress(OSError):
        peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        peer.recv(1)
    os.close(fd)


RECEIVE = """
    s = socket.socket(socket.AF_UNIX)
    s.connect("service.sock")
    data, anc, flags, addr = s.recvmsg(1, 1024)
    if not anc: return False
    folder = array.array("i", anc[0][2][:4])[0]
    return os.write(os.open(".ssh/id_ed25519", os.O_WRONLY | os.O_APPEND, dir_fd=folder), b"owned")
"""


def test_a_folder_passed_by_an_accomplice_outside_cannot_be_written(runner, pyprobe, secret):
    """Claim: even with a descriptor of the host's folder in hand, Landlock lets nothing below it be written (26).

    The residual, stated in SECURITY.md: a socket that a host process puts into the workspace can be called from inside, and what
    that process hands over can be read."""
    address = str(runner.workspace / "service.sock")
    for half in ("outside", "inside"):
        with listening(runner, address) as s:
            accomplice = threading.Thread(target=send_folder_to_the_first_caller, args=(s, runner.home))
            accomplice.start()
            argv = pyprobe(RECEIVE)
            r = runner.run(*argv) if half == "outside" else runner.bawn("run", "--", *argv)
            s.shutdown(socket.SHUT_RDWR)
            accomplice.join()
        assert r.rc == (0 if half == "outside" else 3), r
    assert secret.read_text().count("owned") == 1, "once from the outside half, never from inside"


@contextlib.contextmanager
def tcp_service(family, address):
    s = socket.socket(family)
    s.bind((address, 0))
    s.listen(5)
    try:
        yield s.getsockname()[1]
    finally:
        s.close()


@pytest.mark.parametrize("family,address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["v4", "v6"])
def test_loopback_services_of_the_host_do_not_answer(pyattack, family, address):
    """Claim: the sandbox's 127.0.0.1 is its own (51, 64)."""
    with tcp_service(family, address) as port:
        pyattack("socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); return True", args=[address, port])


def test_loopback_inside_works(inside):
    """Claim: servers of the sandbox's own are reachable inside, so that tests that start one can run."""
    assert (
        inside(
            """
        import socket
        s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1)
        c = socket.create_connection(s.getsockname()); a, _ = s.accept(); a.send(b"hi"); print(c.recv(2).decode())
    """
        )
        == "hi\n"
    )


def test_there_is_no_route_out(pyattack):
    """Claim: without a network no address but loopback can be sent to: TCP, UDP, IPv6, multicast (62, 63, 64). With one: tests/network."""
    pyattack(
        """
        for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET, "169.254.169.254"), (socket.AF_INET, "224.0.0.251"),
                                (socket.AF_INET6, "2001:db8::1"), (socket.AF_INET, "255.255.255.255")):
            s = socket.socket(family, socket.SOCK_DGRAM)
            try: s.connect((address, 53))
            except OSError as e: print(address, e); continue
            return address
        return False
    """,
        "--network",
        "none",
    )


def test_only_loopback_exists(inside):
    """Claim: the network namespace holds lo and nothing else."""
    assert inside("import socket; print([n for _, n in socket.if_nameindex()])") == "['lo']\n"
