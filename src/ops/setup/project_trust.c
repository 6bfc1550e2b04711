/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what the project's files say with what they may say without trust. */
#include "ops/setup/project_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/load/config_file.h"
#include "config/load/load.h"
#include "config/load/paths.h"
#include "config/load/trust.h"
#include "ops/audit_verb.h"
#include "os/fd.h"
#include "policy/rules/rule.h"

enum { RULE_TEXT_MAX = 4 * 1024 * 1024 };

void project_trust_done(struct project_trust *t) {
    free(t->home);
    free(t->workspace);
    free(t->records);
    project_done(&t->project);
    project_network_done(&t->network);
    strv_done(&t->widens);
}

/* What this file does must not depend on what the environment says for one run, only on where the user's files are. */
static char **lasting_environment(void) {
    size_t n = 0, used = 0;
    char **copy;

    while (environ && environ[n])
        n++;
    copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!str_starts(environ[i], "BAWN_"))
            copy[used++] = environ[i];
    return copy;
}

static int add_widening(struct project_trust *st, const char *agent, char *const *variables, struct err *err) {
    struct settings_sources src = {.agent = agent, .workspace = st->workspace, .home = st->home, .environ_ = variables};
    CLEANUP(settings_done) struct settings s = {0};
    int r = load_settings(&src, &st->project, false, &s, err);

    for (size_t i = 0; r == 0 && i < s.notes.len; i++) {
        const char *note = s.notes.v[i], *end = strstr(note, " not applied: the project is not trusted");
        CLEANUP(freep) char *wish = end ? strndup(note, (size_t)(end - note)) : NULL;

        if (end && !wish)
            return err_oom(err);
        if (wish && !strv_has(&st->widens, wish) && strv_add(&st->widens, wish) < 0)
            return err_oom(err);
    }
    return r;
}

/* Trusted, a profile that the project names takes the place of the user's, and what only that one narrows is lost. */
static int add_lost_profile(struct project_trust *st, const char *agent, char *const *variables, struct err *err) {
    struct settings_sources src = {.agent = agent, .workspace = st->workspace, .home = st->home, .environ_ = variables};
    CLEANUP(settings_done) struct settings own = {0}, trusting = {0};
    int r = load_settings(&src, NULL, false, &own, err);
    CLEANUP(freep) char *wish = NULL;
    struct err refused = {0}; /* against the floor: nothing runs then */

    if (r < 0 || !own.profile || load_settings(&src, &st->project, true, &trusting, &refused) < 0 ||
        str_eq(own.profile, trusting.profile))
        return r;
    wish = str_dupf("%s: profile '%s' in place of your '%s'", st->project.doc.name, trusting.profile, own.profile);
    return !wish || (!strv_has(&st->widens, wish) && strv_add(&st->widens, wish) < 0) ? err_oom(err) : 0;
}

/* The user trusts the whole file, so every agent's section counts, not only the one that would run now. */
static int find_widenings(struct project_trust *st, struct err *err) {
    CLEANUP(freep) char **variables = lasting_environment();
    CLEANUP(strv_done) struct strv agents = {0};
    int r;

    if (!variables)
        return err_oom(err);
    r = add_widening(st, NULL, variables, err);
    r = r < 0 ? r : add_lost_profile(st, NULL, variables, err);
    if (r < 0)
        return r;
    if (file_agents(&st->project.doc, &agents) < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < agents.len; i++) {
        r = add_widening(st, agents.v[i], variables, err);
        r = r < 0 ? r : add_lost_profile(st, agents.v[i], variables, err);
    }
    return r;
}

static int add_rule_wish(struct project_trust *st, const struct rule *rule, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(RULE_TEXT_MAX);

    rule_add_json(rule, &text);
    return strv_addf(&st->widens, "%s: rule %s", st->network.path, buf_str(&text)) < 0 ? err_oom(err) : 0;
}

/* The project's network rules: every rule that does not deny, and the mode, count only with trust. */
static int inspect_network(struct project_trust *st, struct err *err) {
    CLEANUP(closep) int top = open(st->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(rules_done) struct rules rules = {0};
    int r;

    if (top < 0)
        return err_sys(err, -errno, "open the workspace '%s'", st->workspace);
    r = project_network_read(top, &st->network, err);
    if (r <= 0)
        return r;
    st->network_exists = true;
    r = rules_read(st->network.path, st->network.text, st->network.len, &rules, err);
    if (r == 0 && rules.mode != NET_UNSET &&
        strv_addf(&st->widens, "%s: mode '%s'", st->network.path, net_mode_names[rules.mode]) < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < rules.len; i++)
        r = rules.v[i].action == RULE_DENY ? 0 : add_rule_wish(st, &rules.v[i], err);
    return r < 0 ? r : project_network_trusted(st->records, &st->network, &st->network_trusted, err);
}

static int find_project(const char *directory, struct project_trust *st, struct err *err) {
    int r = paths_home(environ, &st->home, err);

    r = r < 0 ? r : paths_workspace(directory, &st->workspace, err);
    r = r < 0 ? r : trust_file(environ, st->home, &st->records, err);
    if (r < 0)
        return r;
    return st->records ? 0 : err_set(err, -ENOENT, "there is no home folder to keep trust records in");
}

int project_trust_look(const char *directory, struct project_trust *ret, struct err *err) {
    int r = find_project(directory, ret, err);

    r = r < 0 ? r : inspect_network(ret, err);
    r = r < 0 ? r : project_read(ret->workspace, &ret->project, err);
    if (r <= 0)
        return r;
    ret->exists = true;
    r = trust_check(ret->records, ret->workspace, ret->project.hash, &ret->trusted, err);
    return r < 0 ? r : find_widenings(ret, err);
}

bool project_trust_complete(const struct project_trust *t) {
    return (!t->exists || t->trusted) && (!t->network_exists || t->network_trusted);
}

const char *project_trust_state(const struct project_trust *t) {
    if (t->revoked)
        return "revoked";
    if (!t->exists && !t->network_exists)
        return "none";
    return project_trust_complete(t) ? "trusted" : "untrusted";
}

/* Which content of which project. */
static int log_trust(const struct project_trust *t, const char *what, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    audit_add(&b, "what", what);
    audit_add(&b, "workspace", t->workspace);
    audit_add(&b, "config_sha256", t->exists ? t->project.hash : NULL);
    audit_add(&b, "network_sha256", t->network_exists ? t->network.hash : NULL);
    return audit_verb(AUDIT_POLICY, "", &b, err);
}

int project_trust_grant(struct project_trust *t, struct err *err) {
    int r = log_trust(t, "project trusted", err);

    if (r == 0 && t->exists)
        r = trust_record(t->records, t->project.workspace, t->project.hash, err);
    if (r == 0 && t->network_exists)
        r = trust_record(t->records, t->network.path, t->network.hash, err);
    if (r == 0)
        t->trusted = t->network_trusted = true;
    return r;
}

int project_trust_revoke(const char *directory, struct project_trust *ret, struct err *err) {
    CLEANUP(freep) char *network = NULL;
    int r = find_project(directory, ret, err), n;

    r = r < 0 ? r : log_trust(ret, "trust revoked", err);
    if (r < 0)
        return r;
    network = str_dupf("%s/%s", ret->workspace, PROJECT_NETWORK_FILE);
    r = network ? trust_revoke(ret->records, ret->workspace, err) : err_oom(err);
    n = r < 0 ? r : trust_revoke(ret->records, network, err);
    ret->revoked = r > 0 || n > 0;
    return n < 0 ? n : 0;
}
