/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for any file: modes, interpreters, machine code, links, hidden characters. */
#include "risk_scene.h"

static void set_modes(struct scene *s, const char *path, unsigned what, mode_t was, mode_t is) {
    struct change *c;

    scene_text(s, path, "x", "x");
    c = scene_change(s, path);
    c->what = what;
    c->old_.mode = S_IFREG | was;
    c->new_.mode = S_IFREG | is;
}

static void modes(void **state) {
    struct scene *s = *state;

    set_modes(s, "a", CHANGE_MODE, 0644, 0755);
    set_modes(s, "b", CHANGE_MODE | CHANGE_CONTENT, 0644, 0755);
    set_modes(s, "c", CHANGE_MODE, 0755, 04755);
    set_modes(s, "d", CHANGE_MODE, 0755, 02755);
    set_modes(s, "e", CHANGE_MODE, 0755, 0644);
    set_modes(s, "f", CHANGE_MODE, 0644, 0666);
    scene_expect(s, "a", RISK_EXECUTABLE, RISK_MEDIUM, "it became executable, while its content");
    scene_expect(s, "b", RISK_EXECUTABLE, RISK_MEDIUM, "it became executable");
    scene_expect(s, "c", RISK_EXECUTABLE, RISK_HIGH, "setuid");
    scene_expect(s, "d", RISK_EXECUTABLE, RISK_HIGH, "setgid");
    scene_expect(s, "e", RISK_EXECUTABLE, RISK_LOW, "from 0755 to 0644");
    scene_expect(s, "f", RISK_EXECUTABLE, RISK_LOW, "others than its owner");
}

static void interpreters(void **state) {
    static const struct example examples[] = {
        {"a", "#!/bin/sh\n", "#!/tmp/evil\n", RISK_EXECUTABLE, RISK_MEDIUM,
         "its interpreter is '/tmp/evil' now, and was '/bin/sh'"},
        {"a", "x", "#! /usr/bin/env python3\n", RISK_EXECUTABLE, RISK_MEDIUM, "script for '/usr/bin/env python3' now"},
        {"a", "#!/bin/sh\nx\n", "#!/bin/sh\ny\n", RISK_EXECUTABLE, RISK_NONE, NULL},
        {"a", NULL, "#!/bin/sh\n", RISK_EXECUTABLE, RISK_NONE, NULL}, /* not executable */
    };
    struct scene *s = *state;

    scene_examples(s, examples, ARRAY_LEN(examples));
    scene_text(s, "tool", NULL, "#!/bin/sh\r\n");
    scene_change(s, "tool")->new_.mode |= 0111;
    scene_expect(s, "tool", RISK_EXECUTABLE, RISK_LOW, "new executable script for '/bin/sh'");
    scene_text(s, "tool2", NULL, "x");
    scene_change(s, "tool2")->new_.mode |= 0111;
    scene_expect(s, "tool2", RISK_EXECUTABLE, RISK_LOW, "new executable file");
}

static void binaries(void **state) {
    static const struct {
        const char *name, *bytes;
        size_t len;
        const char *words;
    } cases[] = {
        {"a",
         "\x7f"
         "ELF\2",
         5, "an ELF program"},
        {"a", "\xcf\xfa\xed\xfe", 4, "Mach-O"},
        {"a", "\xca\xfe\xba\xbe", 4, "Java bytecode"},
        {"a", "MZ\x90\0\3", 5, "Windows"},
        {"a", "\0asm\1", 5, "WebAssembly"},
        {"a.jar", "PK", 2, "Java"},
        {"a.node", "x", 1, "library"},
        {"a.so.1", "x", 1, "library"},
        {"x/__pycache__/a.pyc", "x", 1, "bytecode"},
    };
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scene_bytes(s, cases[i].name, NULL, 0, cases[i].bytes, cases[i].len);
        scene_expect(s, cases[i].name, RISK_BINARY, RISK_MEDIUM, cases[i].words);
        scene_clear(s);
    }
    scene_bytes(s, "a",
                "\x7f"
                "ELF1",
                5,
                "\x7f"
                "ELF2",
                5);
    scene_expect(s, "a", RISK_BINARY, RISK_MEDIUM, "another of the same size, 5 bytes");
}

static void links(void **state) {
    static const struct {
        const char *path, *target;
        enum risk_level level; /* RISK_NONE: leads nowhere else */
    } cases[] = {
        {"a", "/home/me/x", RISK_HIGH},
        {"b", "../x", RISK_MEDIUM},
        {"d/c", "../x", RISK_NONE},
        {"d/d", "../../x", RISK_MEDIUM},
        {"d/e", "f/../../../x", RISK_MEDIUM},
        {"f", "/usr/bin/python3", RISK_LOW},
        {"g", "../../.ssh/id_rsa", RISK_HIGH},
        {"h", "d/up/x", RISK_MEDIUM}, /* through a link of the change set */
        {"d/up", "../..", RISK_MEDIUM},
        {"i", "d/down/../x", RISK_NONE},
        {"d/down", "deep/er", RISK_NONE},
        {"j", "host/x", RISK_MEDIUM}, /* through a link that the host had already */
        {"k", "l", RISK_MEDIUM},      /* a circle */
        {"l", "k", RISK_MEDIUM},
        {"m", "./n//o/.", RISK_NONE},
    };
    struct scene *s = *state;

    assert_int_equal(symlinkat("../..", s->old_root, "host"), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        scene_link(s, cases[i].path, cases[i].target);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (cases[i].level == RISK_NONE)
            scene_expect_none(s, cases[i].path);
        else
            scene_expect(s, cases[i].path, RISK_SYMLINK_OUT, cases[i].level, "leads out of the workspace");
    scene_link(s, "z", ".git/hooks");
    scene_expect(s, "z", RISK_GIT_DIR, RISK_HIGH, "into git's own directory");
}

static void hidden_text(void **state) {
    static const struct example examples[] = {
        {"a.c", "x\n", "x\nif (a\xe2\x80\xae) {\n", RISK_HIDDEN_TEXT, RISK_HIGH,
         "line 2 contains a bidirectional control (U+202E)"},
        {"a.c", "x", "\xe2\x81\xa6", RISK_HIDDEN_TEXT, RISK_HIGH, "U+2066"},
        {"a.c", "x",
         "a\xe2\x80\x8b"
         "b",
         RISK_HIDDEN_TEXT, RISK_MEDIUM, "no width"},
        {"AGENTS.md", "x",
         "a\xe2\x80\x8b"
         "b",
         RISK_HIDDEN_TEXT, RISK_HIGH, "no width"},
        {"a.c", "x", "\xf3\xa0\x81\xa1", RISK_HIDDEN_TEXT, RISK_HIGH, "tag character"},
        {"a.c", "x", "\x1b[2J", RISK_HIDDEN_TEXT, RISK_MEDIUM, "terminal escape"},
        {"a.c", "x",
         "\xc2\x9b"
         "2J",
         RISK_HIDDEN_TEXT, RISK_MEDIUM, "C1"},
        {"a.c", "x", "evil\rgood\n", RISK_HIDDEN_TEXT, RISK_MEDIUM, "carriage return"},
        {"a.c", "x\xe2\x80\xae\n", "x\xe2\x80\xae\ny\n", RISK_HIDDEN_TEXT, RISK_NONE, NULL}, /* was there before */
        {"a.c", "x", "\xef\xbb\xbfx\r\ny\r\n", RISK_HIDDEN_TEXT, RISK_NONE, NULL},
        {"a.c", "x", "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 \xd9\x85\xe2\x80\x8c\xd9\x85 \xc3\xa4\xe6\x97\xa5",
         RISK_HIDDEN_TEXT, RISK_NONE, NULL},
        {"a\x1b[2J", NULL, "x", RISK_HIDDEN_TEXT, RISK_MEDIUM, "its name contains a terminal escape"},
        {"a\nb", NULL, "x", RISK_HIDDEN_TEXT, RISK_MEDIUM, "its name contains a line end"},
        {"a\xe2\x80\xae"
         "b",
         NULL, "x", RISK_HIDDEN_TEXT, RISK_HIGH, "its name contains a bidirectional"},
        {"a\xff", NULL, "x", RISK_HIDDEN_TEXT, RISK_LOW, "not UTF-8"},
    };

    scene_examples(*state, examples, ARRAY_LEN(examples));
}

/* A NUL takes a file out of every diff. Compressed bytes, git's own objects among them, are no text. */
static void binary_content(void **state) {
    static const char packed[] = "x\x01\x4b\xca\xc9\x4f\x52\x30\x65\xc8\x40\x05\x89\x5c\x02\x1d\xc5\x04\x17\x99\x9b\x8e\xf1";
    struct scene *s = *state;

    scene_bytes(s, "a.js", "x\n", 2, "\0\x1b[2J", 5);
    scene_bytes(s, "b.gz", NULL, 0, packed, sizeof packed - 1);
    scene_bytes(s, ".git/objects/ab/cd", NULL, 0, "x\x1b[2J", 5);
    scene_expect(s, "a.js", RISK_HIDDEN_TEXT, RISK_MEDIUM, "diffs show it no more");
    scene_expect_none(s, "b.gz");
    scene_expect_none(s, ".git/objects/ab/cd");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(interpreters, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(binaries, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(links, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(hidden_text, scene_setup, scene_teardown),
        cmocka_unit_test_setup_teardown(binary_content, scene_setup, scene_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
