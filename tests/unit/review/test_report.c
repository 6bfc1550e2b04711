/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of change sets made by hand: two folders with the versions, and changes that name files in them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/report/report.h"

struct scene {
    char dir[32];
    struct judgement j;
    struct change changes[8];
    struct verdict verdicts[8];
    struct review_request q;
    struct report r;
};

static void put(int root, const char *name, const char *content) {
    CLEANUP(closep) int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content)), 0);
}

static int open_folder(const char *top, const char *name) {
    char path[64];
    int fd;

    snprintf(path, sizeof path, "%s/%s", top, name);
    assert_int_equal(mkdir(path, 0755), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int begin(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    struct err err;

    assert_int_equal(diff_begin(&err), 0);
    snprintf(s->dir, sizeof s->dir, "/tmp/test_report.XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    s->j.set = (struct change_set)CHANGE_SET_INIT;
    s->j.set.new_root = open_folder(s->dir, "new");
    s->j.set.host_root = open_folder(s->dir, "old");
    s->j.v = s->verdicts;
    s->q = (struct review_request){
        .run = "web-abcd", .workspace = "/home/u/web \xff", .mode = WORKSPACE_OVERLAY, .fail_on = RISK_MEDIUM};
    s->r = (struct report)REPORT_INIT(&s->q, &s->j, -1);
    *state = s;
    return 0;
}

static int end(void **state) {
    struct scene *s = *state;
    char command[80];

    for (size_t i = 0; i < s->j.n; i++)
        risk_list_done(&s->verdicts[i].risks);
    close(s->j.set.new_root);
    close(s->j.set.host_root);
    strv_done(&s->j.set.notes);
    report_done(&s->r);
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"a.c", "run.sh", "name with space", "esc\033[31m", "\xff", "evil", "bin", "gone"};

        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            snprintf(command, sizeof command, "%s/%s/%s", s->dir, i ? "new" : "old", names[k]);
            unlink(command);
        }
        snprintf(command, sizeof command, "%s/%s", s->dir, i ? "new" : "old");
        assert_int_equal(rmdir(command), 0);
    }
    assert_int_equal(rmdir(s->dir), 0);
    free(s);
    diff_end();
    return 0;
}

static struct change *add(struct scene *s, enum change_kind kind, const char *path, const char *old_, const char *new_) {
    struct change *c = &s->changes[s->j.n];

    *c = (struct change){.kind = kind, .what = CHANGE_CONTENT, .path = (char *)(uintptr_t)path};
    if (old_) {
        put(s->j.set.host_root, path, old_);
        c->old_ = (struct change_side){.mode = S_IFREG | 0644, .size = strlen(old_)};
    }
    if (new_) {
        put(s->j.set.new_root, path, new_);
        c->new_ = (struct change_side){.mode = S_IFREG | 0644, .size = strlen(new_)};
    }
    s->verdicts[s->j.n] = (struct verdict){.change = c};
    s->j.count[RISK_NONE]++;
    s->j.n++;
    return c;
}

static void add_risk(struct scene *s, enum risk_class class, enum risk_level level, unsigned line, const char *reason) {
    struct verdict *v = &s->verdicts[s->j.n - 1];

    v->risks.v = calloc(1, sizeof *v->risks.v);
    v->risks.v[0] = (struct risk){.class = class, .level = level, .line = line, .reason = strdup(reason)};
    v->risks.n = 1;
    s->j.count[v->level]--;
    v->level = level;
    s->j.count[level]++;
}

static const char *written(struct scene *s, enum request_format format) {
    struct err err = {0};

    s->q.format = format;
    buf_clear(&s->r.b);
    assert_int_equal(report_write(&s->r, &err), 0);
    return buf_str(&s->r.b);
}

static void a_patch_has_the_heads_of_git(void **state) {
    struct scene *s = *state;
    struct change *c;

    add(s, CHANGE_MODIFIED, "a.c", "a\nb\n", "a\nc\n");
    assert_string_equal(written(s, REQUEST_PATCH), "diff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    s->j.n = 0;
    add(s, CHANGE_ADDED, "name with space", NULL, "x\n");
    assert_string_equal(written(s, REQUEST_PATCH),
                        "diff --git \"a/name with space\" \"b/name with space\"\nnew file mode 100644\n"
                        "--- /dev/null\n+++ \"b/name with space\"\n@@ -0,0 +1 @@\n+x\n");
    s->j.n = 0;
    add(s, CHANGE_DELETED, "gone", "x", NULL);
    assert_string_equal(written(s, REQUEST_PATCH), "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n"
                                                   "+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n");
    s->j.n = 0;
    c = add(s, CHANGE_MODIFIED, "run.sh", "x\n", "x\n");
    c->new_.mode |= 0111;
    assert_string_equal(written(s, REQUEST_PATCH), "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n");
}

static void links_and_changes_of_type(void **state) {
    struct scene *s = *state;
    struct change *c = add(s, CHANGE_MODIFIED, "evil", "text\n", NULL);

    c->new_ = (struct change_side){.mode = S_IFLNK | 0777, .link = "/etc/\033passwd"};
    c->what = CHANGE_TYPE;
    assert_string_equal(written(s, REQUEST_PATCH),
                        "diff --git a/evil b/evil\ndeleted file mode 100644\n--- a/evil\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n"
                        "diff --git a/evil b/evil\nnew file mode 120000\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n"
                        "+/etc/\\x1bpasswd\n\\ No newline at end of file\n");
}

static void what_cannot_be_shown_is_said(void **state) {
    struct scene *s = *state;
    struct change *c = add(s, CHANGE_MODIFIED, "bin", "\001\002\003", "\001\002\004");

    assert_non_null(strstr(written(s, REQUEST_PATCH), "Binary files a/bin and b/bin differ\n"));
    c->old_unknown = true;
    assert_non_null(strstr(written(s, REQUEST_PATCH), "# content not shown: the old version was not stored\n"));
    c->old_unknown = false;
    s->r.bytes = (uint64_t)DIFF_TOTAL_MAX + 1;
    assert_non_null(strstr(written(s, REQUEST_PATCH), "# content not shown: 256 MiB"));
}

static void nothing_reaches_the_terminal(void **state) {
    static const enum request_format formats[] = {REQUEST_TEXT,  REQUEST_JSON, REQUEST_SARIF,
                                                  REQUEST_PATCH, REQUEST_STAT, REQUEST_NAMES};
    struct scene *s = *state;

    add(s, CHANGE_ADDED, "esc\033[31m", NULL, "\033]0;owned\007 \xe2\x80\xae \xff\n");
    add_risk(s, RISK_EXECUTABLE, RISK_HIGH, 1, "runs '\033[2J\xe2\x80\x8b'");
    strv_add(&s->j.set.notes, "a note\033[1m");
    s->q.diff = true;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        const char *text = written(s, formats[i]);

        assert_true(*text != 0);
        assert_true(str_is_utf8(text));
        assert_null(strchr(text, '\033'));
        assert_null(strchr(text, '\007'));
        assert_null(strstr(text, "\xe2\x80\xae"));
        assert_null(strstr(text, "\xe2\x80\x8b"));
    }
}

static void text_begins_with_the_riskiest(void **state) {
    struct scene *s = *state;
    const char *text, *high, *none;

    add(s, CHANGE_MODIFIED, "a.c", "a\n", "b\n");
    add(s, CHANGE_ADDED, "run.sh", NULL, "#!/bin/sh\n");
    add_risk(s, RISK_EXECUTABLE, RISK_HIGH, 7, "is executed");
    text = written(s, REQUEST_TEXT);
    high = strstr(text, "High risk\n  A  run.sh");
    none = strstr(text, "No risk found\n  M  a.c");
    assert_true(high && none && high < none);
    assert_non_null(strstr(text, "executable: is executed (line 7)\n"));
    assert_non_null(strstr(text, "2 changes: 1 high, 0 medium, 0 low.\nApply with: bawn apply web-abcd"));
    s->q.mode = WORKSPACE_DIRECT;
    assert_null(strstr(written(s, REQUEST_TEXT), "bawn apply"));
}

static void json_keeps_bytes(void **state) {
    struct scene *s = *state;
    const json_t *change;
    json_t *top;

    add(s, CHANGE_ADDED, "\xff", NULL, "x\n");
    add_risk(s, RISK_BINARY, RISK_LOW, 0, "a reason");
    top = json_loads(written(s, REQUEST_JSON), 0, NULL);
    assert_non_null(top);
    change = json_array_get(json_object_get(top, "changes"), 0);
    assert_string_equal(json_string_value(json_object_get(change, "path")), "\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(change, "path_bytes")), "/w==");
    assert_string_equal(json_string_value(json_object_get(change, "level")), "low");
    assert_true(json_is_null(json_object_get(change, "old")));
    assert_null(json_object_get(change, "diff"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(top, "summary"), "low")), 1);
    json_decref(top);
}

static void sarif_has_what_the_standard_requires(void **state) {
    struct scene *s = *state;
    const json_t *run, *result, *rules, *place;
    json_t *top;

    add(s, CHANGE_ADDED, "name with space", NULL, "x\n");
    add_risk(s, RISK_CI, RISK_MEDIUM, 3, "runs in CI");
    top = json_loads(written(s, REQUEST_SARIF), 0, NULL);
    assert_non_null(top);
    assert_string_equal(json_string_value(json_object_get(top, "version")), "2.1.0");
    run = json_array_get(json_object_get(top, "runs"), 0);
    rules = json_object_get(json_object_get(json_object_get(run, "tool"), "driver"), "rules");
    assert_int_equal(json_array_size(rules), RISK_CLASSES);
    result = json_array_get(json_object_get(run, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "ruleId")), risk_classes[RISK_CI].name);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(rules, (size_t)json_integer_value(json_object_get(result, "ruleIndex"))), "id")),
                        risk_classes[RISK_CI].name);
    assert_string_equal(json_string_value(json_object_get(result, "level")), "warning");
    place = json_object_get(json_array_get(json_object_get(result, "locations"), 0), "physicalLocation");
    assert_string_equal(json_string_value(json_object_get(json_object_get(place, "artifactLocation"), "uri")),
                        "name%20with%20space");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(place, "region"), "startLine")), 3);
    json_decref(top);
}

static void counts_and_names(void **state) {
    struct scene *s = *state;

    add(s, CHANGE_MODIFIED, "a.c", "1\n2\n3\n", "1\n3\n4\n5\n");
    assert_string_equal(written(s, REQUEST_STAT), " a.c | 3 ++-\n 1 changed, 2 lines added, 1 removed\n");
    assert_string_equal(written(s, REQUEST_NAMES), "a.c\n");
}

static void colours_only_if_told(void **state) {
    struct scene *s = *state;

    add(s, CHANGE_MODIFIED, "a.c", "1\n", "2\n");
    assert_null(strchr(written(s, REQUEST_TEXT), '\033'));
    s->q.colour = true;
    assert_non_null(strstr(written(s, REQUEST_TEXT), "\033[1ma.c\033[m"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_patch_has_the_heads_of_git, begin, end),
        cmocka_unit_test_setup_teardown(links_and_changes_of_type, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_shown_is_said, begin, end),
        cmocka_unit_test_setup_teardown(nothing_reaches_the_terminal, begin, end),
        cmocka_unit_test_setup_teardown(text_begins_with_the_riskiest, begin, end),
        cmocka_unit_test_setup_teardown(json_keeps_bytes, begin, end),
        cmocka_unit_test_setup_teardown(sarif_has_what_the_standard_requires, begin, end),
        cmocka_unit_test_setup_teardown(counts_and_names, begin, end),
        cmocka_unit_test_setup_teardown(colours_only_if_told, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
