/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of configuration files: what they see, and what they say they do not understand. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"
#include "review/pairs/pairs.h"

struct reading {
    pairs_read_fn *read;
    const char *text, *pairs; /* "key=value;", '.' between names */
    unsigned odd;
};

static void check(const struct reading *r, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;
        CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

        r[i].read(&p, r[i].text, strlen(r[i].text));
        for (size_t k = 0; k < p.n; k++)
            buf_addf(&b, "%s=%s;", pairs_key(&p, k), pairs_value(&p, k));
        for (size_t k = 0; k < b.len; k++)
            if (b.data[k] == PAIR_STEP)
                b.data[k] = '.';
        if (!str_eq(buf_str(&b), r[i].pairs) || p.odd != r[i].odd)
            print_message("# %zu: '%s' gives '%s', odd %u\n", i, r[i].text, buf_str(&b), p.odd);
        assert_string_equal(buf_str(&b), r[i].pairs);
        assert_int_equal(p.odd, r[i].odd);
    }
}

static void json(void **state) {
    static const struct reading cases[] = {
        {pairs_read_json, "", "", 0},
        {pairs_read_json, "{}", "", 0},
        {pairs_read_json, "\xef\xbb\xbf{\"a\": 1}\n", "a=1;", 0},
        {pairs_read_json, "{\"a\":{\"b\":[1,true,{\"c\":null}]},\"d\":\"x\"}", "a.b[]=1;a.b[]=true;a.b[]={;a.b[].c=null;d=x;", 0},
        {pairs_read_json, "{\"a\":1,\"a\":2}", "a=1;a=2;", 0},
        {pairs_read_json, "// x\n{/* y\n */\"a\":1, // z\n}", "a=1;", 0},
        {pairs_read_json, "{\"\\u0061\\n\":\"\\\"\\\\\"}", "a\n=\"\\;", 0},
        {pairs_read_json, "{\"a\":\"http://x\"}", "a=http://x;", 0},
        {pairs_read_json, "{\"a\\u001fb\":1}", "a?b=1;", 0},
        {pairs_read_json, "{\"a\":1", "a=1;", 1},
        {pairs_read_json, "{\n\"a\":\n", "", 3},
        {pairs_read_json, "{\"a\":\"x\n\"}", "a=x;", 1},
        {pairs_read_json, "{} x", "", 1},
        {pairs_read_json, "{\"a\":\"\\q\"}", "a=q;", 1},
        {pairs_read_json, "[1}", "[]=1;", 1},
        {pairs_read_json, "/* x", "", 1},
    };

    check(cases, ARRAY_LEN(cases));
}

static void toml(void **state) {
    static const struct reading cases[] = {
        {pairs_read_toml, "a = 1 # c\nb.c = 'd'\n", "a=1;b.c=d;", 0},
        {pairs_read_toml, "[x.\"y.z\"]\r\na = \"b\"\r\n", "x.y.z.a=b;", 0},
        {pairs_read_toml, "[[p]]\nn = \"a\"\n[[p]]\nn = \"b\"\n", "p[]={;p[].n=a;p[]={;p[].n=b;", 0},
        {pairs_read_toml, "a = [\n 'b', # c\n {d = 1, e = 'f'},\n]\ng = 2\n", "a[]=b;a[]={;a[].d=1;a[].e=f;g=2;", 0},
        {pairs_read_toml, "a = \"\"\"x\n[y]\n\"\"\"\nb = 1\n", "a=x\n[y]\n;b=1;", 0},
        {pairs_read_toml, "a = {}\nb = []\n", "", 0},
        {pairs_read_toml, "[a\nb = 1\n", "", 1},
        {pairs_read_toml, "a\n", "", 1},
        {pairs_read_toml, "a = \n", "", 1},
        {pairs_read_toml, "a = 'b' c\n", "a=b;", 1},
        {pairs_read_toml, "a = [1\n", "a[]=1;", 2},
    };

    check(cases, ARRAY_LEN(cases));
}

static void yaml(void **state) {
    static const struct reading cases[] = {
        {pairs_read_yaml, "a: 1\nb:\n  c: d # e\n  f: 'g: h'\ni: j\n", "a=1;b.c=d;b.f=g: h;i=j;", 0},
        {pairs_read_yaml, "a:\n- b: 1\n  c: 2\n- b: 3\nd: 4\n", "a[]={;a[].b=1;a[].c=2;a[]={;a[].b=3;d=4;", 0},
        {pairs_read_yaml, "a:\n  - b\n  - c\n", "a[]={;a[]=b;a[]={;a[]=c;", 0},
        {pairs_read_yaml, "a:\n  - - b\n", "a[]={;a[][]={;a[][]=b;", 0},
        {pairs_read_yaml, "a: |\n  x: y\n\n  z\nb: >-\n  w\nc: 1\n", "a=x: y;a=z;b=w;c=1;", 0},
        {pairs_read_yaml, "a: {b: 1, c: [d, 'e']}\nf: []\n", "a.b=1;a.c[]=d;a.c[]=e;", 0},
        {pairs_read_yaml, "a:\n- { b: 1, c: 'd' }\n- [e]\n", "a[]={;a[].b=1;a[].c=d;a[]={;a[][]=e;", 0},
        {pairs_read_yaml, "\"a@b:c\":\n  d: e\n", "a@b:c.d=e;", 0},
        {pairs_read_yaml, "a:b: c\n", "a:b=c;", 0},
        {pairs_read_yaml, "---\na: 1\n---\nb: 2\n", "a=1;b=2;", 0},
        {pairs_read_yaml, "a: b\n  c\n", "a=b;a=c;", 0},
        {pairs_read_yaml, "a: &x b\nc: *x\n", "a=b;c=*x;", 2},
        {pairs_read_yaml, "a: !!str b\n", "a=!!str b;", 1},
        {pairs_read_yaml, "a: {b: 1\n", "a.b=1;", 2},
        {pairs_read_yaml, "\"\\x61\": b\n", "x61=b;", 1},
    };

    check(cases, ARRAY_LEN(cases));
}

static void lines(void **state) {
    static const struct reading cases[] = {
        {pairs_read_ini, "a = 1\n[s]\n# c\nb: 2\nd =\n  e\n  f\n", "a=1;s.b=2;s.d=;s.d=e;s.d=f;", 0},
        {pairs_read_ini, "@x:registry=y\n//h/:_authToken=z\nflag\n", "@x:registry=y;//h/:_authToken=z;flag=;", 0},
        {pairs_read_go, "module a\n\nrequire (\n\tb v1 // indirect\n)\nreplace c => d // e\n",
         "module=a;require=b v1;replace=c => d;", 0},
        {pairs_read_git, "[Core]\nx = y\n[a \"B\"]\nc\n", "core.x=y;a.B.c=true;", 0},
        {pairs_read_git, "[core]\nx = y\n[broken\n", "core.x=y;", 3},
    };

    check(cases, ARRAY_LEN(cases));
}

/* A NUL ends a string for us, but perhaps not for the program that reads the file. */
static void bytes_that_no_text_has(void **state) {
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;

    pairs_read_json(&p, "{\"a\":\"b\0c\"}", 11);
    assert_int_equal(p.odd, 1);
}

static void depth_is_bounded(void **state) {
    CLEANUP(pairs_done) struct pairs p = PAIRS_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000000);

    for (int i = 0; i < 100000; i++)
        buf_addc(&b, '[');
    pairs_read_json(&p, buf_str(&b), b.len);
    assert_int_equal(p.odd, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json),
        cmocka_unit_test(toml),
        cmocka_unit_test(yaml),
        cmocka_unit_test(lines),
        cmocka_unit_test(bytes_that_no_text_has),
        cmocka_unit_test(depth_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
