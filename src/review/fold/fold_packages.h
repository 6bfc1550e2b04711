/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of a folder: readers of what their tools leave there, and what the files of the room share. */
#pragma once

#include "base/strv.h"
#include "review/fold/fold.h"
#include "review/risk/risk_deps.h"
#include "review/risk/risk_rule.h"

void fold_packages_done(struct fold_package *v, size_t n);

/* -- readers of hostile bytes; data[len] is 0. What is not there stays empty, what is too long is cut ------------------------- */

enum { PACKAGE_NAME_MAX = 255, PACKAGE_VERSION_MAX = 127, PACKAGE_SCRIPTS_MAX = 127 };

struct package_facts {
    char name[PACKAGE_NAME_MAX + 1], version[PACKAGE_VERSION_MAX + 1];
    char scripts[PACKAGE_SCRIPTS_MAX + 1]; /* "preinstall, postinstall" */
    char checksum[PACKAGE_NAME_MAX + 1];
};
typedef void package_read_fn(struct package_facts *ret, const char *data, size_t len);
package_read_fn package_read_json;     /* package.json, .bower.json */
package_read_fn package_read_cargo;    /* Cargo.toml */
package_read_fn package_read_checksum; /* .cargo-checksum.json */
package_read_fn package_read_metadata; /* METADATA of a dist-info */

/* Each package of a list: modules.txt of go, installed.json of composer. */
typedef void package_each_fn(const char *name, const char *version, void *arg);
void package_read_modules(const char *data, size_t len, package_each_fn *each, void *arg);
void package_read_installed(const char *data, size_t len, package_each_fn *each, void *arg);
/* Each path of a RECORD, relative to site-packages, without quotes. */
void package_read_record(const char *data, size_t len, void (*each)(const char *path, void *arg), void *arg);

/* package.json: the file, relative to it, is one of its commands. */
bool package_declares(const char *data, size_t len, const char *file);

/* As the package index compares names: "Foo.Bar_baz" is "foo-bar-baz". */
void package_python_name(char *name);

/* -- the folder at work --------------------------------------------------------------------------------------------------- */

struct fold_lock_index {
    struct deps deps;
    struct fold_lock_entry {
        char *name;
        const char *version, *hash; /* in deps */
    } * v;                          /* by name */
    size_t n;
    size_t above;  /* length of the folder of the lockfile, with its slash */
    bool by_path;  /* names are paths, as npm writes them */
    bool complete; /* what it does not name should not be there */
};
void fold_lock_done(struct fold_lock_index *x);

struct fold_work {
    const struct risk_context *ctx;
    struct fold_set *set;
    struct fold *f;
    uint16_t number; /* of the fold, in set->of */
    struct fold_lock_index lock;
    fold_risks_fn *risks;
    void *arg;
    bool failed; /* memory ran out */
};

/* Adds a risk of the class "dependency" to a change. */
void fold_risk(struct fold_work *w, const struct change *c, enum risk_level level, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* A file before or after the changes. False: none, or it cannot be read whole. */
bool fold_text(struct fold_work *w, const char *path, bool after, struct risk_text *ret);
/* Content, target or existence of a file or link, not only its mode. */
bool fold_matters(const struct change *c);
/* Adds a package; name and versions are copied, "" is none. NULL: no memory, or too many. */
struct fold_package *fold_package_new(struct fold_work *w, const char *root, const char *name, const char *was, const char *is);

/* How much of a path is the folder of the package it belongs to; 0: of none. */
size_t fold_package_root(const struct fold *f, const char *path);

/* Finds the lockfile and reads it. */
void fold_lock_load(struct fold_work *w);
/* Compares a package with the lockfile; hash may be NULL. */
void fold_lock_check(struct fold_work *w, const struct fold_package *p, const char *hash);
/* npm: what it says it installed, node_modules/.package-lock.json, against the lockfile. */
void fold_lock_installed(struct fold_work *w);

typedef void fold_packages_fn(struct fold_work *w);
fold_packages_fn fold_packages_manifest, fold_packages_list, fold_packages_python;
