/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of a run: definitions, grants, the file store, variables inside. */
#include "supervisor/credential/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "engine/engine.h"
#include "jail/plan/plan.h"
#include "os/fd.h"
#include "os/keyring.h"
#include "supervisor/credential/vault_spawn.h"
#include "vault/sealed.h"

enum { GITIGNORE_MAX = 256 * 1024, NAMES_MAX = 1000 };
#define SEED_FILE "placeholder.seed" /* in $XDG_STATE_HOME/bawn */

void run_credentials_done(struct run_credentials *c) {
    for (size_t i = 0; i < c->n_grants; i++)
        grant_done(&c->grants[i]);
    free(c->grants);
    ssh_outside_done(&c->ssh);
    inside_sockets_done(&c->sockets);
    strv_done(&c->env);
    free(c->gitignore);
    free(c->program);
    *c = (struct run_credentials)RUN_CREDENTIALS_INIT;
}

/* Definitions ------------------------------------------------------------------------------------------------------ */

int credentials_load(char *const *environ_, const char *home, struct credentials *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(CREDENTIALS_FILE_MAX + 1);
    CLEANUP(freep) char *path = NULL;
    int r = paths_config(environ_, home, "secrets.json", &path, err);

    if (r < 0 || !path)
        return r;
    r = paths_read_own(path, CREDENTIALS_FILE_MAX, &text, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    return credentials_read(path, buf_str(&text), text.len, ret, err);
}

/* The file store ---------------------------------------------------------------------------------------------------- */

/* Only the head, which is not secret: what is behind it is for bawn-vault. */
static bool read_head(const struct host_facts *facts, struct sealed_head *ret) {
    CLEANUP(freep) char *path = NULL;
    CLEANUP(closep) int fd = -1;

    if (paths_config(facts->environ_, facts->home, "secrets.enc", &path, NULL) < 0 || !path)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd >= 0 && fd_read_some(fd, ret, sizeof *ret) == (ssize_t)sizeof *ret;
}

static bool is_locked(const struct host_facts *facts) {
    char id[SEALED_ID_TEXT];
    struct sealed_head h;

    if (paths_getenv(facts->environ_, "BAWN_PASSPHRASE_FILE") || !read_head(facts, &h) || h.kind != SEALED_PASSPHRASE)
        return false;
    hex_encode(h.id, SEALED_ID, id);
    return !keyring_has(id);
}

static void list_names(const struct run_credentials *c, const struct credentials *defined, struct buf *out) {
    for (size_t i = 0; i < c->n_grants; i++) {
        const struct credential *d = credentials_find(defined, c->grants[i].c.name);

        if (!d || d->store != STORE_FILE)
            continue;
        buf_adds(out, out->len ? ", " : "");
        buf_adds(out, d->name);
    }
}

static int unlock_store(const struct host_facts *facts, struct err *err) {
    const struct vault_job job = {.verb = "--unlock", .sock = -1, .terminal = true, .environ_ = facts->environ_};
    int status = 0, r = vault_run(&job, &status, err);

    if (r < 0 || status == 0)
        return r;
    return err_set(err, -ENOKEY, "the file store of secrets stays locked; --no-secrets runs without them");
}

/* Asks for the passphrase on the terminal, or reports what will fail without. */
static int credentials_unlock(const struct run_credentials *c, const struct credentials *defined, const struct host_facts *facts,
                              struct err *err) {
    CLEANUP(buf_done) struct buf names = BUF_INIT(NAMES_MAX);

    list_names(c, defined, &names);
    if (!names.len || !is_locked(facts))
        return 0;
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        return unlock_store(facts, err);
    log_line("the file store is locked: requests that need %s are refused until 'bawn secret unlock'",
             buf_ok(&names) ? buf_str(&names) : "its secrets");
    return 0;
}

/* Grants ----------------------------------------------------------------------------------------------------------- */

/* The user's own, made once. A user without a place to store it gets other placeholders in each run. */
static int read_seed(const struct host_facts *facts, struct grant_seed *ret, struct err *err) {
    CLEANUP(freep) char *folder = NULL, *path = NULL;
    CLEANUP(closep) int fd = -1;
    int r = paths_state_if_home(facts->environ_, facts->home, "", &folder, err);

    ret->scope = facts->workspace;
    path = r == 0 && folder ? str_dupf("%s" SEED_FILE, folder) : NULL;
    fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY) : -1;
    if (r < 0 || (fd >= 0 && fd_read_some(fd, ret->bytes, sizeof ret->bytes) == sizeof ret->bytes))
        return r;
    if (getrandom(ret->bytes, sizeof ret->bytes, 0) != sizeof ret->bytes)
        return err_sys(err, -errno, "cannot get random bytes for placeholders");
    if (path && paths_make_dirs(folder, NULL) == 0 &&
        paths_publish(folder, SEED_FILE, ret->bytes, sizeof ret->bytes, fd >= 0 ? PUBLISH_REPLACE : PUBLISH_NEW, NULL) == -EEXIST)
        return -EAGAIN; /* another run was faster */
    return 0;
}

static int make_grants(struct run_credentials *c, const struct settings *s, const struct host_facts *facts,
                       const struct credentials *defined, struct err *err) {
    struct grant_seed seed;
    int r = defined->len ? read_seed(facts, &seed, err) : 0;

    if (r == -EAGAIN)
        r = read_seed(facts, &seed, err);
    if (r < 0 && r != -EAGAIN)
        return r;
    r = 0;
    c->grants = calloc(defined->len + 1, sizeof *c->grants);
    if (!c->grants)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < defined->len; i++) {
        if (!choice_has(&s->secrets, defined->v[i].name))
            continue;
        r = grant_make(&defined->v[i], &seed, &c->grants[c->n_grants], err);
        c->n_grants += r == 0;
    }
    return r;
}

/* Only what costs the user nothing: another store may ask a question, and a login has to be renewed over the network. */
static bool is_for_agent(const struct credential *c, const struct strv *variables) {
    for (size_t i = 0; c->store == STORE_FILE && !c->token_url && i < variables->len; i++)
        if (credential_has_variable(c, variables->v[i]))
            return true;
    return false;
}

static void find_soon(struct run_credentials *c, const struct credentials *defined, const struct strv *variables) {
    static_assert(GRANTS_MAX <= 8 * sizeof c->soon, "a bit each");
    for (size_t i = 0; variables && i < c->n_grants; i++)
        if (is_for_agent(credentials_find(defined, c->grants[i].c.name), variables))
            c->soon |= UINT64_C(1) << i;
}

/* On the command line, a name that does not exist is a slip that would show only much later; files are shared by people. */
static int check_names(const struct settings *s, const struct credentials *defined, struct err *err) {
    const char *origin = s->origin[SETTING_SECRETS];

    for (size_t i = 0; !s->secrets.all && origin && str_starts(origin, "flag ") && i < s->secrets.names.len; i++)
        if (!credentials_find(defined, s->secrets.names.v[i]))
            return err_usage(err, "there is no secret '%.*s'; see 'bawn secret ls'", CREDENTIAL_NAME_MAX, s->secrets.names.v[i]);
    return 0;
}

/* Variables -------------------------------------------------------------------------------------------------------- */

static bool has_variable(const struct strv *env, const char *name) {
    size_t n = strlen(name);

    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->v[i], name, n) == 0 && env->v[i][n] == '=')
            return true;
    return false;
}

/* A request with the placeholder of one secret is refused at the host of the other: which one is meant, only the user knows. */
static int refuse_second(const struct run_credentials *c, const struct grant *g, const char *name, struct err *err) {
    for (const struct grant *o = c->grants; o < g; o++)
        if (credential_has_variable(&o->c, name))
            return err_usage(err,
                             "the secrets '%s' and '%s' both have the variable %s: choose one with --secret or the setting "
                             "'secrets', or take the variable from one ('bawn secret set %s --replace --no-env ...')",
                             o->c.name, g->c.name, name, g->c.name);
    return 0;
}

static int add_variable(struct run_credentials *c, const struct settings *s, const struct grant *g, const char *name,
                        const char *value, struct err *err) {
    int r = refuse_second(c, g, name, err);

    if (r < 0 || has_variable(&c->env, name)) /* the definition may name it twice */
        return r;
    for (size_t i = 0; i < s->n_env; i++)
        if (str_eq(s->env[i].name, name))
            log_line("secret %s: %s has its placeholder instead of the value in the settings", g->c.name, name);
    return strv_addf(&c->env, "%s=%s", name, value) < 0 ? err_oom(err) : 0;
}

static int add_variables(struct run_credentials *c, const struct settings *s, const struct grant *g, struct err *err) {
    const char *name;
    int r = 0;

    for (size_t i = 0; r == 0 && (name = credential_variable(&g->c, i)); i++)
        r = add_variable(c, s, g, name, i && g->c.place == PLACE_SIGV4 ? g->placeholder2 : g->placeholder, err);
    return r;
}

int credentials_variable(const struct settings *s, const struct host_facts *facts, const char *name, char **ret,
                         struct err *err) {
    CLEANUP(credentials_done) struct credentials defined = {0};
    CLEANUP(run_credentials_done) struct run_credentials c = RUN_CREDENTIALS_INIT;
    int r = credentials_load(facts->environ_, facts->home, &defined, err);

    *ret = NULL;
    r = r < 0 ? r : make_grants(&c, s, facts, &defined, err);
    for (size_t i = 0; r == 0 && !*ret && i < c.n_grants; i++)
        if (strv_has(&c.grants[i].c.env, name) && !(*ret = strdup(c.grants[i].placeholder)))
            return err_oom(err);
    return r;
}

/* Files and sockets ------------------------------------------------------------------------------------------------ */

static char *home_file(const char *home, const char *name, size_t max) {
    CLEANUP(freep) char *path = home ? str_dupf("%s/%s", home, name) : NULL;
    CLEANUP(closep) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    CLEANUP(buf_done) struct buf text = BUF_INIT(max + 1);

    if (fd < 0 || paths_read_fd(fd, path, max, &text, NULL) < 0 || !text.len || memchr(text.data, 0, text.len))
        return NULL;
    return buf_take(&text);
}

/* Without them requests still get their credentials; only a run that requires the agent is stopped. */
static int open_sockets(struct run_credentials *c, const struct settings *s, char *const *environ_, struct err *err) {
    const bool wanted[INSIDE_SOCKETS] = {[INSIDE_SSH] = c->ssh.agent, [INSIDE_CREDENTIAL] = c->n_grants > 0};
    static const char *const variables[INSIDE_SOCKETS] = {"SSH_AUTH_SOCK=" PLAN_SSH_SOCKET,
                                                          "BAWN_CREDENTIAL_SOCKET=" PLAN_CREDENTIAL_SOCKET};
    int r;

    if (!wanted[INSIDE_SSH] && !wanted[INSIDE_CREDENTIAL])
        return 0;
    r = inside_sockets_open(environ_, wanted, &c->sockets, err);
    if (r < 0 && s->ssh.agent == SSH_AGENT_ON)
        return r;
    if (r < 0) {
        c->ssh.agent = false;
        err_ctx(err, r, "no ssh-agent and no list of credentials inside");
        log_err(err);
        *err = (struct err){0};
        return 0;
    }
    for (size_t i = 0; i < INSIDE_SOCKETS; i++)
        if (wanted[i] && strv_add(&c->env, variables[i]) < 0)
            return err_oom(err);
    return 0;
}

int run_credentials_prepare(struct run_credentials *c, const struct settings *s, const struct host_facts *facts,
                            struct plan_input *in, struct err *err) {
    CLEANUP(credentials_done) struct credentials defined = {0};
    CLEANUP(closep) int program = -1;
    char path[PATH_MAX];
    int r = credentials_load(facts->environ_, facts->home, &defined, err);

    r = r < 0 ? r : check_names(s, &defined, err);
    r = r < 0 ? r : make_grants(c, s, facts, &defined, err);
    for (size_t i = 0; r == 0 && i < c->n_grants; i++)
        r = add_variables(c, s, &c->grants[i], err);
    find_soon(c, &defined, in->home.agent_env);
    r = r < 0 ? r : ssh_outside_find(s, facts->home, facts->environ_, &c->ssh, err);
    r = r < 0 ? r : open_sockets(c, s, facts->environ_, err);
    r = r < 0 ? r : credentials_unlock(c, &defined, facts, err);
    if (r < 0)
        return r;
    c->gitignore = home_file(facts->home, ".gitignore_global", GITIGNORE_MAX);
    program = c->n_grants ? engine_helper("bawn-inside", path, sizeof path) : -1;
    c->program = program < 0 ? NULL : strdup(path);
    in->credentials.env = &c->env;
    in->credentials.ssh_socket = c->sockets.path[INSIDE_SSH];
    in->credentials.credential_socket = c->sockets.path[INSIDE_CREDENTIAL];
    in->credentials.known_hosts = c->ssh.known_hosts;
    in->credentials.gitignore = c->gitignore;
    in->credentials.program = c->program;
    return 0;
}
