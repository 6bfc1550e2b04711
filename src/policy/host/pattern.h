/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule says about hosts.
 *
 *     example.com          that name
 *     *.example.com        one label in front: a.example.com, not a.b.example.com, not example.com
 *     **.example.com       one label or more in front; not example.com itself: list both to have both
 *     **                   every name
 *     192.0.2.7  10.0.0.0/8  2001:db8::/32      addresses
 *     @git                 a group: built in (profiles/groups), or defined in the same file
 *
 * The name is read by host_parse(), so that a pattern is compared in the form that requests have.
 */
#pragma once

#include "policy/host/host.h"

enum pattern_kind { PATTERN_EXACT, PATTERN_ONE, PATTERN_DEEP, PATTERN_ANY, PATTERN_CIDR, PATTERN_GROUP };

struct pattern {
    enum pattern_kind kind;
    char *text;      /* in its normal form */
    const char *key; /* text behind its wildcard */
    struct cidr cidr;
};

enum { GROUP_NAME_MAX = 32, GROUP_HOSTS_MAX = 4096 };

struct group {
    char *name; /* with its '@' */
    struct pattern *hosts;
    size_t n;
};

int pattern_parse(const char *text, size_t len, struct pattern *ret, struct err *err);
void pattern_done(struct pattern *p);

bool group_name_ok(const char *name, size_t len); /* "@", then small letters, digits, hyphens */
void group_done(struct group *g);

/* profiles/groups/<name>.txt, put into the program by embed_groups.py at build time. */
struct builtin_group {
    const char *name; /* with its '@' */
    const char *text;
};
extern const struct builtin_group builtin_groups[];
extern const size_t n_builtin_groups;

const struct builtin_group *builtin_group_find(const char *name);
/* The patterns of a text with one on each line; '#' starts a comment. */
int group_read(const char *name, const char *text, struct group *ret, struct err *err);
