# SPDX-License-Identifier: Apache-2.0
"""OAuth logins and SigV4 signatures at bawn-gate, with a supervisor and a broker that are played (gate_web): no token comes in."""

import base64
import errno
import json
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gate_broker import SIGV4  # noqa: E402
from gate_driver import Server, grant  # noqa: E402
from gate_web import A, H, H2Client, HOLDER, REAL, Web, ask, authorities, broker, chunked, code, gate, h2_serve, network, reply, tls, web  # noqa: E402, F401

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

# --- OAuth -----------------------------------------------------------------------------------------------------------------------

TOKEN_URL = {"token_url": "https://id.test/token", "device_url": "https://id.test/device", "client_id": "me", "header": "Authorization", "format": "Bearer {}"}
FORM = b"Content-Type: application/x-www-form-urlencoded"


@pytest.fixture
def login(authorities, broker):
    with gate(authorities, broker, A | {"host": ["a.test", "b.test", "c.test", "id.test"]}, grants=[grant("idp", ["a.test"], HOLDER, **TOKEN_URL)]) as g:
        g.ca = authorities[1]
        yield g


@pytest.mark.parametrize("body", [b"grant_type=refresh_token&refresh_token=" + H, json.dumps({"refresh_token": HOLDER, "grant_type": "refresh_token"}).encode()],
                         ids=["form", "json"])
def test_refresh_is_answered_here(login, web, body):
    with tls(login, login.ca, "id.test") as s:
        status, _, out = ask(s, b"POST", b"/token", FORM, host=b"id.test", body=body)
        assert status == 200
        assert json.loads(out) == {"access_token": HOLDER, "refresh_token": HOLDER, "token_type": "Bearer", "expires_in": 3600}
    assert not web.requests
    assert login.events(kind="request")[0]["secret"] == "idp"


def jwt(signature):
    return ".".join(base64.urlsafe_b64encode(json.dumps(x).encode()).decode().rstrip("=") for x in ({"alg": "none"}, {"sub": "me"})) + "." + signature


REDEEM = b"grant_type=authorization_code&code=" + H


def test_placeholder_is_redeemed_here(login, web, broker):
    """The code of a login is the placeholder; who the user is may be read, what proves it is not there."""
    public = jwt("").rstrip(".").encode()
    broker.login = 0, (public, public, b"77")
    with tls(login, login.ca, "id.test") as s:
        status, _, out = ask(s, b"POST", b"/token", FORM, host=b"id.test", body=REDEEM)
    assert status == 200
    assert json.loads(out) == {"access_token": jwt(HOLDER[-24:]), "refresh_token": HOLDER, "id_token": jwt(HOLDER[-24:]), "token_type": "Bearer", "expires_in": 77}
    assert not web.requests


def test_two_logins_at_one_endpoint(authorities, broker, web):
    """The placeholder says whose it is, not the client_id, and none is renewed by the other's."""
    other = HOLDER[:-24] + "Q" * 24
    grants = [grant("one", ["a.test"], HOLDER, **TOKEN_URL), grant("two", ["a.test"], other, **TOKEN_URL | {"client_id": "other"})]
    with gate(authorities, broker, A | {"host": ["a.test", "id.test"]}, grants=grants) as g, tls(g, authorities[1], "id.test") as s:
        for i, holder in enumerate((HOLDER, other)):
            body = f"grant_type=refresh_token&client_id=me&refresh_token={holder}".encode()
            status, _, out = ask(s, b"POST", b"/token", FORM, host=b"id.test", body=body)
            assert status == 200 and json.loads(out)["access_token"] == holder and broker.asked[i][1] == i
        answer = ask(s, b"POST", b"/token", FORM, host=b"id.test", body=f"grant_type=refresh_token&refresh_token={HOLDER}{other}".encode())
        assert answer[0] == 403 and code(answer) == "BAWN_NET_LOGIN_OUTSIDE"
    assert not web.requests


def test_redeemed_without_a_login(login, web, broker):
    broker.login = -errno.EKEYEXPIRED, ()
    with tls(login, login.ca, "id.test") as s:
        answer = ask(s, b"POST", b"/token", FORM, host=b"id.test", body=REDEEM)
    assert answer[0] == 502 and code(answer) == "BAWN_NET_SECRET_UNAVAILABLE" and not web.requests


NOT_REDEEMED = {
    "real code": b"grant_type=authorization_code&code=abc&code_verifier=x",
    "real token": b"grant_type=refresh_token&refresh_token=abc",
    "encoded": b"grant%5ftype=refresh%5ftoken&refresh%5ftoken=abc",
    "part": b"grant_type=authorization_code&code=x" + H,
    "twice": REDEEM + b"&code=abc",
    "two types": REDEEM + b"&grant_type=client_credentials",
    "other slot": b"grant_type=authorization_code&refresh_token=" + H,
    "client": b"grant_type=client_credentials",
    "password": b"grant_type=password&username=a&password=b",
    "device": b"grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code=" + H,
    "exchange": b"grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=" + H,
    "json": b'{"grant_type": "authorization_code", "code": "abc"}',
    "nothing": b"",
    "long": REDEEM + b"&x=" + b"y" * 65536,
}


@pytest.mark.parametrize("name", NOT_REDEEMED)
def test_other_requests_for_tokens_are_refused(login, web, broker, name):
    with tls(login, login.ca, "id.test") as s:
        answer = ask(s, b"POST", b"/token", FORM, host=b"id.test", body=NOT_REDEEMED[name])
        assert answer[0] == 403 and code(answer) == "BAWN_NET_LOGIN_OUTSIDE" and b"bawn secret login idp" in answer[2], answer
    assert not web.requests and not broker.asked
    assert login.events(kind="request")[0]["secret"] == "idp"


@pytest.mark.parametrize("line", [b"GET /token", b"PUT /token", b"POST /token/", b"POST /Token", b"POST //token", b"POST /%74oken", b"POST /x/../token",
                                  b"POST /token;x=1", b"POST /token?grant_type=refresh_token", b"POST /device", b"GET /device?x"])
def test_endpoint_however_it_is_spelled(login, web, broker, line):
    method, _, path = line.partition(b" ")
    with tls(login, login.ca, "id.test") as s:
        answer = ask(s, method, path, FORM, host=b"id.test", body=b"grant_type=client_credentials")
        assert answer[0] == 403 and code(answer) == "BAWN_NET_LOGIN_OUTSIDE", answer
    assert not web.requests


TOKENS = b'{"access_token": "SECRET-ACCESS-TOKEN", "id_token": "SECRET-IDENTITY-TOKEN", "expires_in": 77}'


@pytest.mark.parametrize("name", ["id.test", "a.test"])
def test_tokens_elsewhere_are_covered(login, web, broker, name):
    """At another path of the login's hosts, and of the API's, in pieces, with a range: nothing of it is inside, nothing is stored."""
    broker.formats = {0: lambda v: b"Bearer " + v}
    web.answer = lambda r: chunked(*[TOKENS[i:i + 5] for i in range(0, len(TOKENS), 5)])
    with tls(login, login.ca, name) as s:
        status, _, out = ask(s, b"GET", b"/v2/other", b"Range: bytes=20-", b"Accept-Encoding: gzip", host=name.encode())
    assert status == 200 and b"SECRET" not in out and len(out) == len(TOKENS) and json.loads(out)["expires_in"] == 77
    assert "range" not in web.requests[0]["fields"] and web.requests[0]["fields"]["accept-encoding"] == b"identity"
    assert "tokens" in login.events(kind="trouble")[0]["path"]


def test_tokens_over_plain_http_are_covered(login):
    with Web(None, port=80) as plain:
        plain.answer = lambda r: reply(TOKENS)
        with login.connect("id.test", 80) as s:
            status, _, out = ask(s, b"GET", b"/other", host=b"id.test")
        assert status == 200 and b"SECRET" not in out and len(out) == len(TOKENS)
        with login.connect("id.test", 80) as s:
            assert code(ask(s, b"POST", b"/token", FORM, host=b"id.test", body=REDEEM)) == "BAWN_NET_LOGIN_OUTSIDE"


def test_packed_answers_of_the_login_are_refused(login, web):
    web.answer = lambda r: reply(b"xx", b"Content-Encoding: gzip")
    with tls(login, login.ca, "id.test") as s:
        answer = ask(s, b"GET", b"/v2/other", host=b"id.test")
    assert answer[0] == 502 and code(answer) == "BAWN_NET_CANNOT_LOOK"


def test_tokens_over_http2(authorities, broker):
    seen, context = [], authorities[0].server_context("a.test", alpn=["h2"])
    answer = [b'{"access_token": "SECRET', b'-OF-MINE", "expires_in": 5}']
    grants = [grant("idp", ["b.test"], HOLDER, **TOKEN_URL | {"token_url": "https://a.test/token"})]
    with Server(lambda s: h2_serve(context.wrap_socket(s, server_side=True), seen, answer), port=443):
        with gate(authorities, broker, grants=grants) as g, tls(g, authorities[1], alpn=["h2"]) as s:
            c = H2Client(s)
            status, _, out = c.ask([], [b"grant_type=x"])
            assert status == 200 and json.loads(out) == {"access_token": "*" * 14, "expires_in": 5}
    assert len(seen) == 1


def test_jwt_with_the_core_is_the_placeholder(login, web, broker):
    broker.formats = {0: lambda v: b"Bearer " + v}
    with tls(login, login.ca) as s:
        assert ask(s, b"GET", b"/", b"Authorization: Bearer " + jwt(HOLDER[-24:]).encode())[0] == 200
    assert web.requests[0]["fields"]["authorization"] == b"Bearer " + REAL


# --- SigV4 -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def aws(authorities, broker):
    broker.values = {0: b"-"}
    grants = [grant("aws", ["a.test"], "AKIA" + "ABCDEFGHIJKLMNOP", place="sigv4", placeholder2="s" * 16 + "ZaYbXcWdVeUfTgShRiQjPk42",
                    region="eu-test-1", service="s3"),
              grant("sqs", ["b.test"], "AKIA" + "QRSTUVWXYZ234567", place="sigv4", placeholder2="t" * 16 + "ZbYbXcWdVeUfTgShRiQjPk42",
                    region="eu-test-1", service="sqs")]
    broker.values = {0: b"-", 1: b"-"}
    with gate(authorities, broker, grants=grants) as g:
        g.ca = authorities[1]
        yield g


def signed(method, url, service, body=b"", headers=None, key="AKIAABCDEFGHIJKLMNOP"):
    """As botocore signs it; the request, and the canonical request that was signed."""
    auth = pytest.importorskip("botocore.auth")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    r = AWSRequest(method=method, url=url, data=body, headers=headers or {})
    signer = (auth.S3SigV4Auth if service == "s3" else auth.SigV4Auth)(Credentials(key, "s" * 40), service, "eu-test-1")
    make, made = signer.canonical_request, []
    signer.canonical_request = lambda r: made.append(make(r)) or made[0]
    r.context.update({"payload_signing_enabled": True})
    signer.add_auth(r)
    return r, made[0]


@pytest.mark.parametrize("method,path,service,body", [
    ("GET", "/bucket/a%20key%2Bwith%3Dsigns?list-type=2&prefix=a%2Fb&empty", "s3", b""),
    ("PUT", "/bucket/key", "s3", b"content"),
    ("POST", "/?Action=x", "sqs", b"Action=SendMessage&MessageBody=hello"),
    ("GET", "/a%20b/~c?z=1&a=2&a=1&B=~", "sqs", b""),
])
def test_signed_anew(aws, web, broker, method, path, service, body):
    host = "a.test" if service == "s3" else "b.test"
    key = "AKIAABCDEFGHIJKLMNOP" if service == "s3" else "AKIAQRSTUVWXYZ234567"
    r, canonical = signed(method, f"https://{host}{path}", service, body, key=key)
    broker.sign = lambda text: (b"AWS4-HMAC-SHA256 Signature=anew", b"session-token-0123456789", b"AKIAREAL", b"the-secret-key")
    with tls(aws, aws.ca, host) as s:
        headers = [f"{k}: {v.decode() if isinstance(v, bytes) else v}".encode() for k, v in r.headers.items()]
        status, _, _ = ask(s, method.encode(), path.encode(), *headers, host=host.encode(), body=body or None)
        assert status == 200
    (asked,) = broker.asked
    assert asked[0] == SIGV4 and asked[5].decode() == canonical
    fields = web.requests[0]["fields"]
    assert fields["authorization"] == b"AWS4-HMAC-SHA256 Signature=anew"
    assert fields["x-amz-security-token"] == b"session-token-0123456789"
    assert web.requests[0]["body"] == body


def test_chunk_signatures_are_refused(aws, web, broker):
    auth = b"Authorization: AWS4-HMAC-SHA256 Credential=AKIAABCDEFGHIJKLMNOP/x, SignedHeaders=host;x-amz-date, Signature=0"
    with tls(aws, aws.ca) as s:
        answer = ask(s, b"PUT", b"/", auth, b"x-amz-date: 20260101T000000Z", b"x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD", body=b"x")
        assert answer[0] == 502 and "chunk by chunk" in answer[2].decode()
        assert ask(s)[0] == 200  # anonymous requests stay so
    assert not broker.asked and "authorization" not in web.requests[0]["fields"]
