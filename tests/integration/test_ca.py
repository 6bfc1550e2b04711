# SPDX-License-Identifier: Apache-2.0
"""The sandbox's own certificate authority: bawn-broker, the folder it makes, the leaves it signs, and the stock of them.

Second opinions are openssl, Java's keytool, NSS's certutil, and Python's ssl as a client. Only loopback is used.
"""

import contextlib
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from broker_driver import LEAF, REQUEST, Broker, encode_config  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")


@pytest.fixture
def broker(runner):
    return runner.helper("bawn-broker")


@pytest.fixture
def ca(runner, broker):
    """The folder of a new CA."""
    path = runner.home / "free-1"
    r = runner.run(broker, "--make", path)
    assert r.rc == 0, r
    assert not r.err, r
    return path


@pytest.fixture(scope="module")
def castock_program():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-castock.", dir="/var/tmp"))
    top.chmod(0o755)
    build = pathlib.Path(os.environ.get("BAWN_BUILD", ROOT / "build"))
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover"] if os.environ.get("BAWN_SANITIZED") else []
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", *flags, "-I", ROOT / "src", "-include", ROOT / "src/base/banned.h", "-o",
                    top / "castock", ROOT / "tests/integration/castock_cli.c", build / "src/libbawn.a", "-ljansson"], check=True)
    yield top / "castock"
    shutil.rmtree(top)


def tool(name):
    path = shutil.which(name)
    if not path:
        pytest.skip(f"needs the program {name}")
    return path


def openssl(*args, **kw):
    return subprocess.run(["openssl", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, **kw).stdout


def new_key(folder, curve="P-256"):
    """A key file, and the public key in DER."""
    key = folder / f"leaf-{curve}.pem"
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-out", key)
    return key, openssl("pkey", "-in", key, "-pubout", "-outform", "DER")


class Serving(Broker):
    """bawn-broker --serve for a sandbox that may reach every host."""

    def __init__(self, runner, broker, folder):
        super().__init__(runner, ca=folder, configured=False, mode="full")
        with contextlib.suppress(BrokenPipeError):  # it may not like its CA
            self.configure()

    def close(self):
        self.gate.close()
        self.supervisor.close()
        return self.proc.communicate()[1]


@pytest.fixture
def serving(runner, broker, ca):
    s = Serving(runner, broker, ca)
    yield s
    s.close()
    assert s.proc.returncode is not None


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_folder(ca):
    assert mode(ca) == 0o755
    assert mode(ca / "key.pem") == 0o600
    for path in [ca / "ca.pem", ca / "stamp", *(p for p in (ca / "certs").rglob("*") if p.is_file() and not p.is_symlink())]:
        assert mode(path) == 0o644, path
    text = openssl("x509", "-in", ca / "ca.pem", "-noout", "-text").decode()
    assert re.search(r"Subject: CN = Bawn sandbox CA [0-9a-f]{12}\n", text)
    assert "CA:TRUE, pathlen:0" in text
    assert "Certificate Sign, CRL Sign" in text
    assert "NIST CURVE: P-256" in text
    openssl("x509", "-in", ca / "ca.pem", "-noout", "-checkend", str(29 * 86400))


def test_two_authorities_share_nothing(runner, broker, ca):
    other = runner.home / "free-2"
    assert runner.run(broker, "--make", other).rc == 0
    for name in ("key.pem", "ca.pem"):
        assert (ca / name).read_bytes() != (other / name).read_bytes()
    subject, serial = (openssl("x509", "-in", ca / "ca.pem", "-noout", what) for what in ("-subject", "-serial"))
    assert subject != openssl("x509", "-in", other / "ca.pem", "-noout", "-subject")
    assert serial != openssl("x509", "-in", other / "ca.pem", "-noout", "-serial")


def test_trust_stores_hold_the_host_s_and_ours(ca):
    ours = (ca / "ca.pem").read_text()
    bundle = (ca / "certs/ca-certificates.crt").read_text()
    host = BUNDLE.read_text() if BUNDLE.exists() else ""
    assert bundle.startswith(host)
    assert bundle.endswith(ours)
    openssl("verify", "-no-CAfile", "-no-CAstore", "-CApath", ca / "certs", ca / "ca.pem")
    openssl("verify", "-no-CApath", "-no-CAstore", "-CAfile", ca / "certs/ca-certificates.crt", ca / "ca.pem")
    for entry in os.listdir("/etc/ssl/certs"):
        if os.path.isfile(f"/etc/ssl/certs/{entry}") and os.stat(f"/etc/ssl/certs/{entry}").st_mode & 4:
            assert (ca / "certs" / entry).is_file(), entry


def test_java_reads_its_store(ca):
    out = subprocess.run([tool("keytool"), "-list", "-storepass", "changeit", "-keystore", ca / "certs/java/cacerts"], stdout=subprocess.PIPE, check=True).stdout.decode()
    fingerprint = openssl("x509", "-in", ca / "ca.pem", "-noout", "-fingerprint", "-sha256").decode().strip().split("=")[1]
    assert re.search(r"^bawn, .*trustedCertEntry", out, re.M), out
    assert fingerprint in out
    host = BUNDLE.read_text().count("BEGIN CERTIFICATE") if BUNDLE.exists() else 0
    assert f"contains {host + 1} entr" in out


def test_browsers_store(ca):
    out = subprocess.run([tool("certutil"), "-L", "-d", f"sql:{ca}/nssdb"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert re.search(r"^Bawn sandbox CA +C,, *$", out, re.M), out
    assert str(ca.parent) not in (ca / "nssdb/pkcs11.txt").read_text()
    assert {mode(p) for p in (ca / "nssdb").iterdir()} == {0o644}


def test_bundle_of_the_user(runner, broker, ca):
    """SSL_CERT_FILE names what this user trusts, instead of the system's bundle."""
    mine = runner.write("mine.pem", (ca / "ca.pem").read_text())
    path = runner.home / "free-3"
    assert runner.run(broker, "--make", path, env={"SSL_CERT_FILE": str(mine)}).rc == 0
    assert (path / "certs/ca-certificates.crt").read_text() == mine.read_text() + (path / "ca.pem").read_text()
    assert (path / "stamp").read_text() != (ca / "stamp").read_text()


def java_certs(path):
    """Fingerprints of Java's trust store by alias."""
    done = subprocess.run([tool("keytool"), "-list", "-keystore", path / "certs/java/cacerts", "-storepass", "changeit"], capture_output=True, text=True, check=True)
    found = re.findall(r"^(\S+), .*trustedCertEntry, \n.*: (\S+)$", done.stdout, re.M)
    assert found
    return dict(found)


def test_common_parts(runner, broker, ca):
    """A CA that is made from what an earlier one left beside it has the same stores, with its own certificate; a damaged store is made again."""
    home, first = runner.home, java_certs(ca)
    assert first.pop("bawn")
    for i, damage in enumerate((False, True, False), 2):
        for f in (home / "host-nssdb").glob("*.db") if damage else ():
            f.write_bytes(b"no data base")
        path = home / f"free-{i}"
        r = runner.run(broker, "--make", path)
        assert r.rc == 0 and not r.err, r
        theirs = java_certs(path)
        assert theirs.pop("bawn") and theirs == first
        assert (path / "nssdb").is_dir() == (ca / "nssdb").is_dir()
        if (path / "nssdb").is_dir():
            listed = subprocess.run([tool("certutil"), "-L", "-a", "-d", f"sql:{path}/nssdb", "-n", "Bawn sandbox CA"], capture_output=True, text=True, check=True)
            assert listed.stdout.split() == (path / "ca.pem").read_text().split()


def test_all_or_nothing(runner, broker, ca):
    before = (ca / "ca.pem").read_bytes()
    r = runner.run(broker, "--make", ca)
    assert r.rc == 125, r
    assert (ca / "ca.pem").read_bytes() == before
    assert {p.name for p in runner.home.iterdir()} - {"host-nssdb"} == {"free-1"}
    assert runner.run(broker, "--make", runner.home / "no/such/folder").rc == 125


@contextlib.contextmanager
def https_server(cert, key):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), ctx.wrap_socket(conn, server_side=True) as tls:
                tls.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def handshake(port, name, bundle):
    ctx = ssl.create_default_context(cafile=bundle)
    with socket.create_connection(("127.0.0.1", port)) as raw, ctx.wrap_socket(raw, server_hostname=name) as tls:
        return tls.version()


LONG = ".".join(["a" * 50] * 4) + ".example.com"


@pytest.mark.parametrize("host,wrong", [("api.example.com", "example.com"), ("11.0.0.7", "11.0.0.8"), ("2a00:11::1", "2a00:11::2"), (LONG, "example.com")])
def test_leaf_is_good_for_its_host_alone(runner, ca, serving, host, wrong):
    key, spki = new_key(runner.top)
    status, der = serving.leaf(host, spki)
    assert status == 0
    cert = runner.top / "leaf.crt"
    cert.write_bytes(openssl("x509", "-inform", "DER", input=der))
    with https_server(cert, key) as port:
        assert handshake(port, host, ca / "certs/ca-certificates.crt").startswith("TLSv1")
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            handshake(port, wrong, ca / "certs/ca-certificates.crt")
        if BUNDLE.exists():
            with pytest.raises(ssl.SSLCertVerificationError):
                handshake(port, host, BUNDLE)


def test_leaf_fields(runner, ca, serving):
    _, spki = new_key(runner.top)
    certs = [serving.leaf("Example.COM.", spki)[1] for _ in range(2)]
    text = openssl("x509", "-inform", "DER", "-noout", "-text", input=certs[0]).decode()
    assert "Subject: CN = example.com\n" in text
    assert "DNS:example.com\n" in text
    assert "CA:FALSE" in text
    assert "TLS Web Server Authentication\n" in text
    assert "Digital Signature\n" in text
    assert "Authority Key Identifier" in text and "Subject Key Identifier" in text
    assert certs[0] != certs[1]  # the serial number
    leaf = runner.top / "leaf.der"
    leaf.write_bytes(certs[0])
    openssl("x509", "-inform", "DER", "-in", leaf, "-noout", "-checkend", str(6 * 86400))
    assert subprocess.run(["openssl", "x509", "-inform", "DER", "-in", leaf, "-noout", "-checkend", str(8 * 86400)], stdout=subprocess.DEVNULL).returncode == 1


@pytest.mark.parametrize("host", ["", "a b", "evil.com,DNS:google.com", "*.example.com", "a..b", "-a.com", "127.1", "a/b", "u@h"])
def test_no_leaf_for_what_is_no_host(runner, serving, host):
    _, spki = new_key(runner.top)
    assert serving.leaf(host, spki) == (-22, b"")
    assert serving.leaf("example.com", spki)[0] == 0


def test_no_leaf_for_other_keys(runner, serving):
    _, spki = new_key(runner.top)
    _, other = new_key(runner.top, "P-384")
    rsa = runner.top / "rsa.pem"
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", rsa)
    off_curve = spki[:-1] + bytes([spki[-1] ^ 1])
    for bad in (other, openssl("pkey", "-in", rsa, "-pubout", "-outform", "DER"), off_curve, spki[:-1], spki + b"\0", b""):
        assert serving.leaf("example.com", bad) == (-22, b"")


@pytest.mark.parametrize("message", [b"x", REQUEST.pack(99, 1, 0, 443, 0, b"a", b""), REQUEST.pack(LEAF, 1, 0, 443, 4097, b"a", b""),
                                     REQUEST.pack(LEAF, 1, 0, 443, 0, b"a" * 256, b""), REQUEST.pack(LEAF, 1, 0, 443, 0, b"a", b"") + b"x"])
def test_what_is_no_request_ends_it(serving, message):
    serving.gate.send(message)
    assert serving.gate.recv(8192) == b""
    assert serving.proc.wait() == 125


def test_descriptors_end_it(serving):
    socket.send_fds(serving.gate, [REQUEST.pack(LEAF, 1, 0, 443, 0, b"a", b"")], [0])
    with contextlib.suppress(ConnectionResetError):
        assert serving.gate.recv(8192) == b""
    assert serving.proc.wait() == 125


def test_jail(runner, ca, serving):
    _, spki = new_key(runner.top)
    assert serving.leaf("example.com", spki)[0] == 0  # it is locked in by now
    pid = serving.proc.pid
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert {status[k].strip("0") for k in ("CapPrm", "CapEff", "CapBnd" if runner.is_root else "CapEff", "CapAmb", "CapInh")} == {""}
    uids = set(status["Uid"].split())
    assert uids == {str(0x74000000 + pid)} if runner.is_root else uids == {str(runner.user.pw_uid)}
    if not runner.is_root:  # not dumpable: its own user cannot look at it
        assert runner.run("cat", f"/proc/{pid}/environ").rc != 0
        assert runner.run("ls", f"/proc/{pid}/fd").rc != 0
    if os.getuid() == 0:
        fds = {os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")}
        assert not any(str(ca) in fd for fd in fds), fds
    serving.gate.close()
    assert serving.proc.wait() == 0


def test_key_and_certificate_must_belong_together(runner, broker, ca):
    other = runner.home / "free-2"
    assert runner.run(broker, "--make", other).rc == 0
    shutil.copyfile(other / "ca.pem", ca / "ca.pem")
    s = Serving(runner, broker, ca)
    assert b"do not belong together" in s.close()
    assert s.proc.returncode == 125


class Supervisor:
    """tests/integration/castock_cli.c"""

    def __init__(self, runner, program, broker, state, env=None):
        config = runner.write(runner.top / "config", encode_config(mode="full"))
        self.proc = runner.popen(program, state, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"BAWN_BROKER": str(broker), "BAWN_CONFIG": str(config), **(env or {})})

    def path(self):
        line = self.proc.stdout.readline().decode().strip()
        assert line, "no CA was taken"
        return pathlib.Path(line)

    def say(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()
        return self.proc.stdout.readline().decode().strip()

    def end(self):
        self.proc.communicate()
        assert self.proc.returncode == 0

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.communicate()


@pytest.fixture
def state(runner):
    return runner.home / "not/there/yet/bawn"


@pytest.fixture
def supervisor(runner, castock_program, broker, state):
    return lambda env=None: Supervisor(runner, castock_program, broker, state, env)


def names(state):
    """Of the CAs; what they have in common lies beside them."""
    return sorted(re.sub(r"-.*", "", p.name) for p in (state / "ca").iterdir() if not p.name.startswith("host-"))


def test_stock_is_reused(supervisor, state):
    first = supervisor()
    path = first.path()
    cert = (path / "ca.pem").read_bytes()
    assert re.fullmatch(rf"taken-{first.proc.pid}-\d+-[0-9a-f]{{16}}", path.name)
    assert mode(state / "ca") == 0o700
    first.end()
    assert names(state) == ["free"]
    second = supervisor()
    assert (second.path() / "ca.pem").read_bytes() == cert
    second.end()
    assert names(state) == ["free"]


def test_links_to_certificates_are_the_other_run_s(supervisor):
    """On ext4 hundreds of new links can take a hundred times as long as hundreds of names for old ones."""
    first = supervisor().path()
    links = [p.name for p in (first / "certs").iterdir() if p.is_symlink() and "/" in os.readlink(p)]
    second = supervisor().path()
    assert links or not any(os.path.islink(f"/etc/ssl/certs/{name}") for name in os.listdir("/etc/ssl/certs"))
    for name in links:
        assert (first / "certs" / name).lstat().st_ino == (second / "certs" / name).lstat().st_ino, name
    for name in ("ca-certificates.crt", "bawn-ca.pem"):
        assert (first / "certs" / name).read_bytes() != (second / "certs" / name).read_bytes()


def test_many_at_once_get_one_each(supervisor, state):
    many = [supervisor() for _ in range(12)]
    certs = {(s.path() / "ca.pem").read_bytes() for s in many}
    assert len(certs) == 12
    for s in many:
        s.end()
    assert names(state) == ["free"] * 12
    again = [supervisor() for _ in range(12)]
    assert {(s.path() / "ca.pem").read_bytes() for s in again} == certs
    for s in again:
        s.end()


def test_the_killed_leave_nothing(supervisor, state):
    def killed():
        s = supervisor()
        s.path()
        s.kill()

    killed()
    (state / "ca/making-1-1-abcdef").mkdir()
    alive = supervisor()
    alive.path()
    assert names(state) == ["taken"]  # swept because the stock was empty
    short = supervisor()
    short.path()
    short.end()
    killed()
    last = supervisor()
    last.path()
    killed()
    last.end()
    assert names(state) == ["free", "taken"]  # swept at the end; the one that is alive keeps its own
    alive.end()
    assert names(state) == ["free", "free"]


def test_used_one_does_not_come_back(runner, supervisor, state):
    _, spki = new_key(runner.top)
    s = supervisor()
    path = s.path()
    cert = (path / "ca.pem").read_bytes()
    pid = int(s.say("broker"))
    assert pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in ("bawn-broker", "castock")
    status, der = s.say(f"leaf example.com {spki.hex()}").split()
    assert status == "0"
    openssl("verify", "-CAfile", path / "ca.pem", "-no-CApath", input=openssl("x509", "-inform", "DER", input=bytes.fromhex(der)))
    s.end()
    assert not path.exists()
    assert names(state) == ["free"]  # another one was made meanwhile
    following = supervisor()
    assert (following.path() / "ca.pem").read_bytes() != cert
    following.end()


def test_broker_dies_with_its_supervisor(runner, supervisor):
    _, spki = new_key(runner.top)
    s = supervisor()
    s.path()
    pid = int(s.say("broker"))
    assert s.say(f"leaf example.com {spki.hex()}").startswith("0 ")
    children = [int(p) for p in pathlib.Path(f"/proc/{s.proc.pid}/task/{s.proc.pid}/children").read_text().split()]
    assert pid in children and len(children) == 2, children
    watched = [os.pidfd_open(p) for p in children]  # the one that makes the next CA, too
    s.kill()
    for fd in watched:
        select.select([fd], [], [])
        os.close(fd)


def test_old_ones_are_thrown_away(runner, supervisor, state, ca):
    s = supervisor()
    cert = (s.path() / "ca.pem").read_bytes()
    s.end()
    mine = runner.write("mine.pem", (ca / "ca.pem").read_text())
    other = supervisor({"SSL_CERT_FILE": str(mine)})  # trusts something else
    path = other.path()
    assert (path / "ca.pem").read_bytes() != cert
    assert (path / "certs/ca-certificates.crt").read_text().startswith(mine.read_text())
    other.end()
    assert names(state) == ["free"]
    stamp = next((state / "ca").glob("free-*")) / "stamp"
    week_ago = stamp.stat().st_mtime - 7 * 86400 - 1
    os.utime(stamp, (week_ago, week_ago))
    third = supervisor({"SSL_CERT_FILE": str(mine)})
    assert third.path().joinpath("stamp").stat().st_mtime > week_ago + 86400
    third.end()
    assert names(state) == ["free"]


def test_says_why_there_is_none(runner, castock_program, state):
    r = runner.run(castock_program, state, env={"BAWN_BROKER": "/nonexistent"})
    assert r.rc == 1 and b"find bawn-broker" in r.err, r
    r = runner.run(castock_program, "/proc/nowhere", env={"BAWN_BROKER": "/nonexistent"})
    assert r.rc == 1 and b"/proc/nowhere/ca" in r.err, r
