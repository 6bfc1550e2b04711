# SPDX-License-Identifier: Apache-2.0
"""bawn-broker by itself, with a gate and a supervisor that are played (broker_driver.py): who gets a value, from where, and who does not."""

import base64
import contextlib
import errno
import os
import pathlib
import re
import signal
import struct
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from broker_driver import (AWS, BASIC, COVER, LEAF, LOGIN, MSG, PENDING_MAX, QUERY, FETCH, RENEW, REQUEST, SIGV4, USED, VALUE, VALUE_MAX, WAIT, WANT_VALUE, Broker,
                           grant)

SECRET = b"sk-real-0123456789abcdef"
ALLOW = {"action": "allow", "host": ["api.test", "other.test", "id.test"]}


@pytest.fixture
def ca(runner):
    path = runner.home / "ca"
    assert runner.run(runner.helper("bawn-broker"), "--make", path).rc == 0
    return path


@pytest.fixture
def broker(runner):
    with contextlib.ExitStack() as stack:
        def make(**kw):
            kw = {"grants": [grant("key", ["api.test"]), grant("two", ["other.test:8443"])], "rules": [ALLOW], **kw}
            return stack.enter_context(Broker(runner, **kw))
        yield make


def test_value(broker):
    b = broker()
    ask = b.ask_value(0, "api.test", method="POST", path="/v1/messages?x=1")
    assert b.want(WANT_VALUE) == 0
    assert b.question["text"] == "key" and b.question["value"] == 0
    b.vault(0, SECRET)
    assert b.answer(ask).parts() == [SECRET, SECRET]
    assert b.heard() == dict(type=USED, index=0, value=0, port=443, count=1, host="api.test", method="POST", text="key")
    # The next one needs no store.
    assert b.answer(b.ask_value(0, "api.test")).parts() == [SECRET, SECRET]


def test_places(broker):
    hosts = ["api.test"]
    b = broker(grants=[grant("a", hosts, format="token {};v=1"), grant("b", hosts, place=BASIC, user="me"), grant("c", hosts, place=QUERY)])
    assert b.value(0, "api.test", SECRET) == [b"token " + SECRET + b";v=1", SECRET]
    assert b.value(1, "api.test", SECRET) == [b"Basic " + base64.b64encode(b"me:" + SECRET), SECRET]
    assert b.value(2, "api.test", b"a&b=c d%+\xc3\xbc") == [b"a&b=c d%+\xc3\xbc"] * 2


@pytest.mark.parametrize("place", [BASIC, QUERY, 0])
def test_longest_value(broker, place):
    b = broker(grants=[grant("a", ["api.test"], place=place, user="u" * 200)])
    assert b.value(0, "api.test", b"v" * VALUE_MAX)[1] == b"v" * VALUE_MAX


REFUSED = {
    "other host": dict(host="other.test"),
    "unknown host": dict(host="api.test.evil.test"),
    "suffix": dict(host="evilapi.test"),
    "wrong port": dict(host="api.test", port=8443),
    "no port": dict(host="api.test", port=0),
    "large port": dict(host="api.test", port=65536 + 443),
    "wrong index": dict(index=1, host="api.test"),
    "no such index": dict(index=2, host="api.test"),
    "far index": dict(index=0xffffffff, host="api.test"),
    "no method": dict(host="api.test", method=""),
    "no path": dict(host="api.test", path=""),
    "bad path": dict(host="api.test", path="/a/%2e%2e;/b"),
    "no host": dict(host=""),
    "user": dict(host="me@api.test"),
    "host with port": dict(host="api.test:443"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(broker, name):
    """Neither a value nor a question to a store."""
    b = broker()
    case = {"index": 0, **REFUSED[name]}
    assert b.status(b.ask_value(**case)) == -errno.EACCES
    ask = b.ask_value(0, "api.test")
    assert b.want(WANT_VALUE) == 0  # the first question
    b.vault(0, SECRET)
    assert b.answer(ask).parts() == [SECRET, SECRET]
    assert [u["value"] for u in b.used] == ([-errno.EACCES] if case["index"] < 2 else [])


@pytest.mark.parametrize("spelling", ["API.Test", "api.test.", "API.TEST."])
def test_one_host(broker, spelling):
    """Another spelling of the same host is judged, and reported, as that host."""
    b = broker()
    assert b.value(0, spelling) == [b"the-value-0"] * 2
    assert b.next_used()["host"] == "api.test"


POLICIES = {
    "no rule": dict(rules=[]),
    "deny": dict(rules=[{"action": "deny", "host": "api.test"}]),
    "ask": dict(rules=[{"action": "ask", "host": "api.test"}]),
    "ask, nobody there": dict(rules=[{"action": "ask", "host": "api.test"}], can_ask=False),
    "unlisted": dict(layers={"user": {"unlisted": "ask", "rules": []}}),
    "off": dict(rules=[ALLOW], mode="none"),
    "organisation": dict(layers={"user": {"rules": [ALLOW]}, "organisation": {"rules": [{"action": "deny", "host": "api.test"}]}}),
    "method": dict(rules=[{"action": "allow", "host": "api.test", "methods": ["GET"]}], method="POST"),
    "path": dict(rules=[{"action": "allow", "host": "api.test", "paths": ["/v1/*"]}], path="/v2/a"),
    "port": dict(rules=[{"action": "allow", "host": "api.test", "ports": [80]}]),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policy(broker, name):
    case = dict(POLICIES[name])
    how = {k: case.pop(k) for k in ("method", "path") if k in case}
    b = broker(**{"rules": (), **case})
    assert b.status(b.ask_value(0, "api.test", **how)) == -errno.EACCES
    b.configure(**{**case, "mode": "list", "layers": None, "rules": [ALLOW]})
    assert b.value(0, "api.test", **how) == [b"the-value-0"] * 2


def test_cover(broker):
    """Answers of a grant's host are covered on every port: the gate may know the value there, and no use of it is told."""
    b = broker()
    for port in (443, 80, 8080):
        ident = b.request(COVER, 0, "API.test.", port, "")
        if port == 443:
            b.vault(b.want(WANT_VALUE), b"the-value-0")
        assert b.answer(ident).parts() == [b"the-value-0", b"the-value-0", b""]
    assert b.status(b.request(COVER, 0, "other.test", 443)) == b.status(b.request(COVER, 9, "api.test", 443)) == -errno.EACCES
    assert b.status(b.ask_value(0, "api.test", method="")) == -errno.EACCES
    assert b.next_used()["value"] == -errno.EACCES, "the first that is told is the refusal"


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("method", "path")])
def test_cover_is_no_way_around_policy(broker, name):
    """A gate that was taken over gets no value by it that it could not have for a request: policy has to allow some, without asking."""
    b = broker(**{"rules": (), **POLICIES[name]})
    assert b.status(b.request(COVER, 0, "api.test", 443, "")) == -errno.EACCES
    b.configure(**{**POLICIES[name], "mode": "list", "layers": None, "rules": [{"action": "allow", "host": "api.test", "methods": ["GET"], "paths": ["/v1"]}]})
    ident = b.request(COVER, 0, "api.test", 8080, "")
    b.vault(b.want(WANT_VALUE), b"the-value-0")
    assert b.answer(ident).parts()[0] == b"the-value-0"


def test_reload_while_waiting(broker):
    """Policy is that of the moment when the value is there."""
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.want(WANT_VALUE)
    b.configure(rules=[])
    b.vault(0, SECRET)
    assert b.status(ask) == -errno.EACCES


def test_grant_taken_away(broker):
    b = broker()
    assert b.value(0, "api.test", SECRET)
    ask = b.ask_value(1, "other.test", port=8443)
    b.want(WANT_VALUE)
    b.configure(grants=[])
    assert b.status(ask) == -errno.EACCES
    assert b.status(b.ask_value(0, "api.test")) == -errno.EACCES
    b.configure(grants=[grant("key", ["api.test"])])
    assert b.value(0, "api.test", b"another-one") == [b"another-one"] * 2


def test_grant_changes_its_number(broker):
    """The socket of a fetch that was for another grant is not read: its value would go to the wrong host."""
    b = broker()
    first = b.ask_value(0, "api.test")
    assert b.want(WANT_VALUE) == 0
    b.configure(grants=[grant("two", ["other.test:8443"]), grant("key", ["api.test"])])
    assert b.status(first) == -errno.EACCES
    second = b.ask_value(0, "other.test", port=8443)
    b.vault(0, b"value of key")
    assert b.want(WANT_VALUE) == 0
    assert b.question["text"] == "two"
    b.vault(0, b"value of two")
    assert b.answer(second).parts() == [b"value of two"] * 2


def test_same_grants_keep_their_values(broker):
    b = broker()
    assert b.value(0, "api.test", SECRET)
    b.configure(generation=2)
    assert b.answer(b.ask_value(0, "api.test")).parts() == [SECRET, SECRET]


BAD_CONFIG = {"nothing": b"", "cut": b"bawngat2", "zeros": b"\0" * 4096, "ones": b"bawngat2" + b"\xff" * 100}


@pytest.mark.parametrize("name", BAD_CONFIG)
def test_bad_reload_keeps_the_old(broker, name):
    b = broker()
    b.configure_bytes(BAD_CONFIG[name])
    assert b.value(0, "api.test", SECRET) == [SECRET, SECRET]
    assert b"configuration" in b.close()


def test_bad_rules_keep_the_old(broker):
    b = broker()
    b.configure(layers={"user": "{"})
    assert b.value(0, "api.test", SECRET) == [SECRET, SECRET]


def test_bad_first_configuration(broker):
    b = broker(configured=False)
    b.configure_bytes(b"nothing")
    assert b.gone() == 125
    assert b"configuration" in b.close()


def test_nothing_before_the_configuration(broker):
    """A gate that is faster than the supervisor waits."""
    b = broker(configured=False)
    ask = b.ask_value(0, "api.test")
    b.configure()
    b.vault(b.want(WANT_VALUE), SECRET)
    assert b.answer(ask).parts() == [SECRET, SECRET]


GARBAGE = {
    "nothing": dict(raw=b""),
    "short": dict(raw=b"\0" * 15),
    "length": dict(raw=struct.pack("=iIIIQ", 0, 9, 0, 0, 0) + b"the-value-0"),
    "far length": dict(raw=struct.pack("=iIIIQ", 0, 0xffffffff, 0, 0, 0) + b"the-value-0"),
    "far identity": dict(raw=struct.pack("=iIIIQ", 0, 11, 0xffffffff, 0, 0) + b"the-value-0"),
    "long identity": dict(value=b"the-value-0", identity=b"i" * 8193),
    "too long": dict(value=b"v" * (VALUE_MAX + 1)),
    "much too long": dict(value=b"v" * (VALUE_MAX + 8192)),
    "empty": dict(value=b""),
    "line break": dict(value=b"the-value\r\nX-Evil: 1"),
    "newline": dict(value=b"the-value-0\n"),
    "NUL": dict(value=b"the-val\0ue-0"),
    "other error": dict(status=-errno.EACCES),
    "positive": dict(status=5),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_vault_garbage(broker, name):
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), **GARBAGE[name])
    assert b.status(ask) == -errno.ENOKEY
    assert b.status(b.ask_value(0, "api.test")) == -errno.ENOKEY  # for a while, without a question
    assert b.value(1, "other.test", port=8443) == [b"the-value-0"] * 2


@pytest.mark.parametrize("status", ["ENOKEY", "EKEYEXPIRED", "ETIMEDOUT", "E2BIG"])
def test_vault_says_why(broker, status):
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), status=-getattr(errno, status))
    assert b.status(ask) == -getattr(errno, status)
    assert b.next_used()["value"] == -getattr(errno, status)


def test_vault_closes(broker):
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.vault_socket(b.want(WANT_VALUE)).close()
    assert b.status(ask) == -errno.ENOKEY


def test_no_vault(broker):
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.tell(2, b.want(WANT_VALUE), value=errno.ENOENT)
    assert b.status(ask) == -errno.ENOKEY


def test_again_after_a_failure(broker):
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), status=-errno.ENOKEY)
    assert b.status(ask) == -errno.ENOKEY
    time.sleep(2.1)
    assert b.value(0, "api.test", SECRET) == [SECRET, SECRET]


def test_vault_that_nobody_wanted(broker):
    b = broker()
    b.vault(0, b"unasked-for")
    b.vault(63, b"unasked-for")
    b.vault(64, b"unasked-for")
    b.vault(0xffffffff, b"unasked-for")
    assert b.value(0, "api.test", SECRET) == [SECRET, SECRET]


def test_hung_vault_holds_up_nobody_else(broker, ca):
    """A thousand wait for one fetch; leaves and other credentials go on."""
    b = broker(ca=ca)
    asks = [b.ask_value(0, "api.test", path=f"/{i}") for i in range(PENDING_MAX)]
    sock = b.vault_socket(b.want(WANT_VALUE))
    one_more = b.ask_value(0, "api.test")
    assert b.status(one_more) == -errno.EBUSY
    assert b.leaf("api.test", b"no key")[0] == -errno.EINVAL
    assert b.status(b.ask_value(1, "other.test", port=8443)) == -errno.EBUSY
    sock.send(struct.pack("=iIIIQ", 0, len(SECRET), 0, 0, 0) + SECRET)
    sock.close()
    assert all(b.answer(ask).parts() == [SECRET, SECRET] for ask in asks)
    assert b.count_used(2 + PENDING_MAX) == {-errno.EBUSY: 2, 0: PENDING_MAX}
    assert b.value(1, "other.test", port=8443) == [b"the-value-0"] * 2


def test_one_fetch_for_many(broker):
    b = broker()
    asks = [b.ask_value(0, "api.test") for _ in range(20)]
    b.vault(b.want(WANT_VALUE), SECRET)
    assert all(b.answer(a).parts() == [SECRET, SECRET] for a in asks)
    assert b.count_used(len(asks)) == {0: len(asks)}


def test_many_requests_in_one_message(broker):
    """As a gate under load sends them; each is judged by itself."""
    b = broker()
    b.value(0, "api.test", SECRET)
    hosts = ["api.test", "other.test", "api.test"] * 20
    b.gate.send(b"".join(REQUEST.pack(VALUE, 1000 + i, 0, 443, 1, host.encode(), b"GET") + b"/" for i, host in enumerate(hosts)))
    answers = [b.answer(1000 + i) for i in range(len(hosts))]
    assert [a.status for a in answers] == [0, -errno.EACCES, 0] * 20
    assert all(a.parts() == [SECRET, SECRET] for a in answers if a.status == 0)


def test_a_message_that_ends_within_a_request(broker):
    b = broker()
    one = REQUEST.pack(VALUE, 1, 0, 443, 1, b"api.test", b"GET") + b"/"
    b.gate.send(one + one[:-1])
    with contextlib.suppress(ConnectionError):
        while b.gate.recv(1 << 17):
            pass
    assert b.proc.wait() == 125


def memory(pid):
    """Everything that the process has. As root, who may."""
    out = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, rights = line.split()[:2]
            if "r" not in rights or "[v" in line:
                continue
            start, end = (int(x, 16) for x in span.split("-"))
            with contextlib.suppress(OSError):
                mem.seek(start)
                out.append(mem.read(end - start))
    return b"".join(out)


def forms(secret):
    return [secret, secret[::-1], base64.b64encode(secret), base64.b64encode(b"me:" + secret), secret.hex().encode()]


@pytest.mark.no_sanitizer
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("place", [BASIC, QUERY, 0])
def test_value_ends(broker, place):
    """After its time nothing of it is left, and the next request fetches a fresh one."""
    b = broker(grants=[grant("key", ["api.test"], place=place)])
    ask = b.ask_value(0, "api.test")
    index = b.want(WANT_VALUE)
    b.vault(index, SECRET, expires=int(time.time()) + 3)
    assert b.answer(ask).parts()[1] == SECRET
    before = memory(b.proc.pid)
    assert SECRET in before
    time.sleep(3.5)
    after = memory(b.proc.pid)
    assert not [f for f in forms(SECRET) if f in after]
    ask = b.ask_value(0, "api.test")
    b.want(WANT_VALUE)
    assert b.question["value"] == 1
    b.vault(index, b"a-fresh-value")
    assert b.answer(ask).parts()[1] == b"a-fresh-value"


@pytest.mark.no_sanitizer
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_one_copy(broker):
    """While it is there it is in one place: nothing that was made of it for a request stays."""
    b = broker(grants=[grant("key", ["api.test"], place=BASIC)])
    assert b.value(0, "api.test", SECRET)
    b.answer(b.ask_value(0, "api.test"))
    b.leaf("api.test", b"")  # by then it is done with the request before
    found = memory(b.proc.pid)
    assert found.count(SECRET) == 1
    assert not [f for f in forms(SECRET)[1:] if f in found]


def test_expired_already(broker):
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), SECRET, expires=int(time.time()) - 1)
    assert b.status(ask) == -errno.EKEYEXPIRED


OAUTH = grant("idp", ["api.test"], token_url="https://id.test/token")


JWT = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"


def test_login(broker):
    """What a client inside may know of a login: until when the token is good, and of a JWT what it says, without what proves it."""
    b = broker(grants=[OAUTH])
    ask = b.request(LOGIN, 0, "id.test", method="POST")
    b.vault(b.want(WANT_VALUE), JWT, expires=int(time.time()) + 3600, identity=b"eyJh.eyJz")
    access, identity, seconds = b.answer(ask).parts()
    assert (access, identity) == (JWT.rpartition(b".")[0], b"eyJh.eyJz") and abs(int(seconds) - 3600) < WAIT
    assert b.answer(b.ask_value(0, "api.test")).parts() == [b"Bearer " + JWT, JWT]
    assert b.count_used(1) == {0: 1}, "and it is no use of the value"


@pytest.mark.parametrize("value", [b"an-opaque-token", b"eyJ-without-dots", b"eyJone.dot-only", b"opaque.with.dots", b"eyJabc.def."])
def test_login_with_an_opaque_token(broker, value):
    b = broker(grants=[OAUTH])
    ask = b.request(LOGIN, 0, "id.test")
    b.vault(b.want(WANT_VALUE), value)
    assert b.answer(ask).parts() == [b"", b"", b""]


def test_login_without_a_value(broker):
    b = broker(grants=[OAUTH])
    ask = b.request(LOGIN, 0, "id.test")
    b.vault(b.want(WANT_VALUE), status=-errno.EKEYEXPIRED)
    assert b.status(ask) == -errno.EKEYEXPIRED


def test_renewed(broker):
    """The user has logged in anew: the value so far, and why there was none, count no longer."""
    b = broker(grants=[OAUTH])
    assert b.value(0, "api.test")[1] == b"the-value-0"
    b.tell(RENEW, 0)
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), b"access-token-2")
    assert b.answer(ask).parts()[1] == b"access-token-2"
    b.tell(RENEW, 0)
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), status=-errno.ENOKEY)
    assert b.status(ask) == -errno.ENOKEY
    b.tell(RENEW, 0)
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), b"access-token-3")
    assert b.answer(ask).parts()[1] == b"access-token-3"
    b.tell(RENEW, 9)  # there is no such grant
    assert b.answer(b.ask_value(0, "api.test")).parts()[1] == b"access-token-3"


def test_renewed_while_fetching(broker):
    """What is under way is of the old login: it is thrown away, and who waits gets the new one."""
    b = broker(grants=[OAUTH])
    ask = b.ask_value(0, "api.test")
    b.want(WANT_VALUE)
    b.tell(RENEW, 0)
    b.vault(0, b"an-old-token")
    b.vault(b.want(WANT_VALUE), b"a-new-token")
    assert b.answer(ask).parts()[1] == b"a-new-token"


def test_fetched_before_it_is_asked_for(broker):
    b = broker()
    b.tell(FETCH, 0)
    b.tell(FETCH, 0)  # it is on its way
    b.vault(b.want(WANT_VALUE), b"the-value-ahead")
    assert b.answer(b.ask_value(0, "api.test")).parts()[1] == b"the-value-ahead"
    b.tell(FETCH, 0)  # it is there
    b.tell(FETCH, 9)  # there is no such grant
    assert b.answer(b.ask_value(0, "api.test")).parts()[1] == b"the-value-ahead"
    ask = b.ask_value(1, "other.test", port=8443)
    assert b.want(WANT_VALUE) == 1, "of the others none was asked for"
    b.vault(1, b"the-value-1")
    assert b.answer(ask).parts()[1] == b"the-value-1"


def test_a_failure_before_it_is_asked_for(broker):
    b = broker()
    b.tell(FETCH, 0)
    b.vault(b.want(WANT_VALUE), status=-errno.ENOKEY)
    assert b.status(b.ask_value(0, "api.test")) == -errno.ENOKEY


LOGIN_REFUSED = {
    "host": dict(host="api.test"),
    "port": dict(host="id.test", port=8443),
    "no oauth": dict(index=1, host="api.test"),
    "index": dict(index=9, host="id.test"),
}


@pytest.mark.parametrize("name", LOGIN_REFUSED)
def test_login_refused(broker, name):
    b = broker(grants=[OAUTH, grant("key", ["api.test"])])
    assert b.status(b.request(LOGIN, **LOGIN_REFUSED[name])) == -errno.EACCES
    assert b.value(0, "api.test")[1] == b"the-value-0"


def test_login_policy(broker):
    b = broker(grants=[OAUTH], rules=[{"action": "allow", "host": "id.test", "paths": ["/other"]}])
    assert b.status(b.request(LOGIN, 0, "id.test")) == -errno.EACCES


# SigV4 -------------------------------------------------------------------------------------------------------------

KEY_ID, SECRET_KEY, SESSION = "AKIDEXAMPLE012345678", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "FwoGZXIvYXdzEBYaD/session=="
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def amz_date(offset=0):
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + offset))


def canonical(method="GET", path="/", query="", headers=None, host="s3.test", date=None, hash=EMPTY, names=None):
    headers = {"host": host, "x-amz-content-sha256": hash, "x-amz-date": date or amz_date(), **(headers or {})}
    lines = "".join(f"{k}:{v}\n" for k, v in sorted(headers.items()))
    return f"{method}\n{path}\n{query}\n{lines}\n{names or ';'.join(sorted(headers))}\n{hash}"


def botocore_authorization(text, region, service, session):
    """What AWS's own library makes of the same request."""
    pytest.importorskip("botocore", reason="needs the program aws, for its botocore")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    signer, request = SigV4Auth(Credentials(KEY_ID, SECRET_KEY, session), service, region), AWSRequest()
    head, names, hash = text.rsplit("\n", 2)
    fields = dict(line.split(":", 1) for line in head.split("\n")[3:-1])
    if session:
        fields["x-amz-security-token"] = session
    first = head.split("\n")[:3]
    names = ";".join(sorted(fields))
    text = "\n".join([*first, *(f"{k}:{fields[k]}" for k in sorted(fields)), "", names, hash])
    request.context["timestamp"] = fields["x-amz-date"]
    signature = signer.signature(signer.string_to_sign(request, text), request)
    return f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={names}, Signature={signature}"


@pytest.fixture
def aws(broker):
    def make(service="s3", region="eu-central-1", **kw):
        kw = {"rules": [{"action": "allow", "host": "s3.test"}], **kw}
        return broker(grants=[grant("aws", ["s3.test", "s3.test:9000"], place=AWS, region=region, service=service)], **kw)
    return make


@pytest.mark.parametrize("session", [None, SESSION])
@pytest.mark.parametrize("text", [
    dict(),
    dict(method="PUT", path="/bucket/a%20b/c%3Ad", query="partNumber=1&uploadId=x", hash="UNSIGNED-PAYLOAD"),
    dict(headers={"x-amz-security-token": "PLACEHOLDER", "x-amz-zzz": "last one", "accept": "a, b"}),
    dict(headers={"x-amz-security": "1", "x-amz-security-token-2": "2"}),
])
def test_sigv4(aws, text, session):
    b = aws()
    value = f"{KEY_ID}:{SECRET_KEY}" + (f":{session}" if session else "")
    data = canonical(**text)
    ask = b.request(SIGV4, 0, "s3.test", method=text.get("method", "GET"), data=data.encode())
    b.vault(b.want(WANT_VALUE), value.encode())
    got = b.answer(ask).parts()
    plain = re.sub(r"\nx-amz-security-token:[^\n]*", "", data).replace(";x-amz-security-token;", ";").replace(";x-amz-security-token\n", "\n")
    assert got[0].decode() == botocore_authorization(plain, "eu-central-1", "s3", session)
    assert got[1:] == [(session or "").encode(), KEY_ID.encode(), SECRET_KEY.encode()]


def test_sigv4_port(aws):
    b = aws()
    ask = b.request(SIGV4, 0, "s3.test", port=9000, data=canonical(host="s3.test:9000").encode())
    b.vault(b.want(WANT_VALUE), f"{KEY_ID}:{SECRET_KEY}".encode())
    assert b.answer(ask).status == 0


SIGV4_REFUSED = {
    "method": canonical(method="DELETE"),
    "host": canonical(host="evil.test"),
    "port": canonical(host="s3.test:9000"),
    "yesterday": canonical(date=amz_date(-86400)),
    "later": canonical(date=amz_date(3600)),
    "no date": canonical(date="now"),
    "presigned": canonical(query="X-Amz-Expires=604800"),
    "presigned, second": canonical(query="a=1&x-amz-signature=1"),
    "names": canonical(names="host"),
    "more names": canonical(names="host;x-amz-content-sha256;x-amz-date;x-evil"),
    "no host": "GET\n/\n\nx-amz-date:%s\n\nx-amz-date\n%s" % (amz_date(), EMPTY),
    "order": "GET\n/\n\nx-amz-date:%s\nhost:s3.test\n\nx-amz-date;host\n%s" % (amz_date(), EMPTY),
    "twice": "GET\n/\n\nhost:s3.test\nhost:evil.test\nx-amz-date:%s\n\nhost;host;x-amz-date\n%s" % (amz_date(), EMPTY),
    "hash": canonical(hash="STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    "after": canonical() + "\n",
    "before": "\n" + canonical(),
    "control byte": canonical(headers={"x-a": "1\r"}),
    "capitals": canonical(headers={"X-A": "1"}),
    "nothing": "",
    "lines": "\n\n\n\n\n",
    "no headers": "GET\n/\n\n\n\n" + EMPTY,
    "path": canonical(path="/private/x"),
    "path with dots": canonical(path="/public/..;/private/x"),
}


@pytest.mark.parametrize("name", SIGV4_REFUSED)
def test_sigv4_refused(aws, name):
    rules = [{"action": "allow", "host": "s3.test", "paths": ["/", "/public/**"]}]
    b = aws(rules=rules)
    assert b.status(b.request(SIGV4, 0, "s3.test", data=SIGV4_REFUSED[name].encode())) == -errno.EACCES
    ask = b.request(SIGV4, 0, "s3.test", data=canonical(path="/public/x").encode())
    b.vault(b.want(WANT_VALUE), f"{KEY_ID}:{SECRET_KEY}".encode())
    assert b.answer(ask).status == 0


@pytest.mark.parametrize("service,path,status", [
    ("bedrock", "/model/claude%253A1/invoke", 0), ("bedrock", "/model/claude%3A1/invoke", -errno.EACCES),
    ("bedrock", "/model/%252e%252e/x", -errno.EACCES), ("bedrock", "/a%2", -errno.EACCES), ("s3", "/model/claude%3A1/invoke", 0)])
def test_sigv4_path_is_the_one_that_is_judged(aws, service, path, status):
    """All services but s3 encode it twice."""
    b = aws(service=service, rules=[{"action": "allow", "host": "s3.test", "paths": ["/model/claude%3A1/invoke"]}])
    ask = b.request(SIGV4, 0, "s3.test", data=canonical(path=path).encode())
    if status == 0:
        b.vault(b.want(WANT_VALUE), f"{KEY_ID}:{SECRET_KEY}".encode())
    assert b.status(ask) == status


def test_sigv4_is_no_value(aws, broker):
    """A secret key is signed with, not handed out as a header; a header is no key."""
    b = aws()
    assert b.status(b.ask_value(0, "s3.test")) == -errno.EACCES
    b = broker()
    assert b.status(b.request(SIGV4, 0, "api.test", data=canonical(host="api.test").encode())) == -errno.EACCES


# Leaves, and the end -----------------------------------------------------------------------------------------------

def new_spki(folder, runner):
    key = runner.run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256").out
    return runner.run("openssl", "pkey", "-pubout", "-outform", "DER", input=key).out


def test_leaf(broker, runner, ca):
    """For every host, because the gate answers in the place of denied ones; only the sandbox trusts the CA. Values are another matter."""
    spki = new_spki(ca, runner)
    b = broker(ca=ca, rules=[{"action": "deny", "host": "no.test"}, {"action": "ask", "host": "maybe.test"}, ALLOW])
    for host in ("no.test", "unlisted.test", "maybe.test"):
        assert b.leaf(host, spki)[0] == 0
    status, der = b.leaf("api.test", spki)
    assert status == 0
    text = runner.run("openssl", "x509", "-inform", "DER", "-noout", "-text", input=der).out
    assert b"DNS:api.test" in text and b"CA:FALSE" in text


def test_no_authority(broker, runner):
    b = broker()
    assert b.leaf("api.test", b"x" * 91)[0] == -errno.ENOENT
    assert b.value(0, "api.test") == [b"the-value-0"] * 2


def test_authority_that_is_a_file(runner, broker):
    path = runner.write(runner.home / "file", "x")
    b = broker(ca=path or runner.home / "file", configured=False)
    assert b.gone() == 125


WRONG = {
    "type 0": struct.pack("=IIIII256s36s", 0, 1, 0, 443, 0, b"", b""),
    "type 8": struct.pack("=IIIII256s36s", 8, 1, 0, 443, 0, b"", b""),
    "far type": struct.pack("=IIIII256s36s", 0xffffffff, 1, 0, 443, 0, b"", b""),
    "short": b"x",
    "length": struct.pack("=IIIII256s36s", VALUE, 1, 0, 443, 5, b"", b"") + b"/abc",
    "far length": struct.pack("=IIIII256s36s", VALUE, 1, 0, 443, 0xffffffff, b"", b""),
    "more": struct.pack("=IIIII256s36s", VALUE, 1, 0, 443, 1, b"", b"") + b"/abc",
    "too long": struct.pack("=IIIII256s36s", VALUE, 1, 0, 443, 65537, b"", b"") + b"x" * 65537,
    "host without end": struct.pack("=IIIII256s36s", LEAF, 1, 0, 443, 0, b"h" * 256, b""),
    "method without end": struct.pack("=IIIII256s36s", VALUE, 1, 0, 443, 0, b"h", b"m" * 36),
}


@pytest.mark.parametrize("name", WRONG)
def test_not_a_request(broker, name):
    """Ends the broker: whoever sends this is not our gate any more."""
    b = broker()
    assert b.value(0, "api.test", SECRET)
    b.gate.send(WRONG[name])
    assert b.gone() == 125
    assert SECRET not in b.close()


@pytest.mark.parametrize("type", [None, 0, WANT_VALUE, 99])
def test_not_a_message(broker, type):
    b = broker()
    assert b.value(0, "api.test")
    b.supervisor.send(b"x" if type is None else MSG.pack(type, 0, 0, 0, 0, b"", b"", b""))
    assert b.gone() == 125


@pytest.mark.parametrize("side", ["gate", "supervisor"])
@pytest.mark.parametrize("when", ["unconfigured", "idle", "waiting", "ready"])
def test_ends_with_either_side(broker, side, when):
    b = broker(configured=when != "unconfigured")
    if when in ("waiting", "ready"):
        b.ask_value(0, "api.test")
        b.want(WANT_VALUE)
    if when == "ready":
        b.vault(0, SECRET)
        b.next_used()
    getattr(b, side).close()
    assert b.proc.wait() == 0


@pytest.mark.parametrize("when", ["unconfigured", "idle", "waiting", "reading", "ready"])
def test_killed(broker, when):
    """Whoever waits sees a closed socket; nothing is written anywhere."""
    b = broker(configured=when != "unconfigured")
    if when in ("waiting", "reading", "ready"):
        b.ask_value(0, "api.test")
        b.want(WANT_VALUE)
    if when == "reading":
        sock = b.vault_socket(0)
    if when == "ready":
        b.vault(0, SECRET)
        b.next_used()
    b.proc.send_signal(signal.SIGKILL)
    assert b.proc.wait() == -signal.SIGKILL
    if when == "reading":
        assert sock.recv(10) == b""
    with contextlib.suppress(ConnectionResetError):
        while b.gate.recv(1 << 17):
            pass
    assert b.close() == b""


def status_field(pid, name):
    return re.search(rf"^{name}:\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1).split()


def test_jail(broker, runner):
    b = broker()
    assert b.value(0, "api.test", SECRET)
    pid = b.proc.pid
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
    assert re.search(r"^Max core file size +0 +0 ", limits, re.M) and re.search(r"^Max processes +0 +0 ", limits, re.M)
    assert status_field(pid, "Seccomp") == ["2"] and status_field(pid, "NoNewPrivs") == ["1"] and status_field(pid, "CapEff") == ["0" * 16]
    assert os.stat(f"/proc/{pid}/mem").st_uid == 0  # not dumpable: root's, whoever it runs as
    assert sorted(os.listdir(f"/proc/{pid}/fd"), key=int) == ["0", "1", "2", "3", "5"]  # and no store's socket stays


@pytest.mark.no_sanitizer
def test_locked_memory(broker):
    """A value does not get into the swap."""
    b = broker()
    before = int(status_field(b.proc.pid, "VmLck")[0])
    assert b.value(0, "api.test", SECRET)
    assert int(status_field(b.proc.pid, "VmLck")[0]) > before


def test_no_word_of_a_value(broker):
    """Not even when everything goes wrong."""
    b = broker()
    ask = b.ask_value(0, "api.test")
    b.vault(b.want(WANT_VALUE), SECRET + b"\r\n")
    assert b.status(ask) == -errno.ENOKEY
    b.gate.send(b"x")
    b.proc.wait()
    assert b"sk-real" not in b.close()
