# SPDX-License-Identifier: Apache-2.0
"""Without user namespaces: toolchains of the home can be used, their credentials and the rest of the home cannot be read."""

import toolchain_homes as homes

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def run(runner, deny, path, *command):
    return runner.run(deny, "userns", "--", runner.path, "run", "--network", "none", "--", *command, env={"PATH": path})


def test_tools_work_and_credentials_stay_out(user_runner, deny):
    homes.others(user_runner)
    path = f"{homes.cargo(user_runner)}:{homes.pyenv(user_runner)}:{SYSTEM}"
    r = run(user_runner, deny, path, "cargo", "sh", "-c", 'python3 -c "import sys; print(sys.prefix)"; echo "$BAWN"')
    assert (r.rc, r.out.decode()) == (0, f"{user_runner.home}/.pyenv/versions/3.99.1\nlandlock\n"), r
    found = user_runner.run("grep", "-rsl", homes.MARK, user_runner.home, env={"PATH": path})
    assert found.rc in (0, 2) and found.out.count(b"\n") > 8, found  # 2: of the roots of sandboxes one folder cannot be read
    r = run(user_runner, deny, path, "grep", "-rsl", homes.MARK, user_runner.home)
    assert (r.rc, r.out) == (2, b""), r
    r = run(user_runner, deny, path, "sh", "-c", f"touch {user_runner.home}/.cargo/bin/new")
    assert r.rc != 0 and not (user_runner.home / ".cargo/bin/new").exists(), r
