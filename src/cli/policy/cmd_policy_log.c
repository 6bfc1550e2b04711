/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn policy log`. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/log_time.h"
#include "cli/verb.h"
#include "ops/policy/policy_log.h"

struct policy_log_request {
    struct policy_log_filter filter;
    bool json;
};
static_assert(sizeof(((struct policy_log_filter *)0)->since) == LOG_TIME_SIZE, "log_time_take() fills it");

#define TO(kind, member) OPT_TO_##kind(struct policy_log_request, member)
static const struct opt opts[] = {
    {0, 'f', "follow", NULL, "go on with what is added", NULL, TO(FLAG, filter.follow)},
    {0, 0, "denied", NULL, "only what was denied", NULL, TO(FLAG, filter.denied)},
    {0, 0, "host", "HOST", "only this host", NULL, TO(TEXT, filter.host)},
    {0, 0, "sandbox", "NAME", "only this sandbox", NULL, TO(TEXT, filter.sandbox)},
    {0, 0, "since", "TIME", "only what is newer: 10m, 2h, or 2026-01-31T12:00", NULL,
     OPT_TO_CALL(struct policy_log_request, filter.since, log_time_take)},
    {0, 'n', "lines", "N", "only the last N", NULL,
     OPT_TO_NUMBER(struct policy_log_request, filter.lines, 1, POLICY_LOG_LINES_MAX)},
    {0, 0, "json", NULL, "print the lines as they are in the log", NULL, TO(FLAG, json)},
};

static long long event_number(const json_t *v, const char *key) {
    return json_get_int(v, key, 0);
}

static void add_part(struct buf *b, const char *before, const char *text) {
    if (!text[0])
        return;
    buf_adds(b, before);
    buf_add_printable(b, text);
}

/* "2026-01-31T12:00:00.123Z box deny request example.com:443 POST /x credential api BAWN_NET_DENIED_METHOD rule 'r' (user)" */
static void add_event(const json_t *v, struct buf *b) {
    bool end = str_eq(json_get_text(v, "kind"), "end");

    buf_add_printable(b, json_get_text(v, "time"));
    add_part(b, " ", json_get_text(v, "sandbox"));
    if (!end)
        add_part(b, " ", json_get_text(v, "action"));
    add_part(b, " ", json_get_text(v, "kind"));
    add_part(b, " ", json_get_text(v, "host"));
    if (event_number(v, "port"))
        buf_addf(b, ":%lld", event_number(v, "port"));
    add_part(b, " ", json_get_text(v, "method"));
    add_part(b, " ", json_get_text(v, "path"));
    add_part(b, " credential ", json_get_text(v, "secret"));
    if (event_number(v, "status"))
        buf_addf(b, " status %lld", event_number(v, "status"));
    add_part(b, " -> ", json_get_text(v, "address"));
    if (end || event_number(v, "sent") || event_number(v, "received"))
        buf_addf(b, " sent %lld received %lld in %lld ms", event_number(v, "sent"), event_number(v, "received"),
                 event_number(v, "ms"));
    if (!end && !str_eq(json_get_text(v, "action"), "allow"))
        add_part(b, " ", json_get_text(v, "code"));
    if (!end && json_get_text(v, "rule")[0]) {
        add_part(b, " rule '", json_get_text(v, "rule"));
        add_part(b, "' (", json_get_text(v, "layer"));
        buf_addc(b, ')');
    }
    if (event_number(v, "count") > 1) {
        buf_addf(b, " %lld times since ", event_number(v, "count"));
        buf_add_printable(b, json_get_text(v, "first"));
    }
    buf_addc(b, '\n');
}

static int print_event(const json_t *event, void *arg, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(8 * POLICY_LOG_LINE_MAX);
    const struct policy_log_request *q = arg;

    if (q->json) {
        CLEANUP(freep) char *text = json_dumps(event, JSON_ENSURE_ASCII); /* no control bytes reach the terminal */

        buf_adds(&out, text ? text : "");
        buf_addc(&out, '\n');
    } else {
        add_event(event, &out);
    }
    if (!buf_ok(&out))
        return err_oom(err);
    if (fwrite(buf_str(&out), 1, out.len, stdout) != out.len || (q->filter.follow && fflush(stdout) != 0))
        return err_sys(err, -errno, "write the result");
    return 0;
}

static int run_policy_log(const struct verb *self, int argc, char **argv) {
    struct policy_log_request q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 0, &err);

    r = r < 0 ? r : policy_log_read(&q.filter, print_event, &q, &err);
    if (r == 0 && fflush(stdout) != 0)
        r = err_sys(&err, -errno, "write the result");
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Shows what your sandboxes asked the network for, and the verdicts: $XDG_STATE_HOME/bawn/log/network.jsonl, one JSON object "
    "on each line. Times are UTC.\n\n"
    "    bawn policy log --denied --since 1h\n"
    "    bawn policy log -f\n"
    "    bawn policy log --json | jq -r 'select(.action == \"deny\") | .host' | sort | uniq -c";

const struct verb verb_policy_log = {
    .name = "policy log",
    .summary = "show what sandboxes asked the network for",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_policy_log,
};
