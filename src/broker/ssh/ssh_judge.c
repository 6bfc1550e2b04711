/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether something may be signed by a key of the agent. */
#include "broker/ssh/ssh_judge.h"

#include <errno.h>

#include "broker/ssh/ssh_hostkey.h"
#include "broker/ssh/ssh_known.h"

enum { PORT_HTTP = 80, PORT_TLS = 443 };

struct ssh_search {
    const struct broker *b;
    struct ssh_known known;
    struct ssh_verdict *v;
    bool seen; /* the key has a host, be it one that policy does not allow */
};

static int refuse_signature(struct ssh_verdict *v, const char *why) {
    v->why = why;
    return -EACCES;
}

/* Through the gate only HTTP and TLS come to these: a session with one was led there another way (ATTACKS 60). */
static bool is_for_web(uint16_t port) {
    return port == PORT_HTTP || port == PORT_TLS;
}

static bool try_name(void *arg, const struct host *host, uint16_t port) {
    struct ssh_search *s = arg;

    if (!ssh_known_has(&s->known, host->text, port))
        return false;
    s->seen = true;
    snprintf(s->v->host, sizeof s->v->host, "%s", host->text);
    s->v->port = port;
    return !is_for_web(port) && judge_connection(s->b, host, port) == 0;
}

static bool try_guess(struct ssh_search *s, const struct ssh_guess *guess) {
    struct host host;

    return guess->port && host_parse(guess->host, strlen(guess->host), &host, NULL) == 0 && try_name(s, &host, guess->port);
}

static int find_host(const struct broker *b, struct ssh_bytes key, const struct ssh_guess *guess, struct ssh_verdict *v) {
    struct ssh_search s = {.b = b, .v = v};
    int r = ssh_known_find(b->config.known_hosts ? b->config.known_hosts : "", key, &s.known);

    if (r == -EKEYREVOKED)
        return refuse_signature(v, "the host key is revoked in known_hosts");
    if (r < 0)
        return refuse_signature(v, "the host key is not in known_hosts");
    if (try_guess(&s, guess) || ssh_names_each(&b->config, &b->policy, try_name, &s))
        return 0;
    return refuse_signature(v, s.seen ? "policy does not allow that host"
                                      : "no rule names the host of this key, whose name is hashed");
}

static int judge_login(const struct broker *b, const struct ssh_bind *bind, const struct ssh_sign *sign,
                       const struct ssh_userauth *auth, const struct ssh_guess *guess, struct ssh_verdict *v) {
    if (!bind)
        return refuse_signature(v, "the client does not say to which host it logs in (OpenSSH 8.9 and later do)");
    if (!ssh_same(auth->key, sign->key))
        return refuse_signature(v, "the login is for another key");
    if (!ssh_same(auth->session, bind->session))
        return refuse_signature(v, "the login is for another session");
    if (auth->host_key.len && !ssh_same(auth->host_key, bind->host_key))
        return refuse_signature(v, "the login is for another host");
    if (ssh_hostkey_verify(bind->host_key, bind->signature, bind->session) < 0)
        return refuse_signature(v, "the host key did not sign the session");
    return find_host(b, bind->host_key, guess, v);
}

int ssh_judge(const struct broker *b, struct ssh_bytes bind_bytes, const struct ssh_sign *sign, const struct ssh_guess *guess,
              struct ssh_verdict *ret) {
    struct ssh_bind bind;
    struct ssh_userauth auth;
    struct ssh_sshsig sig;
    bool bound = bind_bytes.len > 0;

    *ret = (struct ssh_verdict){.what = ""};
    if (!b->config.ssh)
        return refuse_signature(ret, "the ssh-agent is off");
    if (bound && ssh_bind_parse(bind_bytes, &bind) < 0)
        return refuse_signature(ret, "the session cannot be read");
    if (bound && bind.forwarding)
        return refuse_signature(ret, "the agent was forwarded to another machine");
    if (ssh_userauth_parse(sign->data, &auth) == 0) {
        ret->what = "login";
        return judge_login(b, bound ? &bind : NULL, sign, &auth, guess, ret);
    }
    if (ssh_sshsig_parse(sign->data, &sig) < 0)
        return refuse_signature(ret, "it is neither a login nor a commit");
    ret->what = "commit";
    return ssh_is(sig.purpose, "git") ? 0 : refuse_signature(ret, "only git's signatures are made");
}
