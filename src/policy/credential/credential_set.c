/* SPDX-License-Identifier: Apache-2.0 */
/* Sets parts of a credential from text. */
#include <errno.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"

/* What people try, and why it cannot be. */
static int wrong_host(const char *text, struct err *err) {
    static const struct {
        const char *part, *why;
    } reasons[] = {
        {"http://", "a secret is never sent without TLS: give the name of the host, which is reached by https"},
        {"://", "give the name of the host, without https:// and path"},
        {"/", "give the name of the host, without path"},
        {"@", "give the name of the host, without a user"},
        {"*", "a secret is for hosts by their exact names: with a wildcard another owner's host could get it"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strstr(text, reasons[i].part))
            return err_usage(err, "%s", reasons[i].why);
    return 0;
}

int credential_add_host(struct credential *c, const char *text, struct err *err) {
    struct host h;
    uint16_t port;
    int r = wrong_host(text, err);

    if (r < 0)
        return r;
    r = host_parse_with_port(text, strlen(text), &h, &port, err);
    if (r == -EINVAL && err)
        err->status = EXIT_USAGE_ERR;
    if (r < 0)
        return r;
    if (credential_is_for(c, h.text, port ? port : 443))
        return 0;
    if (c->hosts.len == CREDENTIAL_HOSTS_MAX)
        return err_usage(err, "a secret has at most %d hosts", CREDENTIAL_HOSTS_MAX);
    r = strv_addf(&c->hosts, h.kind == HOST_IPV6 ? "[%s]" : "%s", h.text);
    if (r == 0 && port && port != 443) {
        char *with_port = str_dupf("%s:%u", c->hosts.v[c->hosts.len - 1], port);

        free(c->hosts.v[c->hosts.len - 1]);
        c->hosts.v[c->hosts.len - 1] = with_port;
        if (!with_port)
            c->hosts.len--;
        r = with_port ? 0 : -ENOMEM;
    }
    return r < 0 ? err_oom(err) : 0;
}

int credential_set_header(struct credential *c, const char *text, struct err *err) {
    const char *colon = strchr(text, ':'), *format = "{}";
    int r;

    if (colon)
        format = colon + 1 + strspn(colon + 1, " ");
    if (strlen(text) > CREDENTIAL_TEXT_MAX)
        return err_usage(err, "a header is at most %d bytes", CREDENTIAL_TEXT_MAX);
    r = credential_set_text(&c->header, text, colon ? (size_t)(colon - text) : strlen(text));
    r = r < 0 ? r : credential_set_text(&c->format, format, strlen(format));
    c->place = PLACE_HEADER;
    return r < 0 ? err_oom(err) : 0;
}

int credential_set_sigv4(struct credential *c, const char *text, struct err *err) {
    const char *slash = strchr(text, '/');
    int r;

    if (!slash)
        return err_usage(err, "must be REGION/SERVICE, as in eu-central-1/s3");
    r = credential_set_text(&c->region, text, (size_t)(slash - text));
    r = r < 0 ? r : credential_set_text(&c->service, slash + 1, strlen(slash + 1));
    c->place = PLACE_SIGV4;
    return r < 0 ? err_oom(err) : 0;
}

int credential_set_lifetime(struct credential *c, const char *text, struct err *err) {
    uint64_t ms;
    int r = parse_duration(text, &ms, err);

    if (r < 0)
        return r;
    if (ms < 1000 || ms % 1000)
        return err_usage(err, "must be whole seconds");
    c->lifetime_s = ms / 1000;
    return 0;
}
