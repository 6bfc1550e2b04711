/* SPDX-License-Identifier: Apache-2.0 */
/* A wanted run, and its form as words. */
#include "ops/run/run_request.h"

#include "base/err.h"
#include "base/str.h"
#include "ops/run/run_shape.h"

static const struct opt shape_opts[] = {RUN_SHAPE_OPTS, RUN_IDLE_OPT};

void run_request_done(struct run_request *q) {
    struct settings_flags *f = &q->flags;
    struct strv *const lists[] = {&f->allow, &f->deny, &f->publish, &f->secrets, &f->ssh_keys, &f->env, &f->mounts};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        strv_done(lists[i]);
}

int run_request_sandbox(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    if (value && !str_eq(value, "auto") && !str_eq(value, "require"))
        return err_usage(err, "--sandbox takes auto or require, not '%s'", value);
    *(const char **)to = value ? value : "auto";
    return 0;
}

int run_request_agent_config(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    if (value && !str_eq(value, "ask") && !str_eq(value, "yes"))
        return err_usage(err, "--agent-config takes ask or yes, not '%s'", value);
    *(const char **)to = value ? value : "ask";
    return 0;
}

int run_request_no_sandbox(const struct opt *o UNUSED, const char *value UNUSED, void *to, struct err *err UNUSED) {
    *(const char **)to = "off";
    return 0;
}

static int add_words(const struct opt *o, const char *member, struct strv *ret) {
    const struct strv *list = (const void *)member;
    enum opt_kind kind = o->slot.kind;
    const char *text;
    int r = 0;

    if (kind == OPT_KIND_FLAG)
        return *(const bool *)member ? strv_addf(ret, "--%s", o->name) : 0;
    if (kind == OPT_KIND_LIST) {
        for (size_t i = 0; r == 0 && i < list->len; i++)
            r = strv_addf(ret, "--%s=%s", o->name, list->v[i]);
        return r;
    }
    if (kind != OPT_KIND_TEXT && kind != OPT_KIND_CALL) /* run_request_sandbox() */
        BUG("an option of a sandbox has a kind that has no words");
    text = *(const char *const *)(const void *)member;
    return text ? strv_addf(ret, "--%s=%s", o->name, text) : 0;
}

int run_request_words(const struct run_request *q, struct strv *ret, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(shape_opts); i++) {
        const struct opt *o = &shape_opts[i];

        if (o->slot.offset != offsetof(struct run_request, dir) && add_words(o, (const char *)q + o->slot.offset, ret) < 0)
            return err_oom(err);
    }
    return 0;
}

int run_request_read(struct run_request *q, const struct strv *words, struct err *err) {
    CLEANUP(freep) char **argv = calloc(words->len + 2, sizeof *argv);
    int r;

    if (!argv)
        return err_oom(err);
    argv[0] = "start";
    for (size_t i = 0; i < words->len; i++)
        argv[i + 1] = words->v[i];
    r = opt_parse(shape_opts, ARRAY_LEN(shape_opts), (int)words->len + 1, argv, q, 0, err);
    return r < 0 ? r : 0;
}
