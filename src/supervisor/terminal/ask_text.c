/* SPDX-License-Identifier: Apache-2.0 */
/* A question of the gate as text, and as JSON. */
#include "supervisor/terminal/ask_text.h"

#include <inttypes.h>

#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "policy/rules/rule.h"

static void add_target(const struct gate_msg *q, struct buf *out) {
    buf_add_printable(out, q->host[0] ? q->host : "(no name)");
    if (q->port)
        buf_addf(out, ":%" PRIu32, q->port);
}

static void add_why(const struct gate_msg *q, struct buf *out) {
    if (q->type == GATE_MSG_OPEN) {
        buf_adds(out, "a program in the sandbox wants you to log in to ");
        buf_add_printable(out, q->secret);
        return;
    }
    if (q->type == GATE_MSG_REQUEST) {
        buf_adds(out, "an agent asks for it: ");
        buf_add_printable(out, q->pattern);
        return;
    }
    if (!q->rule[0]) {
        buf_adds(out, "no rule names this host");
        return;
    }
    buf_adds(out, "rule ");
    buf_add_printable(out, q->rule);
    buf_adds(out, " of the ");
    buf_add_printable(out, q->layer);
    buf_adds(out, "'s rules says: ask");
}

/* What a yes does, in words: the page looks like every other login of that service. */
static void login_screen(const struct gate_msg *q, const char *time, struct buf *out) {
    buf_adds(out, "bawn: the sandbox wants you to log in to ");
    buf_add_printable(out, q->secret);
    buf_adds(out, ". A page of this host opens in your browser:\r\n\r\n    ");
    add_target(q, out);
    buf_adds(out, "\r\n\r\nThe tokens go into your store, in place of those that it has, and not into the sandbox.\r\n");
    buf_addf(out, "o log in   d no, as after %s\r\n", time);
}

/* The words of an agent, which wants a yes: they are marked as such, and what it asks for follows on a line of its own. */
static void request_screen(const struct gate_msg *q, const char *time, struct buf *out) {
    buf_adds(out, "bawn: an agent asks for more than the sandbox has. Its words: \"");
    buf_add_printable(out, q->pattern);
    buf_adds(out, "\"\r\n\r\n    ");
    buf_add_printable(out, q->method);
    buf_addc(out, ' ');
    buf_add_printable(out, q->path);
    buf_addf(out, "\r\n\r\no once   s until this run ends   a always   d no, as after %s\r\n", time);
}

/* Short, with the host near the keys: it must stay in sight on a terminal of few lines. */
void ask_text_screen(const struct gate_msg *q, uint64_t timeout_ms, struct buf *out) {
    enum { PATH_SHOWN = 200 };
    char time[24], path[PATH_SHOWN + 4];

    format_duration(timeout_ms, time);
    if (q->type == GATE_MSG_OPEN) {
        login_screen(q, time, out);
        return;
    }
    if (q->type == GATE_MSG_REQUEST) {
        request_screen(q, time, out);
        return;
    }
    buf_adds(out, "bawn: the sandbox wants to reach a host. Why you are asked: ");
    add_why(q, out);
    buf_adds(out, ".\r\n\r\n    ");
    add_target(q, out);
    if (str_eq(q->host, HOST_OF_THE_MACHINE))
        buf_adds(out, "   (this machine itself)");
    if (q->method[0]) {
        snprintf(path, sizeof path, "%.*s%s", PATH_SHOWN, q->path, strlen(q->path) > PATH_SHOWN ? "..." : "");
        buf_adds(out, "\r\n    ");
        buf_add_printable(out, q->method);
        buf_addc(out, ' ');
        buf_add_printable(out, path);
    }
    buf_addf(out, "\r\n\r\no once   s until this run ends   a always (a rule in your network.json)   d no, as after %s\r\n",
             time);
}

void ask_text_line(const struct gate_msg *q, struct buf *out) {
    if (q->type == GATE_MSG_OPEN) {
        buf_adds(out, "bawn: log in to ");
        buf_add_printable(out, q->secret);
        buf_adds(out, " at ");
        add_target(q, out);
        buf_adds(out, "? o log in, d no");
        return;
    }
    if (q->type == GATE_MSG_REQUEST) {
        buf_adds(out, "bawn: grant the ");
        buf_add_printable(out, q->method);
        buf_addc(out, ' ');
        buf_add_printable(out, q->path);
        buf_adds(out, "? o once, s this run, a always, d no");
        return;
    }
    buf_adds(out, "bawn: let it reach ");
    add_target(q, out);
    buf_adds(out, "? o once, s this run, a always, d no");
}

void ask_text_json(const struct gate_msg *q, uint32_t number, size_t waiting, uint64_t seconds, struct buf *out) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(ASK_TEXT_MAX);
    struct jsonout j = {.to = out, .compact = true};

    add_why(q, &why);
    jsonout_open(&j, NULL, '{');
    jsonout_u64(&j, "id", number);
    jsonout_text(&j, "host", q->host);
    jsonout_u64(&j, "port", q->port);
    jsonout_text(&j, "method", q->method);
    jsonout_text(&j, "path", q->path);
    jsonout_text(&j, "rule", q->rule);
    jsonout_text(&j, "layer", q->layer);
    jsonout_text(&j, "reason", buf_str(&why));
    if (q->type == GATE_MSG_OPEN)
        jsonout_text(&j, "login", q->secret);
    if (q->type == GATE_MSG_REQUEST)
        jsonout_text(&j, "request", q->method);
    jsonout_u64(&j, "waiting", waiting);
    jsonout_u64(&j, "seconds", seconds);
    jsonout_close(&j, '}');
}
