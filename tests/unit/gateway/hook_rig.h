/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that do what the gate does with credentials: look for a placeholder, put a value in, cover the value in answers. */
#pragma once

#include "gateway/secret/cover.h"
#include "gateway/secret/finder.h"
#include "http_rig.h"

#define PLACEHOLDER "ph-0123456789"
#define VALUE "real-value-4711"
#define STARS "***************"

enum { HOOKED_STREAMS = 64, HOOKED_MAX = 16 * 1024 * 1024 };

struct hooked {
    struct finder *placeholder;
    struct cover *value;
    struct finder_stream up[HOOKED_STREAMS];
    struct cover_stream down[HOOKED_STREAMS];
    bool hold;           /* answers go on when they are whole */
    int refuse_answer;   /* one with this status; -1: with trailers */
    bool decide_at_once; /* from within collected() */
    size_t collected, up_ends, down_ends, ended, heads;
    struct buf body, whole; /* of the last one that was collected; of the answer that is held */
    int last_head;
};

static void hook_collected(void *arg, uint32_t id, const uint8_t *body, size_t len) {
    struct rig *r = arg;
    struct policy_verdict v = {.action = RULE_ALLOW};

    r->hooked->collected++;
    buf_clear(&r->hooked->body);
    buf_add(&r->hooked->body, body, len);
    if (r->hooked->decide_at_once)
        httpx_decide(r->x, id, &v);
}

static bool hook_sending(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct policy_verdict *ret) {
    struct hooked *h = ((struct rig *)arg)->hooked;
    uint32_t tag;

    h->up_ends += end;
    if (finder_watch(h->placeholder, &h->up[id % HOOKED_STREAMS], data, len, &tag) == 0)
        return true;
    policy_refuse(POLICY_SECRET_MISPLACED, "example.com", NULL, ret);
    return false;
}

static void hook_cover_fields(struct hooked *h, struct http_head *head) {
    for (size_t i = 0; i < head->len; i++)
        cover_text(h->value, head->v[i].value, head->v[i].value_len);
}

static bool hook_answer_head(void *arg, uint32_t id, int status, struct http_head *head, struct policy_verdict *ret) {
    struct hooked *h = ((struct rig *)arg)->hooked;

    h->heads++;
    h->last_head = status;
    hook_cover_fields(h, head);
    if (!h->refuse_answer || status != (h->refuse_answer == -1 ? 0 : h->refuse_answer))
        return true;
    policy_refuse(POLICY_CANNOT_LOOK, "example.com", NULL, ret);
    return false;
}

static void hook_receiving(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct buf *out) {
    struct hooked *h = ((struct rig *)arg)->hooked;

    h->down_ends += end;
    if (!h->hold) {
        assert_int_equal(cover_pass(h->value, &h->down[id % HOOKED_STREAMS], data, len, end ? len : COVER_HOLD, out), 0);
        return;
    }
    buf_add(&h->whole, data, len);
    if (!end)
        return;
    buf_add(out, buf_str(&h->whole), h->whole.len);
    buf_clear(&h->whole);
}

/* As the clock does it; held: what is asked for. */
static bool hook_pause(void *arg, uint32_t id, struct buf *out) {
    struct hooked *h = ((struct rig *)arg)->hooked;

    assert_int_equal(cover_pass(h->value, &h->down[id % HOOKED_STREAMS], NULL, 0, 0, out), 0);
    return false;
}

static void hook_ended(void *arg, uint32_t id) {
    ((struct rig *)arg)->hooked->ended++;
}

static const struct httpx_hooks all_hooks = {
    .collected = hook_collected,
    .sending = hook_sending,
    .answer_head = hook_answer_head,
    .receiving = hook_receiving,
    .pause = hook_pause,
    .ended = hook_ended,
};

static inline struct finder *hooked_finder(const char *s) {
    struct finder *f = NULL;

    assert_int_equal(finder_new(&f), 0);
    assert_int_equal(finder_add_forms(f, s, strlen(s), 1), 0);
    assert_int_equal(finder_build(f), 0);
    return f;
}

static inline void hooked_init(struct hooked *h) {
    *h = (struct hooked){.body = BUF_INIT(HOOKED_MAX), .whole = BUF_INIT(HOOKED_MAX)};
    h->placeholder = hooked_finder(PLACEHOLDER);
    assert_int_equal(cover_new(&h->value), 0);
    assert_int_equal(cover_add(h->value, VALUE, strlen(VALUE)), 0);
    cover_build(h->value);
}

static inline void hooked_done(struct hooked *h) {
    for (size_t i = 0; i < HOOKED_STREAMS; i++) {
        finder_stream_done(&h->up[i]);
        cover_stream_done(&h->down[i]);
    }
    finder_free(h->placeholder);
    cover_free(h->value);
    buf_done(&h->body);
    buf_done(&h->whole);
}
