# SPDX-License-Identifier: Apache-2.0
"""Plays the gate and the supervisor of a bawn-broker, on the sockets that it is born with (proto/brokermsg.h).

    with Broker(runner, grants=[grant("key", ["api.test"])], rules=[{"action": "allow", "host": "api.test"}]) as b:
        ask = b.ask_value(0, "api.test")             # the gate asks
        b.vault(b.want(WANT_VALUE), b"the-value-0")  # the supervisor hands over a bawn-vault, which we play too
        assert b.answer(ask).parts() == [b"the-value-0", b"the-value-0"]
"""

import array
import collections
import errno
import json
import os
import socket
import struct
import subprocess

LEAF, VALUE, SIGV4, LOGIN, SSH_KEYS, SSH_SIGN, COVER = range(1, 8)
CONFIG, VAULT, AGENT, RENEW, WANT_VALUE, WANT_AGENT, USED, FETCH = range(1, 9)
HEADER, BASIC, QUERY, AWS = range(4)
MODES = {"unset": 0, "none": 1, "limited": 2, "full": 3, "list": 4}
LAYERS = {"session": 0, "sandbox": 1, "settings": 2, "project": 3, "user": 4, "built-in": 5, "organisation": 6}

REQUEST = struct.Struct("=IIIII256s36s")
ANSWER = struct.Struct("=IiI")
MSG = struct.Struct("=IIiII256s36s128s")
HEAD = struct.Struct("=iIIIQ")  # of a value from a bawn-vault
DATA_MAX, VALUE_MAX, PENDING_MAX = 64 * 1024, 16 * 1024, 1024
WAIT = 60  # seconds: only so that a hang ends as a failure


def grant(name, hosts, place=HEADER, format="{}", user="me", query="key", region="eu-central-1", service="s3", token_url=None):
    """A credential as the sandbox has it. Texts in the order of CREDENTIAL_GRANTED_TEXTS."""
    header = place == HEADER
    texts = [name, ("authorization" if token_url else "x-api-key") if header else None,
             ("Bearer {}" if token_url else format) if header else None, user if place == BASIC else None,
             query if place == QUERY else None, region if place == AWS else None, service if place == AWS else None, "", token_url, None, None,
             "bawn" if token_url else None, None]
    placeholder = "AKIA" + "B" * 16 if place == AWS else "PLACEHOLDER" + "x" * 24
    return dict(place=place, texts=texts, hosts=hosts, placeholder=placeholder, placeholder2="C" * 40 if place == AWS else "")


def encode_string(s):
    return b"-" if s is None else b"+" + s.encode() + b"\0"


def encode_grants(grants):
    out = struct.pack("=I", len(grants))
    for g in grants:
        out += struct.pack("=5I", g["place"], 0, 0, len(g["hosts"]), 0)
        out += b"".join(map(encode_string, [*g["texts"], *g["hosts"], g["placeholder"], g["placeholder2"]]))
    return out


def encode_config(grants=(), rules=(), mode="list", layers=None, can_ask=True, ssh=False, ssh_keys="", known_hosts="", generation=1):
    layers = layers or {"user": {"rules": list(rules)}}
    encoded = encode_grants(grants)
    out = struct.pack("=8s9I", b"bawngat2", generation, MODES[mode], can_ask, 1000, len(layers), 0, 0, ssh, len(encoded)) + encoded
    for name, doc in layers.items():
        text = doc if isinstance(doc, str) else json.dumps(doc)
        out += struct.pack("=II", LAYERS[name], 0) + name.encode() + b"\0" + text.encode() + b"\0"
    for text in ("", "", "", "", "", ssh_keys, known_hosts):
        out += text.encode() + b"\0"
    return out


def memfd(data):
    fd = os.memfd_create("config", os.MFD_CLOEXEC)
    os.write(fd, data)
    return fd


def parts(*all):
    return b"".join(struct.pack("=I", len(p)) + p for p in all)


def text(b):
    return b.split(b"\0", 1)[0].decode()


class Answer:
    def __init__(self, status, data):
        self.status, self.data = status, data

    def parts(self):
        assert self.status == 0, self
        out, rest = [], self.data
        while rest:
            n = struct.unpack_from("=I", rest)[0]
            assert len(rest) >= 4 + n
            out.append(rest[4:4 + n])
            rest = rest[4 + n:]
        return out

    def __repr__(self):
        return f"<{errno.errorcode.get(-self.status, self.status)}, {len(self.data)} bytes>"


class Broker:
    def __init__(self, runner, ca=None, configured=True, **config):
        self.runner, self.config, self.last, self.answers, self.used, self.said = runner, config, 0, {}, [], b""
        self.gate, gate = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.supervisor, supervisor = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        where = os.open(ca or "/dev/null", os.O_RDONLY)

        def place():
            high = [os.dup(fd) for fd in (gate.fileno(), where, supervisor.fileno())]
            high = [os.dup2(fd, 500 + i) for i, fd in enumerate(high)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)

        self.proc = runner.popen(runner.helper("bawn-broker"), "--serve", stderr=subprocess.PIPE, close_fds=False, preexec_fn=place)
        for s in (gate, supervisor):
            s.close()
        os.close(where)
        for s in (self.gate, self.supervisor):
            s.settimeout(WAIT)
        if configured:
            self.configure()

    # The supervisor.

    def tell(self, type, index=0, value=0, fd=None):
        data = MSG.pack(type, index, value, 0, 0, b"", b"", b"")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
        self.supervisor.sendmsg([data], rights)

    def configure(self, **changes):
        self.config.update(changes)
        self.configure_bytes(encode_config(**self.config))

    def configure_bytes(self, data):
        fd = memfd(data)
        self.tell(CONFIG, fd=fd)
        os.close(fd)

    def heard(self):
        """The next message of the broker's."""
        f = MSG.unpack(self.supervisor.recv(MSG.size + 1))
        return dict(type=f[0], index=f[1], value=f[2], port=f[3], count=f[4], host=text(f[5]), method=text(f[6]), text=text(f[7]))

    def want(self, type):
        """The next question; what was used meanwhile is collected."""
        while (m := self.heard())["type"] == USED:
            self.used.append(m)
        assert m["type"] == type, m
        self.question = m
        return m["index"]

    def next_used(self):
        return self.used.pop(0) if self.used else self.heard()

    def count_used(self, n):
        """n uses, however many messages tell of them: {status: how often}."""
        counts = collections.Counter()
        while counts.total() < n:
            m = self.next_used()
            assert m["type"] == USED and m["count"] > 0, m
            counts[m["value"]] += m["count"]
        return counts

    def vault_socket(self, index, says=None):
        """Our end of what the broker reads from. says: it is there before the broker has its end, which it may close at once."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(WAIT)
        if says is not None:
            ours.send(says)
        self.tell(VAULT, index, fd=theirs.fileno())
        theirs.close()
        return ours

    def vault(self, index, value=b"", status=0, expires=0, raw=None, identity=b""):
        self.vault_socket(index, HEAD.pack(status, len(value), len(identity), 0, expires) + value + identity if raw is None else raw).close()

    # The gate.

    def request(self, type, index=0, host="", port=443, method="GET", data=b""):
        self.last += 1
        self.gate.send(REQUEST.pack(type, self.last, index, port, len(data), host.encode(), method.encode()) + data)
        return self.last

    def ask_value(self, index, host, port=443, method="GET", path="/"):
        return self.request(VALUE, index, host, port, method, path.encode())

    def answer(self, ident):
        while ident not in self.answers:
            data = self.gate.recv(1 << 17)
            assert data, "the broker is gone"
            while data:  # several in one message
                got, status, length = ANSWER.unpack_from(data)
                assert len(data) >= ANSWER.size + length and got not in self.answers
                self.answers[got] = Answer(status, data[ANSWER.size:ANSWER.size + length])
                data = data[ANSWER.size + length:]
        return self.answers.pop(ident)

    def status(self, ident):
        answer = self.answer(ident)
        assert not answer.data or answer.status == 0
        return answer.status

    def value(self, index, host, value=b"the-value-0", **kw):
        """A whole round: asked for, fetched, given."""
        ident = self.ask_value(index, host, **kw)
        self.vault(self.want(WANT_VALUE), value)
        return self.answer(ident).parts()

    def leaf(self, host, spki):
        answer = self.answer(self.request(LEAF, host=host, data=spki))
        return answer.status, answer.data

    def gone(self):
        """It has ended by itself, and closed what it had."""
        assert self.gate.recv(1 << 17) == b""
        return self.proc.wait()

    def close(self):
        """What it said on stderr."""
        self.gate.close()
        self.supervisor.close()
        if not self.proc.stderr.closed:
            self.said += self.proc.communicate()[1]
        return self.said

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
