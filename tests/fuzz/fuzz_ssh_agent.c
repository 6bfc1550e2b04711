/* SPDX-License-Identifier: Apache-2.0 */
/* The ssh-agent's bytes: what clients send, what the agent answers, what is signed, and known_hosts. What is accepted is the
 * same when it is written again, whatever follows or precedes it. */
#include <errno.h>

#include "base/buf.h"
#include "broker/ssh/ssh_choice.h"
#include "broker/ssh/ssh_hostkey.h"
#include "broker/ssh/ssh_known.h"
#include "proto/ssh_agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct buf *b, struct ssh_bytes payload) {
    if (!buf_ok(b) || b->len != payload.len || memcmp(b->data, payload.p, payload.len) != 0)
        BUG("what was read is not what was written");
}

static void check_request(const struct ssh_agent_request *q) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SSH_AGENT_MESSAGE_MAX);

    if (q->type == SSH_AGENTC_SIGN_REQUEST) {
        ssh_put_string(&b, q->sign.key.p, q->sign.key.len);
        ssh_put_string(&b, q->sign.data.p, q->sign.data.len);
        ssh_put_u32(&b, q->sign.flags);
        check_same(&b, q->payload);
    } else if (q->type == SSH_AGENTC_EXTENSION) {
        ssh_put_string(&b, q->bind.host_key.p, q->bind.host_key.len);
        ssh_put_string(&b, q->bind.session.p, q->bind.session.len);
        ssh_put_string(&b, q->bind.signature.p, q->bind.signature.len);
        buf_addc(&b, q->bind.forwarding);
        check_same(&b, q->payload);
        if (ssh_hostkey_verify(q->bind.host_key, q->bind.signature, q->bind.session) > 0)
            BUG("neither yes nor no");
    } else if (q->type != SSH_AGENTC_REQUEST_IDENTITIES)
        BUG("a message that is not let through");
}

static void check_message(const uint8_t *msg, size_t len) {
    struct ssh_agent_request q;
    struct ssh_userauth auth;
    struct ssh_sshsig sig;

    if (ssh_agent_parse(msg, len, &q) < 0)
        return;
    check_request(&q);
    if (q.type == SSH_AGENTC_SIGN_REQUEST && ssh_userauth_parse(q.sign.data, &auth) == 0 &&
        ssh_sshsig_parse(q.sign.data, &sig) == 0)
        BUG("a login that is a commit too");
}

static void check_keys(const uint8_t *msg, size_t len) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(2 * SSH_AGENT_MESSAGE_MAX), again = BUF_INIT(2 * SSH_AGENT_MESSAGE_MAX);

    if (ssh_choice_filter("", msg, len, &all) < 0)
        return;
    if (ssh_choice_filter("", (const uint8_t *)all.data, all.len, &again) < 0 || again.len != all.len ||
        memcmp(all.data, again.data, all.len) != 0)
        BUG("chosen keys are not chosen");
}

/* Key and text, with a NUL between them. */
static void check_known(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    struct ssh_known known;
    char *text;

    if (!nul)
        return;
    text = strndup((const char *)nul + 1, size - (size_t)(nul + 1 - data));
    if (text && ssh_known_find(text, (struct ssh_bytes){data, (size_t)(nul - data)}, &known) == 0) {
        if (!known.n)
            BUG("found without a line");
        ssh_known_has(&known, "example.com", SSH_PORT);
        ssh_known_has(&known, "example.com", 2222);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* of exactly that size */
    long n;

    if (!exact)
        return 0;
    memcpy(exact, data, size);
    n = ssh_agent_frame(exact, size);
    if (n > (long)size || (n > 0 && n <= 4) || (n < 0 && n != -EMSGSIZE))
        BUG("a message that ends elsewhere");
    if (n > 0) {
        check_message(exact + 4, (size_t)n - 4);
        check_keys(exact + 4, (size_t)n - 4);
    }
    check_known(exact, size);
    free(exact);
    return 0;
}
