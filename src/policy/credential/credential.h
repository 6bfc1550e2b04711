/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A credential without its value: for which hosts it is, how it goes into a request, and what stands in its place inside. The user's
 * definitions are in $XDG_CONFIG_HOME/bawn/secrets.json (spec/secrets.schema.json):
 *
 *     {
 *       "secrets": {
 *         "anthropic": { "hosts": ["api.anthropic.com"], "header": "x-api-key", "env": ["ANTHROPIC_API_KEY"], "store": "file" },
 *         "github":    { "hosts": ["api.github.com"], "header": "Authorization: Bearer {}", "env": ["GH_TOKEN"],
 *                        "store": "command", "command": ["op", "read", "op://work/github/token"], "lifetime": "10m" },
 *         "forge":     { "hosts": ["git.example.com:8443"], "basic": "me", "store": "secret-service" },
 *         "maps":      { "hosts": ["maps.example.com"], "query": "key", "store": "env", "variable": "MAPS_KEY" },
 *         "aws":       { "hosts": ["s3.eu-central-1.amazonaws.com"], "sigv4": "eu-central-1/s3", "store": "file" },
 *         "idp":       { "hosts": ["api.example.com"], "store": "file", "oauth": { "token_url": "https://id.example.com/token",
 *                        "device_url": "https://id.example.com/device", "authorize_url": "https://id.example.com/authorize",
 *                        "redirect_uri": "http://localhost/callback", "client_id": "bawn", "scope": "read" } }
 *       }
 *     }
 *
 * No value is ever in this file. A workspace's files define no secrets: they may only leave some out (setting "secrets").
 * Hosts are exact names (no wildcard: ATTACKS 59; credential_s3.c has the buckets' names) with an optional port, 443 if there is
 * none. Always https.
 */
#pragma once

#include "base/strv.h"
#include "policy/host/host.h"

struct err;
struct buf;

enum {
    CREDENTIAL_NAME_MAX = 64, /* letters, digits, '.', '_', '-'; begins with a letter or digit */
    CREDENTIAL_VALUE_MAX = 16 * 1024,
    CREDENTIAL_VALUE_MIN = 8,   /* shorter ones stand in every answer by chance: they could not be redacted */
    CREDENTIAL_TEXT_MAX = 2048, /* of each string here */
    CREDENTIAL_COMMAND_MAX = 64,
    CREDENTIAL_HOSTS_MAX = 32,
    CREDENTIAL_ENV_MAX = 8,
    CREDENTIALS_MAX = 64,
    CREDENTIALS_FILE_MAX = 1024 * 1024,
    PLACEHOLDER_MAX = 256,
    PLACEHOLDER_SHAPE_MAX = 64,
    PLACEHOLDER_CORE = 24 /* random letters and digits at its end, by which it is found; AKIA...: 16 */
};

/* How the value goes into a request. */
enum credential_place { PLACE_HEADER, PLACE_BASIC, PLACE_QUERY, PLACE_SIGV4, CREDENTIAL_PLACES };
extern const char *const credential_place_names[CREDENTIAL_PLACES]; /* "header", "basic", "query", "sigv4" */

enum credential_store { STORE_FILE, STORE_SECRET_SERVICE, STORE_ENV, STORE_COMMAND, CREDENTIAL_STORES };
extern const char *const credential_store_names[CREDENTIAL_STORES]; /* "file", "secret-service", "env", "command" */

struct credential {
    char *name;
    struct strv hosts;
    enum credential_place place;
    char *header;           /* HEADER: its name */
    char *format;           /* HEADER: "Bearer {}"; the value stands where {} is */
    char *user;             /* BASIC */
    char *query;            /* QUERY: name of the parameter */
    char *region, *service; /* SIGV4; the value is "KEY-ID:SECRET" or "KEY-ID:SECRET:SESSION-TOKEN" */
    struct strv
        env;     /* variables inside that get the placeholder. SIGV4: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY by themselves */
    bool no_env; /* SIGV4: "env": [], also not those two */
    bool only_placeholder; /* "inject": "placeholder": only into requests that have the placeholder in its place; else "always" */
    char *shape;           /* what the placeholder begins with: "sk-ant-api03-"; "" for none */
    uint32_t length;       /* of the placeholder; 0: as it comes */

    enum credential_store store;
    char *variable;                                                   /* ENV */
    struct strv command;                                              /* COMMAND: argv, no shell */
    uint64_t lifetime_s;                                              /* COMMAND: how long an answer may be used; 0: this run */
    char *token_url, *device_url, *authorize_url, *client_id, *scope; /* oauth; token_url NULL: it is none. Each may be NULL but
                                                                       * token_url and client_id. HEADER "Authorization: Bearer {}" */
    char *redirect_uri; /* oauth: where a login in a browser comes back to; NULL: CREDENTIAL_REDIRECT. Not of a grant */
};

struct credentials {
    struct credential *v; /* sorted by name */
    size_t len;
};

/* Reads "name:line:column: ..." errors with exit status 64; *ret is untouched then. Two credentials may be for one host. */
int credentials_read(const char *name, const char *data, size_t len, struct credentials *ret, struct err *err);
void credentials_write(const struct credentials *c, struct buf *out); /* the same again, one secret on each line */
void credentials_done(struct credentials *c);
void credential_done(struct credential *c);
struct credential *credentials_find(const struct credentials *c, const char *name);              /* NULL */
int credentials_put(struct credentials *c, struct credential *one /* taken */, struct err *err); /* adds or replaces */
int credentials_remove(struct credentials *c, const char *name);                                 /* -ENOENT */

/* Checks one that was made from options, as the reader does for files; the messages name no file. */
int credential_check(const struct credential *c, struct err *err);
bool credential_name_ok(const char *name);
/* Single settings as people write them; messages have exit status 64. A host gets its one spelling: "Example.com:443" is
 * "example.com". */
int credential_add_host(struct credential *c, const char *text, struct err *err);
int credential_set_header(struct credential *c, const char *text, struct err *err); /* "x-api-key", "Authorization: Bearer {}" */
int credential_set_sigv4(struct credential *c, const char *text, struct err *err);  /* "eu-central-1/s3" */
int credential_set_lifetime(struct credential *c, const char *text, struct err *err);
/* 0, or -EINVAL with why: shorter than CREDENTIAL_VALUE_MIN, longer than CREDENTIAL_VALUE_MAX, NUL, line break or another control
 * byte (CWE-113), or not of the form that sigv4 needs. The message never has a byte of the value. */
int credential_value_check(const struct credential *c, const char *value, size_t len, struct err *err);
/* Where a browser comes back to after a login: http on this machine, "http://localhost:1455/auth/callback". Without a port it is one
 * that the system chooses for each login, which services allow for loopback addresses (RFC 8252, 7.3). */
#define CREDENTIAL_REDIRECT "http://localhost/callback"
struct credential_redirect {
    char host[sizeof "127.0.0.1"]; /* "localhost", "127.0.0.1" or "[::1]" */
    uint16_t port;                 /* 0: any */
    const char *path;              /* within uri; begins with '/' */
};
int credential_redirect_parse(const char *uri, struct credential_redirect *ret); /* -EINVAL */
/* Fills place, header, format, user, env and shape that are still unset, if the first host is one that is known
 * (api.anthropic.com: x-api-key, ANTHROPIC_API_KEY, sk-ant-api03-); otherwise "Authorization: Bearer {}". */
int credential_fill_known(struct credential *c, struct err *err);
/* The variables of the inside that have its placeholder, one after the other: i is 0 first. NULL: there is none (any more).
 * SIGV4: the second one has the second placeholder. */
const char *credential_variable(const struct credential *c, size_t i);
bool credential_has_variable(const struct credential *c, const char *name);
/* host: as struct host has it. A host that is an endpoint of S3 stands for its buckets' names, too (credential_s3.c). */
bool credential_is_for(const struct credential *c, const char *host, uint16_t port);
/* The ports of its entries for the host, one after the other; *at is 0 first. 0: there is none (any more). */
uint16_t credential_next_port(const struct credential *c, const char *host, size_t *at);
/* What a value of it is for, as hexadecimal digits: its hosts, how it goes into requests, who renews it. A value that was given for one
 * purpose serves no other. */
enum { CREDENTIAL_PURPOSE_SIZE = 65 };
void credential_purpose(const struct credential *c, char out[static CREDENTIAL_PURPOSE_SIZE]);
bool credential_same_purpose(const struct credential *a, const struct credential *b);

/* What a sandbox has of a credential. */
struct grant {
    struct credential c; /* store, variable, command are not there: neither the inside nor the gate needs them */
    char *placeholder;   /* SIGV4: of the key id */
    char *placeholder2;  /* SIGV4: of the secret key; "" otherwise */
};
enum { GRANTS_MAX = CREDENTIALS_MAX, GRANT_SEED = 32 };

struct grant_seed {
    uint8_t bytes[GRANT_SEED]; /* random */
    const char *scope;         /* the workspace's path */
};

/* A placeholder of the credential's shape, made from seed and the credential's name: the same again for the same seed, so that what an agent
 * has written down still means something in the project's next run, and nothing that can be guessed without it. */
int grant_make(const struct credential *c, const struct grant_seed *seed, struct grant *ret, struct err *err);
void grant_done(struct grant *g);
void grants_free(struct grant *v, size_t n);
/* Between supervisor, gate and broker, within struct gate_config. */
int grants_encode(const struct grant *v, size_t n, struct buf *out);
int grants_decode(const char *bytes, size_t len, struct grant **ret, size_t *ret_n); /* -EBADMSG */
/* The last PLACEHOLDER_CORE (AKIA: 16) bytes of a placeholder: what is looked for. */
const char *placeholder_core(const char *placeholder);
