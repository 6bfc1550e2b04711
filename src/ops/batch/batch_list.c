/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of `bawn run --each`: one command, and what stands for {} in it. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/batch/batch.h"
#include "registry/registry.h"

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
        r = batch_read_text(list[0] == '@' ? list + 1 : list, &text, err);
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
