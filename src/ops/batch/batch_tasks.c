/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks from a file, one JSON object a line (spec/batch.schema.json), or from the list of --each. All are read before the first is started. */
#include "ops/batch/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonfile.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/file.h"
#include "registry/registry.h"

enum { LINES_MAX = 1024 * 1024 /* of a line and the number of those before it */, ENV_VARS_MAX = 1024 };

static void task_done(struct batch_task *t) {
    char *const texts[] = {t->name, t->profile, t->directory, t->timeout, t->agent, t->workspace};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    strv_done(&t->command);
    strv_done(&t->env);
    strv_done(&t->earlier);
    strv_done(&t->result.hosts);
    strv_done(&t->result.limits);
    buf_done(&t->report);
    closep(&t->link);
}

void batch_done(struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        task_done(&b->v[i]);
    free(b->v);
    strv_done(&b->words);
    freep(&b->folder);
    freep(&b->logs);
    closep(&b->logs_fd);
    closep(&b->lock);
    b->v = NULL;
    b->n = 0;
}

const struct batch_task *batch_find(const struct batch *b, const char *name) {
    for (size_t i = 0; i < b->n; i++)
        if (str_eq(b->v[i].name, name))
            return &b->v[i];
    return NULL;
}

static int check_name(const struct batch *b, const char *name, struct err *err) {
    const struct batch_task *other;
    int r = box_check_name(name, err);

    if (r < 0)
        return r;
    other = batch_find(b, name);
    if (other && other->line)
        return err_usage(err, "the task of line %u has the name '%s', too", other->line, name);
    return other ? err_usage(err, "two tasks have the name '%s'", name) : 0;
}

struct batch_task *batch_add(struct batch *b, const char *name, struct err *err) {
    struct batch_task *t;

    if (check_name(b, name, err) < 0)
        return NULL;
    if (b->n == BATCH_TASKS_MAX) {
        err_usage(err, "more than %d tasks", BATCH_TASKS_MAX);
        return NULL;
    }
    t = VEC_NEW(b->v, b->n);
    if (t)
        *t = (struct batch_task){.name = strdup(name), .link = -1, .report = BUF_INIT(BATCH_RESULT_MAX)};
    if (!t || !t->name) {
        b->n -= t != NULL;
        err_oom(err);
        return NULL;
    }
    return t;
}

static int check_text(const struct jsonwalk *w, const json_t *v, struct err *err) {
    if (!json_is_string(v) || json_string_length(v) != strlen(json_string_value(v)))
        return jsonwalk_wrong_type(w, v, "a string", err);
    if (json_string_length(v) > BATCH_WORD_MAX)
        return jsonwalk_fail(w, err, "longer than %d bytes, which no program can be given", BATCH_WORD_MAX);
    return 0;
}

static int read_text(const struct jsonwalk *w, const json_t *v, char **slot, struct err *err) {
    int r = check_text(w, v, err);

    if (r < 0)
        return r;
    if (!json_string_length(v))
        return jsonwalk_fail(w, err, "must not be empty");
    *slot = strdup(json_string_value(v));
    return *slot ? 0 : err_oom(err);
}

static int read_word(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct batch_task *t = arg;
    int r = check_text(w, v, err);

    if (r == 0 && !t->command.len && !json_string_length(v))
        return jsonwalk_fail(w, err, "the program has no name");
    return r < 0 ? r : strv_add(&t->command, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

/* A string is for the shell, a list is as it is. */
static int read_cmd(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct strv *command = &((struct batch_task *)arg)->command;
    int r = json_is_string(v) ? check_text(w, v, err) : 0;

    if (json_is_array(v))
        return jsonwalk_elements(w, v, BATCH_WORDS_MAX, read_word, arg, err);
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a list of strings, or a string for the shell", err);
    if (r == 0 && (strv_add(command, "sh") < 0 || strv_add(command, "-c") < 0 || strv_add(command, json_string_value(v)) < 0))
        r = err_oom(err);
    return r;
}

static int read_env(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct batch_task *t = arg;
    const char *key;
    json_t *item;

    if (!json_is_object(v))
        return jsonwalk_wrong_type(w, v, "an object of strings", err);
    if (json_object_size(v) > ENV_VARS_MAX)
        return jsonwalk_fail(w, err, "more than %d variables", ENV_VARS_MAX);
    json_object_foreach(v, key, item) {
        int r;

        jsonwalk_enter(w, key);
        r = check_text(w, item, err);
        if (r == 0 && (!key[0] || strchr(key, '=')))
            r = jsonwalk_fail(w, err, "no name for a variable");
        r = r < 0 ? r : strv_addf(&t->env, "%s=%s", key, json_string_value(item)) < 0 ? err_oom(err) : 0;
        if (r < 0)
            return r;
        jsonwalk_leave(w);
    }
    return 0;
}

static int read_name(struct jsonwalk *w UNUSED, json_t *v UNUSED, void *arg UNUSED, struct err *err UNUSED) {
    return 0; /* add_task() has it already */
}
static int read_profile(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return read_text(w, v, &((struct batch_task *)arg)->profile, err);
}
static int read_directory(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return read_text(w, v, &((struct batch_task *)arg)->directory, err);
}
static int read_agent(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return read_text(w, v, &((struct batch_task *)arg)->agent, err);
}

static int read_workspace(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct batch_task *t = arg;
    const char *near;
    int r = read_text(w, v, &t->workspace, err);

    if (r < 0 || str_index(t->workspace, workspace_mode_names, WORKSPACE_MODES) >= 0)
        return r;
    near = str_nearest(t->workspace, workspace_mode_names, WORKSPACE_MODES);
    return near ? jsonwalk_fail(w, err, "'%.60s' is no mode (did you mean '%s'?)", t->workspace, near)
                : jsonwalk_fail(w, err, "'%.60s' is no mode (one of: direct, overlay, sync, worktree, ro)", t->workspace);
}

static int read_timeout(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    struct batch_task *t = arg;
    uint64_t ms;
    int r = read_text(w, v, &t->timeout, err);

    return r < 0 ? r : jsonwalk_ctx(w, parse_duration(t->timeout, &ms, err), err);
}

static const struct jsonwalk_key keys[] = {
    {"name", read_name},
    {"cmd", read_cmd},
    {"env", read_env},
    {"profile", read_profile},
    {"workspace", read_workspace},
    {"directory", read_directory},
    {"timeout", read_timeout},
    {"agent", read_agent},
};

static int add_task(struct batch *b, const struct jsonfile *f, unsigned line, struct err *err) {
    struct jsonwalk w = {.file = f};
    json_t *name = json_object_get(f->root, "name");
    struct batch_task *t;
    int r = 0;

    if (!name)
        return jsonwalk_fail(&w, err, "the task has no \"name\"");
    jsonwalk_enter(&w, "name");
    r = check_text(&w, name, err);
    if (r < 0)
        return r;
    t = batch_add(b, json_string_value(name), err);
    if (!t)
        return jsonwalk_ctx(&w, err->code, err);
    jsonwalk_leave(&w);
    t->line = line;
    r = jsonwalk_members(&w, f->root, keys, ARRAY_LEN(keys), t, err);
    if (r < 0)
        return r;
    return t->command.len || t->agent ? 0 : jsonwalk_fail(&w, err, "the task has no \"cmd\", and no \"agent\"");
}

/* With as many empty lines in front as the file has, so that messages name the line of the file. */
static int parse_line(struct batch *b, struct buf *padded, const char *text, size_t len, unsigned line, struct err *err) {
    CLEANUP(jsonfile_done) struct jsonfile f = {0};
    size_t empty = padded->len;
    int r;

    if (text[strspn(text, " \t\r")] != '{')
        return err_usage(err, "%s:%u: a task is an object, { ... }", b->path, line);
    buf_add(padded, text, len);
    r = buf_ok(padded) ? jsonfile_parse(b->path, buf_str(padded), padded->len, LINES_MAX, &f, err)
                       : err_usage(err, "%s:%u: the line is too long, or the file has too many lines", b->path, line);
    r = r < 0 ? r : add_task(b, &f, line, err);
    padded->len = MIN_OF(empty, padded->len);
    return r;
}

int batch_parse(struct batch *b, const char *path, const char *text, size_t len, struct err *err) {
    CLEANUP(buf_done) struct buf padded = BUF_INIT(LINES_MAX);
    const char *end = text + len;
    int r = 0;

    b->path = path;
    for (unsigned line = 1; r >= 0 && text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text)), *from = text;
        size_t n = (size_t)((stop ? stop : end) - text);

        while (n && strchr(" \t\r", *from) && *from)
            from++, n--;
        if (n && *from != '#')
            r = parse_line(b, &padded, text, (size_t)((stop ? stop : end) - text), line, err);
        buf_addc(&padded, '\n');
        text = stop ? stop + 1 : end;
    }
    if (r >= 0 && !b->n)
        return err_usage(err, "%s: there is no task in it", path);
    return r < 0 ? r : 0;
}

/* Pipes are as good as files, so the descriptor blocks. */
static int read_text_file(const char *path, struct buf *ret, struct err *err) {
    CLEANUP(closep) int own = str_eq(path, "-") ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (own < 0 && !str_eq(path, "-")) {
        err_sys(err, -errno, "open '%s'", path);
        err->status = EXIT_USAGE_ERR;
        return err->code;
    }
    r = file_read_fd(own < 0 ? STDIN_FILENO : own, FILE_ANY, ret);
    if (r == -EFBIG)
        return err_usage(err, "'%s' is larger than %d bytes", path, BATCH_FILE_MAX);
    return r < 0 ? err_sys(err, r, "read '%s'", path) : 0;
}

int batch_read(struct batch *b, const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BATCH_FILE_MAX);
    int r = read_text_file(path, &text, err);

    return r < 0 ? r : batch_parse(b, str_eq(path, "-") ? "stdin" : path, buf_str(&text), text.len, err);
}

/* -- --each: one command, and what stands for {} in it -------------------------------------------------------------------- */

enum { NUMBER_LEN = 5 /* "-9999" */, STEM_MAX = BOX_NAME_MAX - NUMBER_LEN };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/* What can be a name (box_check_name()) stays; "src/a.c" is "src-a.c". */
static void stem_of(const char *item, char ret[static STEM_MAX + 1]) {
    size_t n = 0;

    item += strcspn(item, letters);
    for (; *item && n < STEM_MAX; item++) {
        char c = strchr(letters, *item) || strchr("_.", *item) ? *item : '-';

        if (c == '.' && n && ret[n - 1] == '.')
            c = '-';
        ret[n++] = c;
    }
    ret[n] = 0;
    if (str_ends(ret, ".") || str_ends(ret, ".lock"))
        *strrchr(ret, '.') = '-';
    if (!n)
        snprintf(ret, STEM_MAX + 1, "task");
}

/* Two items with the same letters get a number. */
static struct batch_task *add_named(struct batch *b, const char *item, struct err *err) {
    char stem[STEM_MAX + 1], name[BOX_NAME_MAX + 1];

    stem_of(item, stem);
    snprintf(name, sizeof name, "%s", stem);
    for (unsigned i = 2; batch_find(b, name) && i <= BATCH_TASKS_MAX; i++)
        snprintf(name, sizeof name, "%s-%u", stem, i % 10000);
    return batch_add(b, name, err);
}

static int add_replaced(struct strv *list, const char *word, const char *item, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BATCH_WORD_MAX);
    const char *hole;

    while ((hole = strstr(word, "{}"))) {
        buf_add(&text, word, (size_t)(hole - word));
        buf_adds(&text, item);
        word = hole + 2;
    }
    buf_adds(&text, word);
    if (!buf_ok(&text))
        return err_usage(err, "a word of the command is longer than %d bytes, which no program can be given", BATCH_WORD_MAX);
    return strv_add(list, buf_str(&text)) < 0 ? err_oom(err) : 0;
}

static int add_list_task(struct batch *b, const char *item, char **argv, size_t argc, struct err *err) {
    struct batch_task *t;
    int r = 0;

    if (!item[0])
        return err_usage(err, "--each has an empty word in its list");
    t = add_named(b, item, err);
    if (!t)
        return err->code;
    for (size_t i = 0; r == 0 && i < argc; i++)
        r = add_replaced(&t->command, argv[i], item, err);
    return r;
}

/* Empty lines of a file are left out; an empty word between commas is a slip. */
static int add_list_tasks(struct batch *b, char *list, char sep, char **argv, size_t argc, struct err *err) {
    int r = 0;

    for (char *next; list && r == 0; list = next) {
        next = strchr(list, sep);
        if (next)
            *next++ = 0;
        if (sep == '\n')
            list[strcspn(list, "\r")] = 0;
        if (*list || sep == ',')
            r = add_list_task(b, list, argv, argc, err);
    }
    return r;
}

int batch_expand(struct batch *b, const char *list, char **argv, size_t argc, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BATCH_FILE_MAX);
    bool lines = list[0] == '@' || str_eq(list, "-"), hole = false;
    int r = 0;

    for (size_t i = 0; i < argc; i++)
        hole |= strstr(argv[i], "{}") != NULL;
    if (!hole)
        return err_usage(err, "--each: no word of the command has {}, where each of the list goes");
    if (lines)
        r = read_text_file(list[0] == '@' ? list + 1 : list, &text, err);
    else
        buf_adds(&text, list);
    if (r < 0)
        return r;
    if (!buf_ok(&text))
        return err_oom(err);
    if (memchr(buf_str(&text), 0, text.len))
        return err_usage(err, "--each: there is a NUL byte in '%s'", list);
    r = add_list_tasks(b, text.data ? text.data : (char[]){""}, lines ? '\n' : ',', argv, argc, err);
    return r < 0 ? r : b->n ? 0 : err_usage(err, "--each: there is nothing in the list");
}
