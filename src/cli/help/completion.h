/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts for shells, made from the verb tables. A script knows verbs, options and fixed values by itself and asks
 * `bawn profile ls` for the names of profiles, `bawn secret ls` for those of secrets; names of sandboxes are those of their
 * folders.
 */
#pragma once

#include "base/buf.h"
#include "cli/help/manual.h"

/* What opt.values means when it starts with '@', in each shell's language. */
struct completion_hint {
    const char *name; /* "@dir" */
    const char *bash; /* a statement that fills COMPREPLY; empty: leave it to readline, which knows files */
    const char *zsh;  /* an action of _arguments */
    const char *fish; /* arguments of `complete` */
};

/* shell: "bash", "zsh" or "fish"; false if it is none of these. */
bool completion_script(const struct manual *m, const char *shell, struct buf *b);

/* The rest is shared by the three writers. */
void completion_bash(const struct manual *m, struct buf *b);
void completion_zsh(const struct manual *m, struct buf *b);
void completion_fish(const struct manual *m, struct buf *b);

/* NULL unless values starts with '@' and is known. */
const struct completion_hint *completion_hint(const char *values);
/* What follows the options of a verb; taken from its synopsis. */
struct completion_operands {
    const char *values; /* as opt.values would say it; NULL: nothing to offer */
    bool once;          /* of several operands only the first is of that kind */
    int command;        /* how many operands precede a command, which has options of its own; or one of these */
};
enum { COMPLETION_NO_COMMAND = -1, COMPLETION_BEHIND_DASHES = -2 };
struct completion_operands completion_operands(const struct verb *v);
/* "a|b|c" becomes "a b c". */
void completion_words(const char *values, struct buf *b);
/* The length of a verb's first word; a verb of one word has nothing behind it. */
size_t completion_first_word(const struct verb *v);
/* True for the first verb of its group ("profile ls" of "profile"), so that a group is visited once. */
bool completion_opens_group(const struct manual *m, size_t i);
/* Verbs of two words begin with the first word of this one, which may be a verb itself: "checkpoint", "checkpoint ls". */
bool completion_has_second(const struct manual *m, size_t i);
bool completion_is_second(const struct verb *v, const struct verb *first);
