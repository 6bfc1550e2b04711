# SPDX-License-Identifier: Apache-2.0
"""What the tests of credentials share: definitions of the user's, and looking for a value that must not be there.

    define(net, "key", hosts=["ok.example.com"], header="x-api-key", store="env", variable="REAL_KEY")
    r = net.sandbox(..., env={"REAL_KEY": value})
    nowhere(value, r.out + r.err)
"""

import base64
import json
import urllib.parse


def config_folder(runner):
    folder = runner.home / ".config" / "bawn"
    for part in (folder.parent, folder):
        if not part.exists():
            runner.mkdir(part, 0o700)
    return folder


def define(net, name, **definition):
    """Adds one to the user's secrets.json, or replaces it."""
    path = config_folder(net.runner) / "secrets.json"
    secrets = json.loads(path.read_text())["secrets"] if path.exists() else {}
    path.write_text(json.dumps({"secrets": {**secrets, name: definition}}))
    path.chmod(0o600)
    net.runner.own(path)


def forms(value):
    """What a value looks like when it was encoded, as bytes: whoever has one of these has the value."""
    raw = value.encode()
    quoted = "".join(f"%{b:02x}" for b in raw)
    # base64 of what stands anywhere in a longer text: without the letters that depend on its neighbours
    inner = [base64.b64encode(b"\0" * n + raw)[{0: 0, 1: 2, 2: 3}[n]:][:-4] for n in range(3)]
    return {"raw": raw, "reversed": raw[::-1], "hex": raw.hex().encode(), "HEX": raw.hex().upper().encode(), "%xx": quoted.encode(),
            "%XX": quoted.replace("%", "\0").upper().replace("\0", "%").encode(), "url": urllib.parse.quote(value, safe="").encode(),
            **{f"base64/{n}": text for n, text in enumerate(inner)},
            **{f"base64url/{n}": text.replace(b"+", b"-").replace(b"/", b"_") for n, text in enumerate(inner)}}


def nowhere(value, data, where=""):
    """Fails if data has the value in any form."""
    found = [name for name, form in forms(value).items() if form in data]
    assert not found, f"the value is there, {where} {found}: {data[-2000:]!r}"
