/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of buckets. S3 has a bucket in the path (s3.eu-central-1.amazonaws.com/bucket) or, as all current clients do it, before the
 * name of the endpoint (bucket.s3.eu-central-1.amazonaws.com). Both are the same service of AWS's, and any client can choose
 * any bucket in the first way already: a secret that signs for an endpoint signs for the second way, too.
 */
#include "base/str.h"
#include "policy/credential/credential_priv.h"

/* If text begins with word and a dot, what is behind them; else text. */
static const char *skip_label(const char *text, const char *word) {
    const char *rest = str_starts(text, word) ? text + strlen(word) : text;

    return rest > text && *rest == '.' ? rest + 1 : text;
}

/* s3.REGION, s3.dualstack.REGION, s3-accelerate, NAME-ACCOUNT.s3-accesspoint.REGION, s3-REGION, ... and amazonaws.com */
static bool is_endpoint(const char *name, const char *region) {
    static const char *const families[] = {
        "s3", "s3-fips", "s3-accelerate", "s3-accesspoint", "s3-accesspoint-fips", "s3-control", "s3-control-fips",
    };
    const char *rest = name;

    for (size_t i = 0; i < ARRAY_LEN(families) && rest == name; i++)
        rest = skip_label(name, families[i]);
    if (rest == name && str_starts(name, "s3-")) /* the old form */
        rest = skip_label(name + 3, region) == name + 3 ? name : skip_label(name + 3, region);
    if (rest == name)
        return false;
    rest = skip_label(skip_label(rest, "dualstack"), region);
    return str_eq(rest, "amazonaws.com") || str_eq(rest, "amazonaws.com.cn");
}

const char *credential_s3_endpoint(const struct credential *c, const char *host) {
    const char *dot;

    if (c->place != PLACE_SIGV4 || !c->region || !c->service || !str_eq(c->service, "s3"))
        return NULL;
    for (dot = strchr(host, '.'); dot; dot = strchr(dot + 1, '.'))
        if (is_endpoint(dot + 1, c->region))
            return dot + 1;
    return NULL;
}
