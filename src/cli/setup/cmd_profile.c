/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn profile ls`, `show`, `new` and `check`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/setup/profiles.h"

enum { OUTPUT_MAX = 16 * 1024 * 1024 };

static const struct opt new_opts[] = {
    {0, 0, "from", "BASE", "start from this profile (default: dev)", "@profile", {.kind = OPT_KIND_TEXT}},
};

static void add_json_profile(const struct profile_entry *e, const char *name, struct jsonout *j) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "name", name);
    jsonout_text(j, "source", e->source ? e->source : "");
    if (e->problem.code)
        jsonout_text(j, "error", e->problem.msg);
    else
        jsonout_open(j, "settings", '{');
    for (size_t i = 0; i < SETTING_COUNT && !e->problem.code; i++) {
        const struct field *f = &fields[i];

        if (!layer_has(&e->layer, f->id) || !(f->where & IN_PROFILE || f->id == SETTING_MOUNTS))
            continue;
        jsonout_key(j, f->id == SETTING_MOUNTS ? "mounts" : f->key);
        settings_add_value(&e->layer.values, f->id, j->to);
    }
    buf_adds(j->to, e->problem.code ? "}" : "}}");
}

static void add_cell(const struct profile_entry *e, enum setting id, int width, struct buf *b) {
    CLEANUP(buf_done) struct buf value = BUF_INIT(OUTPUT_MAX);

    if (layer_has(&e->layer, id))
        settings_add_text(&e->layer.values, id, &value);
    buf_addf(b, "%-*s ", width, value.len ? buf_str(&value) : "-");
}

static void add_profile_line(const struct profile_entry *e, const char *name, struct buf *b) {
    buf_addf(b, "%-16s ", name);
    if (e->problem.code) {
        buf_add_printable(b, e->problem.msg);
    } else {
        add_cell(e, SETTING_NETWORK, 8, b);
        add_cell(e, SETTING_SSH_AGENT, 9, b);
        add_cell(e, SETTING_CPUS, 5, b);
        add_cell(e, SETTING_MEMORY, 7, b);
        add_cell(e, SETTING_PIDS, 6, b);
        buf_add_printable(b, e->source);
    }
    buf_addc(b, '\n');
}

static int run_ls(struct verb_call *c, struct err *err) {
    CLEANUP(profiles_done) struct profiles p = {0};
    CLEANUP(strv_done) struct strv names = {0};
    struct buf *b = &c->out;
    struct jsonout j = {.to = b};
    bool json = false;
    int r = verb_parse(c, &json, 0, err);

    r = r < 0 ? r : profiles_open(&p, err);
    r = r < 0 ? r : profile_names(&p.place, &names, err);
    if (r < 0)
        return r;
    if (json)
        buf_addc(b, '[');
    else
        buf_addf(b, "%-16s %-8s %-9s %-5s %-7s %-6s %s\n", "NAME", "NETWORK", "SSH-AGENT", "CPUS", "MEMORY", "PIDS", "SOURCE");
    for (size_t i = 0; i < names.len; i++) {
        CLEANUP(profile_entry_done) struct profile_entry e = {0};

        profiles_load(&p, names.v[i], &e);
        if (json && i)
            jsonout_break(&j, "\n ");
        if (json)
            add_json_profile(&e, names.v[i], &j);
        else
            add_profile_line(&e, names.v[i], b);
    }
    buf_adds(b, json ? "]\n" : "");
    return 0;
}

static void add_profile(const struct profile_entry *e, struct buf *b) {
    buf_adds(b, "# ");
    buf_add_printable(b, e->source);
    buf_addc(b, '\n');
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        CLEANUP(buf_done) struct buf value = BUF_INIT(OUTPUT_MAX);

        if (!layer_has(&e->layer, (enum setting)i))
            continue;
        settings_add_text(&e->layer.values, (enum setting)i, &value);
        buf_addf(b, "%-26s ", setting_names[i]);
        buf_add_printable(b, buf_str(&value));
        buf_addc(b, '\n');
    }
}

static int run_show(struct verb_call *c, struct err *err) {
    CLEANUP(profile_entry_done) struct profile_entry e = {0};
    CLEANUP(profiles_done) struct profiles p = {0};
    struct jsonout j = {.to = &c->out};
    bool json = false;
    int r = verb_parse(c, &json, c->argc, err);

    if (r >= 0)
        r = r == 1 ? profiles_open(&p, err) : err_usage(err, "name one profile");
    if (r < 0)
        return r;
    profiles_load(&p, c->argv[1], &e);
    if (e.problem.code) {
        *err = e.problem;
        return err->code;
    }
    if (json) {
        add_json_profile(&e, c->argv[1], &j);
        buf_addc(&c->out, '\n');
    } else {
        add_profile(&e, &c->out);
    }
    return 0;
}

static int run_new(struct verb_call *c, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    const char *base = "dev";
    int r = verb_parse(c, &base, c->argc, err);

    if (r >= 0)
        r = r == 1 ? profiles_create(c->argv[1], base, &path, err) : err_usage(err, "name one profile");
    if (r >= 0)
        buf_addf(&c->out, "%s\n", path);
    return r < 0 ? r : 0;
}

static int run_check(struct verb_call *c, struct err *err) {
    int status = 0, n = verb_parse(c, NULL, c->argc, err);

    if (n == 0)
        n = err_usage(err, "name at least one file");
    for (int i = 1; i <= n; i++) {
        struct err bad = {0};

        if (profiles_check(c->argv[i], &bad) < 0) {
            log_err(&bad);
            status = EXIT_USAGE_ERR;
        } else {
            buf_addf(&c->out, "%s: good\n", c->argv[i]);
        }
    }
    return n < 0 ? n : status;
}

const struct verb verb_profile_ls = {
    .name = "profile ls",
    .summary = "list the profiles",
    .synopsis = "[--json]",
    .description = "Lists the built-in profiles and those in the user's folder, with the limits that each sets.",
    VERB_OPTS(verb_json_opts),
    .run = run_ls,
};

const struct verb verb_profile_show = {
    .name = "profile show",
    .summary = "show what a profile sets",
    .synopsis = "[--json] NAME",
    .description = "Shows the settings of one profile, given by its name, or by its path if that contains a '/'.",
    VERB_OPTS(verb_json_opts),
    .run = run_show,
};

const struct verb verb_profile_new = {
    .name = "profile new",
    .summary = "make a profile of your own",
    .synopsis = "NAME [--from BASE]",
    .description = "Copies a profile to a new name in the user's folder and prints the path of the new file, to be edited. An "
                   "existing profile is never overwritten.\n\n"
                   "    $EDITOR $(bawn profile new beefy --from dev)",
    VERB_OPTS(new_opts),
    .run = run_new,
};

const struct verb verb_profile_check = {
    .name = "profile check",
    .summary = "check profile files for mistakes",
    .synopsis = "FILE...",
    .description =
        "Reads each file as a profile and says, for each mistake, the line, the column and the key. The exit status is 64 "
        "if any file is bad.",
    .run = run_check,
};
