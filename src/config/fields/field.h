/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings: one row says what a setting is called in files, where it may stand, and which type reads,
 * prints and compares it. Everything else (loader, merger, floor, `config show`) walks this table.
 */
#pragma once

#include "config/fields/doc.h"
#include "config/settings.h"

struct buf;
struct field;
struct field_word;
struct jsonout;

enum { IN_SANDBOX = 1, IN_PROFILE = 2, IN_FLOOR = 4 }; /* kinds of sections */

struct field_type {
    /* From a file: the value is the one the reader stands on. Returns 1 if it is empty, i.e. says nothing. NULL: a string,
     * read by from_text. */
    int (*from_json)(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err);
    int (*from_text)(const struct field *f, const char *text, struct settings *out, struct err *err); /* may be NULL */
    /* True if s grants no more than `than` does. Lets an untrusted project narrow, and finds what a floor must cut. */
    bool (*within)(const struct field *f, const struct settings *s, const struct settings *than);
    int (*merge)(const struct field *f, struct settings *into, const struct settings *from);
    /* Cuts s down to the floor, or fails when the wish contradicts it. NULL: merge. */
    int (*clamp)(const struct field *f, struct settings *s, const struct settings *floor, struct err *err);
    void (*add_json)(const struct field *f, const struct settings *s, struct buf *b);
    const struct field_word *words; /* field_word.c */
    const char *none;               /* what people read where the JSON says null */
    bool adds_up;                   /* several levels contribute */
    bool not_from_project;          /* a project, trusted or not, can only take away */
};

struct field {
    enum setting id;
    const char *key; /* "resources.memory" */
    size_t offset;   /* in struct settings */
    const struct field_type *type;
    unsigned where;
};

static inline void *member(const struct field *f, struct settings *s) {
    return (char *)s + f->offset;
}
static inline const void *member_of(const struct field *f, const struct settings *s) {
    return (const char *)s + f->offset;
}

/* fields[id] is the setting's own row for id < SETTING_COUNT; other spellings follow. */
extern const struct field fields[];
extern const size_t n_fields;

/* The row for a dotted key in this kind of section, or NULL. */
const struct field *field_find(const char *key, unsigned where);
/* True if "key.something" exists in this kind of section. */
bool field_is_group(const char *key, unsigned where);

/* What several types do alike. */
typedef int field_add(void *arg, const char *text, struct err *err);
/* Gives each string of an array to add(). wanted: "an array of hosts" */
int field_read_strings(struct jsonwalk *w, json_t *v, const char *wanted, field_add *add, void *arg, struct err *err);
/* "'x' is not <kind> (did you mean 'y'?)", or else all names. */
int field_unknown_word(const char *word, const char *kind, const char *const *names, size_t n, struct err *err);
/* char *, owned; NULL: none. */
bool string_within(const struct field *f, const struct settings *s, const struct settings *than);
int string_merge(const struct field *f, struct settings *into, const struct settings *from);
void string_add_json(const struct field *f, const struct settings *s, struct buf *b);
/* A member of an object whose key is text of the user's. */
void field_add_pair(struct jsonout *j, const char *key, const char *value);
void field_add_strings(struct buf *b, const struct strv *list);
/* struct strv */
int list_merge(const struct field *f, struct settings *into, const struct settings *from); /* adds what is not there yet */
bool field_list_within(const struct strv *list, const struct strv *than);
int field_copy_list(const struct strv *from, const struct strv *only /* NULL: everything */, struct strv *to); /* may be `from` */
void list_add_json(const struct field *f, const struct settings *s, struct buf *b);

extern const struct field_type type_mode, type_enabled, type_engine, type_engines, type_profile, type_image, type_cpus, type_size,
    type_swap, type_tmp, type_rollback, type_pids, type_duration, type_network, type_ssh_agent, type_system, type_system_ids,
    type_bool, type_nested, type_mounts, type_env, type_tools, type_workspace_mode, type_protect, type_volumes, type_substitutes,
    type_network_allow, type_network_deny, type_publish, type_ask, type_ask_hook, type_ask_timeout, type_secrets, type_ssh_keys;

enum {
    NETWORK_HOSTS_MAX = 256,
    NETWORK_HOST_LEN_MAX = 300,
    MOUNTS_MAX = 128,
    ENV_MAX = 1024,
    TOOLS_MAX = 256,
    WORKSPACE_LIST_MAX = 256,
    WORKSPACE_PATH_MAX = 4096,
    CHOICE_MAX = 64,
    CHOICE_LEN_MAX = 256
};

/* "FROM[:TO][:ro|rw]" and "NAME[=VALUE]", as in flags. */
int mounts_add_text(struct settings *s, const char *text, const char *home, struct err *err);
int env_add_text(struct settings *s, const char *text, struct err *err);
/* "HOST[:PORT]" or "@group"; only what cannot be one is refused here. */
int network_host_add_text(struct strv *list, const char *text, struct err *err);
int publish_add_text(struct settings *s, const char *text, struct err *err); /* "3000", "3000:8080", "0.0.0.0:3000:8080" */
int secrets_add_text(struct settings *s, const char *text, struct err *err);
int ssh_keys_add_text(struct settings *s, const char *text, struct err *err);
void mounts_done(struct settings *s);
void env_done(struct settings *s);
void substitutes_done(struct settings *s);

bool profile_name_is_good(const char *name); /* [A-Za-z0-9._-]{1,64}, no dot in front */
