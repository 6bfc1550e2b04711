# SPDX-License-Identifier: Apache-2.0
"""Kept sandboxes: a command in one that runs already, against the peers' ways into theirs; many at once; what an idle one costs."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import peers
import starts

SOCKET, EXEC = "bawn, by its socket", "bawn exec"
READY_SECONDS = 20
FOREVER = ["/bin/sleep", "100000"]
MANY_MEMORY = "64m"


def state(place):
    return os.path.join(place.home, ".local", "state", "bawn")


def socket_of(place, name):
    """The places of bench have no XDG_RUNTIME_DIR."""
    return os.path.join(state(place), "run", "box", name + ".sock")


def bawn(stage, place, *words, check=True):
    done = subprocess.run([stage.bawn, *words], capture_output=True, text=True, **place.popen_empty())
    if check and done.returncode != 0:
        raise RuntimeError(f"bawn {' '.join(words)}: {done.stderr.strip()}")
    return done


@contextlib.contextmanager
def background(argv, options):
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def wait_for(what):
    """The first value of what() that is true, or None."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.05)
    return None


def first_child(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return f.read().split()[:1]
    return None


@contextlib.contextmanager
def nsenter(place):
    with background(["unshare", *peers.UNSHARE_FLAGS, "--mount-proc", *FOREVER], place.popen_as()) as child:
        inside = wait_for(lambda: first_child(child.pid))
        yield ["nsenter", "-t", inside[0], "-U", "-m", "-p", "-n", "-i", "-u", "-C", "--preserve-credentials", *peers.COMMAND] if inside else None


@contextlib.contextmanager
def firejail(place):
    name = f"bawn-bench-{place.column}"
    with background(["firejail", *peers.FIREJAIL_FLAGS, f"--name={name}", *FOREVER], place.popen_as()) as child:
        argv = ["firejail", "--quiet", f"--join={name}", *peers.COMMAND]
        yield argv if wait_for(lambda: first_child(child.pid) and subprocess.run(argv, capture_output=True, **place.popen_as()).returncode == 0) else None


@contextlib.contextmanager
def crun(place):
    """The bundle of the cold starts, with a command that stays."""
    run = peers.oci(place, "crun", "--cgroup-manager=disabled")
    bundle, name = run[run.index("--bundle") + 1], f"bawn-bench-kept-{place.column}"
    runtime = run[:run.index("run")]
    kept = bundle + "-kept"
    if not os.path.isdir(kept):
        os.mkdir(kept)
        os.symlink(os.path.join(bundle, "rootfs"), os.path.join(kept, "rootfs"))
        config = peers.oci_config(place)
        config["process"]["args"] = FOREVER
        peers.write_config(kept, config)
        place.own(kept)
    argv = [*runtime, "exec", name, *peers.COMMAND]

    def call(*words):
        command, options = place.in_view(words)
        return subprocess.run(command, capture_output=True, **options).returncode

    with background(*place.in_view([*runtime, "run", "--bundle", kept, name])):
        yield argv if wait_for(lambda: call(*argv) == 0) else None
        call(*runtime, "delete", "--force", name)


@contextlib.contextmanager
def podman(place):
    folder = os.path.join(place.directory, "podman")
    rootfs = os.path.join(folder, "rootfs")
    tool = ["podman", "--root", folder + "/store", "--runroot", folder + "/run", "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
    if not os.path.isdir(folder):
        os.makedirs(rootfs + "/bin")
        shutil.copy(shutil.which("busybox"), rootfs + "/bin/busybox")
        for name in ("sleep", "true"):
            os.symlink("busybox", f"{rootfs}/bin/{name}")
        place.own(folder, rootfs, rootfs + "/bin")
    options = {**place.popen_as(), "env": {**place.environment(), "XDG_RUNTIME_DIR": folder}}
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
    done = subprocess.run([*tool, "run", "-d", "--name", "bench", "--network", "none", *limits, "--rootfs", rootfs, *FOREVER], capture_output=True,
                          text=True, **options)
    try:
        yield ["env", f"XDG_RUNTIME_DIR={folder}", *tool, "exec", "bench", *peers.COMMAND] if done.returncode == 0 else None
    finally:
        subprocess.run([*tool, "rm", "-f", "-t", "0", "bench"], capture_output=True, **options)


PEERS = {"nsenter": nsenter, "firejail --join": firejail, "crun exec": crun, "podman exec": podman}


def warm(stage, place, effort):
    """{name: result}, {name: reason}: one command in a sandbox that runs already."""
    reasons = {}
    with contextlib.ExitStack() as stack:
        bawn(stage, place, "start", "bench")
        stack.callback(bawn, stage, place, "rm", "--force", "bench", check=False)
        able = {starts.RAW: peers.COMMAND, SOCKET: ["socket:" + socket_of(place, "bench"), *peers.COMMAND],
                EXEC: [stage.bawn, "exec", "bench", "--", *peers.COMMAND]}
        for name, make in PEERS.items():
            if not shutil.which(name.split()[0]):
                reasons[name] = "not installed"
                continue
            argv = stack.enter_context(make(place))
            if argv:
                able[name] = argv
            else:
                reasons[name] = "could not be started here"
        results = starts.spawn(stage, place, ["--rounds", str(effort.rounds), "--budget", f"{effort.budget_ms}ms"], able)
        reasons.update({name: starts.why(r) for name, r in results.items() if "failed" in r})
        return results, reasons


def available_kib():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable"))


def settled_kib():
    """Namespaces are torn down, and slabs given back, some time after their processes are gone."""
    last = available_kib()
    for _ in range(40):
        time.sleep(0.25)
        now = available_kib()
        if abs(now - last) < 512:
            return now
        last = now
    return last


def crowd(stage, place, effort):
    """Many idle ones: memory of each (supervisor, PID 1 and the kernel's share), and how long a listing takes."""
    names = [f"crowd-{i}" for i in range(effort.kept)]
    before = settled_kib()
    begin = time.monotonic()
    try:
        for name in names:
            bawn(stage, place, "start", name, "--memory", MANY_MEMORY)
        started = time.monotonic() - begin
        kib = (before - settled_kib()) / len(names)
        times = []
        for _ in range(effort.io_rounds):
            t = time.monotonic()
            listed = bawn(stage, place, "ps", "-q").stdout.split()
            times.append((time.monotonic() - t) * 1000)
        if len(set(names) & set(listed)) != len(names):
            raise RuntimeError(f"'bawn ps' lists {len(set(names) & set(listed))} of {len(names)}")
        return {"n": len(names), "kib": kib, "ps_ms": sorted(times)[len(times) // 2], "start_ms": started * 1000 / len(names)}
    finally:
        bawn(stage, place, "rm", "--force", *names, check=False)
        settled_kib()  # what is measured next does not pay for it


def measure(stage, place, effort, say):
    say(f"as {place.name}: commands in a kept sandbox")
    results, reasons = warm(stage, place, effort)
    say(f"as {place.name}: {effort.kept} kept sandboxes at once")
    return {"warm": results, "reasons": reasons, "crowd": crowd(stage, place, effort)}
