/* SPDX-License-Identifier: Apache-2.0 */
/* What the user adds to the arguments (SANDBOX_FLAGS): split as a shell does, and checked. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/container/container.h"

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

/* Options that are harmless whatever their value is. value: it has one, which may be the next word. */
static const struct {
    const char *name;
    bool value;
} harmless[] = {
    {"--cpu-shares", true},   {"-c", true},
    {"--cpuset-cpus", true},  {"--cpuset-mems", true},
    {"--label", true},        {"-l", true},
    {"--memory", true},       {"-m", true},
    {"--memory-swap", true},  {"--memory-swappiness", true},
    {"--name", true},         {"--pids-limit", true},
    {"--platform", true},     {"--shm-size", true},
    {"--stop-timeout", true}, {"--ulimit", true},
    {"--cpus", true},         {"--oom-score-adj", true},
    {"--runtime", true},      {"--cgroup-parent", true},
    {"--blkio-weight", true}, {"--cgroups", true},
    {"--log-level", true},    {"--annotation", true},
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

/* Returns how many words belong together. */
static int check_word(const struct strv *words, size_t at, const struct strv *allowed, struct err *err) {
    const char *word = words->v[at], *next = at + 1 < words->len ? words->v[at + 1] : NULL;
    int i = find_harmless(word);
    bool has_value = strchr(word, '=') != NULL;

    if (word[0] != '-')
        return err_set(err, -EINVAL, "SANDBOX_FLAGS: '%s' is no option", word);
    if (i < 0 && !is_allowed(word, next && next[0] != '-' ? next : NULL, allowed))
        return refuse(word, err);
    if (has_value || !next || next[0] == '-')
        return 1;
    return i < 0 || harmless[i].value ? 2 : 1;
}

int container_flags_parse(const char *text, const struct strv *allowed, struct strv *ret, struct err *err) {
    CLEANUP(strv_done) struct strv words = {0};
    int r;

    for (;;) {
        CLEANUP(buf_done) struct buf word = BUF_INIT(64 * 1024);

        r = split_word(&text, &word, err);
        if (r <= 0)
            break;
        if (strv_add(&words, buf_str(&word)) < 0)
            return err_oom(err);
    }
    for (size_t i = 0; r >= 0 && i < words.len; i += (size_t)MAX_OF(r, 0))
        r = check_word(&words, i, allowed, err);
    if (r < 0)
        return r;
    return strv_add_all(ret, &words) < 0 ? err_oom(err) : 0;
}

bool container_flags_runsc(const char *text) {
    const char *runtime = text ? strstr(text, "--runtime") : NULL;

    return runtime && strstr(runtime, "runsc");
}
