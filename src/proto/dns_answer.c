/* SPDX-License-Identifier: Apache-2.0 */
/* Writes DNS answers. */
#include "proto/dns.h"

enum {
    FLAGS_ANSWER = 0x8080, /* QR, RA: Go takes an empty answer without RA for a lame server's */
    FLAG_TC = 0x0200,
    FLAG_RD = 0x0100,
    FLAG_CD = 0x0010,
    OPT_FIXED = 11,
    OPTION_EDE = 15,
    EDE_FIXED = 6,            /* option, length, code */
    NAME_OF_QUESTION = 0xc00c /* a pointer to the name behind the header */
};

static void put16(uint8_t *p, unsigned v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void add16(struct dns_answer *a, unsigned v) {
    put16(a->out + a->len, v);
    a->len += 2;
}

static void add_bytes(struct dns_answer *a, const void *data, size_t len) {
    if (len)
        memcpy(a->out + a->len, data, len);
    a->len += len;
}

void dns_answer_begin(struct dns_answer *a, const struct dns_query *q, enum dns_rcode rcode, uint8_t *out, size_t size) {
    size_t limit = MIN_OF((size_t)q->payload, (size_t)DNS_ANSWER_MAX), opt = q->edns ? OPT_FIXED : 0;

    *a = (struct dns_answer){.query = q, .out = out, .max = MIN_OF(size, limit), .rcode = rcode};
    if (a->max < DNS_HEADER_SIZE + q->question_len + opt) {
        a->max = 0;
        return;
    }
    a->max -= opt;
    a->len = DNS_HEADER_SIZE;
    add_bytes(a, q->question, q->question_len);
}

/* Everything of a record but its data; false if all of it does not fit. */
static bool add_record(struct dns_answer *a, unsigned type, uint32_t ttl, size_t data_len) {
    if (a->max < a->len || a->max - a->len < 12 + data_len) {
        a->cut = true;
        return false;
    }
    add16(a, NAME_OF_QUESTION);
    add16(a, type);
    add16(a, DNS_CLASS_IN);
    add16(a, ttl >> 16);
    add16(a, ttl & 0xffff);
    add16(a, (unsigned)data_len);
    a->records++;
    return true;
}

void dns_answer_address(struct dns_answer *a, uint32_t ttl, const uint8_t *addr, size_t len) {
    if (add_record(a, len == 4 ? DNS_TYPE_A : DNS_TYPE_AAAA, ttl, len))
        add_bytes(a, addr, len);
}

void dns_answer_ptr(struct dns_answer *a, uint32_t ttl, const char *name) {
    size_t len = strlen(name);

    if (len == 0 || len > DNS_NAME_MAX || !add_record(a, DNS_TYPE_PTR, ttl, len + 2))
        return;
    for (const char *label = name; *label;) {
        size_t n = strcspn(label, ".");

        a->out[a->len++] = (uint8_t)n;
        add_bytes(a, label, n);
        label += n + (label[n] == '.');
    }
    a->out[a->len++] = 0;
}

/* At most max bytes, whole characters. */
static size_t cut_text(const char *text, size_t max) {
    size_t len = text ? strlen(text) : 0;

    if (len <= max)
        return len;
    for (len = max; len && ((uint8_t)text[len] & 0xc0) == 0x80;)
        len--;
    return len;
}

/* dns_answer_begin() has left room for it; the extended error takes what is left. */
static void add_opt(struct dns_answer *a, enum dns_ede ede, const char *text) {
    size_t room = a->max - a->len, text_len = 0, data_len = 0;

    if (ede != DNS_EDE_NONE && room >= EDE_FIXED) {
        text_len = cut_text(text, MIN_OF(room - EDE_FIXED, (size_t)DNS_EDE_TEXT_MAX));
        data_len = EDE_FIXED + text_len;
    }
    a->out[a->len++] = 0;
    add16(a, DNS_TYPE_OPT);
    add16(a, DNS_ANSWER_MAX);
    add16(a, a->rcode >> 4 << 8);
    add16(a, 0);
    add16(a, (unsigned)data_len);
    if (!data_len)
        return;
    add16(a, OPTION_EDE);
    add16(a, (unsigned)(2 + text_len));
    add16(a, (unsigned)ede);
    add_bytes(a, text, text_len);
}

size_t dns_answer_end(struct dns_answer *a, enum dns_ede ede, const char *text) {
    const struct dns_query *q = a->query;
    unsigned flags = FLAGS_ANSWER | (unsigned)q->opcode << 11 | (q->rd ? FLAG_RD : 0) | (q->cd ? FLAG_CD : 0);

    if (a->max == 0)
        return 0;
    if (q->edns)
        add_opt(a, ede, text);
    put16(a->out, q->id);
    put16(a->out + 2, flags | (a->cut ? FLAG_TC : 0) | (a->rcode & 15));
    put16(a->out + 4, q->question ? 1 : 0);
    put16(a->out + 6, a->records);
    put16(a->out + 8, 0);
    put16(a->out + 10, q->edns ? 1 : 0);
    return a->len;
}
