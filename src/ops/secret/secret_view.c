/* SPDX-License-Identifier: Apache-2.0 */
/* Places, last uses and verdicts of secrets. */
#include "ops/secret/secret_view.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"

void secret_add_place(const struct credential *c, struct buf *b) {
    buf_addf(b, "%s ", credential_place_names[c->place]);
    if (c->place == PLACE_SIGV4)
        buf_addf(b, "%s/%s", c->region, c->service);
    else
        buf_adds(b, c->place == PLACE_BASIC ? c->user : c->place == PLACE_QUERY ? c->query : c->header);
    if (c->place == PLACE_HEADER && !str_eq(c->format, "{}"))
        buf_addf(b, ": %s", c->format);
}

time_t secret_last_use(const char *home, const char *name) {
    CLEANUP(freep) char *leaf = str_dupf("secret-use/%s", name);
    CLEANUP(freep) char *path = NULL;
    struct stat st;

    if (!leaf || paths_state(environ, home, leaf, &path, NULL) < 0 || !path)
        return 0;
    return lstat(path, &st) < 0 ? 0 : st.st_mtim.tv_sec;
}

int secret_ask_policy(const struct policy *p, const char *host, struct policy_answer *ret, struct err *err) {
    struct host h;
    uint16_t port;
    CLEANUP(freep) char *text = NULL;
    struct policy_question q = {0};
    int r = host_parse_with_port(host, strlen(host), &h, &port, err);

    if (r < 0)
        return r;
    text = str_dupf(h.kind == HOST_IPV6 ? "[%s]:%u" : "%s:%u", h.text, port ? port : 443);
    if (!text)
        return err_oom(err);
    q.host = text;
    q.host_len = strlen(text);
    return policy_ask(p, &q, ret, err);
}

const char *secret_policy_objects(const struct policy_answer *a) {
    const struct policy_verdict *v = policy_answer_verdict(a);

    if (v->action != RULE_ALLOW)
        return v->action == RULE_ASK ? "no rule allows this host (a question to the user is not enough for a secret)" : v->reason;
    if (v->rule && v->rule->inspect == INSPECT_NO)
        return "its rule says \"inspect\": false, so that nothing can be put into requests";
    return NULL;
}

void secret_add_remedy(const struct policy_answer *a, struct buf *b) {
    struct host h;
    bool address = host_parse(a->host, strlen(a->host), &h, NULL) == 0 && h.kind != HOST_NAME;

    buf_addf(b, h.kind == HOST_IPV6 && address ? "bawn policy allow [%s]:%u" : "bawn policy allow %s:%u", a->host, a->port);
    if (address && addr_classify(&h.addr, NULL, 0).class != ADDR_PUBLIC)
        buf_adds(b, " --private");
}
