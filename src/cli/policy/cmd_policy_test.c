/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/policy/policy_question.h"
#include "cli/policy/policy_view.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { OPT_RULES = 1, CASES_MAX = 4 * 1024 * 1024, CASE_WORDS = 6, CASE_LEN_MAX = 16 * 1024 };

static const struct opt opts[] = {
    {OPT_RULES, 0, "rules", "FILE", "ask this file with rules alone, not the policy in force here", "@file"},
    POLICY_VIEW_OPTS,
};

struct policy_test_request {
    struct policy_view_opts view;
    const char *rules;
};

static int take(void *arg, int id, const char *value, struct err *err) {
    struct policy_test_request *q = arg;

    if (id == OPT_RULES)
        q->rules = value;
    else
        policy_view_take(&q->view, id, value);
    return 0;
}

static int read_file(const char *path, size_t max, struct buf *b, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    return fd < 0 ? err_sys(err, -errno, "open '%s'", path) : paths_read_fd(fd, path, max, b, err);
}

/* The file stands where the user's would, and nothing stands beside it. */
static int open_rules(const char *path, struct policy *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(RULES_SIZE_MAX);
    CLEANUP(rules_done) struct rules rules = {0};
    enum net_mode mode;
    int r = read_file(path, RULES_SIZE_MAX, &text, err);

    r = r < 0 ? r : rules_read(path, buf_str(&text), text.len, &rules, err);
    if (r < 0)
        return r;
    mode = rules.mode == NET_UNSET ? NET_LIST : rules.mode;
    r = policy_init(ret, mode, true, err);
    if (r == 0)
        policy_set_layer(ret, LAYER_USER, &rules, false);
    return r;
}

/* A word ends at a blank; any other byte, NUL included, belongs to it. */
struct policy_test_word {
    char text[CASE_LEN_MAX];
    size_t len;
};

static const char *next_word(const char *at, const char *end, struct policy_test_word *ret) {
    ret->len = 0;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    while (at < end && *at != ' ' && *at != '\t' && *at != '\r' && ret->len < sizeof ret->text - 1)
        ret->text[ret->len++] = *at++;
    ret->text[ret->len] = 0;
    return at;
}

struct testcase {
    struct policy_test_word words[CASE_WORDS];
    size_t n;
    enum rule_action wanted;
    struct policy_question question;
};

/* "allow|deny|ask HOST[:PORT] [METHOD PATH] [address=ADDRESS]". Returns 0 for a line without a case. */
static int parse_case(const char *line, size_t len, struct testcase *c, struct err *err) {
    const char *at = line, *end = line + len;
    static const char prefix[] = "address=";

    *c = (struct testcase){0};
    while (c->n < CASE_WORDS && (at = next_word(at, end, &c->words[c->n]), c->words[c->n].len) && c->words[c->n].text[0] != '#')
        c->n++;
    if (c->n == 0)
        return 0;
    if (c->n > 2 && str_starts(c->words[c->n - 1].text, prefix))
        c->question.address = c->words[--c->n].text + strlen(prefix);
    while (c->wanted < RULE_ACTIONS && !str_eq(rule_action_names[c->wanted], c->words[0].text))
        c->wanted++;
    if (c->wanted == RULE_ACTIONS || (c->n != 2 && c->n != 4))
        return err_usage(err, "a case is: allow|deny|ask HOST[:PORT] [METHOD PATH] [address=ADDRESS]");
    c->question.host = c->words[1].text;
    c->question.host_len = c->words[1].len;
    c->question.method = c->n == 4 ? c->words[2].text : NULL;
    c->question.path = c->words[3].text;
    c->question.path_len = c->words[3].len;
    return 1;
}

struct tally {
    size_t cases, failed;
};

static int check_line(const struct policy *p, const char *line, size_t len, struct testcase *c, struct tally *t, size_t number,
                      struct buf *out, struct err *err) {
    const struct policy_verdict *v;
    struct policy_answer answer;
    int r = parse_case(line, len, c, err);

    if (r <= 0)
        return r;
    r = policy_ask(p, &c->question, &answer, err);
    if (r < 0)
        return r;
    t->cases++;
    v = policy_answer_verdict(&answer);
    if (v->action == c->wanted)
        return 0;
    t->failed++;
    buf_addf(out, "line %zu: wanted %s, got %s (%s) for ", number, rule_action_names[c->wanted], rule_action_names[v->action],
             policy_codes[v->code].name);
    for (size_t i = 1; i < c->n; i++) {
        buf_adds(out, i > 1 ? " " : "");
        buf_add_printable(out, c->words[i].text);
    }
    buf_addf(out, ": %s\n", v->reason);
    return 0;
}

static int check_all(const struct policy *p, const char *path, const struct buf *text, struct tally *t, struct buf *out,
                     struct err *err) {
    CLEANUP(freep) struct testcase *c = malloc(sizeof *c);
    const char *at = buf_str(text), *end = at + text->len;
    int r = c ? 0 : err_oom(err);

    for (size_t number = 1; r >= 0 && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);

        r = len < CASE_LEN_MAX ? check_line(p, at, len, c, t, number, out, err) : err_usage(err, "the line is too long");
        if (r < 0)
            return err_ctx(err, r, "%s:%zu", path, number);
        at += len + 1;
    }
    return r;
}

static int test(const struct policy_test_request *q, const struct policy_words *w, struct buf *out, struct err *err) {
    CLEANUP(policy_view_done) struct policy_view view = POLICY_VIEW_INIT;
    CLEANUP(policy_done) struct policy alone = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(CASES_MAX);
    struct tally t = {0};
    int r;

    if (w->n != 1)
        return err_usage(err, "which file with cases?");
    r = read_file(w->v[0], CASES_MAX, &text, err);
    if (r == 0)
        r = q->rules ? open_rules(q->rules, &alone, err) : policy_view_open(&q->view, &view, err);
    r = r < 0 ? r : check_all(q->rules ? &alone : &view.policy, w->v[0], &text, &t, out, err);
    if (r < 0)
        return r;
    buf_addf(out, "%zu of %zu cases hold\n", t.cases - t.failed, t.cases);
    return t.failed > 0;
}

static int run_policy_test(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(POLICY_OUTPUT_MAX);
    struct policy_words words = {0};
    struct policy_test_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);

    r = r < 0 ? r : test(&q, &words, &out, &err);
    return r < 0 ? verb_fail(self, &err) : policy_print(self, &out, r);
}

static const char description[] =
    "Checks the policy against a list of cases, for CI: one on each line, '#' starts a comment. The exit status is 1 if a case "
    "does not hold.\n\n"
    "    allow registry.npmjs.org:443\n"
    "    allow api.github.com:443 GET /repos/o/r\n"
    "    deny  api.github.com:443 POST /gists\n"
    "    deny  pypi.org:443 address=10.0.0.1\n"
    "    ask   example.com:443";

const struct verb verb_policy_test = {
    .name = "policy test",
    .summary = "check the policy against a file of cases",
    .synopsis = "[options] FILE",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_policy_test,
};
