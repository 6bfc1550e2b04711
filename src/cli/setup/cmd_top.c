/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn top`. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/verb.h"
#include "engine/engine.h"

enum { INTERVAL_MS = 1000, INTERVAL_MS_MIN = 100, INTERVAL_MS_MAX = 60 * 1000 };

struct top_request {
    uint64_t interval_ms;
    bool json;
};

static int take_interval(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    uint64_t *ms = to;

    if (parse_duration(value, ms, err) < 0)
        return err_usage(err, "--interval '%.40s' is not a time such as 2s or 500ms", value);
    return *ms < INTERVAL_MS_MIN || *ms > INTERVAL_MS_MAX ? err_usage(err, "--interval is from 100ms to 60s") : 0;
}

static const struct opt opts[] = {
    {0, 'i', "interval", "TIME", "time between two refreshes (default: 1s)", NULL,
     OPT_TO_CALL(struct top_request, interval_ms, take_interval)},
    {0, 0, "json", NULL, "print one sample as JSON instead", NULL, OPT_TO_FLAG(struct top_request, json)},
};

/* ncurses is in a program of its own; returns only on failure. */
static int become_top(char *how, struct err *err) {
    char path[PATH_MAX], *argv[] = {"bawn-top", how, NULL};
    int fd = engine_helper("bawn-top", path, sizeof path);

    if (fd < 0)
        return err_sys(err, fd, "bawn-top, which belongs beside the bawn program or in ../libexec/bawn");
    close(fd);
    execve(path, argv, environ);
    return err_sys(err, -errno, "start '%s'", path);
}

static int run_top(struct verb_call *c, struct err *err) {
    struct top_request q = {.interval_ms = INTERVAL_MS};
    char how[24] = "--json";
    int words = verb_parse(c, &q, 1, err);

    if (words > 0)
        return err_usage(err, "'%.40s': bawn top takes no names", c->argv[1]);
    if (!q.json)
        snprintf(how, sizeof how, "%llu", (unsigned long long)q.interval_ms);
    return words < 0 ? words : become_top(how, err);
}

const struct verb verb_top = {
    .name = "top",
    .summary = "watch your sandboxes, and answer their questions",
    .synopsis = "[options]",
    .description =
        "A full screen of persistent sandboxes: state, CPU, memory and processes against their limits; below them questions about the network that "
        "wait for an answer, and the latest verdicts.\n\n"
        "Keys: arrows choose a sandbox, x twice stops it; c, m, n order by CPU, memory, name; tab chooses a question, and o (once), s (session), "
        "w (always) or d (deny) answers it; q quits.",
    VERB_OPTS(opts),
    .run = run_top,
};
