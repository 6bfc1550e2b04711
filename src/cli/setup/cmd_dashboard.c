/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn dashboard`. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "base/strv.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/setup/service_link.h"
#include "os/process.h"
#include "os/spawn.h"

struct dashboard_line {
    const char *socket;
    bool open, json;
};

static const struct opt opts[] = {
    {0, 0, "open", NULL, "open the link in a browser (xdg-open) instead of printing it", NULL,
     OPT_TO_FLAG(struct dashboard_line, open)},
    {0, 0, "socket", "FILE", "the service's socket (default: your own service, then /run/bawn/api.sock)", "@file",
     OPT_TO_TEXT(struct dashboard_line, socket)},
    {0, 0, "json", NULL, "print the link as JSON", NULL, OPT_TO_FLAG(struct dashboard_line, json)},
};

static int open_browser(const char *url, struct err *err) {
    char *argv[] = {"xdg-open", (char *)(uintptr_t)url, NULL};
    CLEANUP(freep) char *program = paths_program(environ, NULL, argv[0]);
    CLEANUP(strv_done) struct strv env = {0};
    struct spawn s = {.path = program, .argv = argv, .group = SPAWN_SESSION, .outlives = true};
    int status = program ? paths_environ(environ, NULL, &env) : -ENOENT;

    s.envp = env.v;
    status = status < 0 ? status : spawn_run(&s);

    if (status < 0)
        return err_sys(err, status, "start xdg-open; without --open the link is printed");
    return process_exit_status(status) == 0 ? 0 : err_set(err, -EIO, "xdg-open failed; without --open the link is printed");
}

static int show_link(struct verb_call *c, const struct dashboard_line *l, const struct service_link *link, struct err *err) {
    struct jsonout j = {.to = &c->out, .compact = true};

    if (l->open)
        return open_browser(link->url, err);
    if (l->json) {
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "url", link->url);
        jsonout_text(&j, "expires", link->expires);
        jsonout_close(&j, '}');
        buf_addc(&c->out, '\n');
    } else
        buf_addf(&c->out, "%s\n", link->url);
    return verb_print(&c->out, err);
}

static int run_dashboard(struct verb_call *c, struct err *err) {
    struct dashboard_line l = {0};
    struct service_link link = {0};
    pid_t service = 0;
    int r = verb_parse(c, &l, 0, err);

    r = r < 0 ? r : service_link_get(l.socket, &link, err);
    if (r == -ECONNREFUSED && l.socket)
        return err_set(err, r, "no service answers at '%s'", l.socket);
    if (r == -ECONNREFUSED)
        r = service_start(&link, &service, err);
    r = r < 0 ? r : show_link(c, &l, &link, err);
    if (r < 0)
        return r;
    notice_say(&verb_notice, "the link works once, within two minutes%s",
               service ? "; the service was started for it and ends with ^C" : "");
    if (!service)
        return 0;
    signal(SIGINT, SIG_IGN); /* the service gets it too, and ends in order */
    r = process_wait(service);
    return r < 0 ? err_sys(err, r, "wait for bawnd") : process_exit_status(r);
}

const struct verb verb_dashboard = {
    .name = "dashboard",
    .summary = "a link to the dashboard of the service",
    .synopsis = "[options]",
    .description =
        "Prints a link that opens the dashboard in a browser: sandboxes, runs, questions about the network, changes to review, the audit log. "
        "The link works once, within two minutes; the browser then has a session of twelve hours, in a cookie that no script can read.\n\n"
        "If no service is running one is started, at an address of this machine only, until you end it with ^C. A service that is running must "
        "have an address (\"listen\" in bawnd.json).",
    VERB_OPTS(opts),
    .run = run_dashboard,
};
