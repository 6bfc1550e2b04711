/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run is allowed to do, and who said so. `struct settings` is the result of merging, weakest first:
 *
 *     built-in < user < project < agent < environment < flag,  then the organisation's floor
 *
 * A profile stands right below the level that named it; only the highest-ranked name counts. agent.NAME.sandbox may
 * stand in the user's file and in the project's, where the project's is the stronger one. mounts and env add up, with
 * the stronger level winning per target and per name; everything else is replaced.
 *
 * Two things are normalised: mode off means engine "none", and engine "none" means mode off.
 *
 * Every field remembers where its value came from (`bawn config show --origin`, `--dry-run`).
 */
#pragma once

#include "base/strv.h"
#include "config/limits.h"

struct err;

enum setting {
    SETTING_ENABLED,
    SETTING_ENGINE,
    SETTING_PROFILE,
    SETTING_IMAGE,
    SETTING_CPUS,
    SETTING_MEMORY,
    SETTING_SWAP,
    SETTING_PIDS,
    SETTING_DISK,
    SETTING_TMP,
    SETTING_TIMEOUT,
    SETTING_NETWORK,
    SETTING_NETWORK_ALLOW,
    SETTING_NETWORK_DENY,
    SETTING_PUBLISH,
    SETTING_ASK,
    SETTING_ASK_HOOK,
    SETTING_ASK_TIMEOUT,
    SETTING_SSH_AGENT,
    SETTING_SSH_KEYS,
    SETTING_SECRETS,
    SETTING_MOUNTS,
    SETTING_ENV,
    SETTING_WORKSPACE_WRITABLE,
    SETTING_WORKSPACE_MODE,
    SETTING_WORKSPACE_PROTECT,
    SETTING_WORKSPACE_SUBSTITUTE,
    SETTING_WORKSPACE_VOLUMES,
    SETTING_WORKSPACE_ROLLBACK,
    SETTING_WORKSPACE_SKIP_IGNORED,
    SETTING_PERSIST_CACHES,
    SETTING_HOME_TOOLS,
    SETTING_SYSTEM,
    SETTING_SYSTEM_IDS,
    SETTING_NESTED,
    SETTING_BYPASS_TOOLS,
    SETTING_ENGINE_FLAGS,
    SETTING_KEEP_ALIVE,
    SETTING_IDLE_TIMEOUT,
    SETTING_START_TIMEOUT,
    SETTING_COUNT
};

enum sandbox_mode {
    MODE_AUTO,    /* strongest rung that the host has; a weaker one is announced */
    MODE_REQUIRE, /* full rung or refuse */
    MODE_OFF      /* the user asked for no sandbox, by name */
};

/* How the sandbox has the workspace. */
enum workspace_mode {
    WORKSPACE_DIRECT,   /* the files themselves; sensitive paths write-protected */
    WORKSPACE_OVERLAY,  /* copy-on-write: nothing reaches the host until `bawn apply` */
    WORKSPACE_SYNC,     /* a copy, carried back after the run */
    WORKSPACE_WORKTREE, /* own git branch and working tree */
    WORKSPACE_RO,       /* read-only */
    WORKSPACE_MODES
};
extern const char *const workspace_mode_names[WORKSPACE_MODES];

/* Each grants more than the one before. */
enum network {
    NETWORK_NONE,
    NETWORK_LIST,    /* what the files with network rules say; without a mode there: built-in groups, everything else is asked */
    NETWORK_LIMITED, /* HTTP and HTTPS to any public host */
    NETWORK_FULL     /* any public host */
};

/* Who answers when a rule says "ask". */
enum ask_mode {
    ASK_NEVER, /* nobody: the answer is no */
    ASK_AUTO,  /* the terminal of the run or the hook; without either, the answer is no */
    ASK_WAIT   /* the same, and without either the question waits for `bawn policy approve` */
};
/* Programs and packages inside, outside of home and workspace. */
enum system_view {
    SYSTEM_READ_ONLY,
    SYSTEM_WRITABLE /* a copy-on-write view, as root of the sandbox (jail/plan/plan_system.h) */
};
/* How many ids a writable system has. */
enum system_ids {
    SYSTEM_IDS_AUTO, /* many where they are available, else one */
    SYSTEM_IDS_ONE,
    SYSTEM_IDS_MANY
};
enum ssh_agent { SSH_AGENT_OFF, SSH_AGENT_AUTO, SSH_AGENT_ON };

/* Some of the user's own things, by name. */
struct setting_choice {
    bool all;
    struct strv names; /* unless all */
};
bool choice_has(const struct setting_choice *c, const char *name);

struct mount_spec {
    char *from; /* absolute host path, ~ expanded */
    char *to;   /* absolute path inside; equals from if the file named none */
    bool writable;
};

/* A file of the workspace that is shown in another one's place. */
struct substitute_spec {
    char *path, *shown; /* relative to the workspace */
};

struct env_spec {
    char *name;
    char *value; /* NULL: take the host's value */
};

struct settings {
    enum sandbox_mode mode;
    char *engine;  /* "auto", "native", "docker", ... "none" */
    char *profile; /* NULL: none named */
    char *image;   /* NULL: none named */
    enum system_view system_view;
    enum system_ids system_ids;
    bool nested; /* a container engine inside (jail/plan/plan_nested.c) */
    struct limits limits;
    struct {
        enum network mode;
        enum network ceiling;    /* for NETWORK_LIST: the most that a mode in a file with network rules may grant */
        struct strv allow, deny; /* "HOST", "HOST:PORT", "@group"; checked by supervisor/network/policy_files.h */
        struct strv said;        /* those of allow that came by --allow: only they overrule a deny */
        struct strv publish;     /* "INSIDE", "INSIDE:OUTSIDE" or "ADDRESS:INSIDE:OUTSIDE": ports that answer on this machine */
    } net;
    struct {
        enum ask_mode mode;
        char *hook;          /* absolute path of a program; NULL: none */
        uint64_t timeout_ms; /* then the answer is no */
    } question;
    struct {
        enum ssh_agent agent;
        struct setting_choice keys; /* of the agent: fingerprints (SHA256:...) or comments */
    } ssh;
    struct setting_choice secrets; /* of secrets.json (policy/credential/credential.h) */
    struct mount_spec *mounts;
    size_t n_mounts;
    struct env_spec *env;
    size_t n_env;
    struct {
        bool writable;
        enum workspace_mode mode; /* see settings_workspace_mode() */
        bool copied;              /* the engine cannot have that mode: a copy instead, as in mode sync */
        struct strv protect;      /* patterns after the built-in ones; "!..." takes one out */
        struct strv volumes;      /* folders of the workspace that are the sandbox's own: node_modules */
        struct substitute_spec *substitutes;
        size_t n_substitutes;
        bool skip_ignored; /* nothing is stored for `bawn rollback` of files in folders that git ignores */
        uint64_t rollback; /* bytes of overwritten and deleted files that are stored for `bawn rollback`; 0: no limit */
    } workspace;
    bool persist_caches, home_tools, keep_alive;
    uint64_t start_timeout_ms; /* a container that is not up by then is given up; 0: never */
    uint64_t idle_timeout_ms;  /* a persistent sandbox in which nothing runs is stopped then; 0: never */
    struct strv bypass_tools;
    struct strv engine_flags;    /* options of SANDBOX_FLAGS that the user allows, although they loosen the container */
    struct strv allowed_engines; /* the organisation's choice for "auto"; empty: any */

    char
        *origin[SETTING_COUNT]; /* "built-in", "profile tight (/home/u/.config/bawn/profiles/tight.json)", "flag --memory", ... */
    struct strv notes;          /* lines the user must see: what an untrusted project asked for and did not get, ... */
};

/* What the caller gathered before; every pointer may be NULL (= not given). The strings are as typed by the user. */
struct settings_flags {
    const char *mode; /* "require", "off", "auto" */
    const char *engine, *profile, *image, *cpus, *memory, *swap, *pids, *disk, *tmp, *timeout, *network, *ssh_agent;
    const char *ask, *ask_timeout, *idle_timeout, *system_view, *system_ids;
    struct strv allow, deny; /* "HOST[:PORT]" or "@group" */
    struct strv publish;     /* "[ADDRESS:]INSIDE[:OUTSIDE]" */
    struct strv secrets;     /* names; with no_secrets: there are none */
    bool no_secrets, nested;
    struct strv ssh_keys;       /* fingerprints or comments */
    struct strv mounts;         /* "FROM[:TO][:ro|rw]" */
    struct strv env;            /* "NAME=VALUE" or "NAME" */
    const char *workspace_mode; /* "direct", "overlay", ... */
};

struct settings_sources {
    const struct settings_flags *flags;
    const char *agent;      /* name for agent.NAME.sandbox */
    const char *workspace;  /* absolute path; its .bawn/config.json is read without following symlinks */
    const char *home;       /* the user's home; NULL if unknown */
    char *const *environ_;  /* BAWN_SANDBOX, BAWN_PROFILE, BAWN_SANDBOX_IMAGE, XDG_CONFIG_HOME, ... */
    const char *org_policy; /* path of the organisation's file; NULL: /etc/bawn/policy.json */
};

/* Fails with exit status 64 and a message with file:line:column for anything wrong; nothing is half-applied. */
int settings_load(const struct settings_sources *src, struct settings *ret, struct err *err);
void settings_done(struct settings *s);

/* The mode that counts: workspace_writable false means read-only whatever the mode says. */
enum workspace_mode settings_workspace_mode(const struct settings *s);
/* A copy in the place of an overlay: nothing of it is carried back before `bawn apply`. */
bool settings_holds_changes(const struct settings *s);

/* For presets (config/load/agent.h): weaker than what was named. "NAME=VALUE" unless there is one of this name; a path of the host's that is
 * shown in the same place, read-only, unless something else is there. */
int settings_add_env(struct settings *s, const char *text, struct err *err);
int settings_add_mount(struct settings *s, const char *path, struct err *err);

extern const char *const setting_names[SETTING_COUNT]; /* "resources.memory", "network", ... as written in files */

/* Appends the value as JSON, in the notation of the files: "4g", 2, true, null for "no limit" and "none named". */
struct buf;
void settings_add_value(const struct settings *s, enum setting id, struct buf *b);
/* The same for people: strings without quotes, "unlimited" or "none" instead of null. */
void settings_add_text(const struct settings *s, enum setting id, struct buf *b);
