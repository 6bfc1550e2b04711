/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses which parts of arguments are secret. */
#include "audit/redact.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

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
        bool alone, glued; /* may it be the whole name; may a letter come before it */
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

/* A name, without dashes in front, of something that is secret. */
static bool is_secret_name(const char *s, size_t n) {
    char name[NAME_MAX_LEN + 1];
    size_t len = normalise(s, n, name);

    return has_part(name) || has_end(name, len);
}

/* -p of this program takes something that is not secret (mkdir -p). */
static bool has_plain_p(const char *program) {
    static const char *const names[] = {"mkdir",  "cp",     "install", "touch", "ssh",    "bash",   "sh",
                                        "dash",   "zsh",    "git",     "make",  "node",   "python", "cargo",
                                        "claude", "gemini", "grep",    "tar",   "docker", "podman"};
    const char *slash = strrchr(program, '/');

    return str_index(slash ? slash + 1 : program, names, ARRAY_LEN(names)) >= 0;
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

/* Length of a token that begins at s[at] of a word of n letters; 0: none does. */
static size_t token_len(const char *s, size_t at, size_t n) {
    size_t len = at == 0 || !isalnum((unsigned char)s[at - 1]) ? known_shape(s + at, n - at) : 0;

    /* Only where a run begins: its parts are no better, and looking at each would take for ever. */
    return len || (at && in_run(s[at - 1])) ? len : random_run(s + at, n - at);
}

/* -- words ---------------------------------------------------------------------------------------------------------------- */

/* What the next word is. */
enum next { NEXT_ANY, NEXT_VALUE, NEXT_USER /* user:password */ };

struct redact_scan {
    struct buf *out;
    enum next next;
};

static bool word_is(const char *s, size_t n, const char *const *words, size_t n_words) {
    for (size_t i = 0; i < n_words; i++)
        if (strlen(words[i]) == n && strncasecmp(s, words[i], n) == 0)
            return true;
    return false;
}

static bool is_user_option(const char *s, size_t n) {
    static const char *const words[] = {"-u", "--user", "--proxy-user", "-U"};

    return word_is(s, n, words, ARRAY_LEN(words));
}

/* "Authorization: Bearer x": the value follows. */
static bool is_scheme(const char *s, size_t n) {
    static const char *const words[] = {"bearer", "basic", "token", "digest", ":", "="};

    return word_is(s, n, words, ARRAY_LEN(words));
}

static bool is_option(const char *s, size_t n) {
    size_t dashes = n && s[0] == '-' ? (n > 1 && s[1] == '-' ? 2u : 1u) : 0;

    return dashes && is_secret_name(s + dashes, n - dashes);
}

static void add_plain(struct buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t len = token_len(s, i, n);

        if (len)
            buf_adds(out, REDACTED);
        else
            buf_addc(out, s[i]);
        i += len ? len : 1;
    }
}

/* The name that ends at `end`: TOKEN of "https://x/?TOKEN". */
static size_t name_before(const char *s, size_t end) {
    size_t n = 0;

    while (n < end && (isalnum((unsigned char)s[end - n - 1]) || strchr("_-.", s[end - n - 1])))
        n++;
    while (n && s[end - n] == '-')
        n--;
    return n;
}

/* Where a value begins: after the first '=' or ':' with a secret's name before it. 0: nowhere. */
static size_t find_value(const char *s, size_t n) {
    for (size_t i = 1; i < n; i++) {
        size_t name = s[i] == '=' || s[i] == ':' ? name_before(s, i) : 0;

        if (name && is_secret_name(s + i - name, name))
            return i + 1;
    }
    return 0;
}

/* "https://user:secret@host": from where to where. git@ of ssh is no secret. */
static bool find_user(const char *s, size_t n, size_t *ret_from, size_t *ret_len) {
    const char *scheme = memmem(s, n, "://", 3), *end, *at = NULL;

    if (!scheme)
        return false;
    for (end = scheme + 3; end < s + n && *end != '/' && *end != '?' && *end != '#'; end++)
        if (*end == '@')
            at = end;
    if (!at || (s[0] != 'h' && !memchr(scheme + 3, ':', (size_t)(at - scheme) - 3)))
        return false;
    *ret_from = (size_t)(scheme - s) + 3;
    *ret_len = (size_t)(at - scheme) - 3;
    return true;
}

static void add_word(struct redact_scan *c, const char *s, size_t n) {
    size_t from, len, value = find_value(s, n);
    const char *colon = c->next == NEXT_USER ? memchr(s, ':', n) : NULL;

    if (c->next == NEXT_VALUE && is_scheme(s, n)) {
        buf_add(c->out, s, n);
        return;
    }
    if (c->next == NEXT_VALUE && strncmp(s, "--", 2) != 0) {
        buf_adds(c->out, REDACTED);
        c->next = NEXT_ANY;
        return;
    }
    c->next = NEXT_ANY;
    if (colon || value) {
        size_t keep = colon ? (size_t)(colon - s) + 1 : value;

        buf_add(c->out, s, keep);
        if (keep < n)
            buf_adds(c->out, REDACTED);
        else
            c->next = NEXT_VALUE;
    } else if (find_user(s, n, &from, &len)) {
        buf_add(c->out, s, from);
        buf_adds(c->out, REDACTED);
        add_plain(c->out, s + from + len, n - from - len);
    } else {
        add_plain(c->out, s, n);
        c->next = is_option(s, n) ? NEXT_VALUE : is_user_option(s, n) ? NEXT_USER : NEXT_ANY;
    }
}

/* A value in quotes, up to the quote that ends it. Returns how much of s it was. */
static size_t add_quoted(struct redact_scan *c, const char *s) {
    const char *end = strchr(s + 1, s[0]);

    buf_addc(c->out, s[0]);
    buf_adds(c->out, REDACTED);
    c->next = NEXT_ANY;
    return end ? (size_t)(end - s) : strlen(s);
}

static void add_redacted(struct redact_scan *c, const char *s) {
    while (*s) {
        size_t n = strcspn(s, " \t\n\v\f\r\"'`;|&()<>,{}[]\\");

        /* "password": "x", as JSON has it: the quote that ends the name, and the colon. */
        if (n && (s[n] == '"' || s[n] == '\'') && s[n + 1] == ':' && is_secret_name(s, n)) {
            buf_add(c->out, s, n + 2);
            s += n + 2;
            c->next = NEXT_VALUE;
        } else if (n) {
            add_word(c, s, n);
            s += n;
        } else if (c->next == NEXT_VALUE && (*s == '"' || *s == '\'')) {
            s += add_quoted(c, s);
            if (*s)
                buf_addc(c->out, *s++);
        } else {
            if (!isspace((unsigned char)*s) && *s != '\\' && *s != '"' && *s != '\'')
                c->next = NEXT_ANY;
            buf_addc(c->out, *s++);
        }
    }
}

static enum next next_of(char *const *argv, size_t i) {
    const char *before = i ? argv[i - 1] : "";

    if (str_eq(before, "-p"))
        return has_plain_p(argv[0]) ? NEXT_ANY : NEXT_VALUE;
    if (is_option(before, strlen(before)) && !strpbrk(before, "= "))
        return NEXT_VALUE;
    return is_user_option(before, strlen(before)) ? NEXT_USER : NEXT_ANY;
}

/* mysql -pSECRET */
static bool is_glued(char *const *argv, size_t i) {
    return i && argv[i][0] == '-' && argv[i][1] == 'p' && argv[i][2] &&
           (strstr(argv[0], "mysql") || strstr(argv[0], "mariadb") || strstr(argv[0], "sshpass"));
}

char *redact_argument(char *const *argv, size_t i) {
    CLEANUP(freep) char *look = strndup(argv[i], REDACT_LOOK_MAX);
    CLEANUP(buf_done) struct buf out = BUF_INIT(REDACT_LOOK_MAX * (sizeof REDACTED + 1));
    struct redact_scan c = {.out = &out, .next = next_of(argv, i)};

    if (!look)
        return NULL;
    if ((strstr(look, "-----BEGIN ") && strstr(look, "PRIVATE KEY")) || /* a key in PEM is many words */
        (c.next == NEXT_VALUE && strncmp(look, "--", 2) != 0))
        buf_adds(&out, REDACTED);
    else if (is_glued(argv, i))
        buf_adds(&out, "-p" REDACTED);
    else
        add_redacted(&c, look);
    return buf_take(&out);
}
