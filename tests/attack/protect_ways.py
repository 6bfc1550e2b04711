# SPDX-License-Identifier: Apache-2.0
"""Ways to change or make a file: each works on one path, returns, or raises OSError. The tests run this file outside and inside (test_protect.py).

    protect_ways.py attack|control WAY there|new PATH...      prints {path: "OK" or the error's name} as JSON
"""

import ctypes, errno, json, os, shutil, stat, sys, tempfile, threading
libc = ctypes.CDLL(None, use_errno=True)
W, C, T, X = os.O_WRONLY, os.O_CREAT, os.O_TRUNC, os.O_EXCL
NR = dict(open=2, creat=85, mkdir=83, rename=82, link=86, unlink=87, symlink=88, chmod=90, truncate=76, mknod=133, renameat=264, rmdir=84)
enc = lambda a: os.fsencode(a) if isinstance(a, str) else a
S = "scratch"
fresh = iter(range(10**9))
once = os.urandom(6).hex()

def s():
    return f"{S}/{once}.{next(fresh)}"

def check(r, what):
    if r < 0:
        raise OSError(ctypes.get_errno(), what)
    return r

def raw(name, *args):
    return check(libc.syscall(NR[name], *[ctypes.c_long(a) if isinstance(a, int) else enc(a) for a in args]), name)

def call(name, *args):
    return check(getattr(libc, name)(*map(enc, args)), name)

def put(path, flags=W, text=b"evil\n", **kw):
    fd = os.open(path, flags, 0o755, **kw)
    os.write(fd, text)
    os.close(fd)

def file():
    path = s()
    put(path, W | C)
    return path

def parents(p):
    os.makedirs(os.path.dirname(p) or ".", exist_ok=True)

def split(p):
    return os.path.dirname(p) or ".", os.path.basename(p)

def in_child(f):
    """Two generations away, in a session of its own."""
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                f()
                os.write(w, b"0")
            except OSError as e:
                os.write(w, str(e.errno).encode())
        os._exit(0)
    os.close(w)
    code = int(os.read(r, 9))
    os.close(r)
    os.wait()
    if code:
        raise OSError(code, "child")

def in_thread(f):
    caught = []
    def body():
        try:
            f()
        except OSError as e:
            caught.append(e)
    t = threading.Thread(target=body)
    t.start()
    t.join()
    if caught:
        raise caught[0]

def linked(p):
    l = s()
    os.link(p, l)
    put(l)

def by_link(p, flags=W):
    l = s()
    os.symlink(os.path.abspath(p), l)
    put(l, flags)

def by_parent_link(p, flags=W):
    l = s()
    os.symlink(os.path.abspath(split(p)[0]), l)
    put(f"{l}/{split(p)[1]}", flags)

def by_two_links(p, flags=W):
    l, m = s(), s()
    os.symlink(os.path.abspath(p), l)
    os.symlink(os.path.basename(l), m)
    put(m, flags)

def by_fd_of_folder(p, how, flags=W):
    fd = os.open(split(p)[0], how)
    put(split(p)[1], flags, dir_fd=fd)

def by_magic_folder(p, flags=W):
    fd = os.open(split(p)[0], os.O_PATH)
    put(f"/proc/self/fd/{fd}/{split(p)[1]}", flags)

def by_cwd(p, flags=W):
    here = os.getcwd()
    os.chdir(split(p)[0])
    try:
        put(split(p)[1], flags)
    finally:
        os.chdir(here)

def by_other_cwd(p, flags=W):
    """/proc/PID/cwd of a child that sits in the folder."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chdir(split(p)[0])
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)
    try:
        while os.readlink(f"/proc/{pid}/cwd") != os.path.realpath(split(p)[0]):
            os.sched_yield()
        put(f"/proc/{pid}/cwd/{split(p)[1]}", flags)
    finally:
        os.close(w)
        os.waitpid(pid, 0)

def by_fd(p, how):
    put(f"/proc/self/fd/{os.open(p, how)}")

def link_by_fd(p, how):
    l = s()
    call("linkat", -100, f"/proc/self/fd/{os.open(p, how)}", -100, l, 0x400)
    put(l)

def recreate(p):
    os.unlink(p)
    put(p, W | C)

def move_and_make(p):
    os.rename(p, s())
    put(p, W | C)

def move_folder_and_make(p):
    """Only where the folder itself means something; an ordinary one may be moved."""
    folder, name = split(p)
    if os.path.basename(folder) in (".", "deep"):
        os.unlink(p)
    else:
        os.rename(folder, s())
        os.mkdir(folder)
    put(p, W | C)

def rename_over_folder(p):
    """A tree that was built elsewhere takes the folder's place."""
    folder, name = split(p)
    if os.path.basename(folder) in (".", "deep"):
        parents(p)
        return os.rename(file(), p)
    new = s()
    os.mkdir(new)
    put(f"{new}/{name}", W | C)
    if os.path.exists(folder):
        call("renameat2", -100, new, -100, folder, 2)
    else:
        os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
        os.rename(new, folder)

def link_for_folder(p):
    folder, name = split(p)
    if os.path.basename(folder) in (".", "deep"):
        parents(p)
        return os.symlink(os.path.abspath(file()), p)
    new = s()
    os.mkdir(new)
    put(f"{new}/{name}", W | C)
    if os.path.exists(folder):
        os.rename(folder, s())
    else:
        os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    os.symlink(os.path.abspath(new), folder)

def tmpfile(p):
    fd = os.open(split(p)[0], os.O_TMPFILE | os.O_RDWR, 0o755)
    os.write(fd, b"evil\n")
    call("linkat", -100, f"/proc/self/fd/{fd}", -100, p, 0x400)

def shell(p):
    if os.system(f"exec 2>/dev/null; echo evil > '{p}'"):
        raise OSError(errno.EACCES, p)

def copied(p):
    shutil.copyfile(file(), p)

def replaced(p):
    os.replace(file(), p)

there = {
    "write": put,
    "append": lambda p: put(p, W | os.O_APPEND),
    "read and write": lambda p: put(p, os.O_RDWR),
    "truncating open": lambda p: put(p, W | T),
    "create again": lambda p: put(p, W | C),
    "read-only open that truncates": lambda p: os.close(os.open(p, os.O_RDONLY | T)),
    "truncate": lambda p: os.truncate(p, 0),
    "chmod +x": lambda p: os.chmod(p, 0o755),
    "fchmod": lambda p: call("fchmod", os.open(p, os.O_RDONLY), 0o755),
    "chmod of a descriptor's link": lambda p: os.chmod(f"/proc/self/fd/{os.open(p, os.O_PATH)}", 0o755),
    "attribute": lambda p: os.setxattr(p, "user.x", b"1"),
    "unlink": os.unlink,
    "unlink and make": recreate,
    "move away and make": move_and_make,
    "move the folder and make": move_folder_and_make,
    "rename over": replaced,
    "exchange": lambda p: call("renameat2", -100, file(), -100, p, 2),
    "exchange, the other way": lambda p: call("renameat2", -100, p, -100, file(), 2),
    "a tree in the folder's place": rename_over_folder,
    "hard link": linked,
    "hard link of a descriptor": lambda p: link_by_fd(p, os.O_RDONLY),
    "hard link of an O_PATH": lambda p: link_by_fd(p, os.O_PATH),
    "descriptor for reading, opened again": lambda p: by_fd(p, os.O_RDONLY),
    "O_PATH, opened again": lambda p: by_fd(p, os.O_PATH),
    "link to it": by_link,
    "link to a link to it": by_two_links,
    "link to its folder": by_parent_link,
    "/proc/self/cwd": lambda p: put(f"/proc/self/cwd/{p}"),
    "/proc/thread-self/cwd": lambda p: put(f"/proc/thread-self/cwd/{p}"),
    "/proc/self/root": lambda p: put(f"/proc/self/root{os.path.abspath(p)}"),
    "/proc/PID/cwd": by_other_cwd,
    "descriptor of the folder": lambda p: by_fd_of_folder(p, os.O_RDONLY),
    "O_PATH of the folder": lambda p: by_fd_of_folder(p, os.O_PATH),
    "magic link to the folder": by_magic_folder,
    "from within the folder": by_cwd,
    "the long way round": lambda p: put(f"{S}/../{p}"),
    "odd slashes": lambda p: put(".//./" + p.replace("/", "//")),
    "a shell": shell,
    "a copy": copied,
    "a thread": lambda p: in_thread(lambda: put(p)),
    "a grandchild": lambda p: in_child(lambda: put(p)),
    "legacy open": lambda p: raw("open", p, W, 0),
    "legacy creat": lambda p: raw("creat", p, 0o644),
    "legacy truncate": lambda p: raw("truncate", p, 0),
    "legacy chmod": lambda p: raw("chmod", p, 0o755),
    "legacy rename": lambda p: raw("rename", file(), p),
    "legacy unlink": lambda p: raw("unlink", p),
    "legacy link": lambda p: raw("link", p, s()),
}
new = {
    "create": lambda p: put(p, W | C),
    "create exclusively": lambda p: put(p, W | C | X),
    "create by a read-only open": lambda p: os.close(os.open(p, os.O_RDONLY | C, 0o755)),
    "mkdir": os.mkdir,
    "mknod": lambda p: os.mknod(p, stat.S_IFREG | 0o755),
    "mkfifo": os.mkfifo,
    "a link there": lambda p: os.symlink(os.path.abspath(file()), p),
    "a dangling link there": lambda p: os.symlink("nowhere", p),
    "a hard link there": lambda p: os.link(file(), p),
    "rename there": lambda p: os.rename(file(), p),
    "rename there, if there is nothing": lambda p: call("renameat2", -100, file(), -100, p, 1),
    "rename a link there": lambda p: (lambda l: (os.symlink("x", l), os.rename(l, p)))(s()),
    "rename a folder there": lambda p: (lambda d: (os.mkdir(d), os.rename(d, p)))(s()),
    "a tree in the folder's place": rename_over_folder,
    "a link in the folder's place": link_for_folder,
    "O_TMPFILE and linkat": tmpfile,
    "through a dangling link": lambda p: by_link(p, W | C),
    "through a link to its folder": lambda p: by_parent_link(p, W | C),
    "/proc/self/cwd": lambda p: put(f"/proc/self/cwd/{p}", W | C),
    "/proc/PID/cwd": lambda p: by_other_cwd(p, W | C),
    "descriptor of the folder": lambda p: by_fd_of_folder(p, os.O_RDONLY, W | C),
    "O_PATH of the folder": lambda p: by_fd_of_folder(p, os.O_PATH, W | C),
    "magic link to the folder": lambda p: by_magic_folder(p, W | C),
    "from within the folder": lambda p: by_cwd(p, W | C),
    "a shell": shell,
    "a copy": copied,
    "a grandchild": lambda p: in_child(lambda: put(p, W | C)),
    "legacy open": lambda p: raw("open", p, W | C, 0o755),
    "legacy creat": lambda p: raw("creat", p, 0o755),
    "legacy mknod": lambda p: raw("mknod", p, stat.S_IFREG | 0o755, 0),
    "legacy link": lambda p: raw("link", file(), p),
    "legacy symlink": lambda p: raw("symlink", "x", p),
    "legacy rename": lambda p: raw("rename", file(), p),
}

def attempt(way, existing, path):
    try:
        if not existing:
            if way not in ("a tree in the folder's place", "a link in the folder's place"):
                parents(path)
        (there if existing else new)[way](path)
    except OSError as e:
        return errno.errorcode[e.errno]
    return "OK"

def control(way, existing, path):
    """Alone in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=".") as top:
        here = os.getcwd()
        os.chdir(top)
        os.mkdir(S)
        try:
            if existing:
                parents(path)
                put(path, W | C, b"before\n")
                os.chmod(path, 0o644)
            return attempt(way, existing, path)
        finally:
            os.chdir(here)

if __name__ == "__main__":
    what, way, existing, *paths = sys.argv[1:]
    f = control if what == "control" else attempt
    print(json.dumps({p: f(way, existing == "there", p) for p in paths}))
