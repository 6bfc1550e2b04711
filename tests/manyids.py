# SPDX-License-Identifier: Apache-2.0
"""Bawn with ranges of ids of its own: in a mount namespace with another /etc/subuid and /etc/subgid, so that root has some, too, and nothing of the host's counts."""

import json
import os
import shlex

FIRST, COUNT = 300000, 65536
CONFIG = {"system": "writable", "system_ids": "many", "workspace": {"mode": "overlay"}}


def use_ranges(runner, text=None, first="true"):
    """From now on every program of this runner sees these ranges. Needs root. first: a command of root's in their mount namespace."""
    file = runner.top / "subid"
    file.write_text(f"{runner.user.pw_name}:{FIRST}:{COUNT}\n" if text is None else text)
    file.chmod(0o644)
    binds = " && ".join(f"mount --bind {shlex.quote(str(file))} /etc/sub{kind}id" for kind in "ug")
    become = "" if runner.is_root else f"setpriv --reuid {runner.user.pw_uid} --regid {runner.user.pw_gid} --clear-groups "
    plain = type(runner).popen.__get__(runner)

    def popen(*cmd, **kw):
        return plain("unshare", "-m", "sh", "-c", f'{binds} && {first} && exec {become}"$@"', "sh", *cmd, **kw)

    runner.popen = popen
    runner.identity = lambda: {}
    return runner


def use_config(runner, **more):
    runner.mkdir(runner.mkdir(runner.home / ".local") / "state")
    runner.write(runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {**CONFIG, **more}}))
    return runner


def foreign(*roots):
    """What belongs to other ids than users of the host."""
    found = []
    for root in roots:
        for folder, folders, files in os.walk(root):
            found += [p for p in (os.path.join(folder, n) for n in folders + files) if os.lstat(p).st_uid >= FIRST]
    return found
