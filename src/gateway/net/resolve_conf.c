/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net/resolve_conf.h"

#include <errno.h>

#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"

enum { DNS_PORT = 53, WORD_MAX = 255, TIMEOUT_DEFAULT_S = 5, ATTEMPTS_DEFAULT = 2 };

struct resolve_hosts_entry {
    char *name;
    struct addr addr;
    size_t line;
};

/* Moves to the next line of a text: what is in it up to a comment. False at the end. */
static bool next_line(const char **at, const char **ret_line, size_t *ret_len) {
    size_t whole = strcspn(*at, "\n");

    if (**at == 0)
        return false;
    *ret_line = *at;
    *ret_len = strcspn(*at, "#;\n");
    *at += whole + ((*at)[whole] == '\n');
    return true;
}

/* The next word of a line, as a string; one that is too long for any use comes back empty. False at the end of the line. */
static bool next_word(const char **line, size_t *len, char ret[static WORD_MAX + 1]) {
    size_t n = 0;

    while (*len && strchr(" \t\r\f\v", **line))
        (*line)++, (*len)--;
    while (n < *len && !strchr(" \t\r\f\v", (*line)[n]))
        n++;
    if (n == 0)
        return false;
    memcpy(ret, *line, n <= WORD_MAX ? n : 0);
    ret[n <= WORD_MAX ? n : 0] = 0;
    *line += n;
    *len -= n;
    return true;
}

/* "192.0.2.1", "2001:db8::1", "[192.0.2.1]:5353", "[::1]:5353" */
static bool read_server(const char *word, struct resolve_server *ret) {
    const char *close = word[0] == '[' ? strchr(word, ']') : NULL, *start = close ? word + 1 : word;
    size_t len = close ? (size_t)(close - start) : strlen(word);
    struct resolve_server s = {.port = DNS_PORT};
    uint64_t port;

    if (close && close[1]) {
        if (close[1] != ':' || parse_u64(close + 2, 1, 65535, &port, NULL) < 0)
            return false;
        s.port = (uint16_t)port;
    }
    if (addr_parse(start, len, &s.addr) < 0)
        return false;
    *ret = s;
    return true;
}

static void read_option(const char *word, const char *name, unsigned max, unsigned *ret) {
    uint64_t v;

    if (str_starts(word, name) && parse_u64(word + strlen(name), 1, UINT32_MAX, &v, NULL) == 0)
        *ret = (unsigned)MIN_OF(v, max);
}

void resolve_conf_read(const char *text, struct resolve_conf *ret) {
    struct resolve_conf c = {.timeout_s = TIMEOUT_DEFAULT_S, .attempts = ATTEMPTS_DEFAULT};
    char word[WORD_MAX + 1];
    const char *line;
    size_t len;

    while (next_line(&text, &line, &len)) {
        if (!next_word(&line, &len, word))
            continue;
        if (str_eq(word, "nameserver") && next_word(&line, &len, word) && c.n_servers < RESOLVE_SERVERS_MAX)
            c.n_servers += read_server(word, &c.servers[c.n_servers]);
        if (!str_eq(word, "options"))
            continue;
        while (next_word(&line, &len, word)) {
            read_option(word, "timeout:", RESOLVE_TRY_MAX_S, &c.timeout_s);
            read_option(word, "attempts:", RESOLVE_ATTEMPTS_MAX, &c.attempts);
        }
    }
    if (c.n_servers == 0)
        c.servers[c.n_servers++] = (struct resolve_server){.addr = {.len = 4, .b = {127, 0, 0, 1}}, .port = DNS_PORT};
    *ret = c;
}

static int add_entry(struct resolve_hosts *hosts, const struct host *name, const struct addr *addr) {
    struct resolve_hosts_entry e = {.name = strndup(name->text, name->len), .addr = *addr, .line = hosts->len};

    if (e.name && VEC_ADD(hosts->v, hosts->len, e) == 0)
        return 0;
    free(e.name);
    return -ENOMEM;
}

static int add_hosts_line(struct resolve_hosts *hosts, const char *line, size_t len) {
    char word[WORD_MAX + 1];
    struct addr addr;
    struct host name;
    int r = 0;

    if (!next_word(&line, &len, word) || addr_parse(word, strlen(word), &addr) < 0)
        return 0;
    while (r == 0 && next_word(&line, &len, word))
        if (host_parse(word, strlen(word), &name, NULL) == 0 && name.kind == HOST_NAME)
            r = add_entry(hosts, &name, &addr);
    return r;
}

static int compare_entries(const void *a, const void *b) {
    const struct resolve_hosts_entry *x = a, *y = b;
    int r = strcmp(x->name, y->name);

    return r ? r : (x->line > y->line) - (x->line < y->line);
}

int resolve_hosts_read(const char *text, struct resolve_hosts *ret) {
    CLEANUP(resolve_hosts_done) struct resolve_hosts hosts = {0};
    const char *line;
    size_t len;
    int r;

    while (next_line(&text, &line, &len)) {
        r = add_hosts_line(&hosts, line, len);
        if (r < 0)
            return r;
    }
    if (hosts.len)
        qsort(hosts.v, hosts.len, sizeof *hosts.v, compare_entries);
    *ret = TAKE(hosts, (struct resolve_hosts){0});
    return 0;
}

void resolve_hosts_done(struct resolve_hosts *hosts) {
    for (size_t i = 0; i < hosts->len; i++)
        free(hosts->v[i].name);
    free(hosts->v);
    *hosts = (struct resolve_hosts){0};
}

size_t resolve_hosts_find(const struct resolve_hosts *hosts, const struct host *name, struct addr *ret, size_t max) {
    size_t low = 0, high = hosts->len, n = 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(hosts->v[mid].name, name->text) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < hosts->len && n < max && str_eq(hosts->v[low].name, name->text); low++)
        ret[n++] = hosts->v[low].addr;
    return n;
}
