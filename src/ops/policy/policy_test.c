/* SPDX-License-Identifier: Apache-2.0 */
/* Reads cases line by line and asks the policy about each. */
#include "ops/policy/policy_test.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"

enum { CASES_MAX = 4 * 1024 * 1024, CASE_WORDS = 6, CASE_LEN_MAX = 16 * 1024 };

static int read_case_file(const char *path, struct buf *b, struct err *err) {
    int r = file_read(path, FILE_FOLLOW, b);

    if (r < 0)
        file_err(err, r, path, b->ceiling);
    if (r == -EINVAL || r == -EFBIG) /* not a file with cases or rules */
        err->status = EXIT_USAGE_ERR;
    return r;
}

/* The file is the user's layer, and there is no other one. */
static int open_rules(const char *path, struct policy *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(RULES_SIZE_MAX);
    CLEANUP(rules_done) struct rules rules = {0};
    int r = read_case_file(path, &text, err);

    r = r < 0 ? r : rules_read(path, buf_str(&text), text.len, &rules, err);
    r = r < 0 ? r : policy_init(ret, rules.mode == NET_UNSET ? NET_LIST : rules.mode, true, err);
    if (r == 0)
        policy_set_layer(ret, LAYER_USER, &rules, false);
    return r;
}

/* A word ends at a blank; any other byte, NUL included, belongs to it. */
struct policy_test_word {
    char text[CASE_LEN_MAX];
    size_t len;
};

static const char *next_case_word(const char *at, const char *end, struct policy_test_word *ret) {
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
    int wanted;
    struct policy_question question;
};

/* Returns 0 for a line without a case. */
static int parse_case(const char *line, size_t len, struct testcase *c, struct err *err) {
    const char *at = line, *end = line + len;
    static const char prefix[] = "address=";

    *c = (struct testcase){0};
    while (c->n < CASE_WORDS && (at = next_case_word(at, end, &c->words[c->n]), c->words[c->n].len) &&
           c->words[c->n].text[0] != '#')
        c->n++;
    if (c->n == 0)
        return 0;
    if (c->n > 2 && str_starts(c->words[c->n - 1].text, prefix))
        c->question.address = c->words[--c->n].text + strlen(prefix);
    c->wanted = str_index(c->words[0].text, rule_action_names, RULE_ACTIONS);
    if (c->wanted < 0 || (c->n != 2 && c->n != 4))
        return err_usage(err, "a case is: allow|deny|ask HOST[:PORT] [METHOD PATH] [address=ADDRESS]");
    c->question.host = c->words[1].text;
    c->question.host_len = c->words[1].len;
    c->question.method = c->n == 4 ? c->words[2].text : NULL;
    c->question.path = c->words[3].text;
    c->question.path_len = c->words[3].len;
    return 1;
}

struct policy_tester {
    const struct policy *policy;
    struct testcase c;
    policy_test_fn *fn;
    void *arg;
    struct policy_tally tally;
};

static int test_line(struct policy_tester *t, const char *line, size_t len, size_t number, struct err *err) {
    struct policy_test_failure f = {.line = number};
    struct policy_answer answer;
    int r = len < CASE_LEN_MAX ? parse_case(line, len, &t->c, err) : err_usage(err, "the line is too long");

    r = r <= 0 ? r : policy_ask(t->policy, &t->c.question, &answer, err);
    if (r < 0 || t->c.n == 0)
        return r;
    t->tally.cases++;
    f.got = policy_answer_verdict(&answer);
    f.wanted = (enum rule_action)t->c.wanted;
    if (f.got->action == f.wanted)
        return 0;
    t->tally.failed++;
    for (size_t i = 1; i < t->c.n; i++)
        f.words[i - 1] = t->c.words[i].text;
    t->fn(&f, t->arg);
    return 0;
}

static int test_lines(struct policy_tester *t, const char *path, const struct buf *text, struct err *err) {
    const char *at = buf_str(text), *end = at + text->len;

    for (size_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        int r = test_line(t, at, len, number, err);

        if (r < 0)
            return err_ctx(err, r, "%s:%zu", path, number);
        at += len + 1;
    }
    return 0;
}

int policy_test_run(const struct policy_cases *t, policy_test_fn *fn, void *arg, struct policy_tally *ret, struct err *err) {
    CLEANUP(policy_here_done) struct policy_here here = POLICY_HERE_INIT;
    CLEANUP(policy_done) struct policy alone = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(CASES_MAX);
    CLEANUP(freep) struct policy_tester *tester = calloc(1, sizeof *tester);
    int r = tester ? read_case_file(t->cases, &text, err) : err_oom(err);

    if (r == 0)
        r = t->rules ? open_rules(t->rules, &alone, err) : policy_here_open(&t->here, &here, err);
    if (r < 0)
        return r;
    *tester = (struct policy_tester){.policy = t->rules ? &alone : &here.policy, .fn = fn, .arg = arg};
    r = test_lines(tester, t->cases, &text, err);
    *ret = tester->tally;
    return r;
}
