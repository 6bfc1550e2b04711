# SPDX-License-Identifier: Apache-2.0
"""What test_guard.py runs under the guard and without it: `guard_script.py NAME [ARGS]` runs the function of that name here.

A function of parity prints what every call did or which errno it gave; both runs must print the same.
"""

import ctypes
import errno
import os
import resource
import signal
import stat
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 1, 2, 0x400, 0x1000
NR = {"open": 2, "creat": 85, "mkdir": 83, "rmdir": 84, "unlink": 87, "rename": 82, "link": 86, "symlink": 88, "chmod": 90, "mknod": 133, "renameat": 264}


def raw(name, *args):
    """A call by its number: libc has better ones, but a program may use it."""
    args = [os.fsencode(a) if isinstance(a, str) else a for a in args]
    r = libc.syscall(NR[name], *args)
    if r < 0:
        raise OSError(ctypes.get_errno(), name)
    return r


def call(name, *args):
    r = getattr(libc, name)(*[os.fsencode(a) if isinstance(a, str) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), name)
    return r


def show(label, f, *args, **kw):
    try:
        r = f(*args, **kw)
    except OSError as e:
        r = errno.errorcode[e.errno]
    print(label, r, flush=True)
    return r


def put(path, flags, text=b"x", mode=0o666, **kw):
    fd = os.open(path, flags, mode, **kw)
    n = os.write(fd, text)
    os.close(fd)
    return n


def opened(path, flags, mode=0o666, **kw):
    """Which descriptor, whether it is closed at exec, and its flags as far as they are the caller's business."""
    fd = os.open(path, flags, mode, **kw)
    import fcntl
    shown = fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NOFOLLOW
    os.close(fd)
    return fd, oct(shown)


W, C, T, X, D = os.O_WRONLY, os.O_CREAT, os.O_TRUNC, os.O_EXCL, os.O_DIRECTORY


def parity_open():
    os.mkdir("d")
    os.symlink("d", "to-d")
    os.symlink("nowhere", "dangling")
    os.symlink("made/deep", "far")
    os.symlink("loop2", "loop1")
    os.symlink("loop1", "loop2")
    os.mkfifo("fifo")
    rows = [("new", W | C), ("new", W | C | X), ("new", W), ("none", W), ("d", W), ("d", W | C), ("d/", W | C), ("newd/", W | C), ("new/", W), ("new/x", W | C),
            ("none/x", W | C), ("d/x", os.O_RDWR | C), ("to-d/x", W | T), ("to-d/y", W | C | X), ("./d/../d/z", W | C), ("dangling", W | C | X), ("dangling", W | C),
            ("nowhere", W), ("far", W | C), ("loop1", W), ("loop1", W | C), ("to-d", W | os.O_NOFOLLOW), ("new", W | os.O_NOFOLLOW), ("new", W | D), ("x" * 256, W | C),
            ("x" * 255, W | C), ("y" * 4096, W | C), ("d/" * 2047 + "x", W | C), ("", W | C), (".", W), ("..", W), ("/", W), ("/none/x", W | C), ("fifo", W | os.O_NONBLOCK),
            ("fifo", os.O_RDWR), ("new", os.O_RDONLY | T), ("ro-new", os.O_RDONLY | C), ("ro-new", os.O_RDONLY | C | X), ("new", W | os.O_APPEND | os.O_SYNC),
            ("new", W | os.O_CLOEXEC), ("/dev/null", W), ("/dev/full", os.O_RDWR), (".", os.O_TMPFILE | W), ("new", os.O_TMPFILE | W), ("/proc/self/comm", W),
            ("/proc/self/fd/99", W), ("/proc/none/x", W), ("/etc/passwd", W), ("/usr/x", W | C)]
    for path, flags in rows:
        show(f"{path[:20]} {oct(flags)}", opened, path, flags)
    for mask in (0o022, 0o077, 0, 0o027):
        old = os.umask(mask)
        show("mode", lambda: os.close(os.open(f"m{mask}", W | C, 0o666)))
        os.mkdir(f"n{mask}", 0o777)
        os.umask(old)
    show("back", lambda: os.close(os.open("m", W | C, 0o666)))
    fd = os.open("d", os.O_RDONLY)
    show("dir_fd", opened, "by-fd", W | C, dir_fd=fd)
    show("dir_fd file", opened, "x", W | C, dir_fd=os.open("new", os.O_RDONLY))
    show("dir_fd bad", opened, "x", W | C, dir_fd=77)
    path = os.open("d", os.O_PATH)
    show("dir_fd path", opened, "by-path", W | C, dir_fd=path)
    show("bad pointer", call, "openat", AT_FDCWD, ctypes.c_void_p(16), W | C, 0o666)
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    show("in a removed folder", opened, "x", W | C)
    os.chdir("..")
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    fds = []
    try:
        while True:
            fds.append(os.open("new", W))
    except OSError as e:
        show("too many", lambda: errno.errorcode[e.errno])
    show("how many", lambda: len(fds))


def parity_names():
    put("f", W | C)
    os.mkdir("d")
    os.mkdir("full")
    put("full/x", W | C)
    os.symlink("f", "l")
    os.symlink("d", "ld")
    for i, (f, *args) in enumerate([
            (os.mkdir, "d"), (os.mkdir, "e/"), (os.mkdir, "l"), (os.mkdir, "none/x"), (os.mkdir, "f/x"), (os.mkdir, "."), (os.mkdir, "/"), (os.mkdir, "x" * 300),
            (os.rmdir, "full"), (os.rmdir, "f"), (os.rmdir, "e"), (os.rmdir, "none"), (os.rmdir, "."), (os.rmdir, "ld"), (os.unlink, "d"), (os.unlink, "none"),
            (os.unlink, "f/"), (os.unlink, "l"), (os.symlink, "f", "l"), (os.symlink, "f", "l"), (os.symlink, "", "m"), (os.symlink, "x" * 4095, "long"),
            (os.symlink, "x" * 4096, "longer"), (os.link, "f", "g"), (os.link, "f", "g"), (os.link, "d", "h"), (os.link, "none", "h"), (os.link, "l", "l2"),
            (os.link, "f", "d/f"), (os.link, "f", "none/f"), (os.rename, "g", "g2"), (os.rename, "none", "h"), (os.rename, "f", "d"), (os.rename, "d", "f"),
            (os.rename, "full", "full/in"), (os.rename, "d", "full"), (os.rename, "full", "moved/"), (os.rename, "f", "f2/"), (os.rename, "f", "f"), (os.rename, ".", "q"),
            (os.rename, "moved", "full"), (os.mkfifo, "p"), (os.mkfifo, "p"), (os.mknod, "node", stat.S_IFREG | 0o600), (os.mknod, "dev", stat.S_IFCHR | 0o600, 259),
            (os.truncate, "f", 5), (os.truncate, "none", 5), (os.truncate, "d", 5), (os.truncate, "f", -1), (os.truncate, "ld/../f", 3), (os.chmod, "f", 0o640),
            (os.chmod, "none", 0o640), (os.chmod, "ld", 0o711), (os.chmod, "d/.", 0o755), (os.chmod, "/usr", 0o755), (os.setxattr, "f", "user.a", b"v"),
            (os.setxattr, "f", "nons", b"v"), (os.setxattr, "none", "user.a", b"v"), (os.setxattr, "f", "user.a", b"w", os.XATTR_CREATE), (os.getxattr, "f", "user.a"),
            (os.removexattr, "f", "user.a"), (os.removexattr, "f", "user.a"), (os.setxattr, "f", "user.big", b"v" * 70000)]):
        show(f"{i} {f.__name__} {str(args[0])[:9]}", f, *args)
    show("lsetxattr", os.setxattr, "l", "user.a", b"v", follow_symlinks=False)
    show("lremovexattr", os.removexattr, "l", "user.a", follow_symlinks=False)
    fd, rd = os.open("f", os.O_PATH), os.open("f", os.O_RDONLY)
    for label, n in (("path", fd), ("fd", rd), ("bad", 88)):
        show(f"fchmod {label}", call, "fchmod", n, 0o600)
        show(f"fsetxattr {label}", call, "fsetxattr", n, "user.f", b"1", 1, 0)
        show(f"fremovexattr {label}", call, "fremovexattr", n, "user.f")
    show("proc chmod", os.chmod, f"/proc/self/fd/{fd}", 0o644)
    show("renameat2", call, "renameat2", AT_FDCWD, "f", AT_FDCWD, "g2", RENAME_NOREPLACE)
    show("exchange", call, "renameat2", AT_FDCWD, "f", AT_FDCWD, "d", RENAME_EXCHANGE)
    show("exchange none", call, "renameat2", AT_FDCWD, "f", AT_FDCWD, "nil", RENAME_EXCHANGE)
    show("exchange back", call, "renameat2", AT_FDCWD, "f", AT_FDCWD, "d", RENAME_EXCHANGE)
    show("flags", call, "renameat2", AT_FDCWD, "f", AT_FDCWD, "d", 77)
    show("unlinkat flags", call, "unlinkat", AT_FDCWD, "f", 0x999)
    show("linkat flags", call, "linkat", AT_FDCWD, "f", AT_FDCWD, "zz", 0x999)
    show("linkat follow", call, "linkat", AT_FDCWD, "l", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW)
    show("linkat fd", call, "linkat", AT_FDCWD, f"/proc/self/fd/{rd}", AT_FDCWD, "by-fd", AT_SYMLINK_FOLLOW)
    tmp = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(tmp, b"anonymous")
    show("linkat tmpfile", call, "linkat", AT_FDCWD, f"/proc/self/fd/{tmp}", AT_FDCWD, "named", AT_SYMLINK_FOLLOW)
    for name, *args in [("open", "r1", W | C, 0o644), ("creat", "r2", 0o644), ("mkdir", "r3", 0o755), ("rename", "r2", "r4"), ("renameat", -100, "r4", -100, "r5"),
                        ("link", "r5", "r6"), ("symlink", "r5", "r7"), ("chmod", "r7", 0o600), ("mknod", "r8", stat.S_IFIFO | 0o600, 0), ("unlink", "r6"), ("rmdir", "r3")]:
        show(f"raw {name}", raw, name, *args)


def parity_self():
    """Paths that mean something else in every process."""
    r, w = os.pipe()
    show("fd", put, f"/dev/fd/{w}", W, b"pipe")
    show("read", os.read, r, 10)
    fd = os.open("f", os.O_RDWR | C)
    show("proc fd", put, f"/proc/self/fd/{fd}", W | os.O_APPEND, b"one")
    show("thread", put, f"/proc/thread-self/fd/{fd}", W | os.O_APPEND, b"two")
    os.symlink(f"/proc/self/fd/{fd}", "through")
    show("link", put, "through", W | os.O_APPEND, b"three")
    show("cwd", put, "/proc/self/cwd/g", W | C, b"cwd")
    os.symlink("/proc/self/cwd", "here")
    show("link to cwd", put, "here/h", W | C, b"here")
    show("root", put, "/proc/self/root/dev/null", W, b"x")
    show("comm", put, "/proc/self/comm", W, b"renamed")
    print(open("/proc/self/comm").read())
    show("oom", put, "/proc/self/oom_score_adj", W, b"500")
    os.unlink("f")
    show("unlinked", put, f"/proc/self/fd/{fd}", W | os.O_APPEND, b"four")
    show("chmod unlinked", call, "fchmod", fd, 0o600)
    os.lseek(fd, 0, 0)
    print(os.read(fd, 100))
    done = threading.Event()

    def other():
        libc.unshare(0x200)  # CLONE_FS is refused: the thread's folder is everybody's
        show("thread writes", put, "by-thread", W | C, b"t")
        done.set()

    threading.Thread(target=other).start()
    done.wait()


def storm(count="2000"):
    """Signals interrupt calls; one that was done must not be done again."""
    signal.signal(signal.SIGALRM, lambda *a: None)
    signal.siginterrupt(signal.SIGALRM, False)  # without SA_RESTART a call that was not begun yet may end with EINTR
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for i in range(int(count)):
        os.close(os.open(f"s{i}", W | C | X))
        os.rename(f"s{i}", f"t{i}")
        os.mkdir(f"d{i}")
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(os.listdir(".")))


def race(target, seconds="3"):
    """One thread changes the path while others hand it to the kernel: it may succeed only for what was judged."""
    import time
    safe, evil = b"safe/file\0", os.fsencode(target) + b"\0"
    size = max(len(safe), len(evil))
    buffer = ctypes.create_string_buffer(size)
    end = time.monotonic() + float(seconds)

    def flip():
        while time.monotonic() < end:
            ctypes.memmove(buffer, safe, len(safe))
            ctypes.memmove(buffer, evil, len(evil))

    def use():
        while time.monotonic() < end:
            fd = libc.open(buffer, W | C | T, 0o644)
            if fd >= 0:
                os.write(fd, b"evil")
                os.close(fd)
            libc.mkdir(buffer, 0o755)

    os.mkdir("safe")
    threads = [threading.Thread(target=flip)] + [threading.Thread(target=use) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(os.path.exists("safe/file"), os.path.exists(target))


def attack(code):
    """Runs the code; prints the errno that stopped it, or OK."""
    try:
        exec(code, globals())
    except OSError as e:
        print(errno.errorcode[e.errno])
    else:
        print("OK")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
