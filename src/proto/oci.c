/* SPDX-License-Identifier: Apache-2.0 */
/* References, digests and chain ids. */
#include "proto/oci.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "base/str.h"

static const char sha256_prefix[] = "sha256:", hub[] = "docker.io";

bool oci_digest_ok(const char *digest) {
    return str_starts(digest, sha256_prefix) && strlen(digest) == OCI_DIGEST_SIZE - 1 &&
           hex_is_lower(digest + strlen(sha256_prefix), 2 * (size_t)SHA256_LEN);
}

static bool is_small(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_word(char c) {
    return is_small(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Components of small letters and digits, with single separators in between. */
static bool is_path(const char *p) {
    for (size_t i = 0; p[i]; i++) {
        bool inner = i > 0 && p[i + 1];

        if (is_small(p[i]))
            continue;
        if (!inner || !strchr("._-/", p[i]))
            return false;
        if ((p[i] == '/' || p[i] == '.') && !(is_small(p[i - 1]) && is_small(p[i + 1])))
            return false;
    }
    return p[0] != 0;
}

static bool is_tag(const char *p) {
    if (!is_word(p[0]))
        return false;
    for (size_t i = 1; p[i]; i++)
        if (!is_word(p[i]) && p[i] != '.' && p[i] != '-')
            return false;
    return true;
}

/* A name, an IPv4 address, or an IPv6 one in brackets; a port. */
static bool is_host(const char *p) {
    bool six = p[0] == '[';
    size_t n = six ? strspn(p + 1, "0123456789abcdefABCDEF:.") + 1 : 0;
    const char *port;

    if ((six && (p[n] != ']' || n < 3)) || (!six && !is_word(p[0])) || strstr(p, ".."))
        return false;
    for (n += six; !six && p[n] && p[n] != ':'; n++)
        if (!is_word(p[n]) && p[n] != '.' && p[n] != '-')
            return false;
    port = p + n;
    if (*port == 0)
        return n > 0;
    n = strlen(port + 1);
    return port > p && *port == ':' && n >= 1 && n <= 5 && strspn(port + 1, "0123456789") == n;
}

bool oci_host_is_local(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i]);

        if (strncmp(host, names[i], n) == 0 &&
            (host[n] == 0 || (host[n] == ':' && host[n + 1 + strspn(host + n + 1, "0123456789")] == 0)))
            return true; /* not "127.0.0.1:80@example.com" */
    }
    return false;
}

static int ref_bad(const char *text, const char *why, struct err *err) {
    return err_usage(err, "'%.200s' is not the name of an image: %s (for example debian:12, or host:5000/path@sha256:...)", text,
                     why);
}

/* The first component is a host if it looks like one. */
static const char *split_host(char *rest, struct oci_ref *ret) {
    char *slash = strchr(rest, '/');
    size_t n = slash ? (size_t)(slash - rest) : 0;
    bool host = slash && (memchr(rest, '.', n) || memchr(rest, ':', n) || (n == 9 && strncmp(rest, "localhost", n) == 0));

    snprintf(ret->host, sizeof ret->host, "%.*s", host ? (int)n : (int)strlen(hub), host ? rest : hub);
    return host ? slash + 1 : rest;
}

int oci_ref_parse(const char *text, struct oci_ref *ret, struct err *err) {
    char copy[OCI_NAME_SIZE];
    struct oci_ref r = {0};
    char *at, *colon;
    const char *path;
    int n;

    if (strlen(text) >= sizeof copy)
        return ref_bad(text, "it is too long", err);
    snprintf(copy, sizeof copy, "%s", text);
    at = strchr(copy, '@');
    if (at) {
        *at++ = 0;
        if (!oci_digest_ok(at))
            return ref_bad(text, "a digest is sha256: and 64 digits", err);
        snprintf(r.digest, sizeof r.digest, "%s", at);
    }
    colon = strrchr(copy, ':');
    if (colon && !strchr(colon, '/')) {
        *colon++ = 0;
        if (strlen(colon) > OCI_TAG_MAX || !is_tag(colon))
            return ref_bad(text, "the tag has other characters than letters, digits, '.', '_' and '-'", err);
        snprintf(r.tag, sizeof r.tag, "%s", colon);
    }
    path = split_host(copy, &r);
    if (!is_host(r.host))
        return ref_bad(text, "its registry is no host name", err);
    if (str_eq(r.host, "index.docker.io") || str_eq(r.host, "registry-1.docker.io"))
        snprintf(r.host, sizeof r.host, "%s", hub);
    n = snprintf(r.path, sizeof r.path, "%s%s", str_eq(r.host, hub) && !strchr(path, '/') ? "library/" : "", path);
    if (n < 0 || (size_t)n >= sizeof r.path || !is_path(r.path))
        return ref_bad(text, "a path has small letters, digits and single separators", err);
    if (!r.tag[0] && !r.digest[0])
        snprintf(r.tag, sizeof r.tag, "latest");
    *ret = r;
    return 0;
}

void oci_ref_name(const struct oci_ref *r, char out[static OCI_NAME_SIZE]) {
    snprintf(out, OCI_NAME_SIZE, "%s/%s%s%s%s%s", r->host, r->path, r->tag[0] ? ":" : "", r->tag, r->digest[0] ? "@" : "",
             r->digest);
}

const char *oci_ref_wanted(const struct oci_ref *r) {
    return r->digest[0] ? r->digest : r->tag;
}

const char *oci_arch(void) {
    static const char *const names[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"},   {"armv7l", "arm/v7"},  {"i686", "386"},
                                           {"s390x", "s390x"},  {"riscv64", "riscv64"}, {"ppc64le", "ppc64le"}};
    struct utsname u;

    for (size_t i = 0; uname(&u) == 0 && i < ARRAY_LEN(names); i++)
        if (str_eq(u.machine, names[i][0]))
            return names[i][1];
    return "amd64";
}

void oci_chain_id(const char *below, const char *diff_id, char out[static OCI_DIGEST_SIZE]) {
    char text[2 * OCI_DIGEST_SIZE], hex[SHA256_HEX_SIZE];

    if (!below) {
        snprintf(out, OCI_DIGEST_SIZE, "%s", diff_id);
        return;
    }
    snprintf(text, sizeof text, "%.71s %.71s", below, diff_id);
    sha256_hex(text, strlen(text), hex);
    snprintf(out, OCI_DIGEST_SIZE, "%s%s", sha256_prefix, hex);
}
