/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks from files and lists, what a terminal is shown of their output, and how their results are read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/run/batch_table.h"
#include "ops/batch/batch.h"
#include "ops/run/run_request.h"

static int parse(struct batch *b, const char *text, struct err *err) {
    return batch_parse(b, "t.jsonl", text, strlen(text), err);
}

static void a_file_of_tasks(void **state UNUSED) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    struct err err = {0};

    assert_int_equal(
        parse(&b,
              "# comment\n\n  \t\r\n"
              "{\"name\": \"a\", \"cmd\": [\"echo\", \"\", \"x y\"]}\n"
              "   # another\n"
              "{\"name\": \"b.2\", \"cmd\": \"echo $X\", \"env\": {\"X\": \"1=2\"}, \"profile\": \"tight\", \"workspace\": "
              "\"ro\", \"directory\": \"/tmp\", \"timeout\": \"90s\"}\r\n"
              "{\"name\": \"c\", \"agent\": \"claude\"}",
              &err),
        0);
    assert_int_equal(b.n, 3);
    assert_int_equal(b.v[0].command.len, 3);
    assert_string_equal(b.v[0].command.v[1], "");
    assert_int_equal(b.v[0].line, 4);
    assert_string_equal(b.v[1].command.v[0], "sh");
    assert_string_equal(b.v[1].command.v[2], "echo $X");
    assert_string_equal(b.v[1].env.v[0], "X=1=2");
    assert_string_equal(b.v[1].workspace, "ro");
    assert_int_equal(b.v[2].command.len, 0);
    assert_int_equal(b.v[2].line, 7);
}

static void what_is_wrong_in_a_file(void **state UNUSED) {
    static const char first[] = "{\"name\": \"a\", \"cmd\": \"true\"}\n\n";
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"{\"name\": \"b\"}", "t.jsonl:3:"},
        {"{\"cmd\": \"true\"}", "no \"name\""},
        {"{\"name\": \"a\", \"cmd\": \"true\"}", "line 1 has the name 'a'"},
        {"{\"name\": \"b\", \"cmd\": \"true\", \"nmae\": 1}", "unknown key 'nmae' (did you mean 'name'?)"},
        {"{\"name\": \"b\", \"cmd\": []}", "no \"cmd\""},
        {"{\"name\": \"b\", \"cmd\": [\"\"]}", "cmd[0]"},
        {"{\"name\": \"b\", \"cmd\": [1]}", "must be a string"},
        {"{\"name\": \"b\", \"cmd\": 1}", "a list of strings"},
        {"{\"name\": \"b\", \"cmd\": \"a\\u0000b\"}", "t.jsonl:3:"},
        {"{\"name\": \"../b\", \"cmd\": \"true\"}", "is no name"},
        {"{\"name\": \"a..b\", \"cmd\": \"true\"}", "'..'"},
        {"{\"name\": \"a\\nb\", \"cmd\": \"true\"}", "a\\x0ab"},
        {"{\"name\": \"b\", \"cmd\": \"true\", \"workspace\": \"overlya\"}", "did you mean 'overlay'"},
        {"{\"name\": \"b\", \"cmd\": \"true\", \"timeout\": \"soon\"}", "t.jsonl:3:"},
        {"{\"name\": \"b\", \"cmd\": \"true\", \"env\": {\"A=B\": \"\"}}", "no name for a variable"},
        {"{\"name\": \"b\", \"cmd\": \"true\", \"env\": [\"A=B\"]}", "an object of strings"},
        {"{\"name\": \"b\", \"name\": \"c\", \"cmd\": \"true\"}", "t.jsonl:3:"},
        {"{\"name\": \"b\", \"cmd\": \"true\"} {}", "t.jsonl:3:"},
        {"[\"b\"]", "t.jsonl:3:"},
        {"{\"name\": \"b\", \"cmd\": \"tr\xff\"}", "t.jsonl:3:"},
        {"{\"name\": \"b\", \"cmd\": {\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "t.jsonl:3:"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(batch_done) struct batch b = BATCH_INIT;
        CLEANUP(buf_done) struct buf text = BUF_INIT(4096);
        struct err err = {0};

        buf_addf(&text, "%s%s\n", first, bad[i].line);
        assert_int_equal(parse(&b, buf_str(&text), &err), -EINVAL);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        if (!str_starts(err.msg, "t.jsonl:3:") || !strstr(err.msg, bad[i].message))
            fail_msg("%s: <%s>", bad[i].line, err.msg);
    }
}

static void a_file_without_tasks(void **state UNUSED) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    struct err err = {0};

    assert_int_equal(parse(&b, "# nothing\n\n", &err), -EINVAL);
    assert_non_null(strstr(err.msg, "no task"));
}

static int expand(struct batch *b, const char *list, struct err *err) {
    char *argv[] = {"go", "{}", "a{}b{}", "{", NULL};

    return batch_expand(b, list, argv, 4, err);
}

static void a_list_in_a_command(void **state UNUSED) {
    static const char *const names[] = {"42", "src-a.c", "x", "x-2", "task", "task-2", "a.-b"};
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    struct err err = {0};

    assert_int_equal(expand(&b, "42,src/a.c,-x,x,/,-,a..b", &err), 0);
    assert_int_equal(b.n, ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_string_equal(b.v[i].name, names[i]);
    assert_string_equal(b.v[1].command.v[1], "src/a.c");
    assert_string_equal(b.v[1].command.v[2], "asrc/a.cbsrc/a.c");
    assert_string_equal(b.v[1].command.v[3], "{");
}

static void long_words_have_short_names(void **state UNUSED) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    CLEANUP(buf_done) struct buf list = BUF_INIT(4096);
    struct err err = {0};

    for (int i = 0; i < 601; i++)
        buf_addc(&list, i == 300 ? ',' : 'y');
    assert_int_equal(expand(&b, buf_str(&list), &err), 0);
    assert_int_equal(b.n, 2);
    assert_int_equal(strlen(b.v[0].name), 35);
    assert_true(str_ends(b.v[1].name, "-2"));
}

static void what_is_wrong_in_a_list(void **state UNUSED) {
    static const char *const bad[] = {"", "a,,b", "a,", ",a", "@/nowhere/at/all"};
    char *argv[] = {"echo", "{ }", NULL};
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(batch_done) struct batch b = BATCH_INIT;

        err = (struct err){0};
        assert_true(expand(&b, bad[i], &err) < 0);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
    }
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    err = (struct err){0};
    assert_int_equal(batch_expand(&b, "a", argv, 2, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "{}"));
}

static void last_lines(void **state UNUSED) {
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"", ""},
        {"\n\n", ""},
        {"one\ntwo\n\n", "two"},
        {"10%\r20%\r30%\r", "30%"},
        {"\033[31mred\033[0m text\n", "red text"},
        {"\033]0;title\apwned\n", "pwned"},
        {"\033]0;title\033\\pwned\n", "\\pwned"},
        {"a\033[2J\033[1;1Hb\n", "ab"},
        {"a\tb\n", "a b"},
        {"bell\a back\b del\x7f\n", "bell back del"},
        {"8bit \x9b"
         "31m \xff\xfe\n",
         "8bit 31m "},
        {"c1 \xc2\x9b"
         "31m\n",
         "c1 31m"},
        {"bidi \xe2\x80\xae"
         "evil\n",
         "bidi evil"},
        {"\033[", ""},
        {"\033", ""},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"0123456789abcdefghijklmno", "0123456789abcdefghij"},
        {"\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5",
         "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5"},
        {"cut \xe6\x97", "cut "},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(256);

        batch_last_line(cases[i].text, strlen(cases[i].text), 20, &out);
        assert_string_equal(buf_str(&out), cases[i].shown);
    }
}

static void results_are_read(void **state UNUSED) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    CLEANUP(buf_done) struct buf json = BUF_INIT(4096);
    struct err err = {0};
    struct batch_task *t = batch_add(&b, "one", &err);

    t->begun_ms = 100;
    t->attempts = 1;
    buf_adds(
        &t->report,
        "{\"status\":3,\"signal\":0,\"run\":\"bawn-one\",\"changes\":2,\"limits_hit\":[\"memory\"],\"network\":{\"reached\":[{"
        "\"host\":\"a.example\",\"port\":443},{\"host\":\"::1\",\"port\":80},{\"host\":null,\"port\":0}]},\"duration_ms\":9.5,"
        "\"memory_peak\":4096,\"cpu_us\":2500}\n");
    batch_take_report(t, 3 << 8, 150);
    assert_int_equal(t->result.status, 3);
    assert_int_equal(t->result.duration_ms, 50);
    assert_int_equal(t->result.memory_peak, 4096);
    assert_int_equal(t->result.hosts.len, 2);
    assert_string_equal(t->result.hosts.v[1], "[::1]:80");
    assert_string_equal(t->result.run, "bawn-one");
    t->state = BATCH_FAILED;
    b.logs = strdup("/logs");
    batch_json(&b, &json);
    assert_non_null(strstr(buf_str(&json), "\"exit\":3,\"signal\":0,\"duration_ms\":50,\"peak_memory\":4096,\"cpu_ms\":2"));
    assert_non_null(strstr(buf_str(&json), "\"limits\":[\"memory\"]"));
    assert_non_null(strstr(buf_str(&json), "\"out\":\"/logs/one.out\""));
}

/* A supervisor that was killed, or that said something else. */
static void results_that_are_none(void **state UNUSED) {
    static const char *const reports[] = {"", "{\"status\":", "[]",
                                          "{\"memory_peak\":-5,\"run\":7,\"network\":[],\"limits_hit\":{}}"};

    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        CLEANUP(batch_done) struct batch b = BATCH_INIT;
        struct err err = {0};
        struct batch_task *t = batch_add(&b, "one", &err);

        buf_adds(&t->report, reports[i]);
        batch_take_report(t, 9 /* SIGKILL */, 1);
        assert_int_equal(t->result.status, 137);
        assert_int_equal(t->result.signal, 9);
        assert_int_equal(t->result.memory_peak, 0);
        assert_string_equal(t->result.run, "");
    }
}

static void options_that_every_task_gets(void **state UNUSED) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    struct err err = {0};

    struct run_request q = {.flags = {.memory = "1g", .no_secrets = true, .workspace_mode = "ro"}};

    b.request = &q;
    assert_int_equal(batch_prepare(&b, &err), 0);
    assert_int_equal(b.words.len, 2);
    assert_string_equal(b.words.v[0], "--memory=1g");
    assert_string_equal(b.words.v[1], "--no-secrets");
    assert_true(b.opts.jobs > 0);
}

static void options_that_no_task_can_have(void **state UNUSED) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    static const struct run_request bad[] = {{.name = "x"}, {.flags = {.mode = "off"}}, {.tty = true}, {.parent = 3}};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        b.request = &bad[i];
        assert_int_equal(batch_prepare(&b, &err), -EINVAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_tasks),
        cmocka_unit_test(what_is_wrong_in_a_file),
        cmocka_unit_test(a_file_without_tasks),
        cmocka_unit_test(a_list_in_a_command),
        cmocka_unit_test(long_words_have_short_names),
        cmocka_unit_test(what_is_wrong_in_a_list),
        cmocka_unit_test(last_lines),
        cmocka_unit_test(results_are_read),
        cmocka_unit_test(results_that_are_none),
        cmocka_unit_test(options_that_every_task_gets),
        cmocka_unit_test(options_that_no_task_can_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
