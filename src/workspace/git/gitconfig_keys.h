/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of gitconfig_judge.h: keys, and what may be said of each. */
#pragma once

#include "base/macros.h"

struct gitconfig_scene;

/* value: NULL where the file has no '='. */
typedef bool gitconfig_value_fn(const struct gitconfig_scene *s, const char *value, const char *words);

struct gitconfig_key {
    const char *pattern;       /* in lower case; '*' stands for a subsection */
    gitconfig_value_fn *value; /* NULL: never */
    const char *words;         /* for value: those that are allowed, with a '|' between them */
    const char *reason;        /* why it is harmless, or, for NULL, what git would do */
};

/* The row for a key as gitconfig_parse() says it; NULL: it is in no row, and so not allowed. */
const struct gitconfig_key *gitconfig_key_find(const char *key);
const struct gitconfig_key *gitconfig_key_find_module(const char *key); /* of a .gitmodules */

/* gitconfig_values.c */
gitconfig_value_fn value_bool, value_number, value_word, value_text, value_lines, value_name, value_url, value_remote,
    value_fetch, value_push, value_inside, value_worktree, value_module_url, value_module_path, value_one_of, value_harmless;
