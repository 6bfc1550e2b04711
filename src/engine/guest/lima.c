/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine lima: `limactl start FILE`, `limactl shell`, `limactl delete` (Lima 1.0 or later). The file has nothing of the host but the folders of the
 * run: no home, no ports, no keys, no agent. Lima merges files of the user's own into it (_config/override.yaml in its home), so the mounts of
 * the machine are read back and compared.
 */
#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/guest/guest.h"

/* The guest's own needs beyond what the command may use. */
enum { SYSTEM_MIB = 512, LEAST_MIB = 1024, MIB = 1024 * 1024, LIST_MAX = 4 * 1024 * 1024 };
#define MOUNTS "/mnt/bawn"

/* Lima reads "{{" in its file as a template, and "~" at the beginning as a home. */
static int add_value(struct buf *out, const char *key, const char *value, struct err *err) {
    buf_addf(out, "%s: ", key);
    if (strstr(value, "{{") || *value == '~' || lima_quote(value, out) < 0)
        return err_set(err, -EINVAL, "lima cannot have '%.200s' in its configuration; use another name", value);
    buf_addc(out, '\n');
    return 0;
}

static const struct {
    const char *location, *arch;
} default_images[] = {
    {"https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-amd64.qcow2", "x86_64"},
    {"https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-arm64.qcow2", "aarch64"},
};

static int add_images(struct buf *out, const char *image, struct err *err) {
    buf_adds(out, "images:\n");
    if (image)
        return add_value(out, "- location", image, err);
    for (size_t i = 0; i < ARRAY_LEN(default_images); i++)
        buf_addf(out, "- location: \"%s\"\n  arch: \"%s\"\n", default_images[i].location, default_images[i].arch);
    return 0;
}

static void add_size(struct buf *out, const struct limits *l) {
    if (l->cpus_milli)
        buf_addf(out, "cpus: %u\n", (unsigned)((l->cpus_milli + 999) / 1000));
    if (l->memory)
        buf_addf(out, "memory: \"%uMiB\"\n", (unsigned)MAX_OF(l->memory / MIB + SYSTEM_MIB, (uint64_t)LEAST_MIB));
}

static int add_shares(struct buf *out, const struct guest_shares *s, struct err *err) {
    int r = 0;

    buf_adds(out, "mounts:\n");
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        r = add_value(out, "- location", s->v[i].from, err);
        r = r < 0 ? r : add_value(out, "  mountPoint", s->v[i].at, err);
        buf_addf(out, "  writable: %s\n", s->v[i].writable ? "true" : "false");
    }
    return r;
}

static const char closed[] = "ssh:\n"
                             "  loadDotSSHPubKeys: false\n"
                             "  forwardAgent: false\n"
                             "  forwardX11: false\n"
                             "portForwards:\n"
                             "- guestIP: \"0.0.0.0\"\n"
                             "  guestIPMustBeZero: false\n"
                             "  proto: \"any\"\n"
                             "  ignore: true\n"
                             "containerd:\n"
                             "  system: false\n"
                             "  user: false\n"
                             "propagateProxyEnv: false\n";

static int lima_create(const struct guest_kind *k, const char *name, const char *folder, const struct plan *p, const char *image,
                       const struct guest_shares *s, struct strv *ret, struct buf *ret_file, struct err *err) {
    CLEANUP(freep) char *file = str_dupf("%s/" GUEST_FILE, folder), *named = str_dupf("--name=%s", name);
    int r;

    buf_adds(ret_file, "# Written by bawn for one run; the machine is removed at its end.\n");
    r = add_images(ret_file, image, err);
    add_size(ret_file, &p->limits);
    buf_adds(ret_file, "disk: \"10GiB\"\n");
    r = r < 0 ? r : add_shares(ret_file, s, err);
    buf_adds(ret_file, closed);
    if (r < 0)
        return r;
    return !file || !named || !buf_ok(ret_file) || guest_argv(k, ret, "start", "--tty=false", named, file, NULL) < 0
               ? err_oom(err)
               : 0;
}

static int lima_exec(const struct guest_kind *k, const char *name, const char *script, struct strv *ret) {
    return guest_argv(k, ret, "shell", "--workdir=/", name, "sudo", "-n", "sh", script, NULL);
}

static int lima_remove(const struct guest_kind *k, const char *name, struct strv *ret) {
    return guest_argv(k, ret, "delete", "--force", name, NULL);
}

static bool is_share(const struct guest_shares *s, const json_t *mount) {
    const char *at = json_string_value(json_object_get(mount, "mountPoint"));
    bool writable = !json_is_false(json_object_get(mount, "writable"));

    for (size_t i = 0; at && i < s->n; i++)
        if (str_eq(s->v[i].at, at))
            return s->v[i].writable || !writable;
    return false;
}

static int lima_check(const struct guest_kind *k, const struct container_cli *cli, const char *name, const struct guest_shares *s,
                      struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(LIST_MAX), said = BUF_INIT(GUEST_TEXT_MAX);
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(json_decrefp) json_t *info = NULL;
    const json_t *mounts;
    int r = guest_argv(k, &argv, "list", "--json", name, NULL);

    r = r < 0 ? r : container_call(cli, argv.v, NULL, &out, &said);
    info = r == 0 ? json_loadb(buf_str(&out), out.len, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    mounts = json_object_get(json_object_get(info, "config"), "mounts");
    if (!json_is_array(mounts))
        return err_set(err, -EPROTO,
                       "engine lima: 'limactl list --json' does not say what the machine mounts; Lima 1.0 is needed");
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *m = json_array_get(mounts, i);
        const char *from = json_string_value(json_object_get(m, "location"));

        if (!is_share(s, m))
            return err_set(err, -EPERM,
                           "engine lima: the machine would have '%.200s', which Bawn did not ask for; take it out of "
                           "_config/default.yaml and _config/override.yaml in lima's home",
                           from ? from : "?");
    }
    return 0;
}

static const char *const no_prefix[] = {NULL}, *const version[] = {"--version", NULL}, *const list[] = {"list", "--quiet", NULL};

const struct guest_kind guest_lima = {
    .cli = {.name = "lima",
            .program = "limactl",
            .options = no_prefix,
            .by_bytes = true,
            .of_users = no_prefix,
            .bundle = guest_bundle},
    .prefix = no_prefix,
    .version = version,
    .sized = true,
    .at = MOUNTS,
    .remedy = "install it ('brew install lima')",
    .create = lima_create,
    .exec = lima_exec,
    .remove = lima_remove,
    .check = lima_check,
    .list = list,
};

static const struct guest_kind *const kinds[] = {&guest_lima, NULL};

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    return guest_probe(kinds, ret, ret_names, max);
}

static int lima_image(const char *name UNUSED, struct engine_image *ret, struct err *err) {
    return guest_image(ret, err);
}

static int lima_start(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    *ret_next = RUNG_FULL;
    return guest_start(kinds, req, sb, err);
}

static void lima_finish(struct sandbox *sb) {
    guest_finish(kinds, sb);
}

const struct engine_ops engine_lima = {
    .name = "lima",
    .summary = "a virtual machine of lima for each run",
    .can_keep = ENFORCES_EVERYTHING,
    .asks_others = true,
    .takes_image = true,
    .own_image = "debian-12",
    .has_gate = true,
    .unmapped = true,
    .modes = 1 << WORKSPACE_SYNC | 1 << WORKSPACE_WORKTREE,
    .image = lima_image,
    .probe = probe,
    .start = lima_start,
    .stop = container_stop,
    .finish = lima_finish,
};
