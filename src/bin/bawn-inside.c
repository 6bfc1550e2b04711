/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox has of Bawn inside: one program under several names (/run/bawn/bin), static, which speaks with the socket that
 * BAWN_CREDENTIAL_SOCKET names (spec/credential-socket.md).
 *
 *     xdg-open URL                  asks for a browser outside
 *     bawn-key list | show NAME     credentials of this sandbox: names and hosts; there are no values in here
 *     bawn-key load NAME            what stands for the value
 *     bawn-key save | delete NAME   refused: credentials are managed outside
 *
 * --json in place of text. Exit status: 0; 1: refused, or no answer; 64: not understood.
 */
#include <errno.h>
#include <jansson.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"

enum { ANSWER_MAX = 4 * 1024 * 1024, EXIT_REFUSED = 1, COLUMN = 20 };

static int dial(int *ret, struct err *err) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const char *path = getenv("BAWN_CREDENTIAL_SOCKET");
    CLEANUP(closep) int fd = -1;

    if (!path || !*path || strlen(path) >= sizeof un.sun_path)
        return err_set(err, -ENOENT, "this sandbox has no credentials (BAWN_CREDENTIAL_SOCKET is not set)");
    memcpy(un.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&un, sizeof un) < 0)
        return err_sys(err, -errno, "connect to '%s'", path);
    *ret = TAKE_FD(fd);
    return 0;
}

/* The object that comes back. */
static int ask(json_t *question, json_t **ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
    CLEANUP(closep) int fd = -1;
    char *line = json_dumps(question, JSON_COMPACT | JSON_ENSURE_ASCII), piece[4096];
    ssize_t n = 0;
    int r = line ? dial(&fd, err) : err_set(err, -EINVAL, "the arguments are not text");

    r = r < 0 ? r : fd_write_all(fd, line, strlen(line));
    r = r < 0 ? r : fd_write_all(fd, "\n", 1);
    free(line);
    if (r < 0)
        return err && err->msg[0] ? r : err_sys(err, r, "ask for credentials");
    while (!memchr(piece, '\n', (size_t)n) && buf_ok(&b) && (n = fd_read_some(fd, piece, sizeof piece)) > 0)
        buf_add(&b, piece, (size_t)n);
    *ret = json_loadb(buf_str(&b), b.len, JSON_DISABLE_EOF_CHECK, NULL);
    return json_is_object(*ret) ? 0 : err_set(err, -EPROTO, "no answer about credentials");
}

static void add_value(struct buf *b, const json_t *v) {
    const json_t *item;
    size_t i;

    if (json_is_string(v))
        buf_add_printable(b, json_string_value(v));
    else if (json_is_true(v))
        buf_adds(b, "yes");
    json_array_foreach((json_t *)v, i, item) {
        buf_adds(b, i ? ", " : "");
        add_value(b, item);
    }
}

static void print_table(json_t *answer, struct buf *b) {
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(answer, "credentials"), i, one) {
        buf_addf(b, "%-*s ", COLUMN, json_string_value(json_object_get(one, "name")));
        add_value(b, json_object_get(one, "hosts"));
        buf_adds(b, json_array_size(json_object_get(one, "variables")) ? "  in " : "");
        add_value(b, json_object_get(one, "variables"));
        buf_addc(b, '\n');
    }
}

static void print_fields(json_t *answer, struct buf *b) {
    const char *key;
    json_t *v;

    json_object_foreach(answer, key, v) {
        if (str_eq(key, "ok"))
            continue;
        buf_addf(b, "%-*s ", COLUMN, key);
        add_value(b, v);
        buf_addc(b, '\n');
    }
}

static void print_load(json_t *answer, struct buf *b) {
    add_value(b, json_object_get(answer, "value"));
    buf_addc(b, '\n');
}

static void print_nothing(json_t *answer UNUSED, struct buf *b UNUSED) {}

static int show(json_t *answer, bool as_json, void (*print)(json_t *answer, struct buf *b)) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
    bool ok = json_is_true(json_object_get(answer, "ok"));

    if (as_json)
        json_dumpf(answer, stdout, JSON_COMPACT);
    else if (ok)
        print(answer, &b);
    else
        add_value(&b, json_object_get(answer, "error"));
    if (as_json)
        putchar('\n');
    else if (ok)
        fwrite(buf_str(&b), 1, b.len, stdout);
    else
        log_line("%s", buf_str(&b));
    return ok && fflush(stdout) == 0 ? 0 : EXIT_REFUSED;
}

static const struct inside_verb {
    const char *program, *word; /* word NULL: the program has no verbs */
    const char *op, *argument;  /* of the question; NULL: none */
    void (*print)(json_t *answer, struct buf *b);
    const char *usage;
} verbs[] = {
    {"xdg-open", NULL, "open", "url", print_nothing, "xdg-open URL"},
    {"bawn-key", "list", "list", NULL, print_table, "bawn-key list"},
    {"bawn-key", "show", "show", "name", print_fields, "bawn-key show NAME"},
    {"bawn-key", "load", "load", "name", print_load, "bawn-key load NAME"},
    {"bawn-key", "save", "save", "name", print_nothing, "bawn-key save NAME"},
    {"bawn-key", "delete", "delete", "name", print_nothing, "bawn-key delete NAME"},
};

static int usage(void) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        buf_addf(&b, "%s%s", i ? ", " : "", verbs[i].usage);
    log_line("usage: %s; --json for JSON", buf_str(&b));
    return EXIT_USAGE_ERR;
}

static int run_verb(const struct inside_verb *v, const char *argument, bool as_json) {
    json_t *question = json_pack("{ss}", "op", v->op), *answer = NULL;
    struct err err = {0};
    int r = !question || (v->argument && json_object_set_new(question, v->argument, json_string(argument)) < 0)
                ? err_set(&err, -EINVAL, "the argument is not UTF-8")
                : ask(question, &answer, &err);

    if (r < 0)
        log_err(&err);
    r = r < 0 ? EXIT_REFUSED : show(answer, as_json, v->print);
    json_decref(question);
    json_decref(answer);
    return r;
}

int main(int argc, char **argv) {
    const char *name = argc ? argv[0] : "", *slash = strrchr(name, '/'), *program = slash ? slash + 1 : name, *words[3] = {0};
    bool as_json = false;
    int n = 0;

    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--json"))
            as_json = true;
        else if (n == (int)ARRAY_LEN(words) - 1 || argv[i][0] == '-')
            return usage();
        else
            words[n++] = argv[i];
    }
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        const struct inside_verb *v = &verbs[i];
        int wanted = (v->word != NULL) + (v->argument != NULL);

        if (str_eq(v->program, program) && n == wanted && (!v->word || str_eq(v->word, words[0])))
            return run_verb(v, words[v->word != NULL], as_json);
    }
    return usage();
}
