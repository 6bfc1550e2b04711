/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of dependencies and of git's objects, which a review shows as one entry each: an install changes thousands of files, and
 * the one that matters must not drown among them.
 *
 * A folder is recognised by its name and by what is in or beside it (fold_kinds.c), as the changes leave it. All of its files are
 * judged like any other first. Then fold_judge() adds what only the whole shows, each to the change that brings it: a package that
 * the lockfile does not have, a file of a package whose version did not change, a file that belongs to no package, a link out of
 * the folder, a command with the name of one of the system's. So a folder is no place to hide: whatever in it is of high risk and
 * not usual after an install is named.
 */
#pragma once

#include "base/strv.h"
#include "review/risk/risk.h"

struct err;

enum {
    FOLDS_MAX = 256,         /* more are listed file by file */
    FOLD_CHECKED_MAX = 1024, /* folders that have the name of one */
    FOLD_PACKAGES_MAX = 100 * 1000,
    FOLD_SAMPLES = 5, /* paths that are named for a class */
};

/* How the packages of a folder are found (fold_packages.h). */
enum fold_reader {
    FOLD_PLAIN,    /* not at all */
    FOLD_MANIFEST, /* a file in the folder of each */
    FOLD_LIST,     /* one file for all */
    FOLD_PYTHON,   /* NAME-VERSION.dist-info */
};

struct fold_kind {
    const char *name;        /* in the JSON */
    const char *what;        /* for people */
    const char *folder;      /* patterns of its path, as in risk_rules[] */
    const char *proof[2];    /* what must be there, relative to it; each may have alternatives */
    const char *inside;      /* patterns of the first name below it; NULL: all. The rest is not folded */
    const char *reason;      /* why its files are not worth a line each */
    unsigned min;            /* fewer changes are listed one by one */
    enum fold_reader reader; /* and its file: */
    const char *file;        /* the manifest of a package, or the list */
    const char *marker;   /* FOLD_MANIFEST: a folder without this file is no package, and its files are listed. NULL: all are */
    const char *locks;    /* lockfiles beside the folder or above it */
    const char *commands; /* folder with commands, relative to it; NULL: none */
    bool strict;          /* its high risks are listed one by one, too */
};
extern const struct fold_kind fold_kinds[]; /* ends with a row without name */

struct fold_package {
    char *root; /* path in the workspace */
    char *name;
    char *was, *is;                /* versions; NULL: not there */
    char *scripts;                 /* what runs at its install: "preinstall, binding.gyp"; NULL: nothing */
    const struct change *manifest; /* what brings its version; NULL: it did not change */
};

enum fold_lock_state {
    FOLD_LOCK_NONE,
    FOLD_LOCK_AGREES,
    FOLD_LOCK_PARTLY /* not all are in it */,
    FOLD_LOCK_DIFFERS,
    FOLD_LOCK_UNREAD
};
extern const char *const fold_lock_names[];

struct fold_class {
    size_t count;
    bool unusual;   /* one of them is not what an install brings */
    size_t n_shown; /* of these: */
    struct fold_shown {
        const char *path, *reason;
    } shown[FOLD_SAMPLES]; /* a few, and of one kind of reason two at most */
};

struct fold {
    const struct fold_kind *kind;
    char *path;                    /* without a slash at its end */
    struct fold_package *packages; /* that were added, changed or removed, by name */
    size_t n_packages;
    struct strv links;  /* that lead out of the folder */
    struct strv starts; /* files that python runs at every start */
    struct {
        enum fold_lock_state state;
        char *path;
        bool changed;            /* by the run as well */
        struct strv differences; /* sentences */
        size_t unlocked;         /* FOLD_LOCK_PARTLY: packages that it does not name */
    } lock;
    /* filled by fold_count() */
    size_t changes, count[RISK_LEVELS];
    size_t unusual; /* of high risk, and not what an install brings */
    size_t binaries, commands;
    uint64_t bytes; /* of the new versions */
    struct fold_class classes[RISK_CLASSES][RISK_LEVELS];
};

struct fold_set {
    struct fold *v;
    size_t n;
    uint16_t *of; /* for each change of the set: 1 + its index in v; 0: none */
};
void fold_set_done(struct fold_set *s);

/* Which changes are in which folder. */
int fold_find(const struct risk_context *ctx, struct fold_set *ret, struct err *err);

/* Gets the list of risks of a change; NULL: it was not asked for. */
typedef struct risk_list *fold_risks_fn(void *arg, const struct change *c);
/* Finds packages and lockfiles, and adds risks. */
int fold_judge(const struct risk_context *ctx, struct fold_set *s, fold_risks_fn *risks, void *arg, struct err *err);

/* After fold_judge(): a folder in which little changed is listed file by file. */
void fold_drop_small(const struct change_set *set, struct fold_set *s);

/* Counts a change that was asked for. */
void fold_count(struct fold *f, const struct change *c, const struct risk_list *risks, enum risk_level level);
/* Of high risk, and for one reason at least that no honest install has. */
bool fold_unusual(const struct change *c, const struct risk_list *risks);
