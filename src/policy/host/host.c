/* SPDX-License-Identifier: Apache-2.0 */
/* Host names in their one form. */
#include "policy/host/host.h"

#include <errno.h>

#include "base/err.h"
#include "policy/host/idn.h"

static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The whole of what came, before anything is taken apart: a NUL must not hide the end from anyone (ATTACKS 46). */
static int check_bytes(const char *data, size_t len, struct err *err) {
    if (len == 0)
        return err_set(err, -EINVAL, "the host name is empty");
    if (len > 4 * (HOST_TEXT_MAX + 1)) /* room for UTF-8 */
        return err_set(err, -EINVAL, "the host name is longer than %d characters", HOST_TEXT_MAX);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];

        if (c == 0)
            return err_set(err, -EINVAL, "the host name has a NUL byte in it");
        if (c == '%')
            return err_set(err, -EINVAL, "the host name has a '%%' (no encoding and no zone is allowed in a host)");
        if (c == '@')
            return err_set(err, -EINVAL, "the host name has an '@' (a user name is not part of the host)");
        if (c == ' ' || (c >= '\t' && c <= '\r'))
            return err_set(err, -EINVAL, "the host name has white space in it");
        if (c < 0x20 || c == 0x7f)
            return err_set(err, -EINVAL, "the host name has the control byte 0x%02x in it", c);
    }
    return 0;
}

static int check_ascii_label(const char *label, size_t len, struct err *err) {
    for (size_t i = 0; i < len; i++)
        if (!is_alnum(label[i]) && label[i] != '-' && label[i] != '_')
            return err_set(err, -EINVAL, "the host name has a '%c', which no name may have", label[i]);
    if (label[0] == '-' || label[len - 1] == '-')
        return err_set(err, -EINVAL, "a part of the host name starts or ends with a hyphen");
    if (len >= 4 && memcmp(label, "xn--", 4) == 0)
        return idn_check_ascii(label, len, err);
    return 0;
}

static int add_label(const char *data, size_t len, struct host *h, struct err *err) {
    char label[IDN_LABEL_MAX];
    bool other = false;
    int r;

    if (len == 0)
        return err_set(err, -EINVAL, "the host name has an empty part (two dots, or a dot at the start)");
    for (size_t i = 0; i < len; i++)
        other |= (unsigned char)data[i] >= 0x80;
    if (!other && len > HOST_LABEL_MAX)
        return err_set(err, -EINVAL, "a part of the host name is longer than %d characters", HOST_LABEL_MAX);
    if (other) {
        r = idn_to_ascii(data, len, label, err);
        if (r < 0)
            return r;
        len = (size_t)r;
    }
    for (size_t i = 0; !other && i < len; i++)
        label[i] = lower(data[i]);
    r = check_ascii_label(label, len, err);
    if (r < 0)
        return r;
    if (h->len + (h->len > 0) + len > HOST_TEXT_MAX)
        return err_set(err, -EINVAL, "the host name is longer than %d characters", HOST_TEXT_MAX);
    if (h->len)
        h->text[h->len++] = '.';
    memcpy(h->text + h->len, label, len);
    h->len += len;
    return 0;
}

/* What inet_aton(), a browser or a resolver may take for a number: decimal, octal, or hexadecimal with 0x. */
static bool is_number(const char *label, size_t len) {
    size_t i = len >= 2 && label[0] == '0' && label[1] == 'x' ? 2 : 0;
    bool hex = i == 2;

    for (; i < len; i++)
        if (!(label[i] >= '0' && label[i] <= '9') && !(hex && label[i] >= 'a' && label[i] <= 'f'))
            return false;
    return true;
}

static int check_last_label(const struct host *h, struct err *err) {
    const char *dot = strrchr(h->text, '.'), *last = dot ? dot + 1 : h->text;

    if (is_number(last, strlen(last)))
        return err_set(err, -EINVAL, "the host is a number that programs read differently (write an address as 192.0.2.1)");
    if (dot && strchr(last, '_'))
        return err_set(err, -EINVAL, "the last part of the host name has an underscore");
    return 0;
}

static int parse_name(const char *data, size_t len, struct host *ret, struct err *err) {
    struct host h = {.kind = HOST_NAME};
    size_t start = 0;
    int r;

    if (data[len - 1] == '.')
        len--;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && data[i] != '.')
            continue;
        r = add_label(data + start, i - start, &h, err);
        if (r < 0)
            return r;
        start = i + 1;
    }
    r = check_last_label(&h, err);
    if (r < 0)
        return r;
    *ret = h;
    return 0;
}

bool host_is_metadata(const struct host *h) {
    static const char *const names[] = {
        "metadata.platformequinix.com",    /* Equinix Metal (deploy.equinix.com, metadata) */
        "metadata.packet.net",             /* the same, before */
        "global.cloudinit.sdns.ksyun.com", /* Kingsoft (endocs.ksyun.com/documents/7200) */
    };

    for (size_t i = 0; h->kind == HOST_NAME && i < ARRAY_LEN(names); i++)
        if (strcmp(h->text, names[i]) == 0)
            return true;
    return false;
}

void host_from_addr(const struct addr *a, struct host *ret) {
    *ret = (struct host){.kind = a->len == 4 ? HOST_IPV4 : HOST_IPV6, .addr = *a};
    addr_format(a, ret->text);
    ret->len = strlen(ret->text);
}

int host_parse(const char *data, size_t len, struct host *ret, struct err *err) {
    bool brackets = len >= 2 && data[0] == '[' && data[len - 1] == ']';
    struct addr a;
    int r;

    r = check_bytes(data, len, err);
    if (r < 0)
        return r;
    r = brackets ? addr_parse(data + 1, len - 2, &a) : addr_parse(data, len, &a);
    if (r == 0 && (!brackets || a.len == 16)) {
        host_from_addr(&a, ret);
        return 0;
    }
    if (brackets || memchr(data, ':', len))
        return err_set(err, -EINVAL, "the host has brackets or colons but is no IPv6 address");
    return parse_name(data, len, ret, err);
}

static int parse_port(const char *p, size_t len, uint16_t *ret, struct err *err) {
    unsigned v = 0;

    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9' || i == 5)
            return err_set(err, -EINVAL, "the port must be a number from 1 to 65535");
        v = v * 10 + (unsigned)(p[i] - '0');
    }
    if (v == 0 || v > 65535 || p[0] == '0')
        return err_set(err, -EINVAL, "the port must be a number from 1 to 65535");
    *ret = (uint16_t)v;
    return 0;
}

int host_parse_with_port(const char *data, size_t len, struct host *ret, uint16_t *ret_port, struct err *err) {
    const char *colon = len ? memrchr(data, ':', len) : NULL;
    struct host h;
    uint16_t port = 0;
    int r;

    if (colon && (data[0] == '[' ? colon[-1] != ']' : memchr(data, ':', len) != colon))
        colon = NULL; /* it belongs to the address */
    if (colon) {
        r = parse_port(colon + 1, len - (size_t)(colon + 1 - data), &port, err);
        if (r < 0)
            return r;
        len = (size_t)(colon - data);
    }
    r = host_parse(data, len, &h, err);
    if (r < 0)
        return r;
    *ret = h;
    *ret_port = port;
    return 0;
}

bool host_eq(const struct host *a, const struct host *b) {
    return a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}
