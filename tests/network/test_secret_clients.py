# SPDX-License-Identifier: Apache-2.0
"""Clients that developers use work with credentials that they never see: the server takes nothing but the real value, the gate puts it in.

Afterwards the value is looked for, in every form, in what the client printed and in every file that the sandbox could write.
"""

import hashlib
import json
import secrets
import shlex
import tarfile

import pytest

import secret_servers
import secret_tools
import servers
from secret_servers import AWS_BUCKETS, AWS_S3, BIG, BUCKET, GITHUB, OTHER_PORT, S3, STS, TRAILER, USER

TOKEN = secrets.token_hex(40)
VALUES = {
    "key": "sk-real-" + secrets.token_hex(16), "bearer": "tok/+=." + secrets.token_hex(16), "basic": "pass:wörd " + secrets.token_hex(16),
    "query": "q&=+ %/" + secrets.token_hex(16), "npm": "npm_" + secrets.token_hex(18), "github": "ghp_" + secrets.token_hex(18),
    "aws": f"AKIA{secrets.token_hex(8).upper()}:{secrets.token_urlsafe(30)}",
    "sts": f"ASIA{secrets.token_hex(8).upper()}:{secrets.token_urlsafe(30)}:{TOKEN}",
}
DEFINITIONS = {
    "key": {"hosts": ["key.example.com", "direct.example.com", "two.example.com"], "header": "x-api-key", "env": ["API_KEY"]},
    "bearer": {"hosts": ["bearer.example.com"], "env": ["BEARER"]},
    "basic": {"hosts": ["basic.example.com", "git.example.com", "pip.example.com"], "basic": USER, "env": ["PASSWORD"]},
    "query": {"hosts": ["query.example.com", "two.example.com"], "query": "key", "env": ["MAPS_KEY"]},
    "npm": {"hosts": ["npm.example.com"], "header": "Authorization: Bearer {}", "env": ["NPM_TOKEN"]},
    "github": {"hosts": [GITHUB]},  # known: GH_TOKEN, ghp_
    "aws": {"hosts": [S3, BUCKET], "sigv4": "eu-central-1/s3"},
    "sts": {"hosts": [STS], "sigv4": "eu-central-1/sts"},
}
LEFT = "left.tar"
KEEP = f"rc=$?; tar -cf {LEFT} --ignore-failed-read --warning=none --one-file-system $HOME /tmp /var/tmp /run /dev/shm 2>/dev/null; exit $rc"


@pytest.fixture(scope="module")
def wanting(inter_net):
    s = secret_servers.Servers(inter_net, VALUES)
    yield s
    s.end()


class Clients:
    """The user's credentials, the servers that want them, and sandboxes that may reach those."""

    def __init__(self, net, wanting):
        self.net, self.servers = net, wanting
        self.seen = wanting.seen
        wanting.forget()
        net.names.update(secret_servers.NAMES)
        net.save_names()

    def run(self, *names, script, allow=(), more=None):
        """Runs the script inside with these credentials; more: what their definitions have besides."""
        for name in names:
            secret_tools.define(self.net, name, **{"store": "env", "variable": f"REAL_{name}", **DEFINITIONS[name], **(more or {})})
        hosts = [host for name in names for host in DEFINITIONS[name]["hosts"]]
        real = {f"REAL_{name}": VALUES[name] for name in names}
        r = self.net.sandbox("sh", "-c", f"( set -e; {script}\n); {KEEP}", allow=[*hosts, *allow], env=real)
        self.not_inside(r)
        return r

    def works(self, *names, **kw):
        r = self.run(*names, **kw)
        assert r.rc == 0 and self.seen() and {s["status"] for s in self.seen()} == {200}, (r, self.seen())
        return r

    def not_inside(self, r):
        files = [p for p in self.net.runner.top.rglob("*") if p.is_file() and not p.is_symlink()]  # caches, Bawn's own logs and state too
        assert self.net.runner.workspace / LEFT in files and len(tarfile.open(self.net.runner.workspace / LEFT).getnames()) > 10, r
        for value in (part for v in VALUES.values() for part in (v.split(":") if v[:4] in ("AKIA", "ASIA") else [v])):
            secret_tools.nowhere(value, r.out + r.err, "printed")
            for path in files:
                secret_tools.nowhere(value, path.read_bytes(), path)

    def refuses(self, *cmd):
        """Without Bawn the same command gets nothing: the server wants the value."""
        r = self.net.outside(*cmd)
        assert {s["status"] for s in self.seen()} == {401}, (r, self.seen())
        self.servers.forget()
        return r


@pytest.fixture
def clients(net, wanting):
    return Clients(net, wanting)


def fields(request, name):
    return [v for n, v in request["headers"] if n == name]


def python(script, *args):
    return shlex.join(["/usr/bin/python3", "-c", script, *args])


# curl: each place, HTTP/1.1 and HTTP/2

CURL = {
    "key": ('-H "x-api-key: $API_KEY"', "key.example.com", ""),
    "bearer": ('-H "Authorization: Bearer $BEARER"', "bearer.example.com", ""),
    "basic": (f'-u "{USER}:$PASSWORD"', "basic.example.com", ""),
    "query": ("", "query.example.com", "&key=$MAPS_KEY"),
}


@pytest.mark.parametrize("name", CURL)
def test_curl(clients, name):
    """With the placeholder, with something of its own, and with nothing at all; the rest of the request stays as it was."""
    option, host, query = CURL[name]
    clients.refuses("curl", "-s", f"https://{host}/?a=1")
    own = {"key": "-H 'X-Api-Key: mine' -H 'x-api-key: mine2'", "bearer": "-H 'Authorization: Bearer mine'", "basic": "-u other:mine", "query": ""}[name]
    url = f"https://{host}/some/path?a=1&b=%20x+y"
    script = "\n".join(f'curl -fsS {v} {option} "{url}{query}"; curl -fsS {v} {own} "{url}{"&key=mine&key=mine2" if query else ""}"; curl -fsS {v} "{url}"'
                       for v in ("--http1.1", "--http2"))
    r = clients.works(name, script=script)
    seen = clients.seen()
    assert [fields(s, "x-front") for s in seen] == [["HTTP/1.1"]] * 3 + [["HTTP/2.0"]] * 3, seen
    assert all(s["path"].startswith("/some/path?a=1&b=%20x+y") and "mine" not in json.dumps(s) for s in seen), seen
    assert len(r.out.splitlines()) == 6 and b"**********" in r.out, r  # the echo, without the value


def test_two_credentials_for_one_host(clients):
    clients.refuses("curl", "-s", "https://two.example.com/")
    r = clients.works("key", "query", script="curl -fsS 'https://two.example.com/x?a=1'; curl -fsS --http1.1 \"https://two.example.com/?key=$MAPS_KEY&b=2\"")
    assert [s["path"].partition("key=")[0] for s in clients.seen()] == ["/x?a=1&", "/?b=2&"], clients.seen()
    assert b"credentials: key 2 times (two.example.com)" in r.err and b"query 2 times (two.example.com)" in r.err, r


def test_redirect(clients):
    """On the same host the next request has it again; at another host it has nothing, and a client that takes the placeholder there is stopped."""
    url = "https://key.example.com/redirect?to="
    r = clients.works("key", script=f"curl -fsSL {url}https://key.example.com/next; curl -fsSL {url}https://other.example.com/away; "
                      f"curl -sSL -H \"x-api-key: $API_KEY\" -o /dev/null -w '%{{http_code}}\n' {url}https://other.example.com/stolen",
                      allow=["other.example.com"])
    assert [s["path"].partition("?")[0] for s in clients.seen()] == ["/redirect", "/next", "/redirect", "/redirect"], r
    (away,) = clients.net.hits(kind="request")
    assert away["line"].startswith("GET /away ") and not fields(away, "x-api-key"), away
    assert r.out.endswith(b"403\n"), r


def test_only_for_the_placeholder(clients):
    """inject: placeholder. A client that shows none speaks for itself."""
    curl = "curl -sS -o /dev/null -w '%{http_code}\n'"
    r = clients.run("key", more={"inject": "placeholder"}, script=f'{curl} https://key.example.com/; {curl} -H "x-api-key: mine" https://key.example.com/; '
                    f'{curl} -H "x-api-key: $API_KEY" https://key.example.com/')
    assert r.out == b"401\n401\n200\n", r
    assert [fields(s, "x-api-key") for s in clients.seen()] == [[], ["mine"], [VALUES["key"]]]


def test_another_port_is_another_server(clients):
    curl = "curl -sS -o /dev/null -w '%{http_code}\n' https://key.example.com"
    r = clients.run("key", more={"hosts": [f"key.example.com:{OTHER_PORT}"]}, script=f"{curl}:{OTHER_PORT}/; {curl}/", allow=[f"key.example.com:{OTHER_PORT}"])
    assert r.out == b"200\n401\n", r
    assert [fields(s, "x-api-key") for s in clients.seen()] == [[VALUES["key"]], []]


# What streams, and what is large

def test_uploads(clients):
    """20 MiB after 100-continue, chunked, and over HTTP/2: all of it arrives as it was."""
    clients.net.runner.write("big.bin", BIG)
    script = "\n".join(f"curl -fsS -o /dev/null {option} https://{host}/" for option, host in (
        ("-T big.bin -H 'Expect: 100-continue'", "direct.example.com"), ("-T - -H 'Transfer-Encoding: chunked' < big.bin", "direct.example.com"),
        ("--http2 -T big.bin", "key.example.com"), ("--http2 -T - < big.bin", "key.example.com")))
    clients.works("key", script=script)
    assert [s["sha256"] for s in clients.seen()] == [secret_servers.digest(BIG)] * 4


def test_large_download(clients):
    r = clients.works("key", script="for o in '--http1.1 https://direct.example.com' '--http2 https://key.example.com'; do curl -fsS $o/big | sha256sum; done")
    assert r.out.split() == [secret_servers.digest(BIG).encode(), b"-"] * 2, r


KEEP_ALIVE = """
import http.client, ssl
c = http.client.HTTPSConnection("direct.example.com", context=ssl.create_default_context())
for i in range(200):
    c.request("POST" if i % 2 else "GET", f"/{i}", body=b"x" * i if i % 2 else None)
    answer = c.getresponse()
    assert answer.status == 200 and b"*" * 20 in answer.read(), i
"""


def test_keep_alive(clients):
    """Two hundred requests on one connection, to the server as well."""
    r = clients.works("key", script=python(KEEP_ALIVE))
    assert len(clients.seen()) == 200 and len({tuple(s["peer"]) for s in clients.seen()}) == 1
    assert b"credentials: key 200 times (direct.example.com)" in r.err, r


def test_many_at_once(clients):
    """A hundred streams of one HTTP/2 connection, before the value has been fetched for the first."""
    r = clients.works("key", script="curl -fsS --http2 -Z --parallel-max 100 -o \"$TMPDIR/o#1\" 'https://key.example.com/[1-100]' && cat $TMPDIR/o*")
    assert len({s["path"] for s in clients.seen()}) == 100 and r.out.count(b"*" * len(VALUES["key"])) == 100
    assert b"credentials: key 100 times (key.example.com)" in r.err, r


SSE = """
import urllib.request
events = urllib.request.urlopen("https://direct.example.com/sse")
print(events.readline(), events.readline())
urllib.request.urlopen("https://direct.example.com/go")
print(events.read())
"""


def test_events_are_not_held_back(clients):
    """The server sends its second event only when the first has reached the client; what the answer has of the value is covered on the way."""
    r = clients.works("key", script=python(SSE))
    assert r.out.decode().splitlines() == [r"b'data: first\n' b'\n'", rf"b'data: the key is {'*' * len(VALUES['key'])}\n\n'"], r


WEBSOCKET = """
import asyncio, websockets
async def main():
    async with websockets.connect("wss://direct.example.com/ws", ping_interval=None) as ws:
        print(await ws.recv())
        for text in ("one", "ends as the value begins: s", "in hex: 7", "in base64: c2s"):
            await ws.send(text)
            assert await ws.recv() == text
asyncio.run(main())
"""


def test_websocket(clients):
    """Each message is answered before the next one is sent, so none may be held back, whatever it ends with."""
    r = clients.works("key", script=python(WEBSOCKET))
    assert r.out.decode() == "hello " + "*" * len(VALUES["key"]) + "\n", r


# Languages

PYTHON = """
import os, requests, urllib.request
urllib.request.urlopen("https://bearer.example.com/urllib").read()
urllib.request.urlopen(urllib.request.Request("https://bearer.example.com/urllib", headers={"Authorization": "Bearer " + os.environ["BEARER"]})).read()
with requests.Session() as s:
    for how in ({}, {"headers": {"Authorization": "Bearer " + os.environ["BEARER"]}}, {"auth": ("somebody", "else")}):
        r = s.post("https://bearer.example.com/requests", json={"a": 1}, **how)
        r.raise_for_status()
        assert dict(r.json()["headers"])["authorization"] == "Bearer " + "*" * 39, r.text
"""


def test_python(clients):
    clients.refuses("/usr/bin/python3", "-c", PYTHON)
    clients.works("bearer", script=python(PYTHON))
    assert len(clients.seen()) == 5


NODE = """
const https = require('https');
const get = options => new Promise((done, fail) => https.get('https://bearer.example.com/https', options, r => {
    r.resume(); r.statusCode == 200 ? r.on('end', done) : fail(r.statusCode) }).on('error', fail));
const want = async (url, options) => { const r = await fetch(url, options); if (!r.ok) throw r.status; console.log(await r.text()) };
(async () => {
    await get({});
    await get({headers: {authorization: `Bearer ${process.env.BEARER}`}});
    await want('https://bearer.example.com/fetch');
    await want('https://bearer.example.com/fetch', {method: 'POST', body: 'x'.repeat(100000), headers: {authorization: `Bearer ${process.env.BEARER}`}});
})();
"""


def test_node(clients):
    servers.need("node")
    clients.works("bearer", script=shlex.join(["node", "-e", NODE]))
    assert [s["body"] for s in clients.seen()] == [0, 0, 0, 100000]


# Developers' tools

GIT = """
export GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example.com GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@example.com
cd $TMPDIR
git clone -q https://git.example.com/demo.git one
cd one
head -c 3000000 /dev/urandom > {name}; git add {name}; git commit -q -m {name}; git push -q origin HEAD:{name}
cd ..
git clone -q -b {name} https://{user}:$PASSWORD@git.example.com/demo.git two
cmp one/{name} two/{name}
git -C two fetch -q
git -C two ls-remote
"""


def test_git(clients):
    """Clone, push (chunked, past http.postBuffer) and fetch through git's own server program; nobody logs in."""
    clients.refuses("env", "GIT_TERMINAL_PROMPT=0", "git", "clone", "-q", "https://git.example.com/demo.git", "none")
    name = f"pushed-{secrets.token_hex(4)}"
    clients.works("basic", script=GIT.format(name=name, user=USER))
    assert servers.run("git", "--git-dir", clients.servers.folder / "demo.git", "cat-file", "-s", f"{name}:{name}") == b"3000000\n"
    assert any(s["path"].endswith("/git-receive-pack") and s["body"] > 3000000 for s in clients.seen())


NPM = """
npm="npm --registry https://npm.example.com/ --no-audit --no-fund --no-update-notifier --cache $TMPDIR/npm"
echo '//npm.example.com/:_authToken=${NPM_TOKEN}' > $HOME/.npmrc
mkdir package other
cd package; echo "{\\"name\\": \\"$1\\", \\"version\\": \\"1.0.0\\"}" > package.json; echo "module.exports = 'published'" > index.js
$npm publish
cd ../other; echo '{"name": "x", "version": "1.0.0"}' > package.json
$npm install $1; node -p "require('$1')"
rm -r $HOME/.npmrc node_modules package-lock.json $TMPDIR/npm; $npm install $1; node -p "require('$1')"
"""


def test_npm(clients):
    """Publishes with the placeholder as token; installs with it and without any."""
    servers.need("npm")
    clients.refuses("npm", "--registry", "https://npm.example.com/", "--fetch-retries", "0", "view", "@me/demo")
    name = f"@me/demo-{secrets.token_hex(4)}"  # the registry is the same for all rows
    r = clients.works("npm", script=shlex.join(["sh", "-ec", NPM, "sh", name]))
    assert r.out.count(b"published\n") == 2, r
    assert [s["method"] for s in clients.seen()].count("PUT") == 1


def test_pip(clients):
    """An index behind Basic; pip asks nobody for a password."""
    pip = ["/usr/bin/python3", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--no-input", "download", "-q", "--no-deps", "-d", "wheels"]
    assert clients.refuses(*pip, "--index-url", "https://pip.example.com/simple/", "demo").rc != 0
    clients.works("basic", script=f"{shlex.join(pip)} --index-url https://pip.example.com/simple/ demo; rm -r wheels; "
                  f"{shlex.join(pip)} --index-url https://{USER}:$PASSWORD@pip.example.com/simple/ demo")
    assert (clients.net.runner.workspace / "wheels" / "demo-1.0-py3-none-any.whl").exists()


def test_gh(clients):
    servers.need("gh")
    clients.refuses("env", "GH_TOKEN=ghp_" + "0" * 36, "gh", "api", "user")
    r = clients.works("github", script="gh api user --jq .login; gh api -X POST repos/o/r/issues -f title=x --jq .login; "
                      "gh api graphql -f query='{viewer{login}}' --jq .login; env -u GITHUB_TOKEN gh auth status 2>&1 | sed s/^/status:/")
    assert r.out.startswith(b"octocat\n" * 3), r


# AWS: the gate signs again, with keys that are not here

KEY = "dir/a b+c=&ü%20~(1).txt"
AWS = f"""
export AWS_DEFAULT_REGION=eu-central-1 AWS_EC2_METADATA_DISABLED=true AWS_PAGER= AWS_CONFIG_FILE=$HOME/aws
s3="--endpoint-url https://{S3}"
style() {{ printf '[default]\\ns3 =\\n  addressing_style = %s\\n' $1 > $HOME/aws; }}
printf 'some bytes' > file
style path
aws s3 cp --quiet file "s3://bucket/{KEY}" $s3
aws s3api list-objects-v2 --bucket bucket --prefix 'dir/a b+c' --start-after 'x=&y' --query 'Contents[].Key' --output text $s3
aws s3api put-object --bucket bucket --key other --body file --checksum-algorithm SHA256 --query ETag $s3
style virtual
aws s3 cp --quiet "s3://bucket/{KEY}" copy $s3
cmp file copy
"""


def test_aws_s3(clients):
    """Names with every sort of character, both styles of addresses, bodies that nobody signs, one with a checksum behind it."""
    servers.need("aws")
    clients.refuses("env", "AWS_ACCESS_KEY_ID=AKIA0123456789ABCDEF", "AWS_SECRET_ACCESS_KEY=x", "AWS_DEFAULT_REGION=eu-central-1", "aws", "s3", "ls", "bucket",
                    "--endpoint-url", f"https://{S3}", "--no-verify-ssl")
    r = clients.works("aws", script=AWS)
    assert r.out.decode().splitlines() == [KEY, '"\\"' + hashlib.md5(b"some bytes").hexdigest() + '\\""'], r
    assert {s["host"] for s in clients.seen()} == {S3, BUCKET}
    assert {h for s in clients.seen() if s["method"] == "PUT" for h in fields(s, "x-amz-content-sha256")} == {"UNSIGNED-PAYLOAD", TRAILER}


def test_aws_sts(clients):
    """A body without x-amz-content-sha256, which the gate has to hash, and a session token that the client has never heard of."""
    servers.need("aws")
    r = clients.works("sts", script=f"AWS_DEFAULT_REGION=eu-central-1 aws sts get-caller-identity --endpoint-url https://{STS} --query Arn --output text")
    assert r.out == b"arn:aws:iam::1:user/me\n", r
    (seen,) = clients.seen()
    assert fields(seen, "x-amz-security-token") == [TOKEN] and not fields(seen, "x-amz-content-sha256") and seen["body"] > 0


BOTO = """
import os, requests, sys
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
keys = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], "a-token-of-its-own" if sys.argv[2] == "sts" else None)
with requests.Session() as s:
    for method, path, body in (("GET", "/?b=2&a=2&a=1&B=3&c&d=%2F%20~&aa=", None), ("POST", "/", b"x" * 1000000), ("PUT", "/a%20b/~c/%C3%BC", b"\\0body"),
                               ("POST", "/?list-type=2", (b"piece" for _ in range(3))), ("DELETE", "/x.txt", None)):
        q = AWSRequest(method, f"https://{sys.argv[1]}{path}", data=body if isinstance(body, bytes) else b"", headers={"X-Amz-Meta-Spaces": "a   b"})
        (S3SigV4Auth if sys.argv[2] == "s3" and isinstance(body, (bytes, type(None))) else SigV4Auth)(keys, sys.argv[2], "eu-central-1").add_auth(q)
        r = s.request(method, q.url, headers=dict(q.headers), data=body)
        assert r.status_code == 200, (method, path, r.text)
"""


@pytest.mark.parametrize("name, host, service", [("aws", S3, "s3"), ("sts", STS, "sts")])
def test_aws_queries_and_bodies(clients, name, host, service):
    """Parameters in any order, with characters that are encoded in two ways; bodies that are hashed by the client, by nobody, or come in chunks."""
    clients.works(name, script=python(BOTO, host, service))
    assert [s["method"] for s in clients.seen()] == ["GET", "POST", "PUT", "POST", "DELETE"]


def test_names_of_buckets(clients):
    """A secret for an endpoint of S3 signs for buckets in the name as in the path, in each form that AWS has."""
    script = "\n".join(python(BOTO, host, "s3") for host in (*AWS_S3, *AWS_BUCKETS))
    clients.works("aws", script=script, more={"hosts": list(AWS_S3)}, allow=[*AWS_S3, *AWS_BUCKETS[1:], "*.s3.eu-central-1.amazonaws.com"])
    assert {s["host"] for s in clients.seen()} == {*AWS_S3, *AWS_BUCKETS}


@pytest.mark.parametrize("endpoint, bucket, allow, code", [
    (S3, BUCKET, [BUCKET], "BAWN_NET_SECRET_MISPLACED"),  # not AWS: who has the names below it, nobody knows
    (AWS_S3[1], AWS_BUCKETS[0], [AWS_BUCKETS[0]], "BAWN_NET_SECRET_MISPLACED"),  # below another endpoint
    (AWS_S3[0], AWS_BUCKETS[0], [AWS_S3[0]], "BAWN_NET_DENIED_HOST"),  # the secret is no rule
])
def test_names_of_buckets_elsewhere(clients, endpoint, bucket, allow, code):
    r = clients.run("aws", script=python(BOTO, bucket, "s3"), more={"hosts": [endpoint]}, allow=allow)
    assert r.rc != 0 and not clients.seen(), (r, clients.seen())
    assert code in {line["code"] for line in clients.net.log()}, clients.net.log()
