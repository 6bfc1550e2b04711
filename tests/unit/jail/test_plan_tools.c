/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the home in a plan: mounts, PATH, and variables for what is installed inside. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "config/settings.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_tools.h"

static void add_words(const char *const *words, struct strv *to) {
    while (*words)
        assert_int_equal(strv_add(to, *words++), 0);
}

struct tools_scene {
    struct settings settings;
    struct plan_tools tools;
    struct plan plan;
};

static void make_plan(struct tools_scene *s, const char *path, enum rung rung) {
    static char name[] = "true", *argv[] = {name, NULL};
    CLEANUP(freep) char *variable = str_dupf("PATH=%s", path);
    char *const outside[] = {variable, NULL};
    const struct host_facts h = {.uid = 1000,
                                 .gid = 1000,
                                 .user = "ann",
                                 .home = "/home/ann",
                                 .passwd_home = "/home/ann",
                                 .workspace = "/home/ann/proj",
                                 .environ_ = outside};
    const struct plan_input in = {.home = {.tools = &s->tools, .caches = "/caches"}, .argv = argv, .argc = 1};
    struct err err = {0};

    s->settings.engine = (char[]){"native"};
    if (plan_make(&s->settings, &h, &in, rung, &s->plan, &err) < 0)
        fail_msg("%s", err.msg);
}

static void scene_done(struct tools_scene *s) {
    plan_done(&s->plan);
    plan_tools_done(&s->tools);
}

static const char *variable(const struct plan *p, const char *name) {
    size_t n = strlen(name);

    for (size_t i = 0; i < p->env.len; i++)
        if (strncmp(p->env.v[i], name, n) == 0 && p->env.v[i][n] == '=')
            return p->env.v[i] + n + 1;
    return NULL;
}

static const struct step *find_step(const struct plan *p, enum step_kind kind, const char *to) {
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == kind && str_eq(p->steps[i].to, to))
            return &p->steps[i];
    return NULL;
}

static void path_keeps_its_order(void **state UNUSED) {
    static const char *const mounts[] = {"/home/ann/.cargo/bin", "/home/ann/.local/share/fnm/v20/installation", NULL};
    static const char *const entries[] = {"/home/ann/.cargo/bin", "/home/ann/.cargo/bin", "/run/user/1000/fnm/1/bin",
                                          "/home/ann/.local/share/fnm/v20/installation/bin", NULL};
    CLEANUP(scene_done) struct tools_scene s = {0};
    const struct step *step;

    add_words(mounts, &s.tools.mounts);
    add_words(entries, &s.tools.path);
    make_plan(&s, "/run/user/1000/fnm/1/bin:/usr/bin:/home/ann/other:/home/ann/.cargo/bin:/bin", RUNG_FULL);
    assert_string_equal(
        variable(&s.plan, "PATH"),
        "/home/ann/.local/inside/bin:/home/ann/.local/share/fnm/v20/installation/bin:/usr/bin:/home/ann/.cargo/bin:/bin");
    step = find_step(&s.plan, STEP_EXTRA, "/home/ann/.cargo/bin");
    assert_non_null(step);
    assert_true(step->optional);
    assert_false(step->writable);
    assert_string_equal(step->from, "/home/ann/.cargo/bin");
}

static void mounts_stay_in_path(void **state UNUSED) {
    static char tools[] = "/home/ann/tools", program[] = "/home/ann/one/program", other[] = "/data";
    struct mount_spec mounts[] = {{tools, tools, false}, {program, program, false}, {other, (char[]){"/elsewhere"}, false}};
    CLEANUP(scene_done) struct tools_scene s = {.settings = {.mounts = mounts, .n_mounts = ARRAY_LEN(mounts)}};

    make_plan(&s, "/home/ann/tools/bin:/home/ann/toolsets:/home/ann/one:/home:/data:/usr/bin", RUNG_FULL);
    assert_string_equal(variable(&s.plan, "PATH"), "/home/ann/.local/inside/bin:/home/ann/tools/bin:/home/ann/one:/usr/bin");
}

static void installs_go_inside(void **state UNUSED) {
    struct env_spec mine[] = {{(char[]){"GOBIN"}, (char[]){"/mine"}}};
    CLEANUP(scene_done) struct tools_scene s = {.settings = {.env = mine, .n_env = 1}};

    make_plan(&s, "/usr/bin", RUNG_FULL);
    assert_string_equal(variable(&s.plan, "NPM_CONFIG_PREFIX"), "/home/ann/.local/inside");
    assert_string_equal(variable(&s.plan, "PYTHONUSERBASE"), "/home/ann/.local/inside");
    assert_string_equal(variable(&s.plan, "CARGO_INSTALL_ROOT"), "/home/ann/.local/inside");
    assert_string_equal(variable(&s.plan, "GOBIN"), "/mine");
    assert_non_null(find_step(&s.plan, STEP_DIR, "/home/ann/.local/inside/lib"));
}

static void modules_of_the_host(void **state UNUSED) {
    static const char *const mounts[] = {"/home/ann/.local/lib/python3.12/site-packages", NULL};
    CLEANUP(scene_done) struct tools_scene s = {0};
    const struct step *file;

    add_words(mounts, &s.tools.mounts);
    make_plan(&s, "/usr/bin", RUNG_FULL);
    file = find_step(&s.plan, STEP_FILE, "/run/bawn/python3.12.pth");
    assert_non_null(file);
    assert_string_equal(file->from, "/home/ann/.local/lib/python3.12/site-packages\n");
    assert_non_null(find_step(&s.plan, STEP_SYMLINK, "/home/ann/.local/inside/lib/python3.12/site-packages/host.pth"));
}

/* pnpm's own folder is a cache of ours, unless the host's programs are there. */
static void a_cache_gives_way(void **state UNUSED) {
    static const char *const mounts[] = {"/home/ann/.local/share/pnpm/pnpm", NULL};
    CLEANUP(scene_done) struct tools_scene plain = {0}, s = {0};

    make_plan(&plain, "/usr/bin", RUNG_FULL);
    assert_non_null(find_step(&plain.plan, STEP_SYMLINK, "/home/ann/.local/share/pnpm"));
    add_words(mounts, &s.tools.mounts);
    make_plan(&s, "/usr/bin", RUNG_FULL);
    assert_null(find_step(&s.plan, STEP_SYMLINK, "/home/ann/.local/share/pnpm"));
    assert_non_null(find_step(&s.plan, STEP_SYMLINK, "/home/ann/.npm"));
}

/* Without namespaces the home is another folder, and files cannot be made in advance. */
static void without_namespaces(void **state UNUSED) {
    static const char *const mounts[] = {"/home/ann/.cargo/bin", NULL};
    static const char *const entries[] = {"/home/ann/.cargo/bin", "/home/ann/.cargo/bin", NULL};
    CLEANUP(scene_done) struct tools_scene s = {0};

    add_words(mounts, &s.tools.mounts);
    add_words(entries, &s.tools.path);
    make_plan(&s, "/home/ann/.cargo/bin:/usr/bin", RUNG_LANDLOCK);
    assert_string_equal(variable(&s.plan, "PATH"), "/home/ann/.cargo/bin:/usr/bin");
    assert_null(variable(&s.plan, "NPM_CONFIG_PREFIX"));
    assert_non_null(find_step(&s.plan, STEP_EXTRA, "/home/ann/.cargo/bin"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_keeps_its_order), cmocka_unit_test(mounts_stay_in_path), cmocka_unit_test(installs_go_inside),
        cmocka_unit_test(modules_of_the_host),  cmocka_unit_test(a_cache_gives_way),   cmocka_unit_test(without_namespaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
