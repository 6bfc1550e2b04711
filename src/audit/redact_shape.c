/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <strings.h>

#include "audit/redact.h"
#include "base/str.h"

enum { NAME_MAX_LEN = 64, RUN_MIN = 32, WINDOW = 40, DISTINCT_MIN = 18, DISTINCT_MIN_PATH = 24 };

/* -- names --------------------------------------------------------------------------------------------------------------- */

/* Letters in lower case, separators as '_'. */
static size_t normalise(const char *s, size_t n, char ret[static NAME_MAX_LEN + 1]) {
    size_t len = 0;

    for (size_t i = n > NAME_MAX_LEN ? n - NAME_MAX_LEN : 0; i < n; i++)
        ret[len++] = isalnum((unsigned char)s[i]) ? (char)tolower((unsigned char)s[i]) : '_';
    ret[len] = 0;
    return len;
}

static bool has_part(const char *name) {
    static const char *const parts[] = {"password", "passwd",     "passphrase", "secret",      "credential", "api_key",
                                        "apikey",   "access_key", "accesskey",  "private_key", "privatekey", "authorization"};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

/* The last word of the name: MYSQL_PWD, but not PWD; DB_PASS, but not bypass; access-token and accessToken, but not max_tokens.
 * */
static bool has_end(const char *name, size_t len) {
    static const struct {
        const char *word;
        bool alone, glued; /* may it be the whole name; may a letter stand before it */
    } ends[] = {
        {"token", true, true}, {"cookie", true, true}, {"pwd", false, false}, {"pass", true, false},
        {"key", true, false},  {"auth", true, false},  {"pat", false, false}, {"bearer", true, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i].word);

        if (len < n || strcmp(name + len - n, ends[i].word) != 0)
            continue;
        if (len == n ? ends[i].alone : ends[i].glued || name[len - n - 1] == '_')
            return true;
    }
    return false;
}

bool redact_is_name(const char *s, size_t n) {
    char name[NAME_MAX_LEN + 1];
    size_t len = normalise(s, n, name);

    return has_part(name) || has_end(name, len);
}

bool redact_plain_p(const char *program) {
    static const char *const names[] = {"mkdir",  "cp",     "install", "touch", "ssh",    "bash",   "sh",
                                        "dash",   "zsh",    "git",     "make",  "node",   "python", "cargo",
                                        "claude", "gemini", "grep",    "tar",   "docker", "podman"};
    const char *slash = strrchr(program, '/');

    program = slash ? slash + 1 : program;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(program, names[i]))
            return true;
    return false;
}

/* -- tokens -------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *prefix;
    size_t more; /* letters that follow at least */
} shapes[] = {
    {"ghp_", 8},  {"gho_", 8},     {"ghu_", 8},     {"ghs_", 8},     {"ghr_", 8},  {"github_pat_", 8}, {"glpat-", 8},
    {"sk-", 12},  {"sk_live_", 8}, {"sk_test_", 8}, {"rk_live_", 8}, {"xoxb-", 6}, {"xoxp-", 6},       {"xoxa-", 6},
    {"xoxs-", 6}, {"xoxr-", 6},    {"xapp-", 6},    {"AKIA", 12},    {"ASIA", 12}, {"eyJ", 12},        {"AIza", 20},
    {"npm_", 16}, {"pypi-", 16},   {"hf_", 16},     {"dop_v1_", 16}, {"SG.", 16},  {"ya29.", 8},       {"AGE-SECRET-KEY-", 8},
};

static bool in_token(char c) {
    return isalnum((unsigned char)c) || (c && strchr("-_.+/=~", c));
}

static size_t known_shape(const char *s, size_t n) {
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        size_t prefix = strlen(shapes[i].prefix), len = prefix;

        if (n <= prefix || strncmp(s, shapes[i].prefix, prefix) != 0)
            continue;
        while (len < n && in_token(s[len]))
            len++;
        if (len - prefix >= shapes[i].more)
            return len;
    }
    return 0;
}

static bool in_run(char c) {
    return isalnum((unsigned char)c) || (c && strchr("+/_-", c));
}

struct redact_run {
    size_t len, distinct;
    bool upper, lower, digit, separator, hex;
};

/* Letters as base64, base64url and hexadecimal numbers have them. */
static struct redact_run measure(const char *s, size_t n) {
    struct redact_run r = {.hex = true};
    bool seen[256] = {false};

    for (; r.len < n && in_run(s[r.len]); r.len++) {
        unsigned char c = (unsigned char)s[r.len];

        r.upper |= isupper(c) != 0;
        r.lower |= islower(c) != 0;
        r.digit |= isdigit(c) != 0;
        r.separator |= strchr("/_-", c) != NULL;
        r.hex &= isxdigit(c) != 0;
        if (r.len < WINDOW && !seen[c]) {
            seen[c] = true;
            r.distinct++;
        }
    }
    while (r.len < n && s[r.len] == '=')
        r.len++;
    return r;
}

/* Paths and names of packages are long, too: what has separators must have letters of every kind, and more different ones. */
static size_t random_run(const char *s, size_t n) {
    struct redact_run r = measure(s, n);

    if (r.len < RUN_MIN)
        return 0;
    if (r.hex)
        return r.len;
    if (r.distinct < DISTINCT_MIN || !r.digit || !(r.upper || r.lower))
        return 0;
    return !r.separator || (r.upper && r.lower && r.distinct >= DISTINCT_MIN_PATH) ? r.len : 0;
}

size_t redact_shape(const char *s, size_t at, size_t n) {
    size_t len = at == 0 || !isalnum((unsigned char)s[at - 1]) ? known_shape(s + at, n - at) : 0;

    /* Only where a run begins: its parts are no better, and looking at each would take for ever. */
    return len || (at && in_run(s[at - 1])) ? len : random_run(s + at, n - at);
}
