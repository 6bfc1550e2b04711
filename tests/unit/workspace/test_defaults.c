/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/ignore.h"

/* Every rule that hides has samples, and each is hidden by that very rule: so `--check` asks for exactly this set. */
static void test_samples(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();

    assert_int_equal(defaults_add(ig, NULL), 0);
    for (size_t i = 0; i < n_ignore_defaults; i++) {
        const struct ignore_default *d = &ignore_defaults[i];
        bool hides = d->line[0] && d->line[0] != '#' && d->line[0] != '!';

        assert_int_equal(d->samples[0] != NULL, hides);
        for (size_t j = 0; j < DEFAULTS_SAMPLES && d->samples[j]; j++) {
            struct ignore_why why;

            assert_int_equal(ignore_explain(ig, d->samples[j], false, &why), IGNORE_EXCLUDED);
            assert_string_equal(why.pattern, d->line);
            assert_int_equal(why.line, i + 1);
            assert_string_equal(why.origin, DEFAULTS_ORIGIN);
        }
    }
}

static void test_templates_are_shown(void **state) {
    static const char *const shown[] = {".env.example", "web/.env.sample", ".env.template",
                                        "package.json", "src/key.c",       ".gitignore"};
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();

    assert_int_equal(defaults_add(ig, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        assert_int_not_equal(ignore_match(ig, shown[i], false), IGNORE_EXCLUDED);
}

static void test_what_was_asked_for(void **state) {
    static const char *const asked[] = {".env",
                                        ".env.*",
                                        "!.env.example",
                                        "*.pem",
                                        "*.key",
                                        "*.p12",
                                        "*.pfx",
                                        "*.keystore",
                                        "credentials.json",
                                        "service-account*.json",
                                        ".aws/",
                                        ".gcp/",
                                        ".azure/",
                                        ".envrc",
                                        "id_rsa*",
                                        "*.kubeconfig",
                                        ".netrc",
                                        ".npmrc",
                                        ".pypirc",
                                        "**/.docker/config.json",
                                        "terraform.tfstate*",
                                        ".git-credentials"};

    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        bool there = false;

        for (size_t j = 0; j < n_ignore_defaults; j++)
            there = there || str_eq(ignore_defaults[j].line, asked[i]);
        assert_true(there);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_templates_are_shown),
        cmocka_unit_test(test_what_was_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
