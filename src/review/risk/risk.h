/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which changes of a run the host might later run, obey or be fooled by, and why. Runs in bawn-review, jailed: it parses what the
 * agent wrote. A rule is a row of a table: a pattern for the path, and where the name alone does not tell, a function that
 * reads both versions.
 */
#pragma once

#include "base/buf.h"
#include "workspace/change/change.h"

enum risk_level { RISK_NONE, RISK_LOW, RISK_MEDIUM, RISK_HIGH, RISK_LEVELS };
extern const char *const risk_level_names[RISK_LEVELS];

/* Names are part of the JSON and SARIF output. */
enum risk_class {
    RISK_GIT_HOOK,       /* "git-hook" */
    RISK_GIT_CONFIG,     /* "git-config": keys that run programs, include files, move URLs */
    RISK_GIT_DIR,        /* "git-dir": .git files, commondir, submodule git dirs, bare repositories in the tree */
    RISK_GIT_ATTRIBUTES, /* "git-attributes": filters, diff and merge drivers */
    RISK_CI,             /* "ci" */
    RISK_IDE,            /* "ide": tasks, launchers, settings with program paths, devcontainer */
    RISK_ENVIRONMENT,    /* "environment": direnv, mise, asdf, dotenv loaders */
    RISK_PACKAGE_SCRIPT, /* "package-script": what package managers and build tools run */
    RISK_DEPENDENCY,     /* "dependency": lockfiles and manifests: added, changed, moved to another registry */
    RISK_AGENT,          /* "agent": configurations, MCP servers, hooks of coding agents */
    RISK_INSTRUCTIONS,   /* "instructions": AGENTS.md and its like */
    RISK_EXECUTABLE,     /* "executable": exec bits, setuid, interpreters replaced or changed */
    RISK_SYMLINK_OUT,    /* "symlink-out": leads out of the workspace */
    RISK_BINARY,         /* "binary": a program or library was added or replaced */
    RISK_IGNORED,        /* "ignored": git diff does not show it */
    RISK_SANDBOX_POLICY, /* "sandbox-policy": .sandboxignore, .bawn/ */
    RISK_HIDDEN_TEXT,    /* "hidden-text": bidirectional controls, invisible characters, terminal escapes in names or content */
    RISK_SPECIAL_FILE,   /* "special-file": device, FIFO, socket */
    RISK_CLASSES
};
struct risk_class_info {
    const char *name, *title, *help; /* help: what can happen and what to look at, one or two sentences */
};
extern const struct risk_class_info risk_classes[RISK_CLASSES];

struct risk {
    enum risk_class class;
    enum risk_level level;
    unsigned line; /* in the new version; 0: the whole file */
    char *id;      /* not in a file: the commit that has it, as hexadecimal digits; NULL: a file, or the index */
    char *path;    /* in that commit, or in the index, the path that is judged; NULL: the change's own */
    char *reason;  /* "core.fsmonitor runs 'evil.sh' at every git "
                      "status"; may hold bytes of the agent's: escape when printing */
};

struct risk_list {
    struct risk *v;
    size_t n;
};
void risk_list_done(struct risk_list *l);

struct risk_context {
    const struct change_set *set;
    int workspace; /* the host's folder, to look at what surrounds a change (core.hooksPath, .gitignore) */
    const struct ignore
        *protect;            /* what direct mode does not let be written, and sync mode holds back (workspace/hide/protect.h) */
    struct ignore *built_in; /* the built-in list, where no other was given */
    struct ignore *ignored;  /* git's ignore rules as the changes leave them; NULL: not a repository */
    /* Set while a commit or the index is judged: what is at a path in there. Returns 1 with its mode and, of a link, its
     * target (malloc'ed); 0: nothing; -ENOMEM. */
    int (*look)(void *arg, const char *path, mode_t *ret_mode, char **ret_link);
    void *look_arg;
    /* Both before and after the changes, for the user may apply one without the other: */
    struct strv hooks;    /* core.hooksPath, relative to the workspace, or as it is written if absolute */
    struct strv includes; /* files of the workspace that git's configuration includes */
};
/* Gathers what the rules need of the workspace, without running git. protect NULL: the built-in list. */
int risk_context_init(struct risk_context *c, const struct change_set *set, int workspace, const struct ignore *protect,
                      struct err *err);
void risk_context_done(struct risk_context *c);

/* git diff and git status are silent about it. */
bool risk_git_ignored(const struct risk_context *c, const struct change *change);

/* All risks of one change, the highest first. A file that cannot be parsed is itself a risk, not an error. A change under a
 * hidden name has none: it stays inside. */
int risk_judge(const struct risk_context *c, const struct change *change, struct risk_list *ret, struct err *err);
