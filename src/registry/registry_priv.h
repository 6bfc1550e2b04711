/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the registry share. */
#pragma once

#include "base/buf.h"
#include "os/hidden.h"
#include "registry/registry.h"

#define BOX_INFO_FILE "sandbox.json"
#define BOX_STATE_FILE "state.json"
#define BOX_LOCK_FILE "lock"

enum {
    BOX_INFO_MAX = 1024 * 1024, /* options are what a person typed */
    BOX_STATE_MAX = 64 * 1024,
    BOX_CGROUPS_MAX = 8
};

/* box_json.c: sandbox.json and state.json as in spec/sandbox-folder.md. Readers: -EBADMSG. */
int box_info_write(const struct box_info *i, struct buf *out, struct err *err);
int box_info_parse(const char *text, size_t len, struct box_info *ret, struct err *err);
int box_info_copy(const struct box_info *from, struct box_info *ret, struct err *err);
int box_state_write(const struct box_state *s, struct buf *out, struct err *err);
int box_state_parse(const char *text, size_t len, struct box_state *ret);

/* box_place.c: the folder of all sandboxes. -ENOENT if it is not there and not to be made; refused if it is a link or another user could
 * write in it: the homes of sandboxes are below it. */
int registry_open_boxes(const char *boxes, bool make, struct err *err);
/* A new hidden folder, and its name; *id, if it is not unique, becomes so (malloc'ed). Sweeps what was left by others. */
int registry_make_hidden(int boxes, char ret_name[static HIDDEN_NAME_SIZE], char **id, struct err *err);
/* Writes a file of a sandbox's folder as a whole. synced: it outlives a power cut. */
int registry_put(int dir, const char *name, const struct buf *text, bool synced, struct err *err);
/* Reads one: -ENOENT, -EFBIG, -EBADMSG (no regular file). */
int registry_get(int dir, const char *name, struct buf *text);

/* registry.c: opens (boxes, name), a checked name; path: of boxes, boot: box_boot_id(). -ENOENT without a message: there is none. */
int registry_load(int boxes, const char *path, const char *name, const char *boot, bool lock, struct box *ret, struct err *err);
