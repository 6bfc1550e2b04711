/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/verb.h"
#include "engine/engine.h"

enum { OPT_JSON = 1, OPT_INTERVAL, INTERVAL_MS_MIN = 100, INTERVAL_MS_MAX = 60 * 1000 };

static const struct opt opts[] = {
    {OPT_INTERVAL, 'i', "interval", "TIME", "time between two refreshes (default: 1s)", NULL},
    {OPT_JSON, 0, "json", NULL, "print one sample as JSON instead", NULL},
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

static int take_interval(const char *text, char ret[static 24], struct err *err) {
    uint64_t ms;
    int r = parse_duration(text, &ms, err);

    if (r < 0)
        return err_usage(err, "--interval '%.40s' is no time such as 2s or 500ms", text);
    if (ms < INTERVAL_MS_MIN || ms > INTERVAL_MS_MAX)
        return err_usage(err, "--interval is from 100ms to 60s");
    snprintf(ret, 24, "%llu", (unsigned long long)ms);
    return 0;
}

static int run_top(const struct verb *self, int argc, char **argv) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    char interval[24] = "1000", json[] = "--json";
    struct err err = {0};
    bool as_json = false;
    int r;

    while ((r = opt_next(&it, &err)) > 0) {
        as_json |= it.id == OPT_JSON;
        if (it.id == OPT_INTERVAL && (r = take_interval(it.value, interval, &err)) < 0)
            break;
    }
    if (r == 0 && it.pos < argc)
        r = err_usage(&err, "'%.40s': bawn top takes no names", argv[it.pos]);
    if (r == 0)
        become_top(as_json ? json : interval, &err);
    return verb_fail(self, &err);
}

const struct verb verb_top = {
    .name = "top",
    .summary = "watch your sandboxes, and answer their questions",
    .synopsis = "[options]",
    .description =
        "A full screen of kept sandboxes: state, CPU, memory and processes against their limits; below them questions about the network that "
        "wait for an answer, and the latest verdicts.\n\n"
        "Keys: arrows choose a sandbox, x twice stops it; c, m, n order by CPU, memory, name; tab chooses a question, and o (once), s (session), "
        "w (always) or d (deny) answers it; q quits.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_top,
};
