/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn image pull`, `ls`, `inspect`, `rm` and `prune`. */
#include <errno.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/record.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/image/image_pull.h"
#include "supervisor/session/progress_bar.h"

/* -- pull --------------------------------------------------------------------------------------------------------------- */

struct pull_line {
    struct image_pull_request pull;
    bool json;
};

static const struct opt pull_opts[] = {
    {0, 't', "tag", "NAME", "what it is called in the store (default: as it is called there)", NULL,
     OPT_TO_TEXT(struct pull_line, pull.tag)},
    {0, 0, "arch", "ARCH", "for another machine: amd64, arm64, arm/v7 (default: this one)", NULL,
     OPT_TO_TEXT(struct pull_line, pull.arch)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct pull_line, json)},
    VERB_QUIET_OPT,
};

static void print_pulled(const struct image_pulled *p, bool json, struct buf *out) {
    struct jsonout j = {.to = out};

    if (!json) {
        buf_addf(out, "%s\n", p->name);
        return;
    }
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "name", p->name);
    jsonout_text(&j, "id", p->id);
    jsonout_u64(&j, "layers", p->layers);
    jsonout_u64(&j, "bytes", p->bytes);
    jsonout_close(&j, '}');
    buf_addc(out, '\n');
}

static int run_pull(struct verb_call *c, struct err *err) {
    struct progress_bar bar = PROGRESS_BAR_INIT("getting the image");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(image_pulled_done) struct image_pulled pulled = {0};
    struct pull_line q = {.pull.progress = &progress};
    int r = verb_parse(c, &q, 1, err);

    bar.of_bytes = true;
    if (r == 0)
        r = err_usage(err, "which image? for example 'bawn image pull debian:12', or the path of an archive");
    q.pull.what = c->argv[1];
    r = r < 0 ? r : image_pull(&q.pull, &pulled, err);
    progress_bar_done(&bar);
    if (r == 0)
        print_pulled(&pulled, q.json, &c->out);
    return r;
}

const struct verb verb_image_pull = {
    .name = "image pull",
    .summary = "get an image, for 'bawn run --image'",
    .synopsis = "[options] REF|FILE|DIR|docker:NAME|podman:NAME",
    .description =
        "Gets an image from a registry, from an archive of 'docker save', 'podman save' or 'skopeo copy', from a folder of the OCI layout, or from Docker or "
        "Podman on this machine. Every part is compared with its digest. A program of its own does this, which reaches nothing but the "
        "registry and the store. Layers are unpacked once, whichever images have them; set-id bits are dropped, and devices become empty files.\n\n"
        "A registry is reached over TLS, but for one on this machine (localhost, 127.0.0.1). The login is that of 'docker login': ~/.docker/config.json and "
        "its helpers.\n\n"
        "    bawn image pull debian:12\n"
        "    bawn image pull docker:my-image\n"
        "    bawn run --image debian:12 -- cat /etc/os-release",
    VERB_OPTS(pull_opts),
    .run = run_pull,
};

/* -- ls ----------------------------------------------------------------------------------------------------------------- */

static void add_short_id(const void *row, struct buf *cell) {
    buf_addf(cell, "%.12s", oci_digest_hex(((const struct image_row *)row)->id));
}

static void add_full_id(const void *row, const char *key, struct jsonout *j) {
    jsonout_text(j, key, ((const struct image_row *)row)->id);
}

static const struct column image_columns[] = {
    {"IMAGE", "name", COLUMN(TEXT, struct image_row, name), .width = 24, .none = "-"},
    {"ID", "id", .kind = COLUMN_NONE, .text = add_short_id, .json = add_full_id},
    {"LAYERS", "layers", COLUMN(U64, struct image_row, layers), .width = -6},
    {"SIZE", "bytes", COLUMN(SIZE, struct image_row, bytes)},
    {"PULLED", "pulled", COLUMN(TIME, struct image_row, pulled_ns), .none = "-"},
    {"USED", "used", COLUMN(BOOL, struct image_row, used)},
    {NULL, "arch", COLUMN(TEXT, struct image_row, arch)},
};
static const struct record_kind image_records = {image_columns, ARRAY_LEN(image_columns), sizeof(struct image_row)};

static int run_ls(struct verb_call *c, struct err *err) {
    CLEANUP(image_store_done) struct image_store s = IMAGE_STORE_INIT;
    CLEANUP(image_rows_done) struct image_rows rows = {0};
    struct jsonout j = {.to = &c->out};
    bool json = false;
    int r = verb_parse(c, &json, 0, err);

    r = r < 0 ? r : image_store_of_user(false, &s, err);
    if (r == 0)
        r = image_store_list(&s, &rows, err);
    else if (r == -ENOENT && !err->code)
        r = 0;
    if (r < 0)
        return r;
    if (json) {
        record_array(&image_records, rows.v, rows.n, NULL, RECORD_BETWEEN, &j);
        buf_addc(&c->out, '\n');
    } else if (rows.n) {
        record_table(&image_records, rows.v, rows.n, false, &c->out);
    } else {
        log_line("there are no images yet: 'bawn image pull' gets one");
    }
    return 0;
}

const struct verb verb_image_ls = {
    .name = "image ls",
    .summary = "list images",
    .synopsis = "[options]",
    .description =
        "Lists the images of the store with their size unpacked; layers that several have count for each. An image without a name "
        "had one that means another by now: 'bawn image prune' removes it.",
    VERB_OPTS(verb_json_opts),
    .run = run_ls,
};

/* -- inspect ------------------------------------------------------------------------------------------------------------ */

static void print_image(const struct image_info *i, const char *name, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "name", name);
    jsonout_text(&j, "id", i->id);
    jsonout_text(&j, "manifest", i->manifest[0] ? i->manifest : NULL);
    jsonout_text(&j, "arch", i->arch);
    jsonout_text(&j, "user", i->user);
    jsonout_u64(&j, "uid", i->uid);
    jsonout_u64(&j, "gid", i->gid);
    jsonout_text(&j, "workdir", i->workdir);
    jsonout_list(&j, "env", &i->env);
    jsonout_list(&j, "entrypoint", &i->entrypoint);
    jsonout_list(&j, "cmd", &i->cmd);
    jsonout_list(&j, "layers", &i->layers);
    jsonout_u64(&j, "bytes", i->bytes);
    jsonout_u64(&j, "entries", i->entries);
    jsonout_close(&j, '}');
    buf_addc(out, '\n');
}

/* -ENOENT with the words for a store that is not there. */
static int open_store(const char *wanted, struct image_store *s, struct err *err) {
    int r = image_store_of_user(false, s, err);

    if (r == -ENOENT && !err->code)
        return err_set(err, r, "there is no image '%.200s' in the store: get it with 'bawn image pull'", wanted);
    return r;
}

static int run_inspect(struct verb_call *c, struct err *err) {
    CLEANUP(image_store_done) struct image_store s = IMAGE_STORE_INIT;
    CLEANUP(image_info_done) struct image_info i = {0};
    CLEANUP(freep) char *name = NULL;
    bool json = false;
    int r = verb_parse(c, &json, 1, err);

    if (r == 0)
        r = err_usage(err, "which image? see 'bawn image ls'");
    r = r < 0 ? r : open_store(c->argv[1], &s, err);
    r = r < 0 ? r : image_store_find(&s, c->argv[1], &i, NULL, &name, err);
    if (r == 0)
        print_image(&i, name, &c->out);
    return r;
}

const struct verb verb_image_inspect = {
    .name = "image inspect",
    .summary = "show what an image says about itself, as JSON",
    .synopsis = "[options] IMAGE",
    .description =
        "Shows user, variables, command and layers of an image, which is named by its reference or the first digits of its id.",
    VERB_OPTS(verb_json_opts),
    .run = run_inspect,
};

/* -- rm, prune ---------------------------------------------------------------------------------------------------------- */

static int run_rm(struct verb_call *c, struct err *err) {
    CLEANUP(image_store_done) struct image_store s = IMAGE_STORE_INIT;
    int n = verb_parse(c, NULL, c->argc, err), r = n;

    if (n == 0)
        r = err_usage(err, "which image? see 'bawn image ls'");
    r = r < 0 ? r : open_store(c->argv[1], &s, err);
    for (int i = 1; r >= 0 && i <= n; i++)
        r = image_store_remove(&s, c->argv[i], err);
    return MIN_OF(r, 0);
}

const struct verb verb_image_rm = {
    .name = "image rm",
    .summary = "remove images",
    .synopsis = "IMAGE...",
    .description =
        "Removes a name, and with its last name the image and the layers that no other has. An image that a running sandbox uses stays.",
    .run = run_rm,
};

struct prune_images_line {
    bool all, json;
};

static const struct opt prune_opts[] = {
    {0, 'a', "all", NULL, "also images with a name, unless a sandbox that runs uses them", NULL,
     OPT_TO_FLAG(struct prune_images_line, all)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct prune_images_line, json)},
};

static int run_prune(struct verb_call *c, struct err *err) {
    CLEANUP(image_store_done) struct image_store s = IMAGE_STORE_INIT;
    struct image_pruned done = {0};
    struct prune_images_line q = {0};
    int r = verb_parse(c, &q, 0, err);

    r = r < 0 ? r : image_store_of_user(false, &s, err);
    if (r == 0)
        r = image_store_prune(&s, q.all, &done, err);
    else if (r == -ENOENT && !err->code)
        r = 0;
    if (r < 0)
        return r;
    buf_addf(&c->out,
             q.json ? "{\"images\": %llu, \"layers\": %llu, \"downloads\": %llu}\n"
                    : "removed: %llu images, %llu layers, %llu downloads\n",
             (unsigned long long)done.images, (unsigned long long)done.layers, (unsigned long long)done.downloads);
    return 0;
}

const struct verb verb_image_prune = {
    .name = "image prune",
    .summary = "remove what no image needs",
    .synopsis = "[options]",
    .description = "Removes images without a name, layers that no image has, and downloads that were broken off.",
    VERB_OPTS(prune_opts),
    .run = run_prune,
};
