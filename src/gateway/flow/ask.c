/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/flow/ask.h"

#include "gateway/epoll_set.h"
#include "gateway/gate_control.h"

struct ask {
    struct gate *gate;
    struct ask *next;
    uint32_t id;
    ask_fn *fn;
    void *arg;
    struct deadline deadline;
};

static void ask_unlink(struct ask *a) {
    struct gate *g = a->gate;

    for (struct ask **at = &g->asks; *at; at = &(*at)->next)
        if (*at == a) {
            *at = a->next;
            g->n_asks--;
            break;
        }
    deadline_done(&a->deadline);
    free(a);
}

static void ask_end(struct ask *a, enum gate_answer answer) {
    ask_fn *fn = a->fn;
    void *arg = a->arg;

    ask_unlink(a);
    fn(arg, answer);
}

static void say_cancel(struct ask *a) {
    gate_send(a->gate, &(struct gate_msg){.type = GATE_MSG_CANCEL, .id = a->id});
}

static void ask_late(void *arg) {
    say_cancel(arg);
    ask_end(arg, GATE_DENY);
}

struct ask *gate_ask(struct gate *g, const struct gate_msg *question, ask_fn *fn, void *arg) {
    uint32_t ms = g->config.ask_timeout_ms ? g->config.ask_timeout_ms : ASK_TIMEOUT_DEFAULT_MS;
    struct ask *a = g->n_asks < ASKS_MAX ? calloc(1, sizeof *a) : NULL;
    struct gate_msg m = *question;

    if (!a)
        return NULL;
    *a = (struct ask){.gate = g, .next = g->asks, .id = ++g->next_ask, .fn = fn, .arg = arg};
    if (deadline_set(&g->loop, &a->deadline, ms, ask_late, a) < 0) {
        free(a);
        return NULL;
    }
    g->asks = a;
    g->n_asks++;
    m.type = GATE_MSG_ASK;
    m.id = a->id;
    gate_send(g, &m);
    return a;
}

void gate_ask_cancel(struct ask *a) {
    say_cancel(a);
    ask_unlink(a);
}

void ask_answer(struct gate *g, uint32_t id, enum gate_answer answer) {
    for (struct ask *a = g->asks; a; a = a->next)
        if (a->id == id) {
            ask_end(a, answer);
            return;
        }
}

void ask_drop_all(struct gate *g) {
    while (g->asks)
        ask_unlink(g->asks);
}
