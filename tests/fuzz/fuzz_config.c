/* SPDX-License-Identifier: Apache-2.0 */
/* The loader over hostile bytes: as a project's file (untrusted and trusted), as a profile and as a policy. */
#include "base/err.h"
#include "config/load/config_file.h"
#include "config/load/load.h"

#define NO_POLICY "/nonexistent/policy.json"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing can be written below the home /dev/null, so looking up a profile leaves no files behind. */
static void as_project(struct jsonfile *d, bool trusted, struct settings *ret) {
    const struct settings_sources src = {.agent = "code", .home = "/dev/null", .org_policy = NO_POLICY};
    struct project p = {.doc = *d};
    struct err err = {0};

    if (load_settings(&src, &p, trusted, ret, &err) < 0 && (err.code >= 0 || err.msg[0] == 0))
        BUG("a failure without a message");
}

static void as_profile(const struct jsonfile *d) {
    CLEANUP(layer_done) struct layer l = {0};
    struct err err = {0};

    file_read_profile(d, "/home/u", "profile", &l, &err);
}

static void as_policy(const struct jsonfile *d, struct settings *s) {
    CLEANUP(layer_done) struct layer floor = {0};
    struct err err = {0};

    if (file_read_policy(d, &floor, &err) == 0 && s->engine)
        layer_apply_floor(&floor, s, &err);
}

/* An untrusted project must never end with more than the built-in values grant. */
static void check_narrow(const struct settings *narrow) {
    const struct settings_sources src = {.org_policy = NO_POLICY};
    CLEANUP(settings_done) struct settings plain = {0};
    struct err err = {0};

    if (!narrow->engine || load_settings(&src, NULL, false, &plain, &err) < 0)
        return;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (i != SETTING_PROFILE && !fields[i].type->within(&fields[i], narrow, &plain))
            BUG("an untrusted project widened something");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(settings_done) struct settings narrow = {0}, wide = {0};
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    struct err err = {0};

    if (jsonfile_parse("input", (const char *)data, size, DOC_SIZE_MAX, &d, &err) < 0)
        return 0;
    as_project(&d, false, &narrow);
    as_project(&d, true, &wide);
    as_profile(&d);
    check_narrow(&narrow);
    as_policy(&d, &wide);
    return 0;
}
