/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of gitnew share; others use gitnew.h. */
#pragma once

#include "review/git/gitnew.h"
#include "review/git/idmap.h"
#include "review/git/objects.h"
#include "review/risk/risk_rule.h"

enum { ID_HEX_SIZE = 2 * OBJECT_ID_MAX + 1, MODE_LINK = 0120000, MODE_GITLINK = 0160000, MODE_FOLDER = 0040000 };

/* The name of an object; of SHA-1 the first 20 bytes, then zeros. */
struct id {
    unsigned char b[OBJECT_ID_MAX];
};
static_assert((int)OBJECT_ID_MAX == (int)IDMAP_KEY, "a name is a key");

struct id_list {
    struct id *v;
    size_t n;
};
bool id_read(const char *hex, size_t id_len, struct id *ret); /* 2 * id_len digits */
void id_write(const struct id *id, size_t id_len, char ret[static ID_HEX_SIZE]);

/* One repository. */
struct repo {
    struct risk_context ctx; /* with `look` */
    const char *dir;         /* ".git", "sub/.git", ".git/modules/x"; "" in worktree mode */
    size_t id_len;
    struct objects *objects;
    struct gitnew *out;

    struct idmap old;        /* commits that were there before */
    struct id_list frontier; /* of them, those whose parents are not in it yet */
    struct id head;          /* tree of the old HEAD */
    bool has_head;

    struct idmap commits; /* new ones that were judged, with their levels */
    struct idmap seen;    /* entries that were judged, with their levels */
    uint64_t steps;
    bool hold;

    /* while one place is judged */
    size_t item;                   /* of out->v */
    const struct id *commit;       /* NULL: the index */
    struct id root;                /* tree of the commit */
    size_t missing, damaged, left; /* objects, objects, commits or entries that were not judged */
};

/* gitnew.c */
int gitnew_item(struct gitnew *n, const struct change *carrier, size_t *ret); /* -ENOMEM */
/* A risk of the place that is judged now. path: in the commit or index; NULL: of the place itself. */
int gitnew_add(struct repo *g, enum risk_class class, enum risk_level level, unsigned line, const char *path, const char *fmt,
               ...) PRINTF_LIKE(6, 7);

/* gitnew_tips.c: the git directories that changes lie in, each once. Returns 0, or the number of the change whose repository is
 * one too many; -ENOMEM. */
int repos_find(const struct risk_context *ctx, struct strv *ret);

/* gitnew_tips.c: which ids files name. */
enum tips_kind { TIPS_NONE, TIPS_LINES /* first of each line */, TIPS_LOG /* the first two */, TIPS_ANY, TIPS_INDEX };
enum tips_kind tips_kind(const char *name); /* path below the git directory */
/* Those in `now` that are not in `was`, each once. -EFBIG past GITNEW_TIPS_MAX. */
int tips_new(enum tips_kind kind, size_t id_len, const struct risk_text *was, const struct risk_text *now, struct id_list *ret);
/* Fills g->old, g->frontier and g->head with what was there before the run. */
int tips_gather_old(struct repo *g);
int tips_add_old(struct repo *g, const struct id *id);

/* gitnew_walk.c: commits and trees. */
struct commit {
    struct id tree, parents[GITNEW_PARENTS_MAX];
    size_t n;
    bool cut; /* it has more parents */
};
int walk_commit(struct repo *g, const struct id *id, struct commit *ret); /* -ENOENT: no commit, or not readable; -ENOMEM */
/* All commits that are new behind this id; *ret_level is the highest of them. 1 if there is no such object, else 0, -ENOMEM. */
int walk_tip(struct repo *g, const struct id *tip, enum risk_level *ret_level);
int walk_tree_of(struct repo *g, const struct id *commit, struct id *ret); /* -ENOENT: no commit, or not readable; -ENOMEM */
/* 0, 1: not there or not readable, which is counted; -ENOMEM. */
int gitnew_read(struct repo *g, const struct id *id, struct object *ret);

/* gitnew_tree.c */
/* All that the tree has and none of the bases; without bases, the old HEAD. */
int tree_judge(struct repo *g, const struct id *tree, const struct id *bases, size_t n, enum risk_level *level);
/* One entry of a tree by its path. 1, 0, -ENOMEM. */
int tree_path(struct repo *g, const struct id *root, const char *path, uint32_t *ret_mode, struct id *ret);

/* gitnew_entry.c */
struct entry_side {
    uint32_t mode; /* as git has it; 0: nothing */
    struct id id;
};
/* *ret_level is raised. */
int entry_judge(struct repo *g, const char *path, const struct entry_side *was, const struct entry_side *now,
                enum risk_level *ret_level);
int entry_judge_index(struct repo *g, const struct risk_text *was, const struct risk_text *now);

/* gitnew_objects.c: files of the object store that are new. */
int objects_judge(struct repo *g);
