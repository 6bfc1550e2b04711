/* SPDX-License-Identifier: Apache-2.0 */
/* Reads known_hosts, and collects names to try on its hashed lines. */
#include "broker/ssh/ssh_known.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/parse.h"
#include "base/str.h"

enum {
    KEY_MAX = 8 * 1024,
    KEY_TEXT_MAX = 4 * ((KEY_MAX + 2) / 3) + 1,
    NAME_MAX_ = HOST_TEXT_MAX + sizeof "[]:65535",
    SHA1_LEN = 20,
    HASH_TEXT_LEN = 28, /* 20 bytes as base64 */
    HASH_PREFIX = 3     /* "|1|" */
};

struct known_line {
    struct ssh_bytes marker, hosts, key;
};

static struct ssh_bytes next_word(const char **at) {
    const char *p = *at + strspn(*at, " \t\r");
    size_t n = strcspn(p, " \t\r\n");

    *at = p + n;
    return (struct ssh_bytes){(const uint8_t *)p, n};
}

/* false: the text is at its end. A line that says nothing has no key. */
static bool next_line(const char **text, struct known_line *ret) {
    const char *at = *text;
    struct ssh_bytes word;

    if (!*at)
        return false;
    *text = at + strcspn(at, "\n");
    *text += **text == '\n';
    *ret = (struct known_line){0};
    word = next_word(&at);
    if (!word.len || word.p[0] == '#')
        return true;
    if (word.p[0] == '@') {
        ret->marker = word;
        word = next_word(&at);
    }
    ret->hosts = word;
    next_word(&at); /* the kind of key, which the key says too */
    ret->key = next_word(&at);
    return true;
}

/* As text, without the padding that some leave out. */
static int key_text(struct ssh_bytes key, char out[static KEY_TEXT_MAX], size_t *ret) {
    if (!key.len || key.len > KEY_MAX)
        return -ENOENT;
    *ret = (size_t)EVP_EncodeBlock((unsigned char *)out, key.p, (int)key.len);
    while (*ret && out[*ret - 1] == '=')
        --*ret;
    return 0;
}

static bool is_key(struct ssh_bytes word, const char *text, size_t len) {
    while (word.len && word.p[word.len - 1] == '=')
        word.len--;
    return word.len == len && memcmp(word.p, text, len) == 0;
}

int ssh_known_find(const char *text, struct ssh_bytes key, struct ssh_known *ret) {
    char wanted[KEY_TEXT_MAX];
    struct ssh_known k = {.tries = SSH_KNOWN_TRIES_MAX};
    size_t len;
    struct known_line line;

    if (key_text(key, wanted, &len) < 0)
        return -ENOENT;
    while (next_line(&text, &line)) {
        if (!is_key(line.key, wanted, len) || ssh_is(line.marker, "@cert-authority"))
            continue;
        if (line.marker.len) /* @revoked, or one that is newer than this program */
            return -EKEYREVOKED;
        if (k.n == SSH_KNOWN_LINES_MAX)
            return -E2BIG;
        k.lines[k.n++] = line.hosts;
    }
    if (!k.n)
        return -ENOENT;
    *ret = k;
    return 0;
}

/* * and ?, without recursion: at a mismatch the last star takes one byte more. */
static bool glob_matches(struct ssh_bytes pattern, const char *name) {
    const char *retry = NULL;
    size_t p = 0, star = 0;

    while (*name) {
        if (p < pattern.len && pattern.p[p] == '*') {
            star = ++p;
            retry = name;
        } else if (p < pattern.len && (pattern.p[p] == '?' || tolower(pattern.p[p]) == *name)) {
            p++;
            name++;
        } else if (retry) {
            p = star;
            name = ++retry;
        } else
            return false;
    }
    while (p < pattern.len && pattern.p[p] == '*')
        p++;
    return p == pattern.len;
}

static bool next_pattern(struct ssh_bytes *list, struct ssh_bytes *ret) {
    const uint8_t *comma;

    if (!list->len)
        return false;
    comma = memchr(list->p, ',', list->len);
    ret->p = list->p;
    ret->len = comma ? (size_t)(comma - list->p) : list->len;
    list->p += ret->len + (comma != NULL);
    list->len -= ret->len + (comma != NULL);
    return true;
}

static bool list_matches(struct ssh_bytes list, const char *name) {
    struct ssh_bytes pattern;
    bool yes = false;

    while (next_pattern(&list, &pattern)) {
        bool negative = pattern.len && pattern.p[0] == '!';

        if (negative) {
            pattern.p++;
            pattern.len--;
        }
        if (!pattern.len || !glob_matches(pattern, name))
            continue;
        if (negative)
            return false;
        yes = true;
    }
    return yes;
}

/* "|1|" salt "|" hash: both 20 bytes as base64. */
static bool hash_matches(struct ssh_bytes hosts, const char *name) {
    uint8_t salt[SHA1_LEN + 2], hash[EVP_MAX_MD_SIZE];
    char text[HASH_TEXT_LEN + 1];
    unsigned len = 0;

    if (hosts.len != HASH_PREFIX + 2 * HASH_TEXT_LEN + 1 || memcmp(hosts.p, "|1|", HASH_PREFIX) != 0 ||
        hosts.p[HASH_PREFIX + HASH_TEXT_LEN] != '|')
        return false;
    if (EVP_DecodeBlock(salt, hosts.p + HASH_PREFIX, HASH_TEXT_LEN) != SHA1_LEN + 1)
        return false;
    if (!HMAC(EVP_sha1(), salt, SHA1_LEN, (const unsigned char *)name, strlen(name), hash, &len) || len != SHA1_LEN)
        return false;
    EVP_EncodeBlock((unsigned char *)text, hash, SHA1_LEN);
    return memcmp(text, hosts.p + HASH_PREFIX + HASH_TEXT_LEN + 1, HASH_TEXT_LEN) == 0;
}

bool ssh_known_has(struct ssh_known *k, const char *host, uint16_t port) {
    char name[NAME_MAX_];

    if (port == SSH_PORT)
        snprintf(name, sizeof name, "%s", host);
    else
        snprintf(name, sizeof name, "[%s]:%u", host, (unsigned)port);
    for (size_t i = 0; i < k->n; i++) {
        bool hashed = k->lines[i].len && k->lines[i].p[0] == '|';

        if (hashed && !k->tries)
            continue;
        k->tries -= hashed;
        if (hashed ? hash_matches(k->lines[i], name) : list_matches(k->lines[i], name))
            return true;
    }
    return false;
}

/* "host" or "[host]:port"; false: a pattern, or nothing that can be a host. */
static bool name_parse(struct ssh_bytes p, struct host *ret, uint16_t *ret_port) {
    const char *s = (const char *)p.p, *close;
    uint64_t port = SSH_PORT;
    size_t len = p.len;

    if (!len || len >= NAME_MAX_ || memchr(s, '*', len) || memchr(s, '?', len) || s[0] == '!' || s[0] == '|')
        return false;
    if (s[0] == '[') {
        char digits[sizeof "65535"];
        size_t n;

        close = memchr(s, ']', len);
        n = close ? len - (size_t)(close - s) : 0; /* "]:port" */
        if (n < 3 || n - 2 >= sizeof digits || close[1] != ':')
            return false;
        memcpy(digits, close + 2, n - 2);
        digits[n - 2] = 0;
        if (parse_u64(digits, 1, UINT16_MAX, &port, NULL) < 0)
            return false;
        s++;
        len = (size_t)(close - s);
    }
    *ret_port = (uint16_t)port;
    return host_parse(s, len, ret, NULL) == 0;
}

bool ssh_known_each(const char *text, ssh_name_fn *fn, void *arg) {
    struct ssh_bytes pattern;
    struct host host;
    struct known_line line;
    uint16_t port;

    while (next_line(&text, &line))
        while (next_pattern(&line.hosts, &pattern))
            if (name_parse(pattern, &host, &port) && fn(arg, &host, port))
                return true;
    return false;
}

/* Names to try ----------------------------------------------------------------------------------------------------- */

struct visit {
    ssh_name_fn *fn;
    void *arg;
    const struct rules *rules;
    const struct rule *rule; /* NULL: no ports but the usual ones */
};

static bool try_range(const struct visit *v, const struct host *host, const struct port_range *r) {
    uint32_t span = (uint32_t)(r->last - r->first), step = span >= SSH_NAMES_RANGE_MAX ? span : 1;

    for (uint32_t port = r->first; port <= r->last; port += step)
        if (port != SSH_PORT && v->fn(v->arg, host, (uint16_t)port))
            return true;
    return false;
}

static bool try_host(const struct visit *v, const struct host *host) {
    if (v->fn(v->arg, host, SSH_PORT))
        return true;
    for (size_t i = 0; v->rule && i < v->rule->n_ports; i++)
        if (try_range(v, host, &v->rule->ports[i]))
            return true;
    return false;
}

static bool try_pattern(const struct visit *v, const struct pattern *p) {
    struct host host;

    if (p->kind == PATTERN_CIDR && p->cidr.bits == 8 * p->cidr.addr.len)
        host_from_addr(&p->cidr.addr, &host);
    else if (p->kind != PATTERN_EXACT || host_parse(p->text, strlen(p->text), &host, NULL) < 0)
        return false;
    return try_host(v, &host);
}

static bool try_group(const struct visit *v, const struct group *groups, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; str_eq(groups[i].name, name) && k < groups[i].n; k++)
            if (try_pattern(v, &groups[i].hosts[k]))
                return true;
    return false;
}

static bool try_rule(const struct visit *v) {
    for (size_t i = 0; i < v->rule->n_hosts; i++) {
        const struct pattern *p = &v->rule->hosts[i];

        if (p->kind != PATTERN_GROUP && try_pattern(v, p))
            return true;
        if (p->kind == PATTERN_GROUP && (try_group(v, v->rules->groups, v->rules->n_groups, p->text) ||
                                         try_group(v, v->rules->builtin, v->rules->n_builtin, p->text)))
            return true;
    }
    return false;
}

static bool try_grants(const struct gate_config *c, ssh_name_fn *fn, void *arg) {
    struct visit v = {.fn = fn, .arg = arg};
    struct host host;
    uint16_t port;

    for (size_t i = 0; i < c->n_grants; i++)
        for (size_t k = 0; k < c->grants[i].c.hosts.len; k++) {
            const char *text = c->grants[i].c.hosts.v[k];

            if (host_parse_with_port(text, strlen(text), &host, &port, NULL) == 0 && try_host(&v, &host))
                return true;
        }
    return false;
}

bool ssh_names_each(const struct gate_config *c, const struct policy *p, ssh_name_fn *fn, void *arg) {
    if (ssh_known_each(c->known_hosts ? c->known_hosts : "", fn, arg) || try_grants(c, fn, arg))
        return true;
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; p->layers[l].present && i < p->layers[l].rules.len; i++)
            if (try_rule(&(struct visit){fn, arg, &p->layers[l].rules, &p->layers[l].rules.v[i]}))
                return true;
    return false;
}
