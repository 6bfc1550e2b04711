/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools about files. Each is a script of sh inside, so that the walls of the sandbox hold for it as for any command: hidden files, the guard
 * of direct mode, Landlock. A path is an argument of the script, never a part of it.
 */
#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"

enum { LINES_MAX = 1000000, LINES_USUAL = 2000, ENTRIES_MAX = 10000 };

struct file_call {
    char *path, *content, *old, *new_;
    uint64_t offset, limit;
    bool all, recursive;
};

static void file_call_done(struct file_call *q) {
    free(q->path);
    free(q->content);
    free(q->old);
    free(q->new_);
}

#define FILE_TEXT(name, member, how) JSON_STRING_OF(name, struct file_call, member, how)
#define FILE_NUMBER(name, member, most)                                                                                      \
    {                                                                                                                        \
        .key = (name), .kind = JSON_KIND_U64, JSON_AS(struct file_call, member, uint64_t), .flags = JSON_OPTIONAL, .min = 1, \
        .max = (most)                                                                                                        \
    }
#define FILE_FLAG(name, member) \
    { .key = (name), .kind = JSON_KIND_BOOL, JSON_AS(struct file_call, member, bool), .flags = JSON_OPTIONAL }

/* Also the place inside that the path means. */
static int file_call_read(struct mcp_call *c, const struct json_table *t, const json_t *arguments, struct file_call *q,
                          char **ret_path, struct err *err) {
    int r = json_table_read(t, arguments, q, err);

    return r < 0 ? r : mcp_path(c, q->path ? q->path : ".", ret_path, err);
}

/* -- read_file ----------------------------------------------------------------------------------------------------------- */

static const struct json_field read_fields[] = {
    FILE_TEXT("path", path, 0),
    FILE_NUMBER("offset", offset, LINES_MAX),
    FILE_NUMBER("limit", limit, LINES_MAX),
};
static const struct json_table read_table = {read_fields, ARRAY_LEN(read_fields), .strict = true};

#define MUST_BE_A_FILE                                                        \
    "[ -e \"$1\" ] || { echo \"there is no file '$1'\" >&2; exit 1; }\n"      \
    "[ -f \"$1\" ] || { echo \"'$1' is not a regular file\" >&2; exit 1; }\n" \
    "[ -r \"$1\" ] || { echo \"'$1' may not be read in the sandbox\" >&2; exit 1; }\n"

int mcp_tool_read(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    static const char script[] = MUST_BE_A_FILE "tail -n \"+$2\" -- \"$1\" | head -n \"$3\"";
    static const struct mcp_command how = {.most = MCP_OUTPUT_MAX};
    CLEANUP(file_call_done) struct file_call q = {.offset = 1, .limit = LINES_USUAL};
    CLEANUP(mcp_ran_done) struct mcp_ran ran = MCP_RAN_INIT;
    CLEANUP(freep) char *path = NULL;
    struct jsonout j = {.to = &ret->json, .compact = true};
    char from[24], lines[24];
    int r = file_call_read(c, &read_table, arguments, &q, &path, err);

    snprintf(from, sizeof from, "%llu", (unsigned long long)q.offset);
    snprintf(lines, sizeof lines, "%llu", (unsigned long long)q.limit);
    r = r < 0 ? r : mcp_script(c, script, (const char *const[]){path, from, lines}, 3, &how, &ran, err);
    if (r < 0)
        return r;
    buf_add(&ret->text, buf_str(&ran.out[0]), ran.out[0].len);
    if (ran.bytes[0] > ran.out[0].len)
        buf_addf(&ret->text, "\n[cut: %llu bytes more]", (unsigned long long)(ran.bytes[0] - ran.out[0].len));
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "path", path);
    jsonout_key(&j, "content");
    rpc_add_text(&ret->json, buf_str(&ran.out[0]), ran.out[0].len);
    jsonout_u64(&j, "offset", q.offset);
    jsonout_u64(&j, "cut", ran.bytes[0] - ran.out[0].len);
    jsonout_close(&j, '}');
    return 0;
}

/* -- write_file ---------------------------------------------------------------------------------------------------------- */

static const struct json_field write_fields[] = {FILE_TEXT("path", path, 0), FILE_TEXT("content", content, 0)};
static const struct json_table write_table = {write_fields, ARRAY_LEN(write_fields), .strict = true};

/* In place: mode, owner and links of a file that is there stay. */
static int file_store(struct mcp_call *c, const char *path, const char *data, size_t len, struct err *err) {
    static const char script[] = "[ ! -d \"$1\" ] || { echo \"'$1' is a folder\" >&2; exit 1; }\n"
                                 "mkdir -p -- \"${1%/*}/\" && exec cat >\"$1\"";
    const struct mcp_command how = {.in = data, .in_len = len, .most = MCP_OUTPUT_USUAL};
    CLEANUP(mcp_ran_done) struct mcp_ran ran = MCP_RAN_INIT;

    return mcp_script(c, script, &path, 1, &how, &ran, err);
}

static void file_add_stored(const char *path, size_t len, uint64_t replaced, struct mcp_reply *ret) {
    struct jsonout j = {.to = &ret->json, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "path", path);
    jsonout_u64(&j, "bytes", len);
    if (replaced)
        jsonout_u64(&j, "replaced", replaced);
    jsonout_close(&j, '}');
    buf_addf(&ret->text, "%s: %zu bytes written", path, len);
    if (replaced)
        buf_addf(&ret->text, ", %llu replaced", (unsigned long long)replaced);
}

int mcp_tool_write(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    CLEANUP(file_call_done) struct file_call q = {0};
    CLEANUP(freep) char *path = NULL;
    int r = file_call_read(c, &write_table, arguments, &q, &path, err);

    r = r < 0 ? r : file_store(c, path, q.content, strlen(q.content), err);
    if (r == 0)
        file_add_stored(path, strlen(q.content), 0, ret);
    return r;
}

/* -- edit ---------------------------------------------------------------------------------------------------------------- */

static const struct json_field edit_fields[] = {
    FILE_TEXT("path", path, 0),
    FILE_TEXT("old_text", old, 0),
    FILE_TEXT("new_text", new_, 0),
    FILE_FLAG("all", all),
};
static const struct json_table edit_table = {edit_fields, ARRAY_LEN(edit_fields), .strict = true};

static int file_load(struct mcp_call *c, const char *path, struct mcp_ran *ret, struct err *err) {
    static const char script[] = MUST_BE_A_FILE "exec cat -- \"$1\"";
    static const struct mcp_command how = {.most = MCP_FILE_MAX};
    int r = mcp_script(c, script, &path, 1, &how, ret, err);

    if (r == 0 && ret->bytes[0] > ret->out[0].len)
        return err_set(err, -EFBIG, "'%.300s' has more than %d bytes: use exec with a program that edits it", path, MCP_FILE_MAX);
    return r;
}

static uint64_t file_replace(const struct buf *from, const struct file_call *q, struct buf *out) {
    const char *at = buf_str(from), *end = at + from->len, *hit;
    size_t len = strlen(q->old);
    uint64_t n = 0;

    while (len && (hit = memmem(at, (size_t)(end - at), q->old, len))) {
        buf_add(out, at, (size_t)(hit - at));
        buf_adds(out, q->new_);
        at = hit + len;
        n++;
    }
    buf_add(out, at, (size_t)(end - at));
    return n;
}

int mcp_tool_edit(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    CLEANUP(file_call_done) struct file_call q = {0};
    CLEANUP(mcp_ran_done) struct mcp_ran ran = MCP_RAN_INIT;
    CLEANUP(buf_done) struct buf out = BUF_INIT(MCP_REPLY_MAX);
    CLEANUP(freep) char *path = NULL;
    uint64_t n;
    int r = file_call_read(c, &edit_table, arguments, &q, &path, err);

    if (r == 0 && !q.old[0])
        return err_set(err, -EBADMSG, "\"old_text\" is empty");
    r = r < 0 ? r : file_load(c, path, &ran, err);
    if (r < 0)
        return r;
    n = file_replace(&ran.out[0], &q, &out);
    if (n == 0)
        return err_set(err, -ENOENT, "old_text is not in '%.300s'", path);
    if (n > 1 && !q.all)
        return err_set(err, -EEXIST, "old_text is %llu times in '%.300s': give more of what is around it, or \"all\": true",
                       (unsigned long long)n, path);
    if (!buf_ok(&out))
        return err_set(err, -EFBIG, "the file would be too large");
    r = file_store(c, path, buf_str(&out), out.len, err);
    if (r == 0)
        file_add_stored(path, out.len, n, ret);
    return r;
}

/* -- list_files ---------------------------------------------------------------------------------------------------------- */

static const struct json_field list_fields[] = {FILE_TEXT("path", path, JSON_OPTIONAL), FILE_FLAG("recursive", recursive)};
static const struct json_table list_table = {list_fields, ARRAY_LEN(list_fields), .strict = true};

/* "d NAME" NUL for each: names have any other byte. In two runs of find, because busybox's has no -printf. */
static const char list_script[] =
    "[ -d \"$1\" ] || { echo \"'$1' is not a folder\" >&2; exit 1; }\n"
    "cd -- \"$1\" || exit 1\n"
    "for t in d f l; do find . -mindepth 1 $2 -type \"$t\" -exec sh -c 't=$1; shift; for f; do printf \"%s %s\\0\" \"$t\" \"${f#./}\"; done' sh \"$t\" {} +; "
    "done\n"
    "find . -mindepth 1 $2 ! -type d ! -type f ! -type l -exec sh -c 'for f; do printf \"o %s\\0\" \"${f#./}\"; done' sh {} +";

static const char *list_kind(char c) {
    return c == 'd' ? "folder" : c == 'f' ? "file" : c == 'l' ? "link" : "other";
}

static size_t list_add(const struct buf *found, struct jsonout *j, struct buf *text) {
    const char *at = buf_str(found), *end = at + found->len, *stop;
    size_t n = 0;

    for (; (stop = memchr(at, 0, (size_t)(end - at))) && n < ENTRIES_MAX; at = stop + 1, n++) {
        if (stop - at < 3)
            continue;
        jsonout_open(j, NULL, '{');
        jsonout_text(j, "name", at + 2);
        jsonout_text(j, "kind", list_kind(*at));
        jsonout_close(j, '}');
        buf_add_printable(text, at + 2);
        buf_adds(text, *at == 'd' ? "/\n" : "\n");
    }
    return n;
}

int mcp_tool_list(struct mcp_call *c, const json_t *arguments, struct mcp_reply *ret, struct err *err) {
    static const struct mcp_command how = {.most = MCP_OUTPUT_MAX};
    CLEANUP(file_call_done) struct file_call q = {0};
    CLEANUP(mcp_ran_done) struct mcp_ran ran = MCP_RAN_INIT;
    CLEANUP(freep) char *path = NULL;
    struct jsonout j = {.to = &ret->json, .compact = true};
    bool cut;
    int r = file_call_read(c, &list_table, arguments, &q, &path, err);

    r = r < 0 ? r : mcp_script(c, list_script, (const char *const[]){path, q.recursive ? "" : "-maxdepth 1"}, 2, &how, &ran, err);
    if (r < 0)
        return r;
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "path", path);
    jsonout_open(&j, "entries", '[');
    cut = list_add(&ran.out[0], &j, &ret->text) == ENTRIES_MAX || ran.bytes[0] > ran.out[0].len;
    jsonout_close(&j, ']');
    jsonout_bool(&j, "cut", cut);
    jsonout_close(&j, '}');
    if (cut)
        buf_adds(&ret->text, "[there is more]\n");
    return 0;
}
