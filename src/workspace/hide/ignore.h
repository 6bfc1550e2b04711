/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which paths of a workspace are hidden: `.sandboxignore` files with the semantics of git's .gitignore (git 2.39 is the judge,
 * tests/integration/test_ignore_git.py asks it). Names and patterns are bytes, never characters.
 *
 *     CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
 *     r = ignore_add_file(ig, "", ".sandboxignore", text, len, &err);
 *     r = ignore_add_file(ig, "web", "web/.sandboxignore", text2, len2, &err);
 *     if (ignore_match(ig, "web/.env", false) == IGNORE_EXCLUDED) ...
 *
 * Files are compiled when they are added; matching allocates nothing, changes nothing and costs at most
 * O(length of the path * length of all patterns), whatever the patterns are.
 */
#pragma once

#include "base/macros.h"

struct err;

#define IGNORE_FILE ".sandboxignore"

struct buf;
/* Appends a name or path as a pattern that matches just it: one line, so '?' stands for the end of a line. */
void ignore_quote(struct buf *out, const char *name);

/* Past any of these a file is refused: a rule that was not read would be a secret that is not hidden. */
enum {
    IGNORE_FILE_MAX = 1024 * 1024, /* bytes of one file */
    IGNORE_LINE_MAX = 4096,        /* bytes of one pattern: no path is longer */
    IGNORE_PATTERNS_MAX = 10000,   /* in all files together */
    IGNORE_FILES_MAX = 4096,
    IGNORE_BYTES_MAX = 4 * IGNORE_FILE_MAX, /* of all files together */
    IGNORE_DEPTH_MAX = 256,                 /* folders below the workspace */
};

enum ignore_verdict { IGNORE_NONE, IGNORE_EXCLUDED, IGNORE_REINCLUDED };

/* The rule that decided. The strings live as long as the struct ignore; all 0 if no rule did. */
struct ignore_why {
    const char *origin;  /* as given to ignore_add_file() */
    unsigned line;       /* from 1 */
    const char *pattern; /* the line as it counts: without trailing spaces and line end */
};

struct ignore;

struct ignore *ignore_new(void); /* NULL: no memory */
void ignore_free(struct ignore *ig);
void ignore_freep(struct ignore **ig);

/*
 * Adds the rules of one file. `dir` is its folder ("" for the workspace itself, else "a/b"), `origin` how ignore_why names
 * it. Files may come in any order; deeper ones win over higher ones, and of two for the same folder the later one wins.
 */
int ignore_add_file(struct ignore *ig, const char *dir, const char *origin, const char *data, size_t len, struct err *err);

/*
 * `path` is relative to the workspace: no leading or trailing '/', no "." or "..". is_dir says what the path itself is
 * (a symbolic link is no folder); what comes before a '/' is one. Below an excluded folder everything is excluded.
 */
enum ignore_verdict ignore_match(const struct ignore *ig, const char *path, bool is_dir);
/* The same, and why; ret_why may be NULL. */
enum ignore_verdict ignore_explain(const struct ignore *ig, const char *path, bool is_dir, struct ignore_why *ret_why);

/* For many paths of one folder in a row: the folders above are judged once. All 0 before the first; belongs to one caller. */
enum { IGNORE_MEMO_MAX = 4096 };
struct ignore_memo {
    size_t files; /* of ig when it was asked; 0: not yet */
    const struct ignore_list *rules;
    bool excluded;
    size_t len;
    char folder[IGNORE_MEMO_MAX];
};
/* As ignore_match(), always with the same ig. */
enum ignore_verdict ignore_match_near(const struct ignore *ig, struct ignore_memo *m, const char *path, bool is_dir);

/* The i-th file as it was added; NULL after the last. */
struct ignore_source {
    char *dir, *origin, *data;
    size_t len;
};
const struct ignore_source *ignore_source(const struct ignore *ig, size_t i);

/* The folder of the i-th file that was added; NULL after the last. */
const char *ignore_folder(const struct ignore *ig, size_t i);

/*
 * For walkers, which know that no folder above the path is excluded: the rules that hold inside a folder, and what they say
 * about one path in it. A list lives as long as the struct ignore; files that are added later count through it too.
 */
struct ignore_list;
const struct ignore_list *ignore_rules_in(const struct ignore *ig, const char *dir, size_t len);
enum ignore_verdict ignore_judge(const struct ignore_list *rules, const char *path, size_t len, bool is_dir,
                                 struct ignore_why *ret_why);
