/* SPDX-License-Identifier: Apache-2.0 */
/* What a lockfile locks: names with a version, where they come from and the hash of what must arrive. */
#pragma once

#include "base/buf.h"

struct risk_case;

enum dep_field {
    DEP_NAME,
    DEP_VERSION,
    DEP_SOURCE, /* hosts, separated by spaces; empty: the usual registry */
    DEP_HASH,   /* of several hashes, one over all */
    DEP_FIELDS
};
enum { DEPS_MAX = 500000, DEPS_BYTES_MAX = 64 * 1024 * 1024 };

struct dep {
    size_t field[DEP_FIELDS]; /* offsets in text; 0: empty */
    unsigned line;
};
struct deps {
    struct dep *v;
    size_t n;
    struct buf text;
    unsigned odd; /* the first line that was not understood; 0: none */
};
#define DEPS_INIT \
    { .text = BUF_INIT(DEPS_BYTES_MAX) }

void deps_done(struct deps *d);
/* Never NULL. */
const char *deps_field(const struct deps *d, size_t i, enum dep_field f);

/* Adds one; what follows with deps_set() is about it. */
void deps_begin(struct deps *d, unsigned line);
/* Of DEP_SOURCE the host is added to those that are known; of DEP_HASH each one counts; the others are replaced. */
void deps_set(struct deps *d, enum dep_field f, const char *s, size_t len);
/* "name@1.0.0", also with a scope: "@a/b@1.0.0". */
void deps_set_at(struct deps *d, const char *s, size_t len);
void deps_odd(struct deps *d, unsigned line);

typedef void deps_read_fn(struct deps *d, const char *data, size_t len);
deps_read_fn deps_read_npm, deps_read_yarn, deps_read_yarn1, deps_read_pnpm, deps_read_bun, deps_read_toml, deps_read_pipfile,
    deps_read_composer, deps_read_flake, deps_read_deno, deps_read_go_sum, deps_read_gemfile, deps_read_gradle,
    deps_read_requirements;

/* The reader for a lockfile of this name; NULL: none knows it. */
deps_read_fn *deps_reader(const char *name);

/* Reports what was added, removed, changed, moved to another host, or lost its hash. */
void deps_compare(struct risk_case *c, struct deps *before, struct deps *now);
