/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor for the guard alone (test_guard.py): starts bawn-init without namespaces, answers what the guard says, and ends
 * with the command's status.
 *
 *     guard_harness INIT ROOT [log=FILE] [protect=FILE] [hide=FILE] [umask=OCTAL] [deny=ERRNO] [leave=N] [tty=1] [bare=1]
 *         [wall=1] [pid1=1] [bind=FROM:TO] -- COMMAND...
 *
 * log: "touch WAIT UNLINKING MODE FD PATH" and "refused WHY PATH", one line each; protect, hide: rules (protect: the built-in
 * ones if not given); deny: what TOUCH is answered with; leave: closes the socket at the Nth message; bare: no guard at all;
 * wall: with Landlock, as where there are no namespaces; pid1: in new user, mount and pid namespaces; bind: mounts FROM at TO
 * there.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/guardmsg.h"
#include "proto/initmsg.h"
#include "workspace/hide/protect.h"

struct harness {
    const char *options[16];
    size_t n;
    int control, guard;
    FILE *log;
    long deny, leave;
};

struct packet {
    struct guard_msg head;
    char path[GUARD_PATH_MAX + 1];
};

static const char *option(const struct harness *h, const char *name) {
    size_t len = strlen(name);

    for (size_t i = 0; i < h->n; i++)
        if (strncmp(h->options[i], name, len) == 0 && h->options[i][len] == '=')
            return h->options[i] + len + 1;
    return NULL;
}

static long number(const struct harness *h, const char *name, int base, long otherwise) {
    const char *text = option(h, name);

    return text ? strtol(text, NULL, base) : otherwise;
}

static size_t read_rules(const char *path, char *to, size_t size) {
    ssize_t n = path ? fd_read_file_at(AT_FDCWD, path, to, size) : 0;

    if (n < 0)
        errx(2, "%s: %s", path, strerror((int)-n));
    return (size_t)n;
}

static int make_start(const struct harness *h, const char *root, char **argv, size_t argc) {
    static char protect[1 << 20], hide[1 << 20];
    struct init_text texts[2] = {{"", "hide", hide, read_rules(option(h, "hide"), hide, sizeof hide)},
                                 {"", option(h, "protect") ? "protect" : PROTECT_ORIGIN, protect, 0}};
    struct buf b = BUF_INIT(INIT_START_MAX);
    struct init_start s = {.flags = INIT_FLAG_NO_PIDNS,
                           .umask = (uint32_t)number(h, "umask", 8, 022),
                           .seccomp = 0,
                           .cwd = root,
                           .search_path = getenv("PATH"),
                           .argv = argv,
                           .argc = argc,
                           .envp = environ,
                           .guard_root = root};
    struct init_rule rules[] = {
        {INIT_ACCESS_EXEC, 0, "/usr"}, {INIT_ACCESS_EXEC, 1, "/lib"},       {INIT_ACCESS_EXEC, 1, "/lib64"},
        {INIT_ACCESS_EXEC, 1, "/bin"}, {INIT_ACCESS_READ, 0, "/proc"},      {INIT_ACCESS_READ, 0, "/etc"},
        {INIT_ACCESS_WRITE, 0, root},  {INIT_ACCESS_WRITE, 0, "/dev/null"}, {INIT_ACCESS_WRITE, 0, "/dev/tty"}};
    int fd = memfd_create("start", MFD_CLOEXEC);

    if (option(h, "wall")) {
        s.landlock = INIT_LANDLOCK_WALL;
        s.seccomp = 1;
        s.rules = rules;
        s.n_rules = ARRAY_LEN(rules);
    }
    if (option(h, "pid1"))
        s.flags &= ~(uint32_t)INIT_FLAG_NO_PIDNS;
    while (environ[s.envc])
        s.envc++;
    texts[1].len = read_rules(option(h, "protect"), protect, sizeof protect);
    if (!option(h, "protect")) {
        texts[1].data = protect_defaults;
        texts[1].len = strlen(protect_defaults);
    }
    if (!option(h, "bare")) {
        s.flags |= INIT_FLAG_GUARD;
        s.hide = &texts[0];
        s.protect = &texts[1];
        s.n_hide = s.n_protect = 1;
    }
    if (option(h, "tty"))
        s.flags |= INIT_FLAG_TTY | INIT_FLAG_TTY_STDIN | INIT_FLAG_TTY_STDOUT | INIT_FLAG_TTY_STDERR;
    if (fd < 0 || init_start_encode(&s, &b) < 0 || fd_write_all(fd, b.data, b.len) < 0)
        err(2, "start message");
    buf_done(&b);
    return fd;
}

static void write_map(const char *path, unsigned id) {
    char text[64];

    snprintf(text, sizeof text, "%u %u 1", id, id);
    if (fd_write_file_at(AT_FDCWD, path, text) < 0)
        errx(2, "%s", path);
}

/* The next child is PID 1 of new namespaces. */
static void enter_namespaces(void) {
    uid_t uid = getuid();
    gid_t gid = getgid();

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) < 0)
        err(2, "namespaces");
    fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", uid);
    write_map("/proc/self/gid_map", gid);
}

static void mount_inside(const struct harness *h) {
    char from[PATH_MAX];
    const char *bind = option(h, "bind"), *to = bind ? strchr(bind, ':') : NULL;

    if (!option(h, "pid1"))
        return;
    if (mount("proc", "/proc", "proc", 0, NULL) < 0)
        err(2, "/proc");
    if (to) {
        snprintf(from, sizeof from, "%.*s", (int)(to - bind), bind);
        if (mount(from, to + 1, NULL, MS_BIND, NULL) < 0)
            err(2, "%s", bind);
    }
}

static pid_t start_init(const struct harness *h, const char *init, int control, int start, int guard) {
    static char *const argv[] = {"bawn-init", NULL}, *const envp[] = {NULL};
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    control = fcntl(control, F_DUPFD_CLOEXEC, 10);
    start = fcntl(start, F_DUPFD_CLOEXEC, 10);
    guard = guard < 0 ? -1 : fcntl(guard, F_DUPFD_CLOEXEC, 10);
    if (dup2(control, 3) < 0 || dup2(start, 4) < 0 || (guard >= 0 && dup2(guard, 5) < 0))
        _exit(2);
    mount_inside(h);
    execve(init, argv, envp);
    _exit(2);
}

static void note(const struct harness *h, const struct packet *p, bool with_fd) {
    const struct guard_msg *m = &p->head;

    if (!h->log)
        return;
    if (m->type == GUARD_MSG_REFUSED)
        fprintf(h->log, "refused %d %s\n%s%s%s", m->value, p->path, strlen(p->path) < m->path_len ? "why " : "",
                strlen(p->path) < m->path_len ? p->path + strlen(p->path) + 1 : "", strlen(p->path) < m->path_len ? "\n" : "");
    else
        fprintf(h->log, "touch %u %u %o %d %s\n", m->wait, m->unlinking, m->mode, with_fd, p->path);
    fflush(h->log);
}

static void serve_guard(struct harness *h) {
    static struct packet p;
    int fd = -1;
    size_t n_fds = 1;
    long n = sock_recv(h->guard, &p, sizeof p - 1, &fd, &n_fds);
    struct guard_msg go = {.type = GUARD_MSG_GO, .value = (int32_t)-h->deny};

    if (n <= 0 || (size_t)n != sizeof p.head + p.head.path_len ||
        (p.head.type != GUARD_MSG_SHARE && p.head.type != GUARD_MSG_SPOOL && h->leave > 0 && --h->leave == 0)) {
        closep(&h->guard);
        return;
    }
    p.path[p.head.path_len] = 0;
    if (p.head.type == GUARD_MSG_OPEN || p.head.type == GUARD_MSG_SHARE ||
        p.head.type == GUARD_MSG_SPOOL) /* no program of the host writes here */
        go.value = 0;
    else
        note(h, &p, fd >= 0);
    closep(&fd);
    if (p.head.wait && sock_send(h->guard, &go, sizeof go, NULL, 0) < 0)
        closep(&h->guard);
}

/* A terminal's master is kept open and copied to our output. */
static void copy_terminal(int master) {
    char text[4096];
    ssize_t n = read(master, text, sizeof text);

    if (n > 0)
        fd_write_all(STDOUT_FILENO, text, (size_t)n);
}

static int status_of(const struct init_msg *m) {
    if (m->type == INIT_MSG_FAILED) {
        fprintf(stderr, "failed: %s\n", m->text);
        return 125;
    }
    if (m->extra)
        return 127;
    return WIFSIGNALED(m->value) ? 128 + WTERMSIG(m->value) : WEXITSTATUS(m->value);
}

static int serve(struct harness *h) {
    int master = -1;

    for (;;) {
        struct pollfd p[] = {
            {.fd = h->control, .events = POLLIN}, {.fd = h->guard, .events = POLLIN}, {.fd = master, .events = POLLIN}};
        struct init_msg m, go = {.type = INIT_MSG_GO};
        size_t n_fds = 1;

        if (poll(p, ARRAY_LEN(p), -1) < 0)
            err(2, "poll");
        if (p[2].revents)
            copy_terminal(master);
        if (p[1].revents)
            serve_guard(h);
        if (!p[0].revents)
            continue;
        if (sock_recv(h->control, &m, sizeof m, &master, &n_fds) != sizeof m)
            errx(2, "bawn-init is gone");
        if (m.type == INIT_MSG_PTY)
            sock_send(h->control, &go, sizeof go, NULL, 0);
        else if (m.type != INIT_MSG_STOPPED)
            return status_of(&m);
    }
}

int main(int argc, char **argv) {
    struct harness h = {.n = 0};
    int control[2], guard[2], i = 3, start, status;
    pid_t pid;

    for (; i < argc && !str_eq(argv[i], "--") && h.n < ARRAY_LEN(h.options); i++)
        h.options[h.n++] = argv[i];
    if (i + 1 >= argc)
        errx(64, "see the top of guard_harness.c");
    h.log = option(&h, "log") ? fopen(option(&h, "log"), "we") : NULL;
    h.deny = number(&h, "deny", 10, 0);
    h.leave = number(&h, "leave", 10, 0);
    start = make_start(&h, argv[2], argv + i + 1, (size_t)(argc - i - 1));
    if (sock_pair(control) < 0 || sock_pair(guard) < 0)
        err(2, "sockets");
    if (option(&h, "pid1"))
        enter_namespaces();
    pid = start_init(&h, argv[1], control[1], start, option(&h, "bare") ? -1 : guard[1]);
    close(control[1]);
    close(guard[1]);
    h.control = control[0];
    h.guard = guard[0];
    status = serve(&h);
    waitpid(pid, NULL, 0);
    while (h.guard >= 0) /* what was said before the end */
        serve_guard(&h);
    return status;
}
