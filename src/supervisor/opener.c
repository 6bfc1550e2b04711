#include "supervisor/opener.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/paths.h"
#include "supervisor/detach.h"
#include "supervisor/watch.h"

enum { MINUTE_MS = 60 * 1000, PER_MINUTE = 6, CALLBACK_MAX = 512, PORT_MIN = 1024 };

void opener_done(struct opener *o) {
    buf_done(&o->url);
}

/* What it is ------------------------------------------------------------------------------------------------------- */

/* RFC 3986. Nothing else: it goes to a program of the user's, and to the terminal. */
bool opener_url_ok(const char *url) {
    static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%";

    return str_starts(url, "https://") && url[strlen("https://")] && url[strspn(url, bytes)] == 0;
}

/* All of the page's address: a longer path would be another page of that host. */
static bool is_page(const char *url, const char *page) {
    size_t n = strlen(page);

    return str_starts(url, page) && (url[n] == 0 || url[n] == '#' || url[n] == (strchr(page, '?') ? '&' : '?'));
}

const struct grant *opener_grant(const struct opener *o, const char *url) {
    for (size_t i = 0; i < o->n_grants; i++)
        if (o->grants[i].c.authorize_url && is_page(url, o->grants[i].c.authorize_url))
            return &o->grants[i];
    return NULL;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Until '&', '#' or the end; false: it does not fit, or is not encoded right. */
static bool decode(const char *p, char *out, size_t size) {
    size_t n = 0;

    for (; *p && *p != '&' && *p != '#'; p++) {
        if (n + 1 == size)
            return false;
        out[n] = *p;
        if (*p == '%') {
            int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);

            if (low < 0 || (high == 0 && low == 0))
                return false;
            out[n] = (char)(high * 16 + low);
            p += 2;
        }
        n++;
    }
    out[n] = 0;
    return true;
}

static uint16_t local_port(const char *uri) {
    static const char *const hosts[] = {"http://localhost:", "http://127.0.0.1:"};
    char digits[sizeof "65535"];
    uint64_t port;

    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        const char *p = uri + strlen(hosts[i]);
        size_t n = str_starts(uri, hosts[i]) ? strspn(p, "0123456789") : 0;

        if (n == 0 || n >= sizeof digits || (p[n] && p[n] != '/' && p[n] != '?'))
            continue;
        memcpy(digits, p, n);
        digits[n] = 0;
        return parse_u64(digits, PORT_MIN, UINT16_MAX, &port, NULL) < 0 ? 0 : (uint16_t)port;
    }
    return 0;
}

uint16_t opener_callback(const char *url) {
    static const char name[] = "redirect_uri=";
    char uri[CALLBACK_MAX];

    for (const char *p = url; (p = strpbrk(p, "?&#")) && *p != '#';) {
        p++;
        if (str_starts(p, name))
            return decode(p + strlen(name), uri, sizeof uri) ? local_port(uri) : 0;
    }
    return 0;
}

/* What is done ----------------------------------------------------------------------------------------------------- */

/* Without a screen xdg-open would look for a browser that works in a terminal, and the terminal is not its. */
static const char *program(const struct opener *o) {
    const char *named = paths_getenv(o->environ_, "BAWN_OPEN");

    if (named)
        return str_eq(named, "none") ? NULL : named;
    return paths_getenv(o->environ_, "DISPLAY") || paths_getenv(o->environ_, "WAYLAND_DISPLAY") ? "xdg-open" : NULL;
}

/* A sandbox could fill the screen otherwise. */
static bool too_many(struct opener *o) {
    uint64_t now = watch_now_ms();

    if (!o->since_ms || now - o->since_ms >= MINUTE_MS) {
        o->since_ms = now;
        o->n = 0;
    }
    if (o->n++ == PER_MINUTE)
        log_line("the sandbox asks to open too many pages; for a while they are not shown");
    return o->n > PER_MINUTE;
}

const struct grant *opener_piece(struct opener *o, const char *piece, bool last) {
    const struct grant *login = NULL;

    buf_adds(&o->url, piece);
    if (!last)
        return NULL;
    if (buf_ok(&o->url) && opener_url_ok(buf_str(&o->url)) && !too_many(o)) {
        login = o->only_show ? NULL : opener_grant(o, buf_str(&o->url));
        if (!login)
            log_line("the sandbox asks to open %s", buf_str(&o->url));
    }
    if (!login)
        buf_clear(&o->url);
    return login;
}

uint16_t opener_port(const struct opener *o) {
    return opener_callback(buf_str(&o->url));
}

void opener_open(struct opener *o, const struct grant *login) {
    const char *with = program(o), *url = buf_str(&o->url);

    if (with && detach_start(with, (char *[]){(char *)(uintptr_t)with, (char *)(uintptr_t)url, NULL}, o->environ_) == 0)
        log_line("the login of %s is opened in your browser: %s", login->c.name, url);
    else
        log_line("to log in to %s, open this in your browser: %s", login->c.name, url);
    buf_clear(&o->url);
}
