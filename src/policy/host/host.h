/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host of a request, from bytes that the sandbox chose: one spelling per host, or a refusal (ATTACKS 46, 47). Rules, lookups,
 * SNI and the Host header are compared only as `struct host`, never as the bytes that came.
 *
 *     "Example.COM."          ->  name "example.com"
 *     "bücher.example"        ->  name "xn--bcher-kva.example"
 *     "192.0.2.7", "[::1]"    ->  address
 *     "127.1", "0x7f.0.0.1", "017700000001", "127.0.0.1."   ->  refused: a number that only some programs take for an address
 *     "a\0.b", "a%2eb", "u@h", "a..b", " a", "-a.b"         ->  refused
 */
#pragma once

#include "policy/host/addr.h"

struct err;

enum { HOST_LABEL_MAX = 63, HOST_TEXT_MAX = 253, HOST_LABELS_MAX = 127 };

enum host_kind { HOST_NAME, HOST_IPV4, HOST_IPV6 };

struct host {
    enum host_kind kind;
    char text[HOST_TEXT_MAX + 1]; /* small ASCII letters, no dot at the end; an address without brackets */
    size_t len;
    struct addr addr; /* not for HOST_NAME; IPv4-mapped addresses stay HOST_IPV6 and are unmapped where they are judged */
};

/* -EINVAL: err says why, in words that are safe to show (bytes that came in are not repeated as they are). */
int host_parse(const char *data, size_t len, struct host *ret, struct err *err);

/* "host", "host:443", "[::1]:443". *ret_port is 0 if there is none; an IPv6 address with a port needs its brackets. */
int host_parse_with_port(const char *data, size_t len, struct host *ret, uint16_t *ret_port, struct err *err);

/* The name of a metadata service. Some have public addresses, and tell machines apart by who asks. */
bool host_is_metadata(const struct host *h);

void host_from_addr(const struct addr *a, struct host *ret);
bool host_eq(const struct host *a, const struct host *b);
