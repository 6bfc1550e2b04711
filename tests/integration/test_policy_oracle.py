# SPDX-License-Identifier: Apache-2.0
"""The policy engine against second opinions, over very many generated inputs: Python's idna and punycode codecs, ipaddress,
socket.inet_aton, urllib, re, and for the rules the slow and obvious way to read them. Everything is made from fixed seeds.
"""

import ipaddress
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unicodedata
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("BAWN_POLICY_ROUNDS", "20000"))

try:
    from pip._vendor import idna  # IDNA 2008; the codec of the standard library is IDNA 2003. What both say alike is safe.
except ImportError:
    idna = None


@pytest.fixture(scope="module")
def cli():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-policy.", dir="/var/tmp"))
    policy = ROOT / "src/policy"
    subprocess.run([sys.executable, policy / "embed_groups.py", top / "groups.c", *sorted((ROOT / "profiles/groups").glob("*.txt"))], check=True)
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover"] if os.environ.get("BAWN_SANITIZED") else []
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", *flags, "-I", ROOT / "src", "-include", ROOT / "src/base/banned.h", "-o", top / "cli",
                    ROOT / "tests/integration/policy_cli.c", *sorted((ROOT / "src/base").glob("*.c")), *sorted(policy.rglob("*.c")), ROOT / "src/os/fd.c", top / "groups.c",
                    "-ljansson"], check=True)
    yield top / "cli"
    shutil.rmtree(top)


def ask(cli, questions):
    """[(letter, bytes)] -> [str]"""
    done = subprocess.run([cli], input=b"".join(b"%c%d\0%b" % (ord(k), len(q), q) for k, q in questions), stdout=subprocess.PIPE, check=True)
    answers = done.stdout.decode().split("\0")[:-1]
    assert len(answers) == len(questions)
    return answers


def label_oracle(label):
    """The A-label on which IDNA 2003 and 2008 agree, or None."""
    if label.isascii():
        return label.lower()
    try:
        old = label.encode("idna").decode()
        new = idna.encode(label.lower()).decode() if idna else old
    except (UnicodeError, ValueError):
        return None
    return old if old == new else None


LETTERS = "abcxyz019-" * 3 + "äöüéñçøœšžłăőơưạß" + "ÄÖ" + "αβγωςάΐ" + "авяїґєђ" + "日本語中" + "あんアー" + "한국" + "აბ" + "աբ" + "\u0301\u200d\u00b7ıŉſ．ａ①ﬁא" + "กำ"


def test_names_in_other_scripts(cli):
    pick = random.Random(1)
    names = []
    for _ in range(ROUNDS):
        script = pick.choice([LETTERS, "abc日本あア", "abcäöüø", "αβγω", "авяї", "한국a"])
        names.append(".".join("".join(pick.choice(script) for _ in range(pick.randint(1, 8))) for _ in range(pick.randint(1, 3))))
    accepted = 0
    for name, got in zip(names, ask(cli, [("H", n.encode()) for n in names])):
        if got.startswith("!") or not got.startswith("name "):
            continue
        want = [label_oracle(x) for x in name.split(".")]
        assert None not in want, f"{name!r} became {got}"
        assert got == "name " + ".".join(want), name
        accepted += any(not x.isascii() for x in name.split("."))
    assert accepted > ROUNDS / 20


def test_encoded_names(cli):
    """xn-- labels: accepted only where Python's decoder and encoder come round to the same bytes, and nothing odd is inside."""
    pick = random.Random(2)
    labels = []
    for _ in range(ROUNDS):
        if pick.random() < 0.5:
            text = "".join(pick.choice("abz09äöüβя日あ한❤😀") for _ in range(pick.randint(1, 9)))
            label = text.encode("punycode").decode()
        else:
            label = "".join(pick.choice("abcdefgkvz0123456789-") for _ in range(pick.randint(1, 12)))
        labels.append("xn--" + label)
    accepted = 0
    for label, got in zip(labels, ask(cli, [("H", (x + ".com").encode()) for x in labels])):
        if got.startswith("!"):
            continue
        accepted += 1
        text = label[4:].encode().decode("punycode")
        assert text.encode("punycode").decode() == label[4:]
        assert not text.isascii() and text == text.strip(), label
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs", "Co") or c in ".。．｡/@" for c in text), label
    assert accepted > ROUNDS / 10


def test_numbers_that_look_like_addresses(cli):
    pick = random.Random(3)
    atoms = ["0", "1", "127", "255", "256", "0x7f", "0X1", "0x", "0177", "00", "01", "2130706433", "4294967295", "017700000001", "0x7f000001", "10", "99999999999"]
    texts = [".".join(pick.choice(atoms) for _ in range(pick.randint(1, 5))) + pick.choice(["", "", "", ".", " "]) for _ in range(ROUNDS)]
    for text, got in zip(texts, ask(cli, [("H", t.encode()) for t in texts])):
        try:
            exact = str(ipaddress.IPv4Address(text))
        except ValueError:
            exact = None
        assert got == f"ipv4 {exact}" if exact else got.startswith("!"), (text, got)
        try:
            loose = socket.inet_aton(text)
        except OSError:
            continue
        assert got.startswith("!") or ipaddress.IPv4Address(loose) == ipaddress.IPv4Address(exact), text


def test_ipv6_spellings(cli):
    pick = random.Random(4)
    atoms = ["0", "1", "ffff", "FFFF", "00a", "12345", "", "", "7f00", "64", "ff9b", "1.2.3.4", "127.0.0.1", "01.2.3.4", "g"]
    texts = [":".join(pick.choice(atoms) for _ in range(pick.randint(2, 9))) for _ in range(ROUNDS * 3)]
    for _ in range(ROUNDS):
        a = ipaddress.IPv6Address(pick.getrandbits(128) & pick.choice([-1, (1 << 64) - 1, 0xffff << 112 | 0xffff, 0xffffffff]))
        texts += [str(a), a.exploded, str(a).upper()]
    accepted = 0
    for text, got in zip(texts, ask(cli, [("H", t.encode()) for t in texts])):
        try:
            want = ipaddress.IPv6Address(text)
        except ValueError:
            assert got.startswith("!"), (text, got)
            continue
        accepted += 1
        assert got.startswith("ipv6 ") and ipaddress.IPv6Address(got[5:]) == want, (text, got)
    assert accepted > ROUNDS


def near_borders(pick, blocks, bits):
    """Addresses at, before and behind the borders of the blocks, and anywhere."""
    for _ in range(ROUNDS):
        block = pick.choice(blocks)
        base = pick.choice([int(block[0]), int(block[-1]), pick.randint(int(block[0]), int(block[-1]))])
        yield (base + pick.choice([-1, 0, 0, 1])) % (1 << bits)
        yield pick.getrandbits(bits)


EXTRA4 = [ipaddress.ip_network(n) for n in ("168.63.129.16/32", "224.0.0.0/4", "192.88.99.0/24", "192.0.0.0/24", "0.0.0.0/8", "100.64.0.0/10")]


def test_ipv4_classes(cli):
    """Public for us means global for ipaddress, and the other way round but for what EXTRA4 has."""
    pick = random.Random(5)
    blocks = ipaddress._IPv4Constants._private_networks + EXTRA4 + [ipaddress.ip_network("169.254.169.254/32")]
    addresses = [ipaddress.IPv4Address(n) for n in near_borders(pick, blocks, 32)]
    for a, got in zip(addresses, ask(cli, [("A", str(a).encode()) for a in addresses])):
        want = a.is_global and not any(a in n for n in EXTRA4)
        assert (got == "a public address 0") == want, (a, got)


def test_ipv6_classes(cli):
    pick = random.Random(6)
    wraps = [ipaddress.ip_network(n) for n in ("2002::/16", "2001::/32", "64:ff9b::/96", "::ffff:0:0/96", "64:ff9b:1::/96", "::/96")]
    blocks = ipaddress._IPv6Constants._private_networks + wraps + [ipaddress.ip_network(n) for n in ("2000::/3", "ff00::/8", "fec0::/10", "3fff::/20")]
    addresses = [ipaddress.IPv6Address(n) for n in near_borders(pick, blocks, 128)]
    for _ in range(ROUNDS // 4):
        inside = pick.choice([0x7f000001, 0x0a000001, 0xa9fea9fe, 0x08080808, 0x64400001, pick.getrandbits(32)])
        addresses += [ipaddress.IPv6Address(0x2002 << 112 | inside << 80 | pick.getrandbits(16)), ipaddress.IPv6Address(0x64ff9b << 96 | inside),
                      ipaddress.IPv6Address(0xffff << 32 | inside), ipaddress.IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | (inside ^ 0xffffffff))]
    public4 = {}
    for a, got in zip(addresses, ask(cli, [("A", str(a).encode()) for a in addresses])):
        inner = a.ipv4_mapped or a.sixtofour
        if a.teredo:
            inner = a.teredo[1] if a.teredo[0].is_global else a.teredo[0]
        if a in wraps[2] or a in wraps[4] or (a in wraps[5] and int(a) > 255):
            inner = ipaddress.IPv4Address(int(a) & 0xffffffff)
        public = got.startswith("a public address")
        if inner is not None:
            public4.setdefault(inner, []).append((a, public))
        elif public:
            assert a.is_global and a in blocks[-4], (a, got)
    inside = list(public4)
    for inner, got in zip(inside, ask(cli, [("A", str(i).encode()) for i in inside])):
        for a, public in public4[inner]:
            assert public == got.startswith("a public address") or (a.teredo and not public), (a, inner, got)


def path_oracle(raw):
    """The segments after decoding everything once: what a plain server would look up."""
    parts, out = urllib.parse.unquote_to_bytes(raw.split("?")[0]).split(b"/")[1:], []
    for i, part in enumerate(parts):
        last = i + 1 == len(parts)
        if part == b"..":
            out.pop()
        elif part not in (b"", b"."):
            out.append(part)
        if last and part in (b"", b".", b".."):
            out.append(b"")
    return b"/" + b"/".join(out)


def test_paths(cli):
    pick = random.Random(7)
    atoms = ["/", "/", "/", "a", "b", ".", "..", "%2e", "%2E%2e", "%61", "%7e", "%41", "%20", "~", ";", "?", "%25", "{", "%c3%a9", "*", "+", "%3f", "..;", "%2f", "%5c",
             "\\", "%00", "%25%32%65", "%252e", "%c0%ae", "x=1"]
    paths = ["/" + "".join(pick.choice(atoms) for _ in range(pick.randint(0, 10))) for _ in range(ROUNDS * 2)]
    accepted = 0
    for raw, got in zip(paths, ask(cli, [("P", p.encode()) for p in paths])):
        if got.startswith("!"):
            continue
        accepted += 1
        text, other = got.split(" ")
        assert text.startswith("/") and "//" not in text and not {".", ".."} & set(text.split("/"))
        if "%2F" in text:
            assert other and "%2F" not in other and not {".", ".."} & set(other.split("/")), raw
            assert urllib.parse.unquote_to_bytes(other) == re.sub(b"/+", b"/", path_oracle(raw)), raw
        else:
            assert not other and urllib.parse.unquote_to_bytes(text) == path_oracle(raw), raw
        assert b"\0" not in urllib.parse.unquote_to_bytes(text) and "\\" not in urllib.parse.unquote(text), raw
        assert not re.search("%(.?[a-f]|4[1-9A-F]|5[0-9A]|6[1-9A-F]|7[0-9AE]|3[0-9]|2[DE]|5F)", text), raw
    assert accepted > ROUNDS / 4


def test_path_patterns(cli):
    pick = random.Random(8)
    questions, want = [], []
    for _ in range(ROUNDS // 10):
        glob = "/" + "".join(pick.choice(["a", "b", "/", "*", "**", "ab"]) for _ in range(pick.randint(0, 8)))
        glob = re.sub("/+", "/", glob)
        pattern = "".join({"*": "[^/]*"}.get(x, ".*" if x.startswith("**") else re.escape(x)) for x in re.findall(r"\*+|[^*]", glob))
        if glob.endswith("/**"):
            pattern = pattern[:-len("/.*")] + "(/.*)?" if len(glob) > 3 else pattern
        questions.append(("g", glob.encode()))
        want.append("ok")
        for _ in range(20):
            path = "/" + "".join(pick.choice("ab/") for _ in range(pick.randint(0, 8)))
            questions.append(("G", path.encode()))
            want.append("1" if re.fullmatch(pattern, path) else "0")
    for (kind, question), got, wanted in zip(questions, ask(cli, questions), want):
        glob = question if kind == "g" else glob
        assert got == wanted, (glob, question)


def host_matches(pattern, host):
    if pattern == "**":
        return True
    if pattern.startswith("**."):
        return host.endswith(pattern[2:]) and host != pattern[3:]
    if pattern.startswith("*."):
        return host.count(".") and host.split(".", 1)[1] == pattern[2:]
    return host == pattern


def rule_matches(rule, host, port, method, path):
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address:
        hit = any("/" in h and address in ipaddress.ip_network(h) or h == host or (h == "**" and rule["action"] != "allow") for h in rule["host"])
    else:
        hit = any(host_matches(h, host) for h in rule["host"])
    return (hit and ("ports" not in rule or any(first <= port <= last for first, last in rule["_ports"])) and ("methods" not in rule or method in rule["methods"])
            and ("paths" not in rule or any(re.fullmatch(p.replace("/**", "(/.*)?"), path) for p in rule["paths"])))


def make_rule(pick, number):
    names = ["a.x", "b.x", "c.b.x", "a.y", "x", "y", "b.a.x"]
    hosts = [pick.choice(["", "", "*.", "**."]) + pick.choice(names) for _ in range(pick.randint(1, 2))] + pick.choices(["**", "8.8.8.0/24", "8.8.8.8", "0.0.0.0/0"], k=1)[:pick.randint(0, 1)]
    rule = {"id": f"r{number}", "action": pick.choice(["allow", "deny", "ask"]), "host": hosts}
    if pick.random() < 0.3:
        rule["_ports"] = [(p, p + pick.randint(0, 2)) for p in pick.sample([21, 22, 80, 443], pick.randint(1, 2))]
        rule["ports"] = [f"{a}-{b}" if a != b else a for a, b in rule["_ports"]]
    if pick.random() < 0.3:
        rule["methods"] = pick.sample(["GET", "PUT", "POST"], pick.randint(1, 2))
    if pick.random() < 0.2:
        rule["paths"] = [pick.choice(["/a", "/a/**", "/b"])]
    return rule


def test_rules_as_read_one_by_one(cli):
    pick = random.Random(9)
    questions, want = [], []
    for _ in range(ROUNDS // 40):
        rules = [make_rule(pick, i) for i in range(pick.randint(0, 12))]
        text = json.dumps({"rules": [{k: v for k, v in r.items() if k != "_ports"} for r in rules]})
        questions.append(("R", text.encode()))
        want.append("ok")
        for _ in range(40):
            host = pick.choice(["a.x", "b.x", "c.b.x", "a.y", "x", "d.c.b.x", "b.a.x", "ax", "z", "8.8.8.8", "8.8.4.4"])
            port, method, path = pick.choice([21, 22, 23, 80, 443]), pick.choice(["GET", "PUT"]), pick.choice(["/a", "/a/b", "/b", "/c"])
            questions.append(("J", f"{host}:{port} {method} {path}".encode()))
            hit = next((r for r in rules if rule_matches(r, host, port, method, path)), None)
            want.append(f"{hit['action']} {hit['id']}" if hit else "deny -")
    for (kind, question), got, wanted in zip(questions, ask(cli, questions), want):
        rules = question if kind == "R" else rules
        assert got == wanted, (rules, question)
