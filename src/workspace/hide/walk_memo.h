/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the last search for hidden files met in a workspace, so that a start does not read folders again in which nothing changed. One file
 * per workspace in $XDG_STATE_HOME/bawn/walks, out of any sandbox's reach; without it, or if anything about it is wrong, all is read.
 *
 * A folder counts as unchanged if it is the same inode and its ctime is the same. The inside can set a folder's mtime, but not its ctime,
 * and no name appears, goes or changes its kind in a folder without a new one. Not trusted, and so read again every time:
 *   - a folder that changed within MEMO_SLACK_NS before the search: clocks of file systems are coarse;
 *   - one of another file system or mount, or of another owner unless root searches: whether it can be read depends on more than its ctime;
 *   - an encrypted one, whose names change when its key comes;
 *   - everything on file systems whose ctime is not the kernel's own (memo_begin() has the list).
 * Rules are not in here, only their hashes: every .sandboxignore is read at every start. Link counts are asked anew, too.
 */
#pragma once

#include "base/buf.h"
#include "base/macros.h"

struct err;

enum { MEMO_RULES_LEN = 16, MEMO_MAX = 64 * 1024 * 1024, MEMO_WORTH = 1000, MEMO_NONE = UINT32_MAX };
#define MEMO_SLACK_NS 2000000000ull

enum memo_kind { MEMO_FOLDER, MEMO_HIDDEN_FILE, MEMO_HIDDEN_FOLDER, MEMO_KINDS };

struct memo_stamp {
    uint64_t ino, ctime_ns;
    bool trusted; /* a folder with this stamp is the same later */
};

struct memo_item {
    const char *name; /* not terminated */
    uint16_t name_len, depth;
    enum memo_kind kind;
    struct memo_stamp stamp;    /* of a folder */
    const unsigned char *rules; /* hash of the folder's own rules; NULL: it has none. The workspace's own folder always has one */
    uint32_t next;              /* the first item that is not below this one */
};

struct walk_memo {
    struct buf old_text, text; /* text: what this search met */
    struct memo_item *v; /* the items of old_text: item 0 is the workspace, the others are behind the folder that they are in */
    uint32_t n;
    uint64_t began_ns, dev;
    uint64_t uid;      /* who searches */
    size_t read;       /* entries that this search read */
    uint64_t ahead_ns; /* for tests: the clock counts as so much later */
    bool usable;
};

#define WALK_MEMO_INIT \
    { .old_text = BUF_INIT(MEMO_MAX), .text = BUF_INIT(MEMO_MAX) }
void walk_memo_done(struct walk_memo *m);

/* The folder of the memos; NULL as for pin_folder(). */
int walk_memo_folder(char *const *environ_, const char *home, char **ret, struct err *err);
/* Fills it from a file; one that is missing or wrong is an empty memo. */
void walk_memo_load(struct walk_memo *m, const char *path);
void walk_memo_parse(struct walk_memo *m); /* old_text */
/* Completes `text` after the search, so that it can be the next one's old_text. */
void walk_memo_seal(struct walk_memo *m);
/* After the search, if it read enough for the next one to gain by it. Failing to is no error. */
void walk_memo_store(struct walk_memo *m, const char *dir, const char *name);

/* -- for ignore_scan() -- */

void memo_begin(struct walk_memo *m, int root);
/* Of a folder that is open, or below one by its path; no link at its end is followed. 0 or -errno */
int memo_look(const struct walk_memo *m, int fd, const char *path, struct memo_stamp *ret);
void memo_add(struct walk_memo *m, enum memo_kind kind, unsigned depth, const char *name, const struct memo_stamp *stamp,
              const unsigned char *rules);
/* The folder `name` directly in the folder `in`; *hint is the caller's place in it, 0 at first. MEMO_NONE: not found nearby. */
uint32_t memo_child(const struct walk_memo *m, uint32_t in, const char *name, uint32_t *hint);
bool memo_same(const struct walk_memo *m, uint32_t at, const struct memo_stamp *now);
