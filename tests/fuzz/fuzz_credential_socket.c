/* SPDX-License-Identifier: Apache-2.0 */
/* A line on the socket of credentials. The answer is always one line with one object, whose "ok" says whether it worked; a URL
 * is opened only if it may be. */
#include <jansson.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/secret/credd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *hosts[] = {"api.example.com", "eu.example.com:8443", NULL}, *variables[] = {"EXAMPLE_KEY", NULL};
static struct grant grants[] = {
    {.c = {.name = "example", .hosts = {hosts, 2, 3}, .header = "x-api-key", .format = "{}", .env = {variables, 1, 2}},
     .placeholder = "ex-abcdefghijklmnopqrstuvwx",
     .placeholder2 = ""},
    {.c = {.name = "aws", .hosts = {hosts, 1, 3}, .place = PLACE_SIGV4, .region = "eu-central-1", .service = "s3"},
     .placeholder = "AKIAABCDEFGHIJKLMNOP",
     .placeholder2 = "abcdefghijklmnopqrstuvwxyzabcdefghijklmn"},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(CREDD_ANSWER_MAX);
    CLEANUP(freep) char *url = NULL;
    struct gate_config config = {.grants = grants, .n_grants = ARRAY_LEN(grants)};
    json_t *answer;
    bool ok;

    credd_answer(&config, (const char *)data, size, &out, &url);
    if (!buf_ok(&out) || !out.len || strlen(out.data) != out.len || memchr(out.data, '\n', out.len) != out.data + out.len - 1)
        BUG("the answer is not one line");
    answer = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    ok = json_is_true(json_object_get(answer, "ok"));
    if (!json_is_object(answer) || (!ok && !json_is_string(json_object_get(answer, "code"))))
        BUG("the answer is no object that says whether it worked");
    if (url && (!ok || !credd_url_ok(url) || strlen(url) > CREDD_URL_MAX))
        BUG("an address that must not be opened");
    json_decref(answer);
    return 0;
}
