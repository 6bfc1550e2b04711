/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual, made from the verb tables: what `bawn help`, `bawn VERB --help` and the man page say cannot differ from
 * what the parser accepts. Everything is appended to a buffer; nothing here prints.
 */
#pragma once

#include "base/buf.h"
#include "cli/verb.h"

enum { MANUAL_MAX = 1024 * 1024 };

/* A list of verbs, so that tests can bring their own. */
struct manual {
    const struct verb *const *verbs;
    size_t n;
};

/* Every verb with its summary. With a group ("profile"), only "profile ls", "profile show"...; NULL: all. */
void manual_overview(const struct manual *m, const char *group, bool colour, struct buf *b);
/* Usage, description and options of one verb. */
void manual_verb(const struct verb *v, bool colour, struct buf *b);
/* The man page bawn(1), for roff. */
void manual_roff(const struct manual *m, struct buf *b);

/* The verb called so ("profile ls"); NULL if there is none. */
const struct verb *manual_find(const struct manual *m, const char *name);
/* True if some verb has this as the first of its two words. */
bool manual_is_group(const struct manual *m, const char *word);
/* Appends the verb, or the group, that word is a likely slip for; false if there is none. */
bool manual_nearest(const struct manual *m, const char *word, struct buf *b);

/*
 * A command line whose command does not exist, argv[0] being ours: says so and names the nearest one. A group alone ("policy") lists its
 * commands. Returns the exit status, which is 0 only for "policy --help".
 */
int help_unknown(int argc, char **argv);

/* An empty line unless it is the first, then the text, bold if colour. */
void manual_heading(struct buf *b, const char *text, bool colour);

/* when: "always", "never"; "auto" or NULL: if the standard output is a terminal that shows colours and NO_COLOR does not forbid them. */
bool manual_colours(const char *when);

/*
 * Walks a description paragraph by paragraph; an empty line ends one. A paragraph that starts with a space is verbatim
 * (an example). Returns false at the end.
 */
struct manual_paragraph {
    const char *next; /* set it to the description before the first call */
    const char *text;
    size_t len;
    bool verbatim;
};
bool manual_next_paragraph(struct manual_paragraph *p);
