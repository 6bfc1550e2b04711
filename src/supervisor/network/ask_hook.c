/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/network/ask_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/process.h"

static const struct {
    const char *word;
    enum gate_answer answer;
} words[] = {
    {"deny", GATE_DENY},           {"allow", GATE_ALLOW_ONCE}, {"once", GATE_ALLOW_ONCE}, {"session", GATE_ALLOW_SESSION},
    {"always", GATE_ALLOW_ALWAYS},
};

struct hook_birth {
    const struct ask_hook_opts *o;
    int fds[3];
    int error;
};

static int run_hook(const struct hook_birth *b) {
    int r;

    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    for (int i = 0; i < 3; i++)
        if (dup2(b->fds[i], i) < 0)
            return -errno;
    r = fd_close_from(3);
    if (r < 0)
        return r;
    if (sigprocmask(SIG_SETMASK, &b->o->mask, NULL) < 0)
        return -errno;
    execve(b->o->program, (char *[]){(char *)b->o->program, NULL}, b->o->environ_);
    return -errno;
}

static int hook_child(void *arg) {
    struct hook_birth *b = arg;

    b->error = run_hook(b);
    return EXIT_NOTFOUND;
}

/* The question fits into the pipe, so that writing it never waits for the program. */
static int start_with(struct ask_hook *h, const struct ask_hook_opts *o, const int in[2], const int out[2]) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct hook_birth b = {.o = o, .fds = {in[0], out[1], null}};
    size_t len = strlen(o->question);
    pid_t pid;

    if (null < 0 || len > ASK_QUESTION_MAX)
        return null < 0 ? -errno : -E2BIG;
    if (write(in[1], o->question, len) != (ssize_t)len)
        return -EIO;
    pid = process_clone(hook_child, &b, CLONE_VM | CLONE_VFORK, NULL);
    if (pid < 0)
        return (int)pid;
    h->pid = pid;
    return b.error;
}

int ask_hook_start(struct ask_hook *h, const struct ask_hook_opts *o, struct err *err) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, r = 0;

    *h = (struct ask_hook)ASK_HOOK_INIT;
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        r = -errno;
    for (int i = 0; r == 0 && i < 2; i++) { /* 0 to 2 are filled in freely */
        r = in[i] = fd_move_above(in[i], 3);
        r = r < 0 ? r : (out[i] = fd_move_above(out[i], 3));
        r = r < 0 ? r : 0;
    }
    if (r == 0 && fcntl(out[0], F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    r = r < 0 ? r : start_with(h, o, in, out);
    if (r == 0)
        h->out = TAKE_FD(out[0]);
    for (int i = 0; i < 2; i++) {
        closep(&in[i]);
        closep(&out[i]);
    }
    if (r < 0)
        ask_hook_stop(h);
    return r < 0 ? err_sys(err, r, "start '%s'", o->program) : 0;
}

void ask_hook_stop(struct ask_hook *h) {
    if (h->pid > 0) {
        kill(-h->pid, SIGKILL);
        process_end(h->pid);
    }
    closep(&h->out);
    *h = (struct ask_hook)ASK_HOOK_INIT;
}

static enum gate_answer meaning(struct ask_hook *h) {
    h->word[h->len] = 0;
    h->word[strcspn(h->word, " \t\r\n")] = 0;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq(h->word, words[i].word))
            return words[i].answer;
    log_line("the ask hook did not say deny, allow, session or always: the answer is no");
    return GATE_DENY;
}

/* The answer is the first line; who prints none says nothing before its end. */
int ask_hook_read(struct ask_hook *h, enum gate_answer *ret) {
    ssize_t n = fd_read_some(h->out, h->word + h->len, sizeof h->word - 1 - h->len);

    if (n == -EAGAIN)
        return 0;
    h->len += n > 0 ? (size_t)n : 0;
    if (n > 0 && h->len < sizeof h->word - 1 && !memchr(h->word, '\n', h->len))
        return 0;
    *ret = meaning(h);
    ask_hook_stop(h);
    return 1;
}
