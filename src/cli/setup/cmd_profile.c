/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn profile ls`, `show`, `new` and `check`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/setup/profiles.h"

enum { OUTPUT_MAX = 16 * 1024 * 1024 };

struct profile_request {
    bool json;
    const char *base;
};

static const struct opt json_opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct profile_request, json)},
};
static const struct opt new_opts[] = {
    {0, 0, "from", "BASE", "start from this profile (default: dev)", "@profile", OPT_TO_TEXT(struct profile_request, base)},
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

static int list_profiles(bool json, struct buf *b, struct err *err) {
    CLEANUP(profiles_done) struct profiles p = {0};
    CLEANUP(strv_done) struct strv names = {0};
    struct jsonout j = {.to = b};
    int r = profiles_open(&p, err);

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

static int run_ls(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    struct profile_request q = {0};
    struct err err = {0};
    int r = opt_parse(json_opts, ARRAY_LEN(json_opts), argc, argv, &q, 0, &err);

    r = r < 0 ? r : list_profiles(q.json, &out, &err);
    return r < 0 ? verb_fail(self, &err) : run_print_result(self, &out, 0);
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

static int show_profile(const char *name, bool json, struct err *err) {
    CLEANUP(profile_entry_done) struct profile_entry e = {0};
    CLEANUP(profiles_done) struct profiles p = {0};
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    struct jsonout j = {.to = &out};
    int r = profiles_open(&p, err);

    if (r < 0)
        return r;
    profiles_load(&p, name, &e);
    if (e.problem.code) {
        *err = e.problem;
        return err->code;
    }
    if (json) {
        add_json_profile(&e, name, &j);
        buf_addc(&out, '\n');
    } else {
        add_profile(&e, &out);
    }
    return run_print_out(&out, err);
}

static int run_show(const struct verb *self, int argc, char **argv) {
    struct profile_request q = {0};
    struct err err = {0};
    int r = opt_parse(json_opts, ARRAY_LEN(json_opts), argc, argv, &q, argc, &err);

    if (r >= 0)
        r = r == 1 ? show_profile(argv[1], q.json, &err) : err_usage(&err, "name one profile");
    return r < 0 ? verb_fail(self, &err) : 0;
}

static int run_new(const struct verb *self, int argc, char **argv) {
    CLEANUP(freep) char *path = NULL;
    struct profile_request q = {.base = "dev"};
    struct err err = {0};
    int r = opt_parse(new_opts, ARRAY_LEN(new_opts), argc, argv, &q, argc, &err);

    if (r >= 0)
        r = r == 1 ? profiles_create(argv[1], q.base, &path, &err) : err_usage(&err, "name one profile");
    if (r < 0)
        return verb_fail(self, &err);
    printf("%s\n", path);
    return 0;
}

static int run_check(const struct verb *self, int argc, char **argv) {
    struct err err = {0};
    int status = 0, n = opt_parse(NULL, 0, argc, argv, NULL, argc, &err);

    if (n == 0)
        n = err_usage(&err, "name at least one file");
    if (n < 0)
        return verb_fail(self, &err);
    for (int i = 1; i <= n; i++) {
        err = (struct err){0};
        if (profiles_check(argv[i], &err) < 0) {
            log_err(&err);
            status = EXIT_USAGE_ERR;
        } else {
            printf("%s: good\n", argv[i]);
        }
    }
    return status;
}

const struct verb verb_profile_ls = {
    .name = "profile ls",
    .summary = "list the profiles",
    .synopsis = "[--json]",
    .description = "Lists the built-in profiles and those in the user's folder, with the limits that each sets.",
    .opts = json_opts,
    .n_opts = ARRAY_LEN(json_opts),
    .run = run_ls,
};

const struct verb verb_profile_show = {
    .name = "profile show",
    .summary = "show what a profile sets",
    .synopsis = "[--json] NAME",
    .description = "Shows the settings of one profile, given by its name, or by its path if that contains a '/'.",
    .opts = json_opts,
    .n_opts = ARRAY_LEN(json_opts),
    .run = run_show,
};

const struct verb verb_profile_new = {
    .name = "profile new",
    .summary = "make a profile of your own",
    .synopsis = "NAME [--from BASE]",
    .description = "Copies a profile to a new name in the user's folder and prints the path of the new file, to be edited. An "
                   "existing profile is never overwritten.\n\n"
                   "    $EDITOR $(bawn profile new beefy --from dev)",
    .opts = new_opts,
    .n_opts = ARRAY_LEN(new_opts),
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
