# SPDX-License-Identifier: Apache-2.0
"""An image of this machine's programs in the store of `bawn image`, made once for each user of a worker."""

import pathlib
import shutil
import subprocess
import tempfile

NAME = "conformance/host"
PROGRAMS = ("sh bash cat chmod chroot cp curl cut df env find git grep head id ln ls mkdir mount pwd python3 rm sed seq sha256sum sleep sort stat stty tail tar test "
            "touch tr true tty unshare wc").split()
FOLDERS = ["/bin", "/lib", "/lib64", "/sbin", "/usr/lib/python3.11", "/usr/share/git-core", "/usr/lib/ssl", "/etc/alternatives", "/etc/ld.so.cache", "/etc/os-release",
           "/etc/services", "/etc/nsswitch.conf"]


def libraries(*files):
    out = subprocess.run(["ldd", *files], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()
    found = {w.removesuffix(":") for w in out if w.startswith("/")} - set(files)
    usr = {p if p.startswith("/usr") else f"/usr{p}" for p in found}
    return usr | {str(pathlib.Path(p).resolve()) for p in usr}


def program(path):
    """With all that it is linked with."""
    real = str(pathlib.Path(path).resolve())
    return {path, real} | libraries(real)


def paths():
    found = {p for name in PROGRAMS for p in program(shutil.which(name, path="/usr/bin:/usr/sbin"))}
    modules = libraries(*map(str, pathlib.Path("/usr/lib/python3.11/lib-dynload").glob("*.so")))
    name_service = map(str, pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("libnss_*.so*"))
    return sorted(p for p in {*found, *modules, *name_service, *FOLDERS} if pathlib.Path(p).exists() or pathlib.Path(p).is_symlink())


class HostImages:
    def __init__(self):
        self.stores = {}

    def give(self, runner):
        """To this test's store; the files are shared with it, not copied."""
        if runner.name not in self.stores:
            top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-images.", dir="/var/tmp"))
            top.chmod(0o755)
            runner.own(top)
            r = runner.bawn("image", "from-host", "-t", NAME, *paths(), env={"XDG_STATE_HOME": str(top)})
            assert r.rc == 0, r
            self.stores[runner.name] = top
        state = runner.home / ".local/state"
        assert runner.run("sh", "-c", f"umask 077; mkdir -p {state}").rc == 0
        subprocess.run(["cp", "-al", self.stores[runner.name] / "bawn", state], check=True)

    def end(self):
        for top in self.stores.values():
            shutil.rmtree(top, ignore_errors=True)
