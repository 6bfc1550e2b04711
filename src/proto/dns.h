/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages, as the sandbox's name server reads and writes them: one strict question in, one short answer out
 * (RFC 1035, EDNS0 of RFC 6891, extended errors of RFC 8914). No input or output, no allocation, no state.
 *
 *     r = dns_query_parse(data, len, &q);
 *     if (r < 0) ...                                        nothing is to be answered
 *     dns_answer_begin(&a, &q, rcode, out, sizeof out);     r itself is the code if it is not DNS_NOERROR
 *     dns_answer_address(&a, ttl, address, 4);
 *     n = dns_answer_end(&a, DNS_EDE_NONE, NULL);
 *
 * A question is one name without compression, and nothing follows it but one OPT record that is well-formed to the last
 * byte: two programs must not find two different questions in the same bytes.
 */
#pragma once

#include "base/macros.h"

enum {
    DNS_HEADER_SIZE = 12,
    DNS_NAME_MAX = 253, /* as text, without the dot at the end */
    DNS_LABEL_MAX = 63,
    DNS_QUERY_MAX = 1232,  /* longer questions are malformed, whatever carries them */
    DNS_ANSWER_MAX = 1232, /* fits every path without fragments */
    DNS_PLAIN_MAX = 512,   /* what a client without EDNS takes */
    DNS_EDE_TEXT_MAX = 400,
    DNS_CLASS_IN = 1
};

enum { DNS_TYPE_A = 1, DNS_TYPE_PTR = 12, DNS_TYPE_AAAA = 28, DNS_TYPE_OPT = 41, DNS_TYPE_HTTPS = 65 };

enum dns_rcode { DNS_NOERROR, DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN, DNS_NOTIMP, DNS_REFUSED, DNS_BADVERS = 16 };

enum dns_ede { DNS_EDE_NONE = -1, DNS_EDE_OTHER = 0, DNS_EDE_BLOCKED = 15 };

struct dns_query {
    uint16_t id;
    uint8_t opcode;
    bool rd, cd;
    char name[DNS_NAME_MAX + 1]; /* labels with dots between them, no dot at the end; "" is the root. NUL-terminated */
    size_t name_len;
    bool odd; /* a label has a byte that a text of labels cannot carry (NUL, control, space, dot); it is '?' in name */
    uint16_t type, class;
    const uint8_t *question; /* in the message that was read: repeated in the answer. NULL: it could not be read */
    size_t question_len;
    bool edns;
    uint16_t payload; /* what the client takes in one answer, DNS_PLAIN_MAX at least */
};

/*
 * Returns the enum dns_rcode that has to be answered: DNS_NOERROR if the question was understood; else as much of *ret is
 * set as was read before. -EBADMSG: not to be answered at all (no header, or an answer itself: two servers could talk for ever).
 */
int dns_query_parse(const uint8_t *data, size_t len, struct dns_query *ret);

/* TCP: the length of the message that starts behind the two bytes of its length; 0: not all of it is here; -EBADMSG. */
int dns_frame(const uint8_t *data, size_t len);

/* "4.3.2.1.in-addr.arpa" and the ip6.arpa form, in small letters: the address (4 or 16 bytes); 0 if it is neither. */
size_t dns_reverse_parse(const char *name, size_t len, uint8_t ret[static 16]);

struct dns_answer {
    const struct dns_query *query;
    uint8_t *out;
    size_t len, max;
    unsigned rcode, records;
    bool cut; /* something did not fit */
};

/* The query and the message it points into must stay until the end. */
void dns_answer_begin(struct dns_answer *a, const struct dns_query *q, enum dns_rcode rcode, uint8_t *out, size_t size);
void dns_answer_address(struct dns_answer *a, uint32_t ttl, const uint8_t *addr, size_t len); /* 4 or 16 bytes */
void dns_answer_ptr(struct dns_answer *a, uint32_t ttl, const char *name); /* as policy/host/host.h spells it */
/* The extended error is only sent to clients that speak EDNS; text (UTF-8, may be NULL) is cut to what fits.
 * Returns the answer's length, 0 if out is too small. */
size_t dns_answer_end(struct dns_answer *a, enum dns_ede ede, const char *text);
