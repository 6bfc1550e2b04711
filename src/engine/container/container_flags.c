/* SPDX-License-Identifier: Apache-2.0 */
/* What the user adds to the arguments (SANDBOX_FLAGS): split as a shell does, and checked. */
#include <errno.h>
#include <limits.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/container/container.h"
#include "jail/plan/own.h"

/* One word of text at *p; NULL at the end. Quotes and backslashes as in a shell, nothing is expanded. */
static int split_word(const char **p, struct buf *word, struct err *err) {
    const char *s = *p + strspn(*p, " \t\n");
    char quote = 0;
    bool any = false;

    for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
        any = true;
        if (quote ? *s == quote : *s == '"' || *s == '\'')
            quote = quote ? 0 : *s;
        else if (*s == '\\' && quote != '\'' && s[1])
            buf_addc(word, *++s);
        else
            buf_addc(word, *s);
    }
    *p = s;
    return quote ? err_set(err, -EINVAL, "SANDBOX_FLAGS: a quote (%c) is not closed", quote) : any;
}

/* Options that are harmless, and all have a value, which may be the next word. Of some a value is not: check_value(). */
enum flag_kind {
    FLAG_PLAIN,
    FLAG_LIMIT, /* one that Bawn sets, too: the last one counts, so what it set is not believed */
    FLAG_LABEL,
    FLAG_RUNTIME
};
static const struct {
    const char *name;
    enum flag_kind kind;
} harmless[] = {
    {"--cpu-shares", FLAG_PLAIN},    {"-c", FLAG_PLAIN},
    {"--cpuset-cpus", FLAG_PLAIN},   {"--cpuset-mems", FLAG_PLAIN},
    {"--label", FLAG_LABEL},         {"-l", FLAG_LABEL},
    {"--memory", FLAG_LIMIT},        {"-m", FLAG_LIMIT},
    {"--memory-swap", FLAG_LIMIT},   {"--memory-swappiness", FLAG_PLAIN},
    {"--name", FLAG_PLAIN},          {"--pids-limit", FLAG_LIMIT},
    {"--platform", FLAG_PLAIN},      {"--shm-size", FLAG_PLAIN},
    {"--stop-timeout", FLAG_PLAIN},  {"--ulimit", FLAG_PLAIN},
    {"--cpus", FLAG_LIMIT},          {"--runtime", FLAG_RUNTIME},
    {"--cgroup-parent", FLAG_PLAIN}, {"--blkio-weight", FLAG_PLAIN},
    {"--cgroups", FLAG_LIMIT},       {"--log-level", FLAG_PLAIN},
};

/* Why the others that people use are not. */
static const struct {
    const char *name, *why;
} loosening[] = {
    {"--privileged", "it takes the wall away"},
    {"--network", "the gate would be passed by"},
    {"--net", "the gate would be passed by"},
    {"--cap-add", "the command would have a capability"},
    {"--pid", "processes of the host could be seen"},
    {"--ipc", "memory of the host could be reached"},
    {"--uts", "the name of the host could be changed"},
    {"--userns", "it decides who the command is on the host"},
    {"--user", "it decides who the command is on the host"},
    {"-u", "it decides who the command is on the host"},
    {"--device", "a device of the host could be used"},
    {"--gpus", "a device of the host could be used"},
    {"--volume", "a folder of the host could be reached; use --mount of bawn, which checks it"},
    {"-v", "a folder of the host could be reached; use --mount of bawn, which checks it"},
    {"--mount", "a folder of the host could be reached; use --mount of bawn, which checks it"},
    {"--volumes-from", "folders of another container could be reached"},
    {"--security-opt", "it can take the system call filter and the labels away"},
    {"--annotation", "it can take the system call filter away, and have the runtime load a library or write a file of the host"},
    {"--oom-score-adj", "programs of the host would be ended in the place of the command's"},
    {"--publish", "use --publish of bawn"},
    {"-p", "use --publish of bawn"},
    {"--env", "use --env of bawn"},
    {"-e", "use --env of bawn"},
};

static bool is_option(const char *word, const char *name) {
    size_t len = strlen(name);

    return strncmp(word, name, len) == 0 && (word[len] == 0 || word[len] == '=');
}

static int find_harmless(const char *word) {
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        if (is_option(word, harmless[i].name))
            return (int)i;
    return -1;
}

/* The user's own configuration may allow one by its name, with or without its value. */
static bool is_allowed(const char *word, const char *next, const struct strv *allowed) {
    CLEANUP(freep) char *both = next ? str_dupf("%s=%s", word, next) : NULL;

    for (size_t i = 0; allowed && i < allowed->len; i++)
        if (is_option(word, allowed->v[i]) || str_eq(word, allowed->v[i]) || (both && str_eq(both, allowed->v[i])))
            return true;
    return false;
}

static int refuse(const char *word, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(loosening); i++)
        if (is_option(word, loosening[i].name))
            return err_set(err, -EPERM,
                           "SANDBOX_FLAGS: '%s' is refused: %s (\"engine_flags\" in your own configuration can allow it)", word,
                           loosening[i].why);
    return err_set(err, -EPERM,
                   "SANDBOX_FLAGS: '%s' is not known to be harmless (\"engine_flags\" in your own configuration can "
                   "allow it)",
                   word);
}

/* The engine would execute it. */
static bool is_of_workspace(const char *program, const char *workspace) {
    CLEANUP(freep) char *real = strchr(program, '/') ? realpath(program, NULL) : NULL;

    return workspace && (path_holds(workspace, program) || path_holds(workspace, real));
}

static int check_value(enum flag_kind kind, const char *value, const char *workspace, struct err *err) {
    if (kind == FLAG_LABEL && str_starts(value, CONTAINER_LABEL_OURS))
        return err_set(err, -EPERM,
                       "SANDBOX_FLAGS: label '%s' is refused: by labels of this name Bawn finds what a killed run left", value);
    if (kind == FLAG_RUNTIME && is_of_workspace(value, workspace))
        return err_set(err, -EPERM, "SANDBOX_FLAGS: runtime '%s' is refused: it is a program of the workspace's", value);
    return 0;
}

/* Returns how many words belong together. */
static int check_word(const struct strv *words, size_t at, const struct container_flags_rules *rules, struct err *err) {
    const char *word = words->v[at], *next = at + 1 < words->len && words->v[at + 1][0] != '-' ? words->v[at + 1] : NULL;
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : next;
    int i = find_harmless(word), r = 0;

    if (word[0] != '-')
        return err_set(err, -EINVAL, "SANDBOX_FLAGS: '%s' is no option", word);
    if (i < 0 && !is_allowed(word, next, rules->allowed))
        return refuse(word, err);
    if (i >= 0 && !value) /* else the engine would take what follows, which is Bawn's */
        return err_set(err, -EINVAL, "SANDBOX_FLAGS: '%s' has no value; write '%s=VALUE'", word, word);
    if (i >= 0)
        r = check_value(harmless[i].kind, value, rules->workspace, err);
    return r < 0 ? r : equals || !next ? 1 : 2;
}

static int split_words(const char *text, struct strv *ret, struct err *err) {
    for (;;) {
        CLEANUP(buf_done) struct buf word = BUF_INIT(64 * 1024);
        int r = split_word(&text, &word, err);

        if (r <= 0)
            return r;
        if (strv_add(ret, buf_str(&word)) < 0)
            return err_oom(err);
    }
}

int container_flags_parse(const char *text, const struct container_flags_rules *rules, struct strv *ret, struct err *err) {
    CLEANUP(strv_done) struct strv words = {0};
    int r = split_words(text, &words, err);

    for (size_t i = 0; r >= 0 && i < words.len; i += (size_t)MAX_OF(r, 0))
        r = check_word(&words, i, rules, err);
    if (r < 0)
        return r;
    return strv_add_all(ret, &words) < 0 ? err_oom(err) : 0;
}

bool container_flags_limit(const struct strv *flags) {
    for (size_t i = 0; i < flags->len; i++) {
        int k = find_harmless(flags->v[i]);

        if (k >= 0 && harmless[k].kind == FLAG_LIMIT)
            return true;
    }
    return false;
}

bool container_flags_runsc(const char *text) {
    CLEANUP(strv_done) struct strv words = {0};
    struct err ignored = {0};
    const char *value = NULL;

    if (!text || split_words(text, &words, &ignored) < 0)
        return false;
    for (size_t i = 0; i < words.len; i++)
        if (is_option(words.v[i], "--runtime"))
            value = strchr(words.v[i], '=') ? strchr(words.v[i], '=') + 1 : i + 1 < words.len ? words.v[i + 1] : NULL;
    if (value && strrchr(value, '/'))
        value = strrchr(value, '/') + 1;
    return value && strstr(value, "runsc");
}
