/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "config/load/profile.h"

enum { OPT_JSON = 1, OPT_FROM, OUTPUT_MAX = 16 * 1024 * 1024 };

static const struct opt json_opts[] = {
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};
static const struct opt new_opts[] = {
    {OPT_FROM, 0, "from", "BASE", "start from this profile (default: dev)", "@profile"},
};

/* The user's folder of profiles; *ret_home is owned by the caller and must outlive the place. */
static int open_place(struct profile_place *ret, char **ret_home, struct err *err) {
    int r = paths_home(environ, ret_home, err);

    ret->look_only = true;
    return r < 0 ? r : profile_place_init(ret, environ, *ret_home, err);
}

/* For verbs whose only option is --json. Returns the number of the first operand. */
static int read_json_option(int argc, char **argv, bool *ret_json, struct err *err) {
    struct opt_iter it = opt_iter_init(json_opts, ARRAY_LEN(json_opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0)
        *ret_json = true;
    return r < 0 ? r : it.pos;
}

static int print(const struct verb *self, struct buf *out) {
    struct err err = {0};

    if (!buf_ok(out)) {
        err_oom(&err);
        return verb_fail(self, &err);
    }
    fputs(buf_str(out), stdout);
    return 0;
}

/* One profile, for printing. A profile that is broken has its error instead of values. */
struct profile_entry {
    struct layer layer;
    char *source;
    struct err problem;
};

static void entry_done(struct profile_entry *e) {
    layer_done(&e->layer);
    free(e->source);
}

static void entry_load(struct profile_entry *e, const struct profile_place *place, const char *name) {
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r = profile_find(place, name, &d, &e->source, &e->problem);

    if (r == 0)
        r = file_read_profile(&d, place->home, name, &e->layer, &e->problem);
    if (r == 0)
        e->problem = (struct err){0};
}

static void add_values_json(const struct layer *l, struct buf *b) {
    bool first = true;

    buf_addc(b, '{');
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct field *f = &fields[i];

        if (!layer_has(l, f->id) || !(f->where & IN_PROFILE || f->id == SETTING_MOUNTS))
            continue;
        buf_addf(b, "%s\"%s\": ", first ? "" : ", ", f->id == SETTING_MOUNTS ? "mounts" : f->key);
        settings_add_value(&l->values, f->id, b);
        first = false;
    }
    buf_addc(b, '}');
}

static void add_entry_json(const struct profile_entry *e, const char *name, struct buf *b) {
    buf_adds(b, "{\"name\": ");
    buf_add_json(b, name);
    buf_adds(b, ", \"source\": ");
    buf_add_json(b, e->source ? e->source : "");
    if (e->problem.code) {
        buf_adds(b, ", \"error\": ");
        buf_add_json(b, e->problem.msg);
    } else {
        buf_adds(b, ", \"settings\": ");
        add_values_json(&e->layer, b);
    }
    buf_addc(b, '}');
}

static void add_cell(const struct profile_entry *e, enum setting id, int width, struct buf *b) {
    CLEANUP(buf_done) struct buf value = BUF_INIT(OUTPUT_MAX);

    if (layer_has(&e->layer, id))
        settings_add_text(&e->layer.values, id, &value);
    buf_addf(b, "%-*s ", width, value.len ? buf_str(&value) : "-");
}

static void add_row(const struct profile_entry *e, const char *name, struct buf *b) {
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

static int list(const struct profile_place *place, bool json, struct buf *b, struct err *err) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = profile_names(place, &names, err);

    if (r < 0)
        return r;
    if (json)
        buf_addc(b, '[');
    else
        buf_addf(b, "%-16s %-8s %-9s %-5s %-7s %-6s %s\n", "NAME", "NETWORK", "SSH-AGENT", "CPUS", "MEMORY", "PIDS", "SOURCE");
    for (size_t i = 0; i < names.len; i++) {
        CLEANUP(entry_done) struct profile_entry e = {0};

        entry_load(&e, place, names.v[i]);
        if (json && i)
            buf_adds(b, ",\n ");
        if (json)
            add_entry_json(&e, names.v[i], b);
        else
            add_row(&e, names.v[i], b);
    }
    buf_adds(b, json ? "]\n" : "");
    return 0;
}

static int run_ls(const struct verb *self, int argc, char **argv) {
    CLEANUP(profile_place_done) struct profile_place place = {0};
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    CLEANUP(freep) char *home = NULL;
    struct err err = {0};
    bool json = false;
    int first = read_json_option(argc, argv, &json, &err);

    if (first >= 0 && first < argc)
        first = err_usage(&err, "unexpected argument '%s'", argv[first]);
    if (first < 0 || open_place(&place, &home, &err) < 0 || list(&place, json, &out, &err) < 0)
        return verb_fail(self, &err);
    return print(self, &out);
}

static void add_text(const struct profile_entry *e, struct buf *b) {
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

static int run_show(const struct verb *self, int argc, char **argv) {
    CLEANUP(profile_place_done) struct profile_place place = {0};
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    CLEANUP(entry_done) struct profile_entry e = {0};
    CLEANUP(freep) char *home = NULL;
    struct err err = {0};
    bool json = false;
    int first = read_json_option(argc, argv, &json, &err);

    if (first >= 0 && argc - first != 1)
        first = err_usage(&err, "name one profile");
    if (first < 0 || open_place(&place, &home, &err) < 0)
        return verb_fail(self, &err);
    entry_load(&e, &place, argv[first]);
    if (e.problem.code)
        return verb_fail(self, &e.problem);
    if (json) {
        add_entry_json(&e, argv[first], &out);
        buf_addc(&out, '\n');
    } else {
        add_text(&e, &out);
    }
    return print(self, &out);
}

static int create(const char *name, const char *base, struct err *err) {
    CLEANUP(profile_place_done) struct profile_place place = {0};
    CLEANUP(freep) char *home = NULL, *source = NULL;
    CLEANUP(layer_done) struct layer check = {0};
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    char file[80];
    int r;

    if (!profile_name_is_good(name))
        return err_usage(err, "'%.80s' is not the name of a profile (letters, digits, '.', '_', '-'; at most 64)", name);
    r = open_place(&place, &home, err);
    if (r < 0)
        return r;
    if (!place.folder)
        return err_set(err, -ENOENT, "there is no home folder to keep profiles in");
    r = profile_find(&place, base, &d, &source, err);
    if (r == 0)
        r = file_read_profile(&d, home, base, &check, err);
    if (r == 0)
        r = paths_make_dirs(place.folder, err);
    if (r < 0)
        return r;
    snprintf(file, sizeof file, "%s.json", name);
    r = paths_publish(place.folder, file, d.data, d.len, PUBLISH_NEW, err);
    if (r == -EEXIST)
        return err_usage(err, "profile '%s' is already there (%s/%s)", name, place.folder, file);
    if (r == 0)
        printf("%s/%s\n", place.folder, file);
    return r;
}

static int run_new(const struct verb *self, int argc, char **argv) {
    struct opt_iter it = opt_iter_init(new_opts, ARRAY_LEN(new_opts), argc, argv);
    const char *base = "dev", *name = NULL;
    struct err err = {0};
    int r;

    for (;;) { /* options may follow the name: `profile new mine --from safe` */
        while ((r = opt_next(&it, &err)) > 0)
            base = it.value;
        if (r < 0 || it.pos >= argc || name)
            break;
        name = argv[it.pos++];
    }
    if (r == 0 && (!name || it.pos < argc))
        r = err_usage(&err, "name one profile");
    if (r == 0)
        r = create(name, base, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static int check_file(const char *path, struct err *err) {
    CLEANUP(layer_done) struct layer l = {0};
    CLEANUP(freep) char *home = NULL;
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r = paths_home(environ, &home, err);

    if (r < 0)
        return r;
    r = doc_read(path, &d, err);
    if (r == 0)
        return err_usage(err, "%s: there is no such file", path);
    return r < 0 ? r : file_read_profile(&d, home, path, &l, err);
}

static int run_check(const struct verb *self, int argc, char **argv) {
    struct opt_iter it = opt_iter_init(NULL, 0, argc, argv);
    struct err err = {0};
    int status = 0;

    if (opt_next(&it, &err) < 0)
        return verb_fail(self, &err);
    if (it.pos >= argc) {
        err_usage(&err, "name at least one file");
        return verb_fail(self, &err);
    }
    for (int i = it.pos; i < argc; i++) {
        err = (struct err){0};
        if (check_file(argv[i], &err) < 0) {
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
