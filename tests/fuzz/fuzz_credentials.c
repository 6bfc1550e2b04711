/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.json by whoever: what is accepted reads the same when written back, its placeholders have its shape, and its grants survive
 * their way to the gate. The same bytes as grants: what is accepted is encoded to exactly them. */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const struct credentials *all) {
    CLEANUP(credentials_done) struct credentials again = {0};
    CLEANUP(buf_done) struct buf one = BUF_INIT(4 * CREDENTIALS_FILE_MAX), two = BUF_INIT(4 * CREDENTIALS_FILE_MAX);
    struct err err = {0};

    credentials_write(all, &one);
    if (one.len > CREDENTIALS_FILE_MAX)
        return;
    if (!buf_ok(&one) || credentials_read("again", buf_str(&one), one.len, &again, &err) < 0)
        BUG("secrets that cannot be read back");
    credentials_write(&again, &two);
    if (!str_eq(buf_str(&one), buf_str(&two)))
        BUG("secrets that are other ones when read back");
}

static void forget(struct grant *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        grant_done(&v[i]);
    free(v);
}

static void check_grant(const struct credential *c) {
    CLEANUP(grant_done) struct grant g = {0};
    CLEANUP(buf_done) struct buf one = BUF_INIT(CREDENTIALS_FILE_MAX);
    struct grant *got;
    size_t n;

    if (grant_make(c, &(struct grant_seed){.bytes = {7}, .scope = "/w"}, &g, NULL) < 0)
        BUG("no placeholder");
    if (strlen(g.placeholder) > PLACEHOLDER_MAX || (c->place != PLACE_SIGV4 && !str_starts(g.placeholder, c->shape)))
        BUG("a placeholder without its shape");
    if (strlen(placeholder_core(g.placeholder)) < 16)
        BUG("a placeholder that cannot be found");
    if (grants_encode(&g, 1, &one) < 0 || grants_decode(one.data, one.len, &got, &n) < 0 || n != 1)
        BUG("a grant that does not arrive");
    if (!str_eq(got[0].c.name, c->name) || !str_eq(got[0].placeholder, g.placeholder))
        BUG("another grant arrives");
    forget(got, n);
}

static void check_decoded(const char *data, size_t size) {
    CLEANUP(buf_done) struct buf again = BUF_INIT(4 * CREDENTIALS_FILE_MAX);
    struct grant *got;
    size_t n;

    if (grants_decode(data, size, &got, &n) < 0)
        return;
    if (grants_encode(got, n, &again) < 0 || again.len != size || memcmp(again.data, data, size) != 0)
        BUG("grants that are other ones when encoded again");
    forget(got, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(credentials_done) struct credentials all = {0};
    struct err err = {0};

    check_decoded((const char *)data, size);
    if (credentials_read("input", (const char *)data, size, &all, &err) < 0) {
        if (err.msg[0] == 0)
            BUG("a failure without a message");
        return 0;
    }
    check_written(&all);
    for (size_t i = 0; i < all.len; i++)
        check_grant(&all.v[i]);
    return 0;
}
