/* SPDX-License-Identifier: Apache-2.0 */
/* A profile for macOS from what a run here would enforce. */
#include "ops/run/run_seatbelt.h"

#include <errno.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "engine/seatbelt/sbpl.h"
#include "ops/run/run_prepare.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"

static int take_mounts(const struct settings *s, struct strv *readable, struct strv *changeable, struct err *err) {
    for (size_t i = 0; i < s->n_mounts; i++) {
        const struct mount_spec *m = &s->mounts[i];

        if (!str_eq(m->from, m->to))
            return err_usage(err, "sandbox-exec cannot show '%s' by another name; mount it without one", m->from);
        if (strv_add(m->writable ? changeable : readable, m->from) < 0)
            return err_oom(err);
    }
    return s->workspace.n_substitutes
               ? err_usage(err, "sandbox-exec cannot show a file in another one's place (workspace.substitute)")
               : 0;
}

static int make_argv(const struct run_prepared *p, bool network, struct strv *ret) {
    static const char *const words[] = {"sandbox-exec", "-f", "bawn.sb", "-D", "BAWN_HOME=HOME", "-D", "BAWN_TMP=TMP"};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(words); i++)
        r = strv_add(ret, words[i]);
    if (network && r >= 0 && (r = strv_add(ret, "-D")) >= 0)
        r = strv_add(ret, "BAWN_GATE=localhost:PORT");
    for (size_t i = 0; r >= 0 && i < p->input.argc; i++)
        r = strv_add(ret, p->input.argv[i]);
    return r;
}

static void print_text(const struct buf *profile, const struct strv *argv, struct buf *out) {
    buf_adds(out, buf_str(profile));
    buf_adds(out,
             "\n; In capitals: real paths of two empty folders, and the gate's port. As bawn.sb, this profile is used by\n;");
    for (size_t i = 0; i < argv->len; i++) {
        CLEANUP(buf_done) struct buf word = BUF_INIT(1024 * 1024);

        buf_add_shell(&word, argv->v[i]);
        buf_addc(out, ' ');
        buf_add_printable(out, buf_str(&word)); /* a comment ends with its line */
    }
    buf_addc(out, '\n');
}

static void print_json(const struct buf *profile, const struct strv *argv, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "profile", buf_str(profile));
    jsonout_list(&j, "argv", argv);
    jsonout_close(&j, '}');
    buf_addc(out, '\n');
}

int run_seatbelt_print(const struct run_prepared *p, bool json, struct buf *out, struct err *err) {
    const struct settings *s = &p->settings;
    CLEANUP(strv_done) struct strv readable = {0}, changeable = {0}, argv = {0};
    CLEANUP(ignore_freep) struct ignore *protect = NULL;
    CLEANUP(buf_done) struct buf profile = BUF_INIT(SBPL_MAX);
    enum workspace_mode mode = settings_workspace_mode(s);
    struct sbpl_policy policy = {.workspace = p->facts.workspace,
                                 .writable = mode == WORKSPACE_DIRECT,
                                 .network = s->net.mode != NETWORK_NONE,
                                 .hide = p->hidden.rules,
                                 .readable = &readable,
                                 .changeable = &changeable};
    int r = take_mounts(s, &readable, &changeable, err);

    if (r == 0 && mode != WORKSPACE_DIRECT && mode != WORKSPACE_RO)
        r = err_usage(err, "sandbox-exec has the workspace itself: --workspace direct, or ro");
    r = r < 0 ? r : protect_rules(&s->workspace.protect, NULL, &protect, err);
    policy.protect = protect;
    r = r < 0 ? r : sbpl_make(&policy, &profile, err);
    if (r == 0 && make_argv(p, policy.network, &argv) < 0)
        r = err_oom(err);
    if (r == 0)
        (json ? print_json : print_text)(&profile, &argv, out);
    return r;
}
