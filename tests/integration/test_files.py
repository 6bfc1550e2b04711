# SPDX-License-Identifier: Apache-2.0
"""Files of kept sandboxes: `bawn cp`, `put`, `get`, `collect`, `checkpoint`, `fork`."""

import base64
import contextlib
import json
import os
import shutil
import stat
import subprocess
import tarfile

import pytest


@contextlib.contextmanager
def sandbox(runner, name="box", *options):
    """One that runs; ended, with all that were forked from it, whatever the test does."""
    r = runner.bawn("start", name, *options)
    assert r.rc == 0, r
    try:
        yield name
    finally:
        r = runner.bawn("stop", "--all")
        assert r.rc == 0, r


def inside(runner, name, script):
    r = runner.bawn("exec", name, "--", "sh", "-c", script)
    assert r.rc == 0, r
    return r.out


def ok(r):
    assert r.rc == 0, r
    return r.out


def test_cp_put_and_get(runner):
    """Both ways, files and folders, owners and modes on both sides, and every spelling of a path."""
    runner.write("data/a.txt", "one\n", 0o640)
    runner.write("data/deep/run.sh", "#!/bin/sh\necho ran\n", 0o755)
    (runner.workspace / "data/deep/link").symlink_to("../a.txt")
    out = runner.mkdir(runner.top / "out")
    with sandbox(runner, "box", "-w", "overlay") as box:
        me = inside(runner, box, "id -u; id -g").split()

        result = json.loads(ok(runner.bawn("cp", "--json", "data", f"{box}:~/")))
        assert (result["files"], result["folders"], result["links"], result["left_out"]) == (2, 2, 1, 0)
        assert inside(runner, box, "~/data/deep/run.sh; cat ~/data/deep/link; stat -c %a ~/data/a.txt ~/data/deep/run.sh") == b"ran\none\n640\n755\n"
        owners = inside(runner, box, "find ~/data -exec stat -c '%u %g' {} +").splitlines()
        assert set(owners) == {b" ".join(me)}, owners
        ok(runner.bawn("cp", "data/.", f"{box}:merged"))
        assert inside(runner, box, "ls merged; echo more >> merged/a.txt") == b"a.txt\ndeep\n", "the folder itself is new, what is in it comes into it"

        assert ok(runner.bawn("put", box, "~/streamed", input=b"\0bytes\xff")) == b""
        assert ok(runner.bawn("get", box, "~/streamed")) == b"\0bytes\xff"
        got = json.loads(ok(runner.bawn("get", "--json", box, "/workspace/./x/../merged/a.txt")))
        assert base64.b64decode(got["base64"]) == b"one\nmore\n" and got["size"] == 9
        ok(runner.bawn("put", "--mode", "700", box, "tool", input=b"#!/bin/sh\necho tool\n"))
        assert inside(runner, box, "./tool") == b"tool\n"

        inside(runner, box, "mkdir -p t/d && echo x > t/d/f && chmod 777 t/d/f && ln -s d/f t/l && echo y > t/-rf && echo z > t/...")
        ok(runner.bawn("cp", f"{box}:t", out))
        ok(runner.bawn("cp", f"{box}:t/d/f", out / "renamed"))
        ok(runner.bawn("cp", f"{box}:~/data/", out / "fresh"))
    assert (out / "t/d/f").read_text() == "x\n" and os.readlink(out / "t/l") == "d/f" and (out / "t/-rf").exists() and (out / "t/...").exists()
    assert (out / "renamed").read_text() == "x\n" and (out / "fresh/a.txt").read_text() == "one\n"
    for path in [out / "t", out / "t/d", out / "t/d/f", out / "renamed"]:
        st = path.lstat()
        assert st.st_uid == runner.user.pw_uid and not st.st_mode & 0o6000, path
    assert stat.S_IMODE((out / "t/d/f").stat().st_mode) == 0o755, "the umask holds"
    assert not (runner.workspace / "t").exists(), "overlay: nothing of it is in the workspace"


NAMES = [b"new\nline", "\u00fcn\u00efc\u00f6d\u00e9-\u65e5\u672c".encode(), b"\xff\xfe", b"-rf", b" lead", b"tab\t", b"a:b", b"x" * 255, b"esc\x1b[31m", b'quote"\\']


def odd_tree(runner, top):
    """Many files, every kind of name, modes, a large hole, folders that may not be written, empty ones."""
    for i in range(3):
        for j in range(100):
            runner.write(top / f"d{i}/f{j}", f"{i} {j}\n")
    for name in NAMES:
        runner.write(top / os.fsdecode(name), name)
    for mode in (0o400, 0o755, 0o600, 0o444):
        runner.write(top / f"mode-{mode:o}", "x", mode)
    with open(runner.write(top / "sparse", b""), "r+b") as f:
        f.truncate(1 << 30)
        f.seek(512 << 20)
        f.write(b"middle")
    runner.mkdir(top / "empty")
    runner.write(top / "closed/f", "x")
    (top / "closed").chmod(0o555)
    (top / "link").symlink_to("sparse")


def described(top):
    """{path: what it is}; modes without what the umask takes."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(st.st_mode) else None
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    content = f.read() if st.st_size < 1 << 20 else os.pread(f.fileno(), 6, 512 << 20)
            found[os.path.relpath(path, os.fsencode(top))] = (stat.S_IFMT(st.st_mode), st.st_mode & 0o700, content)
    return found


def test_cp_of_an_odd_tree(runner):
    """There and back it is the same; a hole takes no space on either side; what is collected of it is valid as tar and as JSON."""
    tree, back = runner.home / "tree", runner.home / "back"
    odd_tree(runner, tree)
    with sandbox(runner, "box", "-w", "ro", "--network", "none") as box:
        there = json.loads(ok(runner.bawn("cp", "--json", tree, f"{box}:~/tree")))
        assert int(inside(runner, box, "du -k ~/tree/sparse | cut -f1")) < 1024
        home = json.loads(ok(runner.bawn("cp", "--json", f"{box}:~/tree", back)))
        inside(runner, box, "chmod 755 ~/tree/closed; rm -r ~/tree/sparse ~/tree/link ~/tree/d*")
        as_json = json.loads(ok(runner.bawn("collect", box, "--file", "~/tree")))
        ok(runner.bawn("collect", box, "--file", "~/tree", "--format", "tar", "-o", runner.home / "all.tar"))
    assert described(back) == described(tree) and back.joinpath("sparse").stat().st_blocks < 2048
    assert there == home and (there["files"], there["links"], there["left_out"]) == (300 + len(NAMES) + 4 + 1 + 1, 1, 0)
    with tarfile.open(runner.home / "all.tar", encoding="utf-8", errors="surrogateescape") as tar:
        held = {os.fsencode(os.path.basename(m.name)): tar.extractfile(m).read() for m in tar if "/tree/" in m.name and m.isfile()}
    assert all(held[name] == name for name in NAMES) and len(as_json["files"]) >= len(held)


def test_cp_in_direct_mode(runner):
    """The workspace is the host's own; what is hidden there stays hidden and as it is."""
    runner.write(".sandboxignore", "secret.txt\n")
    runner.write("secret.txt", "the secret")
    runner.write("visible.txt", "visible")
    src = runner.mkdir(runner.top / "src")
    runner.write(src / "secret.txt", "replaced")
    runner.write(src / "new.txt", "new")
    with sandbox(runner, "box") as box:
        r = runner.bawn("cp", f"{src}/.", f"{box}:.")
        assert r.rc == 1 and b"secret.txt" in r.err, r
        r = runner.bawn("put", box, "secret.txt", input=b"replaced")
        assert r.rc == 125 and b"hidden" in r.err, r
        r = runner.bawn("get", box, "secret.txt")
        assert b"the secret" not in r.out, r
        assert inside(runner, box, "cat new.txt; cat secret.txt 2>/dev/null || :") == b"new"
    assert (runner.workspace / "secret.txt").read_text() == "the secret"
    st = (runner.workspace / "new.txt").stat()
    assert (runner.workspace / "new.txt").read_text() == "new" and st.st_uid == runner.user.pw_uid


OUT_OF_ITSELF = (("box:", "x"), ("box:", "."), ("box:.", "sub"), ("box:/workspace/sub", "sub"), ("box:sub", "sub/new"), ("box:..", "x"), ("box:/", "x"))
INTO_ITSELF = ((".", "box:x"), ("../work", "box:"), (".", "box:sub"), ("sub", "box:sub"), ("/proc/self/cwd/sub", "box:/workspace/sub/new"))


@pytest.mark.parametrize("mode, wrong", [("direct", OUT_OF_ITSELF + INTO_ITSELF), ("overlay", OUT_OF_ITSELF), ("ro", OUT_OF_ITSELF), ("sync", ())])
def test_a_folder_does_not_come_into_itself(runner, mode, wrong):
    """Where the workspace is on both sides it would be copied until it is too deep for a sandbox, or the disk is full."""
    runner.write("sub/file", "content")
    before = sorted(runner.workspace.rglob("*"))
    with sandbox(runner, "box", "-w", mode) as box:
        for words in wrong:
            r = runner.bawn("cp", *words)
            assert r.rc == 125 and b"cannot be copied into itself" in r.err, r
            assert sorted(runner.workspace.rglob("*")) == before, words
        ok(runner.bawn("cp", f"{box}:.", "."))
        ok(runner.bawn("cp", f"{box}:sub", "."))
        assert sorted(runner.workspace.rglob("*")) == before, "a folder may take its own place"
        if mode in ("overlay", "sync"):  # there are two
            ok(runner.bawn("cp", ".", f"{box}:x"))
            assert inside(runner, box, "find x | wc -l") == b"3\n"
        if mode == "sync":
            ok(runner.bawn("cp", f"{box}:", "y"))
            assert (runner.workspace / "y/x/sub/file").read_text() == "content" and not (runner.workspace / "y/y").exists()


def test_errors_say_what_to_do(user_runner):
    runner = user_runner
    runner.write("f", "x")
    long = "n" * 300
    for name, status in [("nobody", 125), ("../x", 64), ("a\nb", 64), (long, 64)]:
        for args in [("put", name, "f"), ("get", name, "f"), ("collect", name), ("checkpoint", name), ("fork", name), ("checkpoint", "ls", name)]:
            r = runner.bawn(*args)
            assert r.rc == status and r.err.startswith(b"bawn: ") and r.out == b"" and len(r.err) < 1000, (args, r)
            assert b"\n" not in r.err.replace(b"\nbawn: ", b"")[:-1], r
    assert runner.bawn("cp", "f", "g").rc == 64
    assert runner.bawn("cp", "a:f", "b:g").rc == 64
    assert runner.bawn("cp", "a:f").rc == 64
    with sandbox(runner, "box") as box:
        for args, want in [(("get", box, "nothing"), b"nothing"), (("get", box, "."), b"bawn cp"), (("cp", f"{box}:f", "no/such/folder/"), b"no/such"),
                           (("put", box, "no/such/file"), b"no/such"), (("put", box, "."), b"folder"), (("fork", box, "--from", "t"), b"no checkpoint"),
                           (("checkpoint", "rm", box, "t"), b"no checkpoint"), (("collect", box, "--job", "77"), b"77"),
                           (("cp", "/dev/null", f"{box}:x"), b"bawn put"), (("cp", f"{box}:f", "/dev/null"), b"bawn get")]:
            r = runner.bawn(*args)
            assert r.rc == 125 and want in r.err and r.out == b"", r
    for args in [("get", "box", "f"), ("cp", "box:f", "g"), ("put", "box", "f")]:
        r = runner.bawn(*args)
        assert r.rc == 125 and b"bawn start box" in r.err, r


def test_collect(runner):
    runner.write("kept.txt", "kept\n")
    runner.write("gone.txt", "gone\n")
    with sandbox(runner, "box", "-w", "overlay") as box:
        assert ok(runner.bawn("collect", box))  # before anything ran
        job = int(ok(runner.bawn("exec", "-d", box, "--", "sh", "-c", "echo to out; printf 'bad \\377' >&2; echo new > added.txt; rm gone.txt; exit 7")))
        ok(runner.bawn("logs", "-f", box, str(job)))
        inside(runner, box, "mkdir -p files; printf '\\0bin' > files/b; ln -s /etc/passwd files/l; mkfifo files/p")
        r = runner.bawn("collect", box, "--file", "files", "--file", "added.txt")
        assert r.rc == 1 and b"files/p" in r.err, r
        got = r.json()
        r = runner.bawn("collect", box, "--format", "tar", "--file", "files", "-o", "all.tar")
        assert r.rc == 1, r
    assert got["job"] == job and got["rc"] == 7 and got["stdout"] == "to out\n" and base64.b64decode(got["stderr_base64"]) == b"bad \xff"
    assert {c["path"]: c["kind"] for c in got["changed"]}.items() >= {"added.txt": "added", "gone.txt": "deleted"}.items()
    assert "+new\n" in got["diff"] and "-gone\n" in got["diff"]
    files = {os.path.basename(f["path"]): f for f in got["files"]}
    assert base64.b64decode(files["b"]["base64"]) == b"\0bin" and files["l"]["link"] == "/etc/passwd" and files["added.txt"]["size"] == 4
    assert [e["type"] for e in got["events"] if e["type"] in ("start", "exec", "exit", "file")][:2] == ["start", "file"]
    assert any(e["type"] == "exit" and e["status"] == 7 for e in got["events"])

    listed = subprocess.run(["tar", "-tvf", runner.workspace / "all.tar"], capture_output=True, check=True).stdout
    assert b"leads" not in listed and b"/etc/passwd" not in listed
    with tarfile.open(runner.workspace / "all.tar") as tar:
        names = tar.getnames()
        assert {"stdout", "stderr", "changes.patch", "changed.json", "events.jsonl", "summary.json"} <= set(names)
        assert not any(n.startswith("/") or ".." in n.split("/") for n in names)
        inner = f"files{runner.workspace}/files/b"
        assert tar.extractfile(inner).read() == b"\0bin" and json.load(tar.extractfile("summary.json"))["rc"] == 7

    after = json.loads(ok(runner.bawn("collect", "box")))  # it is stopped now
    assert after["rc"] == 7 and after["stdout"] == "to out\n" and "+new\n" in after["diff"]


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_checkpoint_and_fork(runner, mode):
    """A fork has home and workspace of the original, and what it changes is its own; review of it shows all changes."""
    runner.write("same.txt", "same\n")
    runner.write("edit.txt", "before\n")
    runner.write("gone.txt", "gone\n")
    runner.write("dir/inner.txt", "inner\n")
    with sandbox(runner, "box", "-w", mode) as box:
        inside(runner, box, "echo v1 > ~/state; ln -s state ~/l; mkfifo ~/p; echo mine > edit.txt; rm gone.txt; rm -r dir; mkdir dir; echo fresh > dir/new.txt")
        done = json.loads(ok(runner.bawn("checkpoint", "--json", box, "one")))
        assert done["tag"] == "one" and done["running"] and done["left_out"] >= 1
        assert runner.bawn("checkpoint", box, "one").rc == 125, "a tag is used once"
        inside(runner, box, "echo v2 > ~/state; echo later > edit.txt")  # it goes on
        made = json.loads(ok(runner.bawn("fork", "--json", box, "-n", "2")))
        assert [m["sandbox"] for m in made] == ["box-1", "box-2"] and made[0]["id"] != made[1]["id"]
        ok(runner.bawn("fork", box, "--from", "one", "--name", "old", "--start"))
        assert inside(runner, "old", "cat ~/state ~/l edit.txt dir/new.txt same.txt; ls dir") == b"v1\nv1\nmine\nfresh\nsame\nnew.txt\n"
        assert inside(runner, "old", "test ! -e gone.txt && echo own > ~/state && echo own > edit.txt && id -u && stat -c %u ~/state edit.txt | sort -u")
        assert inside(runner, box, "cat ~/state edit.txt") == b"v2\nlater\n"
        ok(runner.bawn("start", "box-1"))
        assert inside(runner, "box-1", "cat ~/state edit.txt") == b"v2\nlater\n"

        def changes(run):
            r = runner.bawn("diff", "--name-only", run)
            return sorted(line for line in r.out.decode().splitlines() if line)

        assert changes("box-2") == changes(box), "the review of a fork that never ran shows what the original changed"
        assert "same.txt" not in changes("box-2") and "edit.txt" in changes("box-2")
        info = json.loads(ok(runner.bawn("inspect", "--json", "box-2")))
        assert info["from"] == json.loads(ok(runner.bawn("inspect", "--json", box)))["id"] != info["id"]
    assert (runner.workspace / "edit.txt").read_text() == "before\n" or mode == "sync"
    ok(runner.bawn("checkpoint", "rm", "box", "one"))
    assert json.loads(ok(runner.bawn("checkpoint", "ls", "--json", "box"))) == []
    listed = json.loads(ok(runner.bawn("checkpoint", "--json", "box")))  # of one that is stopped, named by the time
    assert not listed["running"] and [c["tag"] for c in json.loads(ok(runner.bawn("checkpoint", "ls", "--json", "box")))] == [listed["tag"]]


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_changes_of_a_fork_are_applied(runner, mode):
    """Those of the original and its own; what the host changed meanwhile is a conflict, as it would be for the original; a fork's fork as well."""
    runner.write("edit.txt", "before\n")
    runner.write("both.txt", "before\n")
    runner.write("gone.txt", "gone\n")
    with sandbox(runner, "box", "-w", mode, "--network", "none") as box:
        inside(runner, box, "echo mine > edit.txt; echo mine > both.txt; rm gone.txt; mkdir d; echo new > d/f")
        ok(runner.bawn("fork", box, "--name", "one"))
        ok(runner.bawn("fork", "one", "--name", "two"))
        runner.write("both.txt", "the host's\n")
        r = runner.bawn("apply", "--yes", "two")
        assert r.rc == 1 and b"conflict  both.txt" in r.out and (runner.workspace / "edit.txt").read_text() == "before\n", r
        ok(runner.bawn("apply", "--yes", "--conflict", "skip", "two"))
        assert runner.bawn("discard", "--yes", "one").rc == 0
    assert [(runner.workspace / f).read_text() for f in ("edit.txt", "d/f")] == ["mine\n", "new\n"] and not (runner.workspace / "gone.txt").exists()
    assert (runner.workspace / "both.txt").read_text() == "the host's\n"


def test_forks_of_direct_mode_work_in_overlay(runner):
    runner.write("f.txt", "host\n")
    with sandbox(runner, "box") as box:
        inside(runner, box, "echo home > ~/h; mkdir -p ~/.pki/nssdb; echo old identity > ~/.pki/nssdb/mark")
        r = runner.bawn("fork", box, "--start")
        assert r.rc == 0 and r.out == b"box-1\n" and b"overlay" in r.err, r
        assert inside(runner, "box-1", "cat ~/h f.txt; echo changed > f.txt; test ! -e ~/.pki/nssdb/mark") == b"home\nhost\n"
        assert inside(runner, box, "cat f.txt") == b"host\n"
    assert (runner.workspace / "f.txt").read_text() == "host\n"


def test_a_worktree_is_refused(user_runner):
    runner = user_runner
    for cmd in [["init", "-q"], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m"]]:
        assert runner.run("git", *cmd).rc == 0
    with sandbox(runner, "box", "-w", "worktree") as box:
        for verb in ("checkpoint", "fork"):
            r = runner.bawn(verb, box)
            assert r.rc == 125 and b"worktree" in r.err, r
    assert [p.name for p in (runner.home / ".local/state/bawn/sandboxes").iterdir() if not p.name.startswith(".")] == ["box"]


def test_killed_at_any_system_call(root_runner):
    """kill -9 at every N-th system call of a checkpoint and of a fork: nothing half-made is listed, and the next one sweeps and works."""
    runner = root_runner
    if not shutil.which("strace"):
        pytest.fail("needs strace")
    with sandbox(runner, "box", "-w", "overlay") as box:
        inside(runner, box, "for i in 1 2 3 4 5; do echo $i > ~/f$i; echo $i > w$i; done")
    state = runner.home / ".local/state/bawn"

    def killed(call, n, *args):
        return runner.run("strace", "-f", "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={n}", runner.path, *args)

    def whole(folder):
        return sorted(p.name for p in (folder / "home").iterdir() if p.name.startswith("f")) == ["f1", "f2", "f3", "f4", "f5"]

    done = kills = 0
    for call in ("mkdirat", "openat", "renameat", "renameat2", "unlinkat", "fchmod"):
        for n in (1, 3, 8, 21):
            c = killed(call, n, "checkpoint", box, f"c{done}")
            r = killed(call, n, "fork", box, "--name", f"k{done}")
            kills += (c.rc in (-9, 137)) + (r.rc in (-9, 137))
            done += 1
            for c in json.loads(ok(runner.bawn("checkpoint", "ls", "--json", box))):
                assert whole(state / "sandboxes/box/checkpoints" / c["tag"]), (call, n, c)
            for made in (state / "sandboxes").glob("k*"):
                assert whole(made), (call, n, made)
                run = state / "runs" / made.name
                assert sorted(p.name for p in (run / "upper").iterdir()) == ["w1", "w2", "w3", "w4", "w5"], (call, n, r)
                assert json.loads((run / "run.json").read_text())["begun_ns"] > 0
    assert kills >= 12, "nothing was killed, so nothing was proved"
    ok(runner.bawn("fork", box, "--name", "last"))
    assert not [p for p in (state / "sandboxes/box/checkpoints").iterdir() if p.name.startswith(".")], "leftovers are swept"


def test_a_full_disk_leaves_nothing(root_runner):
    runner = root_runner
    small = runner.mkdir(runner.top / "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "none", small], check=True)
    env = {"XDG_STATE_HOME": str(small)}
    try:
        assert runner.bawn("start", "box", "-w", "ro", env=env).rc == 0
        assert runner.bawn("exec", "box", "--", "sh", "-c", "head -c 10m /dev/urandom > ~/big", env=env).rc == 0
        assert runner.bawn("stop", "box", env=env).rc == 0
        ok(runner.bawn("checkpoint", "box", "first", env=env))
        for args in [("checkpoint", "box", "second"), ("fork", "box"), ("fork", "box", "--from", "first")]:
            r = runner.bawn(*args, env=env)
            assert r.rc == 125 and b"No space left" in r.err, r
        assert [c["tag"] for c in runner.bawn("checkpoint", "ls", "--json", "box", env=env).json()] == ["first"]
        boxes = small / "bawn/sandboxes"
        assert [p.name for p in boxes.iterdir() if not p.name.startswith(".ids")] == ["box"]
        assert [p.name for p in (boxes / "box/checkpoints").iterdir()] == ["first"]
    finally:
        runner.bawn("stop", "--all", env=env)
        subprocess.run(["umount", small], check=True)
