/* SPDX-License-Identifier: Apache-2.0 */
/* Parses options by a table. */
#include "base/opt.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"

enum { OPT_TABLE_MAX = 64, WORDS_MAX = 16, WORDS_TEXT_MAX = 500 };

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

static int help_wanted(const char *shown, struct err *err) {
    err_usage(err, "unknown option %s", shown);
    if (err)
        err->code = OPT_HELP;
    return OPT_HELP;
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

    if (!o && str_eq(word, "help"))
        return help_wanted("--help", err);
    if (!o)
        return unknown(it, word, len, err);
    snprintf(shown, sizeof shown, "--%s", o->name);
    it->opt = o;
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
        it->opt = o;
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
    return letter == 'h' ? help_wanted(shown, err) : err_usage(err, "unknown option %s (see --help)", shown);
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
    if (str_eq(word, "--")) {
        it->dashes = true;
        return 0;
    }
    if (word[1] == '-')
        return long_option(it, word + 2, err);
    it->cluster = word + 1;
    return short_option(it, err);
}

/* -- slots -------------------------------------------------------------------------------------------------------------- */

/* "--color is auto, always or never, not 'x'" */
static int not_a_word(const struct opt *o, const char *const *words, size_t n, const char *value, struct err *err) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(WORDS_TEXT_MAX), shown = BUF_INIT(WORDS_TEXT_MAX);
    char cut[41];

    for (size_t i = 0; i < n; i++)
        buf_addf(&all, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i]);
    snprintf(cut, sizeof cut, "%s", value);
    buf_add_printable(&shown, cut);
    return err_usage(err, "--%s is %s, not '%s'", o->name, buf_str(&all), buf_str(&shown));
}

static int store_enum(const struct opt *o, const char *value, int *to, struct err *err) {
    int found = str_index(value, o->slot.names, o->slot.n_names);
    const char *words[WORDS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < o->slot.n_names && n < WORDS_MAX; i++)
        if (o->slot.names[i])
            words[n++] = o->slot.names[i];
    if (found < 0)
        return not_a_word(o, words, n, value, err);
    *to = found;
    return 0;
}

/* The values of the row are "a|b|c". */
static int store_word(const struct opt *o, const char *value, const char **to, struct err *err) {
    char text[WORDS_TEXT_MAX], *rest = text;
    const char *words[WORDS_MAX];
    size_t n = 0;

    snprintf(text, sizeof text, "%s", o->values);
    for (char *word; n < WORDS_MAX && (word = strsep(&rest, "|"));) {
        words[n++] = word;
        if (str_eq(word, value)) {
            *to = value;
            return 0;
        }
    }
    return not_a_word(o, words, n, value, err);
}

static int parse_into(const struct opt *o, const char *value, uint64_t *to, struct err *err) {
    int r = o->slot.kind == OPT_KIND_SIZE   ? parse_size(value, to, err)
            : o->slot.kind == OPT_KIND_TIME ? parse_duration(value, to, err)
                                            : parse_u64(value, o->slot.min, o->slot.max, to, err);

    return r < 0 ? err_ctx(err, r, "--%s", o->name) : 0;
}

int opt_store(const struct opt_iter *it, void *whole, struct err *err) {
    const struct opt *o = it->opt;
    const char *value = it->value;
    void *to = (char *)whole + o->slot.offset;

    switch (o->slot.kind) {
    case OPT_KIND_NONE:
        break;
    case OPT_KIND_FLAG:
        *(bool *)to = true;
        return 0;
    case OPT_KIND_TEXT:
        *(const char **)to = value;
        return 0;
    case OPT_KIND_COPY:
        return str_set(to, value) < 0 ? err_oom(err) : 0;
    case OPT_KIND_WORD:
        return store_word(o, value, to, err);
    case OPT_KIND_ENUM:
        return store_enum(o, value, to, err);
    case OPT_KIND_NUMBER:
    case OPT_KIND_SIZE:
    case OPT_KIND_TIME:
        return parse_into(o, value, to, err);
    case OPT_KIND_LIST:
        return strv_add(to, value) < 0 ? err_oom(err) : 0;
    case OPT_KIND_CALL:
        return o->slot.call(o, value, to, err);
    }
    BUG("an option without a slot");
}

int opt_fill(struct opt_iter *it, void *to, struct err *err) {
    int r = 0;

    while (!it->dashes && (r = opt_next(it, err)) > 0 && it->opt->slot.kind != OPT_KIND_NONE) {
        r = opt_store(it, to, err);
        if (r < 0)
            return r;
    }
    return r;
}

/* The place of an operand in argv is always before the word that is read next. */
int opt_parse(const struct opt *opts, size_t n, int argc, char **argv, void *to, int max_words, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, n, argc, argv);
    int words = 0, r;

    while ((r = opt_fill(&it, to, err)) == 0 && it.pos < argc) {
        if (words == max_words)
            return err_usage(err, "unexpected argument '%.80s'", argv[it.pos]);
        argv[++words] = argv[it.pos++];
    }
    if (r > 0)
        BUG("an option without a slot");
    return r < 0 ? r : words;
}
