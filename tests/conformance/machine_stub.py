#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for limactl, sbx and `docker sandbox`, by the name it is called by.

It reads its arguments, and lima's file, as the real programs do (the arguments that they do not know are errors), and answers as they do. A
"machine" is a record in $STUB_DIR. A command in it really runs: as root of namespaces of its own, in a root of its own that has this
machine's /usr and /etc, and the folders that were shared, and nothing else. So what Bawn sends into a guest is executed, not believed.

$STUB_DIR/calls        one JSON list of arguments in a line
$STUB_DIR/trouble      {"VERB": [exit status, what it says]}: the next such call fails
$STUB_DIR/override     mounts that the user's own configuration of lima adds
"""

import ctypes
import json
import os
import pathlib
import pwd
import re
import subprocess
import sys

HERE = pathlib.Path(os.environ["STUB_DIR"])
LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER, BIND, REC, PRIVATE, RDONLY, REMOUNT = 0x20000, 0x10000000, 0x1000, 0x4000, 0x40000, 1, 0x20


def give_up(text, status=1):
    print(text, file=sys.stderr)
    sys.exit(status)


# -- a guest ----------------------------------------------------------------------------------------------------------------------------


def sysc(what, *args):
    if getattr(LIBC, what)(*args) < 0:
        e = ctypes.get_errno()
        give_up(f"stub: {what} {args}: {os.strerror(e)}")


def mount(source, target, kind=None, flags=0, data=None):
    sysc("mount", *(str(x).encode() if x is not None else None for x in (source, target, kind)), ctypes.c_ulong(flags), data)


def sub_ids(path):
    name = pwd.getpwuid(os.getuid()).pw_name
    for line in pathlib.Path(path).read_text().splitlines():
        if line.split(":")[0] == name:
            return line.split(":")[1]
    give_up(f"stub: {name} is not in {path}")


def become_guest_root():
    """An ordinary user's own id stays, and root of the guest is one of /etc/subuid: files that are shared belong to the same id inside."""
    if os.getuid() == 0:
        return
    ready, go = os.pipe(), os.pipe()
    me = os.getpid()
    child = os.fork()
    if child == 0:
        os.read(ready[0], 1)
        for program, own, path in (("newuidmap", os.getuid(), "/etc/subuid"), ("newgidmap", os.getgid(), "/etc/subgid")):
            subprocess.run([program, str(me), "0", sub_ids(path), "1", str(own), str(own), "1"], check=True)
        os._exit(0)
    sysc("unshare", NEWUSER)
    os.write(ready[1], b"x")
    if os.waitpid(child, 0)[1]:
        give_up("stub: newuidmap failed")
    for fd in ready + go:
        os.close(fd)
    os.setgid(0)
    os.setuid(0)


def make_root(shares):
    root = HERE / "root"
    mount(None, "/", None, REC | PRIVATE)
    mount("tmpfs", root, "tmpfs")
    subprocess.run(["cp", "-r", "--no-preserve=ownership", "/etc", root], stderr=subprocess.DEVNULL, check=False)
    for name in ("usr", "dev", "proc"):
        (root / name).mkdir()
        mount("/" + name, root / name, None, BIND | REC)
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), root / name)
    for name in ("run", "tmp", "var/tmp", "home", "root", "mnt", "sys", "media"):
        (root / name).mkdir(parents=True)
    (root / "home/guest.txt").write_text("of the guest\n")
    for s in shares:
        at = pathlib.Path(str(root) + s["at"])
        at.mkdir(parents=True, exist_ok=True)
        mount(s["from"], at, None, BIND)
        if not s["writable"]:
            mount(None, at, None, BIND | REMOUNT | RDONLY)
    os.chroot(root)
    os.chdir("/")


def run_inside(machine, command, user):
    if user != "root":
        give_up(f"stub: commands are run as root, not as {user}")
    become_guest_root()
    sysc("unshare", NEWNS)
    make_root(machine["shares"])
    os.execvpe(command[0], command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


# -- machines ----------------------------------------------------------------------------------------------------------------------------


def path_of(name):
    return HERE / "machines" / name


def load(name):
    try:
        return json.loads(path_of(name).read_text())
    except FileNotFoundError:
        return None


def save(name, shares, extra=None):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        give_up(f"stub: bad name {name!r}")
    if load(name):
        give_up(f"stub: {name} already exists")
    for s in shares:
        if not os.path.isdir(s["from"]) or not os.path.isabs(s["at"]):
            give_up(f"stub: {s['from']} is not a folder")
    path_of(name).write_text(json.dumps({"name": name, "shares": shares, **(extra or {})}))


def split_options(words, flags, valued):
    """Options first, then operands, as these programs want it."""
    got, words = {}, list(words)
    while words and words[0].startswith("-"):
        key, _, value = words.pop(0).partition("=")
        if key in flags:
            got[key] = True
        elif key in valued:
            got[key] = value if _ else words.pop(0)
        else:
            give_up(f"unknown flag: {key}")
    return got, words


# -- limactl --------------------------------------------------------------------------------------------------------------------------------


def lima_mounts(config):
    import yaml

    for m in config["mounts"]:
        for key in ("location", "mountPoint"):
            if "{{" in m[key] or m[key].startswith("~"):
                give_up("stub: a template in a path")
    override = HERE / "override"
    more = yaml.safe_load(override.read_text())["mounts"] if override.exists() else []
    return more + config["mounts"]


def lima(words):
    verb, rest = words[0], words[1:]
    if verb == "--version":
        print("limactl version 1.0.3")
    elif verb == "start":
        import yaml

        got, rest = split_options(rest, {"--tty=false"}, {"--name", "--tty"})
        config = yaml.safe_load(pathlib.Path(rest[0]).read_text())
        if not config["images"] or config.get("plain"):
            give_up("FATA[0000] field `images` must be set")
        mounts = lima_mounts(config)
        shares = [{"from": m["location"], "at": m["mountPoint"], "writable": m["writable"]} for m in mounts]
        save(got["--name"], shares, {"config": {**config, "mounts": mounts}})
        print(f'time="now" level=info msg="READY. Run `limactl shell {got["--name"]}` to open the shell."', file=sys.stderr)
    elif verb == "list":
        got, names = split_options(rest, {"--json", "--quiet"}, set())
        for p in sorted((HERE / "machines").iterdir()):
            if not names or p.name in names:
                print(p.name if "--quiet" in got else json.dumps({"name": p.name, "status": "Running", "config": load(p.name)["config"]}))
    elif verb == "shell":
        got, rest = split_options(rest, set(), {"--workdir"})
        machine = load(rest[0])
        if not machine:
            give_up(f'FATA[0000] instance "{rest[0]}" does not exist, run `limactl create {rest[0]}` to create a new instance')
        if rest[1:3] != ["sudo", "-n"]:
            give_up("stub: not root")
        run_inside(machine, rest[3:], "root")
    elif verb == "delete":
        got, rest = split_options(rest, {"--force"}, set())
        if not load(rest[0]):
            print(f'time="now" level=warning msg="Ignoring non-existent instance \\"{rest[0]}\\""', file=sys.stderr)
            return
        path_of(rest[0]).unlink()
    else:
        give_up(f'FATA[0000] unknown command "{verb}" for "limactl"')


# -- sbx, docker sandbox -------------------------------------------------------------------------------------------------------------------------


def sbx(words, sized):
    verb, rest = words[0], words[1:]
    if verb == "version":
        print("sbx version: v0.38.0")
    elif verb == "create":
        got, rest = split_options(rest, {"--quiet"}, {"--name", "--template"} | ({"--cpus", "--memory"} if sized else set()))
        if rest[0] != "shell" or len(rest) < 2 or rest[1].endswith(":ro"):
            give_up('ERROR: requires at least 1 arg(s), only received 0')
        shares = [{"from": p.removesuffix(":ro"), "at": p.removesuffix(":ro"), "writable": not p.endswith(":ro")} for p in rest[1:]]
        save(got["--name"], shares)
        print(got["--name"])
    elif verb == "ls":
        split_options(rest, {"--quiet"}, set())
        print("\n".join(sorted(p.name for p in (HERE / "machines").iterdir())))
    elif verb == "exec":
        got, rest = split_options(rest, {"--interactive", "--privileged"}, {"--user", "--workdir"})
        machine = load(rest[0])
        if not machine:
            give_up(f"ERROR: sandbox '{rest[0]}' not found")
        if "--interactive" not in got or "--privileged" not in got:
            give_up("stub: no standard input, or no rights")
        run_inside(machine, rest[1:], got["--user"])
    elif verb == "rm":
        got, rest = split_options(rest, {"--force"} if sized else set(), set())
        if not load(rest[0]):
            give_up(f"ERROR: sandbox '{rest[0]}' not found")
        path_of(rest[0]).unlink()
    else:
        give_up(f'unknown command "{verb}" for "sbx"')


def main():
    name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    with open(HERE / "calls", "a") as f:
        f.write(json.dumps([name, *words]) + "\n")
    if name == "docker":
        if words[:1] != ["sandbox"] or (HERE / "no-sandboxes").exists():
            give_up(f"docker: unknown command: docker {words[0]}\n\nRun 'docker --help' for more information")
        words = words[1:]
    trouble = HERE / "trouble"
    if trouble.exists() and words[0] in json.loads(trouble.read_text()):
        status, text = json.loads(trouble.read_text())[words[0]]
        give_up(text, status)
    for d in ("machines", "root"):
        (HERE / d).mkdir(exist_ok=True)
    if name == "limactl":
        lima(words)
    else:
        sbx(words, name == "sbx")


if __name__ == "__main__":
    main()
