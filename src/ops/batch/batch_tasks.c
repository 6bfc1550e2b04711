/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks from a file: one JSON object a line (spec/batch.schema.json). All of them are read before the first is started. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/fields/doc.h"
#include "ops/batch/batch.h"
#include "os/fd.h"
#include "registry/registry.h"

enum { READ_STEP = 64 * 1024, ENV_VARS_MAX = 1024 };

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
    b->n = b->cap = 0;
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
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 64;
        void *v = reallocarray(b->v, cap, sizeof *b->v);

        if (!v) {
            err_oom(err);
            return NULL;
        }
        b->v = v;
        b->cap = cap;
    }
    t = &b->v[b->n];
    *t = (struct batch_task){.name = strdup(name), .link = -1, .report = BUF_INIT(BATCH_RESULT_MAX)};
    if (!t->name) {
        err_oom(err);
        return NULL;
    }
    b->n++;
    return t;
}

typedef int take_fn(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err);

static int check_text(struct jsonwalk *rd, const json_t *v, const char *what, struct err *err) {
    if (!json_is_string(v) || json_string_length(v) != strlen(json_string_value(v)))
        return jsonwalk_wrong_type(rd, v, what, err);
    if (json_string_length(v) > BATCH_WORD_MAX)
        return jsonwalk_fail(rd, err, "longer than %d bytes, which no program can be given", BATCH_WORD_MAX);
    return 0;
}

static int take_text(char **slot, struct jsonwalk *rd, const json_t *v, struct err *err) {
    int r = check_text(rd, v, "a string", err);

    if (r < 0)
        return r;
    if (!json_string_length(v))
        return jsonwalk_fail(rd, err, "must not be empty");
    *slot = strdup(json_string_value(v));
    return *slot ? 0 : err_oom(err);
}

/* A string is for the shell, a list is as it is. */
static int take_cmd(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    size_t i;
    json_t *item;
    int r = 0;

    if (json_is_string(v)) {
        r = check_text(rd, v, "a string", err);
        if (r == 0 && (strv_add(&t->command, "sh") < 0 || strv_add(&t->command, "-c") < 0 ||
                       strv_add(&t->command, json_string_value(v)) < 0))
            r = err_oom(err);
        return r;
    }
    if (!json_is_array(v))
        return jsonwalk_wrong_type(rd, v, "a list of strings, or a string for the shell", err);
    if (json_array_size(v) > BATCH_WORDS_MAX)
        return jsonwalk_fail(rd, err, "more than %d words", BATCH_WORDS_MAX);
    json_array_foreach(v, i, item) {
        jsonwalk_enter_index(rd, i);
        r = check_text(rd, item, "a string", err);
        if (r == 0 && i == 0 && !json_string_length(item))
            r = jsonwalk_fail(rd, err, "the program has no name");
        r = r < 0 ? r : strv_add(&t->command, json_string_value(item)) < 0 ? err_oom(err) : 0;
        if (r < 0)
            return r;
        jsonwalk_leave(rd);
    }
    return 0;
}

static int take_env(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    const char *key;
    json_t *item;

    if (!json_is_object(v))
        return jsonwalk_wrong_type(rd, v, "an object of strings", err);
    if (json_object_size(v) > ENV_VARS_MAX)
        return jsonwalk_fail(rd, err, "more than %d variables", ENV_VARS_MAX);
    json_object_foreach(v, key, item) {
        int r;

        jsonwalk_enter(rd, key);
        r = check_text(rd, item, "a string", err);
        if (r == 0 && (!key[0] || strchr(key, '=')))
            r = jsonwalk_fail(rd, err, "no name for a variable");
        r = r < 0 ? r : strv_addf(&t->env, "%s=%s", key, json_string_value(item)) < 0 ? err_oom(err) : 0;
        if (r < 0)
            return r;
        jsonwalk_leave(rd);
    }
    return 0;
}

static int take_name(struct batch_task *t UNUSED, struct jsonwalk *rd UNUSED, json_t *v UNUSED, struct err *err UNUSED) {
    return 0; /* add_task() has it already */
}
static int take_profile(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    return take_text(&t->profile, rd, v, err);
}
static int take_workspace(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    const char *near;
    int r = take_text(&t->workspace, rd, v, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < WORKSPACE_MODES; i++)
        if (str_eq(t->workspace, workspace_mode_names[i]))
            return 0;
    near = str_nearest(t->workspace, workspace_mode_names, WORKSPACE_MODES);
    return near ? jsonwalk_fail(rd, err, "'%.60s' is no mode (did you mean '%s'?)", t->workspace, near)
                : jsonwalk_fail(rd, err, "'%.60s' is no mode (one of: direct, overlay, sync, worktree, ro)", t->workspace);
}
static int take_directory(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    return take_text(&t->directory, rd, v, err);
}
static int take_timeout(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    uint64_t ms;
    int r = take_text(&t->timeout, rd, v, err);

    return r < 0 ? r : jsonwalk_ctx(rd, parse_duration(t->timeout, &ms, err), err);
}
static int take_agent(struct batch_task *t, struct jsonwalk *rd, json_t *v, struct err *err) {
    return take_text(&t->agent, rd, v, err);
}

static const struct {
    const char *key;
    take_fn *take;
} keys[] = {
    {"name", take_name},
    {"cmd", take_cmd},
    {"env", take_env},
    {"profile", take_profile},
    {"workspace", take_workspace},
    {"directory", take_directory},
    {"timeout", take_timeout},
    {"agent", take_agent},
};
static const char known[] = "name, cmd, env, profile, workspace, directory, timeout, agent";

static int take_key(struct batch_task *t, struct jsonwalk *rd, const char *key, json_t *v, struct err *err) {
    const char *names[ARRAY_LEN(keys)];

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        names[i] = keys[i].key;
        if (str_eq(key, keys[i].key))
            return keys[i].take(t, rd, v, err);
    }
    return jsonwalk_unknown_key(rd, str_nearest(key, names, ARRAY_LEN(keys)), known, err);
}

static int add_task(struct batch *b, struct jsonwalk *rd, unsigned line, struct err *err) {
    json_t *name = json_object_get(rd->file->root, "name"), *v;
    struct batch_task *t;
    const char *key;
    int r = 0;

    if (!name)
        return jsonwalk_fail(rd, err, "the task has no \"name\"");
    jsonwalk_enter(rd, "name");
    r = check_text(rd, name, "a string", err);
    if (r < 0)
        return r;
    t = batch_add(b, json_string_value(name), err);
    if (!t)
        return jsonwalk_ctx(rd, err->code, err);
    jsonwalk_leave(rd);
    t->line = line;
    json_object_foreach(rd->file->root, key, v) {
        jsonwalk_enter(rd, key);
        r = take_key(t, rd, key, v, err);
        if (r < 0)
            return r;
        jsonwalk_leave(rd);
    }
    return t->command.len || t->agent ? 0 : jsonwalk_fail(rd, err, "the task has no \"cmd\", and no \"agent\"");
}

/* With as many empty lines in front as the file has, so that messages name the line of the file. */
static int parse_line(struct batch *b, struct buf *padded, const char *text, size_t len, unsigned line, struct err *err) {
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    size_t empty = padded->len;
    int r;

    if (text[strspn(text, " \t\r")] != '{')
        return err_usage(err, "%s:%u: a task is an object, { ... }", b->path, line);
    buf_add(padded, text, len);
    r = buf_ok(padded) ? jsonfile_parse(b->path, buf_str(padded), padded->len, DOC_SIZE_MAX, &d, err)
                       : err_usage(err, "%s:%u: the line is too long, or the file has too many lines", b->path, line);
    if (r >= 0) {
        struct jsonwalk rd = {.file = &d};

        r = add_task(b, &rd, line, err);
    }
    padded->len = MIN_OF(empty, padded->len);
    return r;
}

int batch_parse(struct batch *b, const char *path, const char *text, size_t len, struct err *err) {
    CLEANUP(buf_done) struct buf padded = BUF_INIT(DOC_SIZE_MAX);
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

int batch_read_text(const char *path, struct buf *ret, struct err *err) {
    CLEANUP(closep) int own = str_eq(path, "-") ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(freep) char *part = malloc(READ_STEP);
    int fd = str_eq(path, "-") ? STDIN_FILENO : own;
    ssize_t n = 1;

    if (!part)
        return err_oom(err);
    if (fd < 0) {
        err_sys(err, -errno, "open '%s'", path);
        err->status = EXIT_USAGE_ERR;
        return err->code;
    }
    while (n > 0 && buf_ok(ret)) {
        n = fd_read_some(fd, part, READ_STEP);
        if (n > 0)
            buf_add(ret, part, (size_t)n);
    }
    if (n < 0)
        return err_sys(err, (int)n, "read '%s'", path);
    return buf_ok(ret) ? 0 : err_usage(err, "'%s' is larger than %d bytes", path, BATCH_FILE_MAX);
}

int batch_read(struct batch *b, const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BATCH_FILE_MAX);
    int r = batch_read_text(path, &text, err);

    return r < 0 ? r : batch_parse(b, str_eq(path, "-") ? "stdin" : path, buf_str(&text), text.len, err);
}
