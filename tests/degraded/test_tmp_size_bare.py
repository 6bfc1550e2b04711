# SPDX-License-Identifier: Apache-2.0
"""--tmp-size without user namespaces: home and /tmp are in a folder of the run's own on disk, whose size is watched."""

import os

OPTIONS = ("-m", "64m", "--tmp-size", "96m", "--network", "none")


def private(runner):
    return runner.home / ".local/state/bawn/private"


def run(runner, deny, *command, options=OPTIONS):
    return runner.run(deny, "userns", "--", runner.path, "run", *options, "--", *command)


def test_it_is_on_disk_and_its_size_holds(user_runner, deny):
    r = run(user_runner, deny, "sh", "-c", 'echo $BAWN; head -c 50M /dev/zero > $TMPDIR/a && head -c 30M /dev/zero > ~/b && echo ~ $TMPDIR')
    words = r.out.decode().split()
    assert r.rc == 0 and words[0] == "landlock" and all(w.startswith(f"{private(user_runner)}/bawn-run-") for w in words[1:]), r
    assert list(private(user_runner).iterdir()) == []
    fill = "i=0; while [ $i -lt 40 ]; do head -c 8M /dev/zero > $TMPDIR/f$i; i=$((i+1)); done; sync $TMPDIR; sleep 60"
    for options in (OPTIONS, ("-m", "1g", *OPTIONS[2:])):  # in memory it would fit
        r = run(user_runner, deny, "sh", "-c", fill, options=options)
        assert r.rc not in (0, 125) and b"bawn: home and /tmp limit 96 MiB reached" in r.err, r
    assert list(private(user_runner).iterdir()) == []


def test_another_sandbox_cannot_read_it(user_runner, deny):
    theirs = user_runner.write(private(user_runner) / f"bawn-run-{os.getpid()}-x/home/mine", "sesame\n")
    assert user_runner.run("cat", theirs).out == b"sesame\n"
    r = run(user_runner, deny, "sh", "-c", f"cat {theirs}; echo x > {theirs}; ls {private(user_runner)}; echo tried")
    assert (r.rc, r.out) == (0, b"tried\n") and theirs.read_text() == "sesame\n", r


def test_root_for_another_owner_is_refused(root_runner, deny):
    os.chown(root_runner.workspace, 12345, 12345)
    r = run(root_runner, deny, "echo", "ran")
    assert r.rc == 125 and b"--tmp-size" in r.err and b"run Bawn as that user" in r.err and r.out == b"", r
    assert list(private(root_runner).iterdir()) == []
