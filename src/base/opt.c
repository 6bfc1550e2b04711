/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt.h"

#include "base/err.h"
#include "base/str.h"

enum { OPT_TABLE_MAX = 64 };

struct opt_iter opt_iter_init(const struct opt *opts, size_t n, int argc, char **argv) {
    return (struct opt_iter){.opts = opts, .n = n, .argc = argc, .argv = argv, .pos = argc > 0 ? 1 : 0};
}

static bool optional_arg(const struct opt *o) {
    return o->arg && o->arg[0] == '[';
}

static const struct opt *find_long(const struct opt_iter *it, const char *name, size_t len) {
    for (size_t i = 0; i < it->n; i++)
        if (it->opts[i].name && strlen(it->opts[i].name) == len && strncmp(it->opts[i].name, name, len) == 0)
            return &it->opts[i];
    return NULL;
}

static int unknown(const struct opt_iter *it, const char *word, size_t len, struct err *err) {
    const char *names[OPT_TABLE_MAX];
    char typed[64];
    const char *near;
    size_t n = 0;

    for (size_t i = 0; i < it->n && n < OPT_TABLE_MAX; i++)
        if (it->opts[i].name)
            names[n++] = it->opts[i].name;
    snprintf(typed, sizeof typed, "%.*s", (int)MIN_OF(len, sizeof typed - 1), word);
    near = str_nearest(typed, names, n);
    if (near)
        return err_usage(err, "unknown option --%s (did you mean --%s?)", typed, near);
    return err_usage(err, "unknown option --%s (see --help)", typed);
}

static int take_next_word(struct opt_iter *it, const char *shown, struct err *err) {
    if (it->pos >= it->argc)
        return err_usage(err, "option %s needs an argument", shown);
    it->value = it->argv[it->pos++];
    return 1;
}

static int long_option(struct opt_iter *it, const char *word, struct err *err) {
    const char *eq = strchr(word, '=');
    size_t len = eq ? (size_t)(eq - word) : strlen(word);
    const struct opt *o = find_long(it, word, len);
    char shown[64];

    if (!o)
        return unknown(it, word, len, err);
    snprintf(shown, sizeof shown, "--%s", o->name);
    it->id = o->id;
    it->value = eq ? eq + 1 : NULL;
    if (!o->arg && eq)
        return err_usage(err, "option %s takes no argument", shown);
    if (!o->arg || eq || optional_arg(o))
        return 1;
    return take_next_word(it, shown, err);
}

static int short_option(struct opt_iter *it, struct err *err) {
    char letter = *it->cluster++;
    char shown[3] = {'-', letter, 0};

    for (size_t i = 0; i < it->n; i++) {
        const struct opt *o = &it->opts[i];

        if (o->letter != letter)
            continue;
        it->id = o->id;
        it->value = NULL;
        if (!o->arg || optional_arg(o))
            return 1;
        if (*it->cluster) {
            it->value = it->cluster;
            it->cluster = "";
            return 1;
        }
        return take_next_word(it, shown, err);
    }
    return err_usage(err, "unknown option %s (see --help)", shown);
}

int opt_next(struct opt_iter *it, struct err *err) {
    const char *word;

    if (it->cluster && *it->cluster)
        return short_option(it, err);
    if (it->pos >= it->argc)
        return 0;
    word = it->argv[it->pos];
    if (word[0] != '-' || word[1] == 0)
        return 0;
    it->pos++;
    if (str_eq(word, "--"))
        return 0;
    if (word[1] == '-')
        return long_option(it, word + 2, err);
    it->cluster = word + 1;
    return short_option(it, err);
}
