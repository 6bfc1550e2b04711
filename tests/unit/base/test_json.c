/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum { TEXT_MAX = 1000 };

struct thing {
    char *id, *path, *from;
    char boot[4];
    bool yes;
    int pid;
    uint64_t since;
    enum colour { RED, BLUE } colour;
    struct strv words, paths;
    unsigned special;
    char more[8];
};

static const char *const colours[] = {[RED] = "red", [BLUE] = "blue"};

static int read_special(const json_t *v, void *member, struct err *err) {
    *(unsigned *)member = (unsigned)json_array_size(v);
    return json_is_array(v) ? 0 : err_set(err, -EBADMSG, "expected something special");
}

static json_t *write_special(const void *member) {
    json_t *list = json_array();

    for (unsigned i = 0; i < *(const unsigned *)member; i++)
        json_array_append_new(list, json_null());
    return list;
}

static const struct json_field fields[] = {
    JSON_VERSION("version", 2),
    JSON_STRING_OF("id", struct thing, id, 0),
    JSON_PATH("path", struct thing, path),
    JSON_STRING_OF("from", struct thing, from, JSON_NULLABLE | JSON_ENCODED),
    JSON_CHARS("boot", struct thing, boot, 0),
    JSON_BOOL("yes", struct thing, yes),
    JSON_INT("pid", struct thing, pid, 0, INT32_MAX),
    JSON_U64("since", struct thing, since),
    JSON_ENUM("colour", struct thing, colour, colours),
    JSON_STRINGS("words", struct thing, words, JSON_ENCODED, 3),
    JSON_STRINGS("paths", struct thing, paths, JSON_ABSOLUTE | JSON_OPTIONAL, 3),
    JSON_CALL("special", struct thing, special, 0, read_special, write_special),
    JSON_CHARS("more", struct thing, more, JSON_OPTIONAL),
};
static const struct json_table table = {fields, ARRAY_LEN(fields)}, strict = {fields, ARRAY_LEN(fields), .strict = true};

static const char good[] =
    "{\"version\":2,\"id\":\"x\",\"path\":\"/a%FF\",\"from\":null,\"boot\":\"abc\",\"yes\":true,\"pid\":7,"
    "\"since\":9223372036854775807,\"colour\":\"blue\",\"words\":[\"a\",\"b%25\"],\"special\":[null,null]}\n";

static void thing_done(struct thing *t) {
    free(t->id);
    free(t->path);
    free(t->from);
    strv_done(&t->words);
    strv_done(&t->paths);
}

static void test_there_and_back(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TEXT_MAX), small = BUF_INIT(20);
    CLEANUP(thing_done) struct thing t = {.from = strdup("before")};
    struct err err = {0};

    assert_int_equal(json_table_parse(&strict, good, strlen(good), TEXT_MAX, &t, &err), 0);
    assert_string_equal(t.id, "x");
    assert_string_equal(t.path, "/a\xff");
    assert_null(t.from);
    assert_string_equal(t.boot, "abc");
    assert_true(t.yes);
    assert_int_equal(t.pid, 7);
    assert_int_equal(t.since, INT64_MAX);
    assert_int_equal(t.colour, BLUE);
    assert_int_equal(t.words.len, 2);
    assert_string_equal(t.words.v[1], "b%");
    assert_int_equal(t.special, 2);
    assert_int_equal(json_table_write(&table, &t, JSON_COMPACT, &b, &err), 0);
    assert_string_equal(buf_str(&b), good);
    assert_int_equal(json_table_write(&table, &t, JSON_COMPACT, &small, &err), -EFBIG);
}

static void test_optional_members_are_written_if_they_are_set(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
    CLEANUP(thing_done) struct thing t = {.id = strdup(""), .path = strdup("/"), .more = "m"};

    assert_int_equal(strv_add(&t.paths, "/p"), 0);
    assert_int_equal(json_table_write(&table, &t, 0, &b, NULL), 0);
    assert_non_null(strstr(buf_str(&b), "\"words\": [], \"paths\": [\"/p\"], \"special\": [], \"more\": \"m\"}\n"));
}

/* Each case puts a value in the place of one member of the good text. */
static void test_what_is_wrong(void **state) {
    static const struct {
        const char *key, *value, *message;
    } cases[] = {
        {"version", "3", "key 'version': expected 2"},
        {"version", "\"2\"", "key 'version': expected 2"},
        {"id", "1", "key 'id': expected a string"},
        {"id", "null", "key 'id': expected a string"},
        {"path", "\"a\"", "key 'path': expected an absolute path"},
        {"path", "\"/%F\"", "key 'path': expected an absolute path"},
        {"from", "1", "key 'from': expected a string"},
        {"boot", "\"abcd\"", "key 'boot': expected at most 3 bytes"},
        {"boot", "null", "key 'boot': expected a string"},
        {"yes", "1", "key 'yes': expected true or false"},
        {"pid", "-1", "key 'pid': expected a number from 0 to 2147483647"},
        {"pid", "2147483648", "key 'pid': expected a number from 0 to 2147483647"},
        {"pid", "1.0", "key 'pid': expected a number"},
        {"since", "-1", "key 'since': expected a number from 0 to 9223372036854775807"},
        {"colour", "\"green\"", "key 'colour': expected one of red, blue"},
        {"colour", "0", "key 'colour': expected one of red, blue"},
        {"words", "\"a\"", "key 'words': expected a list"},
        {"words", "[\"a\", 1]", "key 'words': element 1: expected a string"},
        {"words", "[\"\",\"\",\"\",\"\"]", "key 'words': expected at most 3 elements"},
        {"paths", "[\"a\"]", "key 'paths': element 0: expected an absolute path"},
        {"special", "1", "key 'special': expected something special"},
        {"special", NULL, "key 'special': is missing"},
        {"bad\x1b", "1", "unknown key 'bad\\x1b'"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(json_decrefp) json_t *root = json_loads(good, 0, NULL);
        CLEANUP(thing_done) struct thing t = {0};
        struct err err = {0};

        if (cases[i].value)
            json_object_set_new(root, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(root, cases[i].key);
        assert_int_equal(json_table_read(&strict, root, &t, &err), -EBADMSG);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static void test_parse_object(void **state) {
    static const struct {
        const char *text, *message;
        int r;
    } cases[] = {
        {"[]", "expected an object", -EBADMSG},
        {"", "not valid JSON: ", -EBADMSG},
        {"{\"a\":1,\"a\":2}", "not valid JSON: duplicate object key", -EBADMSG},
        {"{} x", "not valid JSON: end of file expected", -EBADMSG},
        {"{                    }", "larger than 20 bytes", -EFBIG},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *root = NULL;
        struct err err = {0};

        assert_int_equal(json_parse_object(cases[i].text, strlen(cases[i].text), 20, &root, &err), cases[i].r);
        assert_null(root);
        assert_true(str_starts(err.msg, cases[i].message));
    }
}

static void test_single_members(void **state) {
    CLEANUP(json_decrefp) json_t *root = NULL;
    static const char text[] = "{\"s\":\"x\",\"i\":9007199254740993,\"r\":1.9,\"huge\":1e300,\"b\":true,\"n\":null}";

    assert_int_equal(json_parse_object(text, strlen(text), 100, &root, NULL), 0);
    assert_string_equal(json_get_text(root, "s"), "x");
    assert_string_equal(json_get_text(root, "i"), "");
    assert_string_equal(json_get_text(NULL, "s"), "");
    assert_int_equal(json_get_int(root, "i", 3), 9007199254740993);
    assert_int_equal(json_get_int(root, "r", 3), 1);
    assert_int_equal(json_get_int(root, "huge", 3), 3);
    assert_int_equal(json_get_int(root, "s", 3), 3);
    assert_int_equal(json_get_int(NULL, "i", 3), 3);
    assert_true(json_get_bool(root, "b"));
    assert_false(json_get_bool(root, "n"));
    assert_false(json_get_bool(root, "none"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_optional_members_are_written_if_they_are_set),
        cmocka_unit_test(test_what_is_wrong),  cmocka_unit_test(test_parse_object),
        cmocka_unit_test(test_single_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
