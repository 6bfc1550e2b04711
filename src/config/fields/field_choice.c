/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the user's own things go with a run: "all", "none", or some by name. A project may always have less, never more. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/fields/field.h"

static int choice_add(struct setting_choice *c, const char *name, struct err *err) {
    if (strv_has(&c->names, name))
        return 0;
    if (c->names.len == CHOICE_MAX)
        return err_usage(err, "more than %d names", CHOICE_MAX);
    return strv_add(&c->names, name) < 0 ? err_oom(err) : 0;
}

static int add_secret(void *choice, const char *name, struct err *err) {
    if (!profile_name_is_good(name))
        return err_usage(err, "'%.80s' is not the name of a secret (letters, digits, '.', '_', '-'; at most 64)", name);
    return choice_add(choice, name, err);
}

static int add_key(void *choice, const char *name, struct err *err) {
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return err_usage(err, "a key is its fingerprint (SHA256:...) or its comment, without control characters");
    if (n == 0 || n > CHOICE_LEN_MAX)
        return err_usage(err, "a key is its fingerprint (SHA256:...) or its comment, of 1 to %d bytes", CHOICE_LEN_MAX);
    return choice_add(choice, name, err);
}

int secrets_add_text(struct settings *s, const char *text, struct err *err) {
    return add_secret(&s->secrets, text, err);
}

int ssh_keys_add_text(struct settings *s, const char *text, struct err *err) {
    return add_key(&s->ssh.keys, text, err);
}

static int choice_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    const char *word = json_is_string(v) ? json_string_value(v) : "";
    struct setting_choice *c = member(f, out);

    c->all = str_eq(word, "all");
    if (c->all || str_eq(word, "none"))
        return 0;
    return field_read_strings(w, v, "\"all\", \"none\" or an array of names", f->type == &type_secrets ? add_secret : add_key, c,
                              err);
}

static bool choice_within(const struct field *f, const struct settings *s, const struct settings *than) {
    const struct setting_choice *a = member_of(f, s), *b = member_of(f, than);

    return b->all || (!a->all && field_list_within(&a->names, &b->names));
}

/* Keeps what `only` has; NULL: everything. */
static int copy_choice(const struct setting_choice *from, const struct setting_choice *only, struct setting_choice *to) {
    to->all = from->all;
    return field_copy_list(&from->names, only && !only->all ? &only->names : NULL, &to->names);
}

static int choice_merge(const struct field *f, struct settings *into, const struct settings *from) {
    return copy_choice(member_of(f, from), NULL, member(f, into));
}

static int choice_clamp(const struct field *f, struct settings *s, const struct settings *floor, struct err *err) {
    const struct setting_choice *most = member_of(f, floor);
    struct setting_choice *c = member(f, s);
    int r = c->all ? copy_choice(most, NULL, c) : copy_choice(c, most, c);

    return r < 0 ? err_oom(err) : 0;
}

static void choice_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    const struct setting_choice *c = member_of(f, s);

    if (c->all || c->names.len == 0)
        buf_adds(b, c->all ? "\"all\"" : "\"none\"");
    else
        field_add_strings(b, &c->names);
}

bool choice_has(const struct setting_choice *c, const char *name) {
    return c->all || strv_has(&c->names, name);
}

#define CHOICE                                                                                            \
    .from_json = choice_from_json, .within = choice_within, .merge = choice_merge, .clamp = choice_clamp, \
    .add_json = choice_add_json, .not_from_project = true
const struct field_type type_secrets = {CHOICE};
const struct field_type type_ssh_keys = {CHOICE};
