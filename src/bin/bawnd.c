/* SPDX-License-Identifier: Apache-2.0 */
/* bawnd: sandboxes as a service. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "service/core/core.h"

struct bawnd_args {
    const char *config, *listen;
    bool check, help, version;
};

static const struct opt opts[] = {
    {0, 0, "config", "FILE", "the configuration (default: /etc/bawn/bawnd.json, of a user ~/.config/bawn/bawnd.json)", "@file",
     OPT_TO_TEXT(struct bawnd_args, config)},
    {0, 0, "listen", "ADDRESS", "listen here if the configuration has no address, e.g. 127.0.0.1:7070; port 0: any that is free",
     NULL, OPT_TO_TEXT(struct bawnd_args, listen)},
    {0, 0, "check-config", NULL, "read the configuration, say what is wrong with it, and end", NULL,
     OPT_TO_FLAG(struct bawnd_args, check)},
    {0, 0, "version", NULL, "print the version", NULL, OPT_TO_FLAG(struct bawnd_args, version)},
    {0, 'h', "help", NULL, "show this help", NULL, OPT_TO_FLAG(struct bawnd_args, help)},
};

static void print_help(void) {
    printf("Usage: bawnd [options]\n\nRuns commands in sandboxes for programs and teams; see docs/service.md.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(opts); i++)
        printf("  %s--%s%s%s\n        %s\n", opts[i].letter == 'h' ? "-h, " : "", opts[i].name, opts[i].arg ? " " : "",
               opts[i].arg ? opts[i].arg : "", opts[i].help);
}

static int serve(struct core *c, struct err *err) {
    int r = core_log_open(c, err);

    r = r < 0 ? r : core_open(c, err);

    if (r >= 0)
        core_log(c, "info", "start", "", "bawnd %s listens at %s", BAWN_VERSION, c->conf.socket);
    r = r < 0 ? r : core_run(c, err);
    if (r >= 0)
        core_log(c, "info", "end", "", "%zu runs go on", c->n_running);
    return r;
}

int main(int argc, char **argv) {
    static struct core core; /* larger than a stack should carry */
    struct core *c = &core;
    struct bawnd_args a = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &a, 0, &err);

    if (r >= 0 && (a.help || a.version)) {
        if (a.help)
            print_help();
        else
            printf("bawnd %s\n", BAWN_VERSION);
        return 0;
    }
    r = r < 0 ? r : core_conf_load(a.config, &c->conf, &err);
    if (r >= 0 && a.listen && c->conf.listen.len == 0 && strv_add(&c->conf.listen, a.listen) < 0)
        r = err_oom(&err);
    if (r >= 0 && !a.check)
        r = serve(c, &err);
    if (r < 0)
        log_err(&err);
    return r < 0 ? err_exit_status(&err) : 0;
}
