# SPDX-License-Identifier: Apache-2.0
"""A sandbox that makes noise cannot drown what it did before and after: neither in the audit log nor in the network log."""

import json

import secret_tools
from attack_tools import inside

REAL = "real-value-0123456789abcdef"
FLOOD = 3000


def test_flood_of_refused_lookups_hides_nothing(net):
    """Claim: the use of a secret and a misplaced placeholder are in both logs, however many look-ups are refused before."""
    secret_tools.define(net, "key", hosts=["ok.example.com"], header="x-api-key", env=["API_KEY"], store="command", command=["printf", "%s", REAL])
    found = inside(net, f"""
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if TCP_DNS else socket.SOCK_DGRAM)
s.connect(("198.18.0.1", 53))
for i in range({FLOOD}):
    packet = question(b"flood%d.example.net" % i)
    s.send(struct.pack("!H", len(packet)) + packet if TCP_DNS else packet)
    s.recv(struct.unpack("!H", s.recv(2))[0] if TCP_DNS else 65536)
head = b"\\r\\nx-api-key: " + os.environ["API_KEY"].encode()
shown({{host: https(socket.create_connection((host, 443)), host, host.encode() + head) for host in ("ok.example.com", "other.example.com")}})
""", allow=["ok.example.com", "other.example.com"])
    assert " 200 " in found["ok.example.com"] and "BAWN_NET_SECRET_MISPLACED" in found["other.example.com"], found
    audit = [json.loads(line) for line in net.bawn("log", "--json").out.splitlines()]
    used = [e for e in audit if e["type"] == "secret" and e["action"] == "allow"]
    blocked = [e for e in audit if e["type"] == "network" and e["code"] == "BAWN_NET_SECRET_MISPLACED"]
    assert [(e["host"], e["secret"]) for e in used] == [("ok.example.com", "key")]
    assert [(e["host"], e["secret"]) for e in blocked] == [("other.example.com", "key")]
    refused = [e for e in audit if e["type"] == "network" and e["code"] == "BAWN_NET_DENIED_HOST"]
    assert len(refused) < 1200 and sum(e.get("count", 1) for e in refused) == FLOOD, "merged, and counted"
    log = net.log()
    assert sum(x.get("count", 1) for x in log if x["kind"] == "lookup") == FLOOD
    assert {x["kind"] for x in log if x["secret"] == "key"} == {"secret", "request"}
    assert net.bawn("log", "verify").rc == 0
    shown = net.bawn("policy", "log").out
    assert b"times since" in shown
    said = net.bawn("log").out
    assert b"count" in said
