# SPDX-License-Identifier: Apache-2.0
"""Plays the bawn-broker of a gate: signs leaves, gives out the values it was made with, and remembers what it was asked.

    ca = Authority(folder)
    broker = Broker(ca, values={0: b"real"})
    with Gate(..., broker=broker.connect, trust=ca.bundle) as gate: ...
"""

import base64
import contextlib
import datetime
import errno
import socket
import ssl
import struct
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LEAF, VALUE, SIGV4, LOGIN, SSH_KEYS, SSH_SIGN, COVER = range(1, 8)
REQUEST = struct.Struct("=IIIII256s36s")
ANSWER = struct.Struct("=IiI")


def parts(*values):
    return b"".join(struct.pack("=I", len(v)) + v for v in values)


class Authority:
    """A CA, for servers and for leaves."""

    def __init__(self, folder, name="test CA"):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.cert = self.build(self.name, self.key.public_key(), ca=True)
        self.bundle = str(folder / f"{name}.pem".replace(" ", "-"))
        with open(self.bundle, "wb") as f:
            f.write(self.cert.public_bytes(serialization.Encoding.PEM))

    def build(self, subject, public, names=(), ca=False):
        now = datetime.datetime.utcnow()
        b = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public)
        b = b.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        b = b.not_valid_after(now + datetime.timedelta(days=30)).add_extension(x509.BasicConstraints(ca, None), critical=True)
        if names:
            b = b.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
        return b.sign(self.key, hashes.SHA256())

    def leaf(self, name, spki):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self.build(subject, serialization.load_der_public_key(spki), [name])
        return cert.public_bytes(serialization.Encoding.DER)

    def server_context(self, *names, alpn=("http/1.1",)):
        """For a server with these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self.build(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]), key.public_key(), names)
        path = self.folder / f"{names[0]}.server.pem"
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()) +
                         cert.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        context.set_alpn_protocols(list(alpn))
        return context


class Broker:
    """values: index -> the value, or -errno, or None: never answered. formats: index -> how it looks in the request."""

    def __init__(self, ca, values=None, formats=None):
        self.ca, self.values, self.formats = ca, values or {}, formats or {}
        self.asked, self.covered, self.sockets, self.condition = [], [], [], threading.Condition()
        self.login = 0, (b"", b"", b"")  # status, parts
        self.sign = None  # canonical request -> parts

    def connect(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sockets.append(ours)
        threading.Thread(target=self.serve, args=(ours,), daemon=True).start()
        return theirs.detach()

    def serve(self, s):
        with contextlib.suppress(OSError):
            while data := s.recv(REQUEST.size + 65536):
                while data:  # several in one message
                    type, id, index, port, length, host, method = REQUEST.unpack_from(data)
                    assert len(data) >= REQUEST.size + length
                    host, method = (b.split(b"\0", 1)[0].decode() for b in (host, method))
                    answer = self.answer(type, index, host, port, method, data[REQUEST.size:REQUEST.size + length])
                    data = data[REQUEST.size + length:]
                    if answer is not None:
                        status, body = answer
                        s.send(ANSWER.pack(id, status, len(body)) + body)

    def answer(self, type, index, host, port, method, data):
        if type == LEAF:
            return 0, self.ca.leaf(host, data)
        if type == COVER:  # goes into no request
            value = self.values.get(index, -errno.ENOKEY)
            self.covered.append((index, host, port))
            return (0, parts(value, value, b"")) if isinstance(value, bytes) else value and (value, b"")
        with self.condition:
            self.asked.append((type, index, host, port, method, data))
            self.condition.notify_all()
        if type == LOGIN:
            return self.login[0], b"" if self.login[0] else parts(*self.login[1])
        value = self.values.get(index, -errno.ENOKEY)
        if value is None or isinstance(value, int):
            return value and (value, b"")
        if type == SIGV4:
            return 0, parts(*self.sign(data))
        return 0, parts(self.formats.get(index, lambda v: v)(value), value)

    def wait_asked(self, n=1):
        with self.condition:
            assert self.condition.wait_for(lambda: len(self.asked) >= n, 60)
            return self.asked

    def die(self):
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        self.sockets.clear()


def basic(user):
    return lambda value: b"Basic " + base64.b64encode(user.encode() + b":" + value)
