/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the risk rules share. A rule is a row of risk_rules[]: a pattern for the path, and an inspector that reads
 * both versions where the name alone does not tell. Inspectors report with risk_add() and cannot fail: memory that runs out is
 * noted in the case and looked at once at the end; a file that cannot be understood is reported as such.
 */
#pragma once

#include "base/strv.h"
#include "review/pairs/pairs.h"
#include "review/risk/risk.h"
#include "review/text_line.h"

enum {
    RISK_FILE_MAX = 8 * 1024 * 1024, /* of a larger file the beginning is read, and its rule says that the rest was not */
    RISK_SHOWN_MAX = 120,            /* bytes of a value in a reason */
    RISK_SAME_MAX = 20,              /* risks of one class and level per file; then "and N more" */
};

/* One version of a file. */
struct risk_text {
    char *data; /* NUL-terminated, never NULL */
    size_t len;
    bool there; /* there is, or was, a regular file */
    bool whole; /* all of it is in data; false: too large, not stored, or not readable */
};
void risk_text_done(struct risk_text *t);

struct risk_rule;

struct risk_case {
    const struct risk_context *ctx;
    const struct change *change;
    const char *path;             /* the one that is judged: change->path */
    const struct risk_rule *rule; /* the row that matched */
    struct risk_text old_, new_;  /* what was at this path; a renamed file has no old version here */
    bool asks_old;                /* what there is to say depends on old_, also if it was nothing with an empty one */
    struct risk_list *out;
    unsigned count[RISK_CLASSES][RISK_LEVELS];
    bool failed; /* memory ran out */
};

typedef void risk_inspect_fn(struct risk_case *c);

/* Keys of a configuration file. The first row that matches a key and its value counts. */
struct risk_key {
    const char *key;   /* alternatives separated by '|'; '*' is any bytes, '.' the step into a table; case does not matter */
    const char *value; /* the same for the value; NULL: any */
    enum risk_class class;
    enum risk_level level; /* RISK_NONE: harmless */
    const char *reason;    /* follows "KEY is 'VALUE', " */
};
struct risk_format {
    pairs_read_fn *read;
    const struct risk_key *keys; /* ends with a row without key */
    enum risk_level rest;        /* of keys that no row names */
    const char *rest_reason;
    const struct risk_key *more; /* looked at after keys; NULL: none */
};

struct risk_rule {
    const char *pattern; /* alternatives separated by '|'; matches the end of the path, see risk_path_match() */
    enum risk_class class;
    enum risk_level level;
    const char *reason;       /* a clause: "git runs this hook" */
    risk_inspect_fn *inspect; /* NULL: any change counts */
    const struct risk_format *format;
};
extern const struct risk_rule risk_rules[]; /* ends with a row without pattern */

/*
 * A path, split once. Patterns match its last components; "*" stays in one component, "**" is any number of them. Upper and
 * lower case are the same, for they are on the file systems of macOS and Windows.
 */
struct risk_path {
    const char *part[CHANGE_DEPTH_MAX];
    size_t len[CHANGE_DEPTH_MAX];
    size_t n;
};
void risk_path_split(const char *path, struct risk_path *ret); /* of a deeper path the last CHANGE_DEPTH_MAX components */
bool risk_path_match(const char *patterns, const struct risk_path *path);
/* The path is a folder on the way to what the pattern names: ".git/hooks" for ".git/hooks/x". */
bool risk_path_leads(const char *patterns, const struct risk_path *path);
bool risk_glob(const char *patterns, const char *text, size_t len); /* '*' is any bytes; '.' is PAIR_STEP, too */

void risk_add(struct risk_case *c, enum risk_class class, enum risk_level level, unsigned line, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* "and N more" for what risk_add() left out. */
void risk_add_rest(struct risk_case *c);
void risk_sort(struct risk_list *l);
/* The value for a reason, cut at RISK_SHOWN_MAX. */
const char *risk_shown(const char *value, char out[static RISK_SHOWN_MAX + 4]);

/* The first line of the new version that the old one does not have at that place; 0: none. */
unsigned risk_first_change(const struct risk_text *old_, const struct risk_text *new_, struct text_line *ret);
/* The lines of the new version that the old one has nowhere, without empty ones, in order. How many, or -ENOMEM, -E2BIG. */
int risk_new_lines(const struct risk_text *old_, const struct risk_text *new_, struct text_line **ret);

/* What the rule says about this change, whether its pattern matches or not. */
void risk_judge_by(struct risk_case *c, const struct risk_rule *rule);

/* Of two versions, wherever they come from. *ret_asks_old (may be NULL): with another old version there could be something else to say. */
int risk_judge_versions(const struct risk_context *ctx, const struct change *change, const struct risk_text *before,
                        const struct risk_text *now, struct risk_list *ret, bool *ret_asks_old, struct err *err);
/* Takes the strings of r, also on failure. -ENOMEM. */
int risk_append(struct risk_list *l, struct risk r);

/* Inspectors. */
risk_inspect_fn risk_inspect_keys;       /* by rule->format */
risk_inspect_fn risk_inspect_hook;       /* samples are not run */
risk_inspect_fn risk_inspect_attributes; /* .gitattributes */
risk_inspect_fn risk_inspect_git_file;   /* .git, commondir, gitdir: one path as content */
risk_inspect_fn risk_inspect_policy;     /* .sandboxignore */
risk_inspect_fn risk_inspect_lock;       /* lockfiles, by their names */
risk_inspect_fn risk_inspect_requirements;

/* Rules that look at every change, whatever its name. */
void risk_judge_git(struct risk_case *c);  /* core.hooksPath, bare repositories, spellings of .git */
void risk_judge_exec(struct risk_case *c); /* modes, interpreters, programs */
void risk_judge_link(struct risk_case *c);
void risk_judge_name(struct risk_case *c);
void risk_judge_text(struct risk_case *c, const struct risk_text *before); /* before: also of a renamed file */
void risk_judge_ignored(struct risk_case *c);

/* Whether something is at the path once the change set is applied. */
bool risk_after_exists(const struct risk_context *ctx, const char *path);
/* Where the path leads from the folder dir ("" is the workspace) once the changes are applied, links followed, by text only:
 * 1 and a path in the workspace ("" for itself), or 0: out of it, or in a circle. -ENOMEM. */
int risk_resolve(const struct risk_context *ctx, const char *dir, const char *path, char **ret);
/* The folder of a path, "" for the workspace; malloc'ed. */
char *risk_folder(const char *path);

/* Reads at most RISK_FILE_MAX bytes of fd, which is closed; a negative fd is a file that is there but not readable. -ENOMEM. */
int risk_text_read(int fd, struct risk_text *ret);
int risk_text_read_some(int fd, size_t max, struct risk_text *ret); /* the same with another ceiling */
/* The file of the rule is not understood: one level more than the rule has. line 0: the whole file. */
void risk_unread(struct risk_case *c, unsigned line, const char *why);

/* The formats of rows, each beside its keys. */
extern const struct risk_format risk_git_config, risk_gitmodules, risk_vscode_tasks, risk_vscode_settings, risk_vscode_launch,
    risk_vscode_mcp, risk_devcontainer, risk_workspace_file, risk_package_json, risk_npmrc, risk_yarnrc, risk_bunfig,
    risk_pyproject, risk_setup_cfg, risk_pyvenv, risk_cargo_toml, risk_cargo_config, risk_gradle_wrapper, risk_composer,
    risk_agent_json, risk_agent_toml, risk_agent_yaml, risk_mise, risk_zed, risk_pre_commit, risk_go_mod;
