/* SPDX-License-Identifier: Apache-2.0 */
/* The user's program that answers questions. */
#include "supervisor/network/ask_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"

static const struct {
    const char *word;
    enum gate_answer answer;
} words[] = {
    {"deny", GATE_DENY},           {"allow", GATE_ALLOW_ONCE}, {"once", GATE_ALLOW_ONCE}, {"session", GATE_ALLOW_SESSION},
    {"always", GATE_ALLOW_ALWAYS},
};

int ask_hook_start(struct ask_hook *h, const struct ask_hook_opts *o, struct err *err) {
    CLEANUP(closep) int in = -1, question = -1, answer = -1, out = -1;
    size_t len = strlen(o->question);
    int r = len > ASK_QUESTION_MAX ? -E2BIG : fd_pipe(&in, &question);

    *h = (struct ask_hook)ASK_HOOK_INIT;
    r = r < 0 ? r : fd_pipe(&answer, &out);
    if (r == 0 && fcntl(answer, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    if (r == 0 && write(question, o->question, len) != (ssize_t)len) /* it fits into the pipe: this never waits for the program */
        r = -EIO;
    if (r == 0) {
        const struct spawn s = {.path = o->program,
                                .argv = (char *[]){(char *)(uintptr_t)o->program, NULL},
                                .envp = o->environ_,
                                .fds = (const int[]){in, out, -1},
                                .n_fds = 3,
                                .cwd = SPAWN_CWD_STAY,
                                .mask = &o->mask};

        r = spawn_start(&s, &h->pid, NULL);
    }
    if (r < 0)
        return err_sys(err, r, "start '%s'", o->program);
    h->out = TAKE_FD(answer);
    return 0;
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
