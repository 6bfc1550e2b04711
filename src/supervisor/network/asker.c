/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the user: queue, terminal, hook, answers. */
#include "supervisor/network/asker.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "policy/rules/verdict.h"
#include "proto/plain.h"
#include "supervisor/terminal/ask_keys.h"
#include "supervisor/terminal/ask_text.h"
#include "supervisor/terminal/stdio.h"

enum { MINUTE_MS = 60 * 1000, TICK_MS = 100, ASK_QUESTION_MAX = 8 * 1024 };

const char *const asker_answer_names[GATE_ANSWERS] = {
    [GATE_DENY] = "deny", [GATE_ALLOW_ONCE] = "once", [GATE_ALLOW_SESSION] = "session", [GATE_ALLOW_ALWAYS] = "always"};

struct asker_question {
    struct gate_msg msg;
    uint32_t number; /* for people */
    uint64_t until_ms;
    uint32_t ids[ASKER_IDS_MAX];
    size_t n_ids;
};

struct ask_hook {
    pid_t pid; /* -1: none runs */
    int out;   /* what it prints */
    char word[32];
    size_t len;
};
#define ASK_HOOK_INIT \
    { .pid = -1, .out = -1 }

struct asker {
    struct asker_opts o;
    asker_fn *fn;
    void *arg;
    struct asker_question *v[ASKER_QUESTIONS_MAX]; /* the first is being asked */
    size_t n;
    uint32_t last_number;
    uint64_t asked_ms[ASKER_PER_MINUTE]; /* when the last ones came: a ring */
    size_t asked;
    uint64_t reported_ms; /* that there are too many */
    bool shown;           /* the first is on the terminal */
    uint64_t shown_ms, key_ms;
    struct ask_keys keys;
    char said[264];
    struct ask_hook hook;
};

int asker_new(const struct asker_opts *o, struct asker **ret, struct err *err) {
    struct asker *a = calloc(1, sizeof *a);

    if (!a)
        return err_oom(err);
    a->o = *o;
    a->hook = (struct ask_hook)ASK_HOOK_INIT;
    *ret = a;
    return 0;
}

void asker_listen(struct asker *a, asker_fn *fn, void *arg) {
    a->fn = fn;
    a->arg = arg;
}

/* Ends the program, with what it started. */
static void stop_hook(struct ask_hook *h) {
    if (h->pid > 0) {
        kill(-h->pid, SIGKILL);
        process_end(h->pid);
    }
    closep(&h->out);
    *h = (struct ask_hook)ASK_HOOK_INIT;
}

/* The first question is not the one that is asked any more. */
static void stop_asking(struct asker *a) {
    stop_hook(&a->hook);
    if (a->shown && a->o.term)
        stdio_prompt_hide(a->o.term);
    a->shown = false;
}

static struct asker_question *take_question(struct asker *a, size_t at) {
    struct asker_question *q = a->v[at];

    if (at == 0)
        stop_asking(a);
    VEC_REMOVE(a->v, a->n, at);
    return q;
}

/* Asked by the control socket: no gate waits for it. */
static bool is_from_outside(const struct asker_question *q) {
    return q->msg.type == GATE_MSG_REQUEST && q->msg.value == GATE_REQUEST_OUTSIDE;
}

void asker_forget(struct asker *a, bool all) {
    for (size_t i = a->n; i-- > 0;)
        if (all || !is_from_outside(a->v[i]))
            free(take_question(a, i));
}

const char *asker_said(const struct asker *a) {
    return a->said;
}

static void set_said(struct asker *a, const char *said) {
    snprintf(a->said, sizeof a->said, "%s", said);
    plain_make(a->said, sizeof a->said);
}

void asker_free(struct asker *a) {
    if (!a)
        return;
    asker_forget(a, true);
    free(a);
}

static void decide_question(struct asker *a, size_t at, enum gate_answer answer) {
    CLEANUP(freep) struct asker_question *q = take_question(a, at);

    if (a->fn)
        a->fn(a->arg, &q->msg, q->ids, q->n_ids, answer);
    a->said[0] = 0;
}

/* New questions --------------------------------------------------------------------------------------------------- */

static void refuse_question(struct asker *a, const struct gate_msg *m) {
    set_said(a, "too many questions wait, or came within a minute");
    if (a->fn)
        a->fn(a->arg, m, &m->id, 1, GATE_DENY);
    a->said[0] = 0;
}

static bool is_equal(const struct gate_msg *a, const struct gate_msg *b) {
    return a->type == b->type && a->value == b->value && a->port == b->port && str_eq(a->host, b->host) &&
           str_eq(a->secret, b->secret) && str_eq(a->method, b->method) && str_eq(a->path, b->path);
}

static bool too_many(struct asker *a) {
    uint64_t now = clock_ms(), *oldest = &a->asked_ms[a->asked % ASKER_PER_MINUTE];

    if (a->asked >= ASKER_PER_MINUTE && now - *oldest < MINUTE_MS) {
        if (!a->reported_ms || now - a->reported_ms >= MINUTE_MS)
            log_line("the sandbox asks for more than %d hosts in a minute: the rest is denied without asking", ASKER_PER_MINUTE);
        a->reported_ms = now;
        return true;
    }
    *oldest = now;
    a->asked++;
    return false;
}

void asker_ask(struct asker *a, const struct gate_msg *m) {
    struct asker_question *q;

    for (size_t i = 0; i < a->n; i++)
        if (is_equal(&a->v[i]->msg, m)) {
            q = a->v[i];
            if (q->n_ids == ASKER_IDS_MAX)
                refuse_question(a, m);
            else
                q->ids[q->n_ids++] = m->id;
            return;
        }
    q = a->n < ASKER_QUESTIONS_MAX && !too_many(a) ? calloc(1, sizeof *q) : NULL;
    if (!q) {
        refuse_question(a, m);
        return;
    }
    q->msg = *m;
    q->number = ++a->last_number;
    q->until_ms = clock_ms() + a->o.timeout_ms;
    q->ids[q->n_ids++] = m->id;
    a->v[a->n++] = q;
    if (a->o.say && m->type == GATE_MSG_OPEN)
        log_line("the sandbox asks to log in to %s at %s, in your browser: 'bawn policy approve %u' or 'bawn policy reject %u'",
                 m->secret, m->host, q->number, q->number);
    else if (a->o.say && m->type == GATE_MSG_REQUEST)
        log_line(
            "an agent asks for the %s %s: 'bawn policy pending' shows its reason; 'bawn policy approve %u' or 'bawn policy reject %u'",
            m->method, m->path, q->number, q->number);
    else if (a->o.say)
        log_line("network: %s:%u waits for an answer: 'bawn policy approve %u' or 'bawn policy reject %u'", m->host, m->port,
                 q->number, q->number);
}

void asker_cancel(struct asker *a, uint32_t id) {
    for (size_t i = 0; i < a->n; i++) {
        struct asker_question *q = a->v[i];

        for (size_t k = 0; q->msg.type != GATE_MSG_OPEN && !is_from_outside(q) && k < q->n_ids; k++)
            if (q->ids[k] == id) {
                q->ids[k] = q->ids[--q->n_ids];
                if (q->n_ids == 0)
                    free(take_question(a, i));
                return;
            }
    }
}

/* Answers from elsewhere ------------------------------------------------------------------------------------------ */

void asker_pending_json(const struct asker *a, struct buf *out) {
    uint64_t now = clock_ms();

    buf_addc(out, '[');
    for (size_t i = 0; i < a->n; i++) {
        const struct asker_question *q = a->v[i];

        ask_text_json(&q->msg, q->number, q->n_ids, q->until_ms > now ? (q->until_ms - now) / 1000 : 0, out);
    }
    buf_addc(out, ']');
}

int asker_answer(struct asker *a, uint32_t number, enum gate_answer answer, const char *said) {
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i]->number == number) {
            set_said(a, said);
            decide_question(a, i, answer);
            return 0;
        }
    return -ENOENT;
}

/* Asking ---------------------------------------------------------------------------------------------------------- */

static void show_question(struct asker *a) {
    CLEANUP(buf_done) struct buf screen = BUF_INIT(ASK_TEXT_MAX), line = BUF_INIT(ASK_TEXT_MAX);
    const struct asker_question *q = a->v[0];

    ask_text_screen(&q->msg, a->o.timeout_ms, &screen);
    ask_text_line(&q->msg, &line);
    if (stdio_prompt_show(a->o.term, buf_str(&screen), buf_str(&line)) < 0)
        return;
    a->shown = true;
    a->shown_ms = clock_ms();
    a->keys = (struct ask_keys){0};
}

/* What was typed before the question could be read is not meant for it. */
static void read_keys(struct asker *a) {
    static const enum gate_answer answers[] = {[ASK_KEY_ONCE] = GATE_ALLOW_ONCE,
                                               [ASK_KEY_SESSION] = GATE_ALLOW_SESSION,
                                               [ASK_KEY_ALWAYS] = GATE_ALLOW_ALWAYS,
                                               [ASK_KEY_DENY] = GATE_DENY};
    uint64_t now = clock_ms();
    uint8_t bytes[64];
    bool gone;
    size_t n = stdio_prompt_keys(a->o.term, bytes, sizeof bytes, &gone);
    enum ask_key key = ask_keys_feed(&a->keys, bytes, n);

    if (n)
        a->key_ms = now;
    if (n == 0 && ask_keys_in_esc(&a->keys) && now - a->key_ms >= ASK_KEYS_ESC_MS) {
        a->keys = (struct ask_keys){0};
        key = ASK_KEY_DENY;
    }
    if (gone)
        decide_question(a, 0, GATE_DENY);
    else if (key != ASK_KEY_NONE && now - a->shown_ms >= ASKER_DEAF_MS)
        decide_question(a, 0, answers[key]);
}

/* question: at most ASK_QUESTION_MAX bytes, which fit into the pipe: this never waits for the program. */
static int spawn_hook(struct asker *a, const struct buf *question, struct err *err) {
    CLEANUP(closep) int in = -1, writes = -1, answer = -1, out = -1;
    const char *program = a->o.hook;
    int r = buf_ok(question) ? fd_pipe(&in, &writes) : -E2BIG;

    r = r < 0 ? r : fd_pipe(&answer, &out);
    if (r == 0 && fcntl(answer, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    if (r == 0 && write(writes, question->data, question->len) != (ssize_t)question->len)
        r = -EIO;
    if (r == 0) {
        const struct spawn s = {.path = program,
                                .argv = (char *[]){(char *)(uintptr_t)program, NULL},
                                .envp = a->o.environ_,
                                .fds = (const int[]){in, out, -1},
                                .n_fds = 3,
                                .cwd = SPAWN_CWD_STAY,
                                .mask = &a->o.mask};

        r = spawn_start(&s, &a->hook.pid, NULL);
    }
    if (r < 0)
        return err_sys(err, r, "start '%s'", program);
    a->hook.out = TAKE_FD(answer);
    return 0;
}

static void start_hook(struct asker *a) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(ASK_QUESTION_MAX);
    struct err err = {0};
    const struct asker_question *q = a->v[0];

    ask_text_json(&q->msg, q->number, q->n_ids, a->o.timeout_ms / 1000, &b);
    buf_addc(&b, '\n');
    if (spawn_hook(a, &b, &err) == 0)
        return;
    err_ctx(&err, err.code, "the ask hook, so the answer is no");
    log_err(&err);
    decide_question(a, 0, GATE_DENY);
}

static enum gate_answer read_word(const char *word) {
    if (str_eq(word, "allow"))
        return GATE_ALLOW_ONCE;
    for (int i = 0; i < GATE_ANSWERS; i++)
        if (str_eq(word, asker_answer_names[i]))
            return (enum gate_answer)i;
    log_line("the ask hook did not say deny, allow, session or always: the answer is no");
    return GATE_DENY;
}

/* The answer is the first line; without a line feed it is known at the program's end. */
static void read_hook(struct asker *a) {
    struct ask_hook *h = &a->hook;
    ssize_t n = fd_read_some(h->out, h->word + h->len, sizeof h->word - 1 - h->len);

    if (n == -EAGAIN)
        return;
    h->len += n > 0 ? (size_t)n : 0;
    if (n > 0 && h->len < sizeof h->word - 1 && !memchr(h->word, '\n', h->len))
        return;
    h->word[h->len] = 0;
    h->word[strcspn(h->word, " \t\r\n")] = 0;
    decide_question(a, 0, read_word(h->word)); /* which ends the program */
}

static void ask_first(struct asker *a) {
    if (a->o.hook) {
        if (a->hook.pid < 0)
            start_hook(a);
        else
            read_hook(a);
    } else if (a->o.term) {
        a->shown = a->shown && a->o.term->prompt.on; /* taken off when the job was stopped */
        if (a->shown)
            read_keys(a);
        else
            show_question(a);
    }
}

void asker_handle(struct asker *a) {
    uint64_t now = clock_ms();

    for (size_t i = a->n; i-- > 0;)
        if (i < a->n && a->v[i]->until_ms <= now) {
            set_said(a, "no answer came in time");
            decide_question(a, i, GATE_DENY);
        }
    if (a->n)
        ask_first(a);
}

size_t asker_poll(struct asker *a, struct pollfd *out) {
    if (a->hook.out < 0)
        return 0;
    out[0] = (struct pollfd){.fd = a->hook.out, .events = POLLIN};
    return 1;
}

int asker_timeout(const struct asker *a) {
    int soonest = MINUTE_MS;

    if (a->n == 0)
        return -1;
    if (a->o.term && !a->o.hook && (!a->shown || ask_keys_in_esc(&a->keys)))
        return TICK_MS;
    if (a->o.hook && a->hook.pid < 0)
        return 0;
    for (size_t i = 0; i < a->n; i++)
        soonest = MIN_OF(soonest, clock_left_ms(a->v[i]->until_ms));
    return soonest;
}
