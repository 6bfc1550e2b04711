/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about the network: an ordered list, read from a file, compiled once, asked without allocation.
 *
 *     {
 *       "mode": "list",                                        may be left out; see verdict.h
 *       "unlisted": "ask",                                     what is in no rule, in mode list: "deny" (default) or "ask"
 *       "groups": { "@ours": ["git.example.com", "*.ci.example.com"] },
 *       "rules": [
 *         { "id": "push", "action": "allow", "host": "@ours", "ports": [22, 443] },
 *         { "action": "allow", "host": ["api.example.com"], "methods": ["GET"], "paths": ["/v1/models"], "max_body": "1m" },
 *         { "action": "allow", "host": "db.lan", "ports": ["5432-5440"], "allow_private": true, "comment": "tests" },
 *         { "action": "deny", "host": "203.0.113.0/24" }
 *       ]
 *     }
 *
 * The first rule that matches decides. spec/policy.schema.json describes the file, pattern.h the hosts, http_path.h the paths.
 */
#pragma once

#include "base/strv.h"
#include "policy/host/pattern.h"

struct buf;

#define HOST_OF_THE_MACHINE "host.bawn.internal" /* 127.0.0.1 outside, by definition, without a lookup */

enum {
    RULES_SIZE_MAX = 8 * 1024 * 1024,
    RULES_MAX = 20000,
    RULES_ENTRIES_MAX = 400000, /* patterns of all rules, with groups written out */
    RULE_HOSTS_MAX = 256,
    RULE_PORTS_MAX = 64,
    RULE_METHODS_MAX = 32,
    RULE_PATHS_MAX = 64,
    RULE_ID_MAX = 64,
    RULE_COMMENT_MAX = 1000,
    RULES_GROUPS_MAX = 64
};

/* The stricter one is the smaller one. */
enum rule_action { RULE_DENY, RULE_ASK, RULE_ALLOW, RULE_ACTIONS };
extern const char *const rule_action_names[RULE_ACTIONS];

enum rule_inspect { INSPECT_IF_NEEDED, INSPECT_NO, INSPECT_YES };

enum net_mode {
    NET_UNSET,
    NET_NONE,    /* nothing, whatever the rules say */
    NET_LIMITED, /* ports 80 and 443 of any public host, and what rules allow */
    NET_FULL,    /* any public host, but for what rules deny */
    NET_LIST,    /* what rules allow */
    NET_MODES
};
extern const char *const net_mode_names[NET_MODES];
/* Also "off" and "on". NET_UNSET if it is none. */
enum net_mode net_mode_find(const char *name);

struct port_range {
    uint16_t first, last;
};

struct rule {
    char *id; /* NULL until rules_compile() gives it one */
    enum rule_action action;
    struct pattern *hosts;
    size_t n_hosts;
    struct port_range *ports; /* none: every port */
    size_t n_ports;
    struct strv methods; /* in capitals; none: every method */
    struct strv paths;   /* path globs; none: every path */
    uint64_t max_body;   /* bytes of a request; 0: no limit */
    enum rule_inspect inspect;
    bool allow_private; /* the host may have an address that is not public */
    char *comment;      /* may be NULL */
};

struct rule_entry; /* rule_index.c */

struct rules {
    enum net_mode mode;        /* NET_UNSET if the file says nothing */
    enum rule_action unlisted; /* RULE_DENY or RULE_ASK */
    struct rule *v;
    size_t len;
    struct group *groups; /* those of the file */
    size_t n_groups;

    struct rule_entry *entries; /* sorted; NULL until compiled */
    size_t n_entries;
    uint64_t prefixes[2][3]; /* which prefix lengths rules have, IPv4 and IPv6 */
    size_t n_strict;         /* rules that deny or ask about names */
    struct group *builtin;   /* the built-in groups that rules name */
    size_t n_builtin;
};

/* Reads and compiles. Exit status 64 and "name:line:column: ..." for whatever is wrong; *ret is untouched then. */
int rules_read(const char *name, const char *data, size_t len, struct rules *ret, struct err *err);
/* A file that rules_read() takes for the same rules: one rule on each line. */
void rules_write(const struct rules *rules, struct buf *b);
void rules_done(struct rules *rules);
void rule_done(struct rule *rule);

/* Changes; rules_compile() must follow. add takes the rule over, also if it fails; at: its new place, len for the end. */
int rules_add(struct rules *rules, size_t at, struct rule *rule, struct err *err);
/* Also gives ids to rules without one: "rule-3". Fails on two rules with one id and on unknown groups. */
int rules_compile(struct rules *rules, struct err *err);
const struct rule *rules_find(const struct rules *rules, const char *id);

/* One rule as it stands in a file, on one line. */
void rule_add_json(const struct rule *rule, struct buf *b);
/* The same but for id and comment. */
bool rule_same(const struct rule *a, const struct rule *b);

/*
 * A rule from one word, as the command line and the settings have it: "example.com", "*.example.com:8443", "10.0.0.0/8",
 * "[2001:db8::1]:443", "@git:22". host.bawn.internal, which is this machine by definition, gets allow_private.
 */
int rule_from_text(const char *text, enum rule_action action, struct rule *ret, struct err *err);
/* An id that says what the rule is about ("allow-example.com") and that no rule has yet. */
int rule_give_id(const struct rules *rules, struct rule *rule, struct err *err);

bool rule_id_ok(const char *id);
bool rule_has_port(const struct rule *rule, uint16_t port);
static inline bool rule_is_about_http(const struct rule *rule) {
    return rule->methods.len || rule->paths.len;
}

/* Some rule needs a look inside the connections it is about. */
bool rules_look(const struct rules *rules);

/* The rules whose host pattern matches, in order. A rule with several patterns may come more than once. */
struct rule_hit {
    const struct rule *rule;
    const struct pattern *pattern; /* as the rule has it: the group, not its member */
    bool exact;                    /* by a name or address without wildcard or prefix, in the rule or in a group */
    bool cidr;                     /* by the address */
    uint8_t bits;                  /* of the prefix that matched an address */
    uint16_t rank;                 /* how closely the pattern is about this host: the larger, the closer. 0: "**" */
};

/*
 * Does a rule that allows (or asks), of a stronger layer, overrule one that is stricter, of a weaker layer? Only if it is about the
 * host at least as closely: "**.github.com" does not overrule a deny of gist.github.com. A group is less than a name that was
 * written down, and a rule about everything is less than one about a port, a method or a path.
 */
bool rule_overrules(const struct rule_hit *allow, const struct rule_hit *stricter);

/* A rule that denies or asks about a host by name, on this port; NULL: there is none. "**" is not meant: addresses are in it. */
const struct rule *rules_strict_name(const struct rules *rules, uint16_t port);

enum { RULE_WALK_LISTS = 2 + HOST_LABELS_MAX + 1 + 129 + 2 * 33 };

struct rule_walk {
    const struct rules *rules;
    bool has_name;
    size_t n;
    struct {
        const struct rule_entry *at, *end;
        bool no_allow;
    } lists[RULE_WALK_LISTS];
};

/* address: after the lookup; NULL if not known yet or if host is an address itself. */
void rule_walk_init(struct rule_walk *w, const struct rules *rules, const struct host *host, const struct addr *address);
bool rule_walk_next(struct rule_walk *w, struct rule_hit *ret);
