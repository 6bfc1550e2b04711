/* SPDX-License-Identifier: Apache-2.0 */
/* Questions as a sandbox may send them: what is read is in bounds, and no name that is not allowed gets an address. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/net/dnsd.h"
#include "gateway/net/names.h"
#include "proto/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char rules[] = "{\"mode\": \"list\", \"rules\": [{\"action\": \"deny\", \"host\": \"no.example.com\"},"
                            "{\"action\": \"allow\", \"host\": \"**.example.com\"}, {\"action\": \"ask\", \"host\": \"*.org\"}]}";

static const struct policy *the_policy(void) {
    static struct policy policy;
    static bool made;
    struct rules r = {0};
    struct err err = {0};

    if (made)
        return &policy;
    if (policy_init(&policy, NET_UNSET, true, &err) < 0 || rules_read("fuzz.json", rules, strlen(rules), &r, &err) < 0)
        BUG("the fuzzer's own rules");
    policy_set_layer(&policy, LAYER_USER, &r, false);
    made = true;
    return &policy;
}

/* One table for all runs: making it costs more than a thousand answers. Time passes, so that numbers end their rest. */
static struct names *the_names(uint64_t *ret_now_s) {
    static struct names *names;
    static uint64_t now_s;

    if (!names && names_new(&names) < 0)
        BUG("no memory");
    *ret_now_s = now_s += NAMES_REST_S;
    return names;
}

static void check_query(const uint8_t *data, size_t size, const struct dns_query *q) {
    if (q->name_len > DNS_NAME_MAX || strlen(q->name) != q->name_len)
        BUG("a name of no length");
    for (size_t i = 0; i < q->name_len; i++)
        if ((uint8_t)q->name[i] <= 0x20 || q->name[i] == 0x7f)
            BUG("a name with a byte that was to be hidden");
    if (q->question && (q->question != data + 12 || q->question_len > size - 12))
        BUG("a question that is not in the message");
}

/* The verdict once more, from the name alone. */
static bool may_have_address(const struct dns_query *q) {
    struct policy_verdict v;
    struct host h;

    if (q->odd || host_parse(q->name, q->name_len, &h, NULL) < 0)
        return false;
    if (str_eq(h.text, "bawn.internal") || str_eq(h.text, "localhost") || str_ends(h.text, ".localhost"))
        return true;
    if (q->type == DNS_TYPE_PTR && str_ends(h.text, ".arpa"))
        return true;
    policy_judge(the_policy(), &(struct policy_request){.host = &h}, &v);
    return v.action != RULE_DENY;
}

/* A denied name has an address that no allowed one ever gets, or none. */
static bool is_denied_address(const struct dns_query *q, const uint8_t *out, size_t n) {
    const uint8_t *data = out + 12 + q->question_len + 12;
    bool v6 = q->type == DNS_TYPE_AAAA;
    size_t len = v6 ? 16 : 4;
    uint32_t number;

    if (out[7] != 1 || (out[3] & 15) != DNS_NOERROR || data + len > out + n)
        return false;
    number = v6 ? (uint32_t)data[13] << 16 | (uint32_t)data[14] << 8 | data[15]
                : (uint32_t)(data[1] & 1) << 16 | (uint32_t)data[2] << 8 | data[3];
    return number >= NAMES_DENIED && number <= NAMES_LAST;
}

static void check_answer(const uint8_t *data, int parsed, const struct dns_query *q, const uint8_t *out, size_t n, bool refused) {
    if (n < 12 || memcmp(out, data, 2) != 0 || !(out[2] & 0x80) || out[8] || out[9])
        BUG("an answer without a proper header");
    if ((out[3] & 15) != (parsed & 15) && parsed != DNS_NOERROR)
        BUG("another code than the reader's");
    if (q->question && memcmp(out + 12, q->question, q->question_len) != 0)
        BUG("an answer to another question");
    if (refused && out[7] && !is_denied_address(q, out, n))
        BUG("a refusal that tells something");
    if (out[7] && !refused && (parsed != DNS_NOERROR || !may_have_address(q)))
        BUG("an address for a name that is not allowed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t out[DNS_ANSWER_MAX], addr[16];
    struct dnsd_view view = {.policy = the_policy(), .ipv6 = true, .answers_denied = true};
    struct dnsd_refusal refusal;
    struct dns_query q;
    int parsed = dns_query_parse(data, size, &q), frame = dns_frame(data, size);
    size_t n;

    if (frame > 0 && (size_t)frame + 2 > size)
        BUG("a frame past the end");
    dns_reverse_parse((const char *)data, size, addr);
    view.names = the_names(&view.now_s);
    if (parsed >= 0)
        check_query(data, size, &q);
    n = dnsd_answer(&view, data, size, out, sizeof out, &refusal);
    if ((n == 0) != (parsed < 0) || n > sizeof out)
        BUG("an answer where there is none to give, or none where one is due");
    if (n)
        check_answer(data, parsed, &q, out, n, refusal.refused);
    dnsd_answer(&view, data, size, out, size ? data[0] : 0, &refusal);
    return 0;
}
