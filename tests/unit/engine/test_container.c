/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to the arguments of `docker run`, the options of users, and what bawn-enter makes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/container/container_box.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/cursor.h"
#include "proto/entermsg.h"
#include "proto/initmsg.h"

static struct step steps[] = {
    {STEP_RO, "/usr", "/usr"},
    {STEP_RO, "/nowhere", "/no/such/folder", .optional = true},
    {STEP_DIR, "/etc"},
    {STEP_SYMLINK, "/bin", "usr/bin"},
    {STEP_SYMLINK, "/dev/fd", "/proc/self/fd"},
    {STEP_SYMLINK, "/workspace", "/home/u/w"},
    {STEP_FILE, "/etc/hosts", "127.0.0.1 localhost\n", .mode = 0644},
    {STEP_FILE, "/etc/passwd", "u:x:1000:100::/home/u:/bin/sh\n", .mode = 0644},
    {STEP_PRIVATE, "/tmp", "private", .mode = 01777},
    {STEP_PRIVATE, "/home/u", "private", .mode = 0700},
    {STEP_PROC, "/proc"},
    {STEP_EXTRA, "/home/u/w", "/", .writable = true},
    {STEP_FILE, "/run/bawn/gitconfig", "[user]\n", .mode = 0444},
    {STEP_DIR, "/home/u/.config/deep"},
    {STEP_SYMLINK, "/home/u/.npm", ".cache/npm"},
    {STEP_EXTRA, "/home/u/.local/state/agent", "/tmp", .writable = true},
    {STEP_RO, "/etc/ssl/certs", "/etc", .ours = true},
};

static struct plan test_plan(void) {
    return (struct plan){.steps = steps,
                         .n_steps = ARRAY_LEN(steps),
                         .workspace = "/home/u/w",
                         .home = "/home/u",
                         .hostname = "bawn",
                         .network = true,
                         .private_size = 1 << 20,
                         .ids = {.inside_uid = 1000, .inside_gid = 100},
                         .limits = {.memory = 1 << 30, .pids = 10, .cpus_milli = 1500}};
}

static void made(bool own_root, struct container_plan *c) {
    struct plan p = test_plan();
    struct err err = {0};

    assert_int_equal(container_plan_make(&p, "/run/user/1/bawn/box-1-2", own_root ? ROOT_OF_IMAGE : ROOT_OF_HOST, c, &err), 0);
}

static const struct container_mount *mount_at(const struct container_plan *c, const char *to) {
    for (size_t i = 0; i < c->n_mounts; i++)
        if (str_eq(c->mounts[i].to, to))
            return &c->mounts[i];
    return NULL;
}

static void test_steps(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;

    made(false, &c);
    assert_false(mount_at(&c, "/usr")->writable);
    assert_null(mount_at(&c, "/nowhere"));
    assert_true(mount_at(&c, "/home/u/w")->writable);
    assert_null(mount_at(&c, "/workspace"));
    assert_true(str_eq(c.files[0].name, "run/workspace") && c.files[0].link && str_eq(c.files[0].content, "/home/u/w"));
    assert_string_equal(mount_at(&c, "/etc/hosts")->from, "/run/user/1/bawn/box-1-2/files/1");
    assert_string_equal(c.files[3].name, "run/gitconfig");
    assert_int_equal(c.root_links.len, 4); /* /bin and /workspace; not what is in /dev */
    assert_string_equal(c.root_links.v[0], "/bin");
    assert_true(str_eq(c.root_links.v[2], "/workspace") && str_eq(c.root_links.v[3], "/run/bawn/workspace"));
}

/* What is the same in every run is in the image, which has another name if it is not; an image of the user's gets it as a mount. */
static void test_files_of_the_image(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT, own = CONTAINER_PLAN_INIT;
    CLEANUP(buf_done) struct buf tar = BUF_INIT(1 << 20);
    char one[32], two[32];

    made(false, &c);
    assert_true(c.files[2].in_image && str_eq(c.files[2].name, "etc/passwd"));
    assert_null(mount_at(&c, "/etc/passwd"));
    assert_int_equal(container_root_tar(&c, &tar), 0);
    assert_non_null(memmem(tar.data, tar.len, "u:x:1000:100", 12));
    assert_int_equal(container_root_name(&c, one), 0);
    c.files[2].content = "v:x:1000:100::/home/u:/bin/sh\n";
    assert_int_equal(container_root_name(&c, two), 0);
    assert_string_not_equal(one, two);
    made(true, &own);
    assert_non_null(mount_at(&own, "/etc/passwd"));
    assert_non_null(mount_at(&own, "/workspace"));
}

/* The engine makes the folders above a mount as root: they are given to the user, not what is mounted. */
static void test_folders_above_a_mount(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    size_t given = 0;

    made(false, &c);
    for (size_t i = 0; i < c.n_privates; i++) {
        given += !c.privates[i].tmpfs;
        assert_string_not_equal(c.privates[i].path, "/home/u/w");
        assert_string_not_equal(c.privates[i].path, "/home/u/.local/state/agent");
    }
    assert_int_equal(given, 2); /* .local and .local/state */
}

static void test_an_image_has_its_own_system(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;

    made(true, &c);
    assert_null(mount_at(&c, "/usr"));
    assert_non_null(mount_at(&c, "/etc/ssl/certs")); /* ours */
    assert_int_equal(c.root_links.len, 0);
}

static void test_what_a_container_cannot_have_is_refused(void **state UNUSED) {
    static const enum step_kind kinds[] = {STEP_WORKSPACE, STEP_HIDE,       STEP_OVERLAY,
                                           STEP_WHITEOUT,  STEP_SUBSTITUTE, STEP_HIDE_AGAIN};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
        struct step one = {kinds[i], "/home/u/w", "x"};
        struct plan p = test_plan();
        struct err err = {0};

        p.steps = &one;
        p.n_steps = 1;
        assert_int_equal(container_plan_make(&p, "/x", ROOT_OF_HOST, &c, &err), -EOPNOTSUPP);
    }
}

static void test_list(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    struct cursor left;
    struct enter_item i;

    made(false, &c);
    left = (struct cursor){c.list.data, c.list.len};
    assert_int_equal(enter_item_decode(&left, &i), 1);
    assert_true(i.kind == ENTER_DIR && str_eq(i.path, "/home/u/.config/deep"));
    assert_int_equal(enter_item_decode(&left, &i), 1);
    assert_true(i.kind == ENTER_SYMLINK && str_eq(i.path, "/home/u/.npm") && str_eq(i.content, ".cache/npm"));
    assert_int_equal(enter_item_decode(&left, &i), 0);
}

/* Cut anywhere, it is refused or ends; nothing is read behind it. */
static void test_list_cut(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    enter_item_encode(&(struct enter_item){.kind = ENTER_FILE, .len = 3, .path = "/a", .content = "xyz"}, &b);
    for (size_t n = 1; n < b.len; n++) {
        char *copy = malloc(n);
        struct cursor c = {copy, n};
        struct enter_item i;

        memcpy(copy, b.data, n);
        assert_int_equal(enter_item_decode(&c, &i), -EBADMSG);
        free(copy);
    }
    b.data[0] = ENTER_KINDS;
    assert_int_equal(enter_item_decode(&(struct cursor){b.data, b.len}, &(struct enter_item){0}), -EBADMSG);
}

static void arguments(const struct container_kind *k, struct strv *ret) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    const struct container_names n = {
        .image = "bawn-root:1", .label = "1-2", .folder = "/run/b,o\"x", .enter = "/lib/bawn-enter", .init = "/lib/bawn-init"};
    struct plan p = test_plan();
    struct err err = {0};

    made(false, &c);
    assert_int_equal(container_argv_make(k, &p, &c, &n, ret, &err), 0);
}

/* With SELinux what is ours gets a label that containers share; what is the host's or the user's is never relabelled. */
static void test_labels(void **state UNUSED) {
    static const char *const wanted[] = {"--volume=/run/box/link:/run/bawn-link:ro,z", "--volume=/run/box/run:/run/bawn:ro,z",
                                         "--volume=/:/home/u/w:rw,z",
                                         "--mount=type=bind,\"source=/usr\",\"target=/usr\",readonly",
                                         "--mount=type=bind,\"source=/tmp\",\"target=/home/u/.local/state/agent\""};
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    CLEANUP(strv_done) struct strv v = {0};
    struct container_names n = {
        .image = "bawn-root:1", .label = "1-2", .folder = "/run/box", .enter = "/e", .init = "/i", .selinux = true};
    struct plan p = test_plan();
    struct err err = {0};

    made(false, &c);
    assert_int_equal(container_argv_make(&container_docker, &p, &c, &n, &v, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (!strv_has(&v, wanted[i]))
            fail_msg("'%s' is missing", wanted[i]);
    n.folder = "/run/a:b"; /* no -v can say this */
    strv_done(&v);
    assert_int_equal(container_argv_make(&container_docker, &p, &c, &n, &v, &err), 0);
    assert_true(strv_has(&v, "--mount=type=bind,\"source=/run/a:b/run\",\"target=/run/bawn\",readonly"));
}

static void test_arguments(void **state UNUSED) {
    static const char *const wanted[] = {"--network=none",
                                         "--read-only",
                                         "--cap-drop=ALL",
                                         "--security-opt=no-new-privileges",
                                         "--memory=1073741824",
                                         "--cpus=1.500",
                                         "--pids-limit=11",
                                         "--memory-swap=1073741824",
                                         "--rm",
                                         "--pull=never",
                                         "--hostname=bawn",
                                         "--label=bawn.owner=1-2",
                                         "bawn-root:1",
                                         "1000",
                                         "100",
                                         "network",
                                         "1777:/tmp",
                                         "700:/home/u"};
    CLEANUP(strv_done) struct strv v = {0};

    arguments(&container_docker, &v);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        assert_true(strv_has(&v, wanted[i]));
    assert_string_equal(v.v[0], "docker");
    assert_string_equal(v.v[1], "run");
}

/* A comma or a quote in a path does not add an option to a mount. */
static void test_paths_are_quoted(void **state UNUSED) {
    CLEANUP(strv_done) struct strv v = {0};

    arguments(&container_docker, &v);
    assert_true(strv_has(&v, "--mount=type=bind,\"source=/run/b,o\"\"x/link\",\"target=/run/bawn-link\",readonly"));
}

/* Our programs are in the image, or mounted with the folder that they are in. */
static void test_programs(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    CLEANUP(buf_done) struct buf tar = BUF_INIT(8 << 20);
    CLEANUP(strv_done) struct strv v = {0}, w = {0};
    const struct container_names n = {.image = "i", .label = "1-2", .folder = "/run/box", .enter = "/e", .init = "/i"};
    struct plan p = test_plan();
    struct err err = {0};
    char before[32], with[32], after[32], path[] = "/tmp/bawn-program.XXXXXX";
    int fd = mkstemp(path);

    made(false, &c);
    assert_int_equal(container_argv_make(&container_docker, &p, &c, &n, &v, &err) | container_root_name(&c, before), 0);
    assert_true(strv_has(&v, "--entrypoint=/run/bawn-link/bawn-enter"));
    assert_true(fd >= 0 && write(fd, "#!/bin/sh\n", 10) == 10 && fchmod(fd, 0700) == 0);
    assert_false(container_root_program(&c, path)); /* not for everyone */
    assert_true(fchmod(fd, 0755) == 0 && container_root_program(&c, path));
    assert_int_equal(container_argv_make(&container_docker, &p, &c, &n, &w, &err) | container_root_name(&c, with), 0);
    assert_true(strv_has(&w, "--entrypoint=/run/bawn-bin/bawn-enter") && strv_has(&w, "/run/bawn-bin/bawn-init"));
    assert_int_equal(w.len + 3, v.len);
    assert_int_equal(container_root_tar(&c, &tar), 0);
    assert_non_null(memmem(tar.data, tar.len, &path[4], strlen(&path[4])));
    assert_int_equal(write(fd, "exit\n", 5), 5);
    assert_int_equal(container_root_name(&c, after), 0);
    assert_string_not_equal(before, with);
    assert_string_not_equal(with, after);
    close(fd);
    unlink(path);
}

static void test_root_image(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan a = CONTAINER_PLAN_INIT, b = CONTAINER_PLAN_INIT;
    CLEANUP(buf_done) struct buf tar = BUF_INIT(1 << 20);
    char one[32], two[32];

    made(false, &a);
    made(true, &b);
    assert_int_equal(container_root_tar(&a, &tar), 0);
    assert_int_equal(tar.len % 512, 0);
    assert_memory_equal(tar.data + 257, "ustar", 6);
    assert_int_equal(container_root_name(&a, one) | container_root_name(&b, two), 0);
    assert_string_not_equal(one, two); /* by its content */
}

static int parsed(const char *text, const char *allowed, struct strv *ret) {
    CLEANUP(strv_done) struct strv list = {0};
    struct err err = {0};

    if (allowed)
        assert_int_equal(strv_add(&list, allowed), 0);
    return container_flags_parse(text, &(struct container_flags_rules){.allowed = &list, .workspace = "/work/space"}, ret, &err);
}

static void test_flags(void **state UNUSED) {
    static const struct {
        const char *text, *allowed;
        int n; /* how many words; negative: refused */
    } table[] = {{"", NULL, 0},
                 {"  ", NULL, 0},
                 {"--ulimit nofile=1:2", NULL, 2},
                 {"--ulimit=nofile=1:2 --label 'a b'", NULL, 3},
                 {"--label a\\ b", NULL, 2},
                 {"--privileged", NULL, -EPERM},
                 {"--privileged", "--privileged", 1},
                 {"--privileged=true", "--privileged", 1},
                 {"--device /dev/kvm", "--device=/dev/kvm", 2},
                 {"--device /dev/mem", "--device=/dev/kvm", -EPERM},
                 {"--device=/dev/mem", "--device=/dev/kvm", -EPERM},
                 {"--label --privileged", NULL, -EINVAL},
                 {"--label", NULL, -EINVAL},
                 {"--cpus 1 --label --name x", NULL, -EINVAL},
                 {"--label=bawn.owner=1-2", NULL, -EPERM},
                 {"-l bawn.owner=1-2", NULL, -EPERM},
                 {"--label 'bawn.owner'", NULL, -EPERM},
                 {"--label x=bawn.owner", NULL, 2},
                 {"--runtime=/usr/bin/runc", NULL, 1},
                 {"--runtime /work/space/runc", NULL, -EPERM},
                 {"--runtime=/work/space/../space/bin/runc", NULL, -EPERM},
                 {"--runtime=/work/spaces/runc", NULL, 1},
                 {"--annotation=run.oci.seccomp_bpf_data=BgAAAAAA/38=", NULL, -EPERM},
                 {"--annotation run.oci.seccomp.plugins=/work/space/x.so", NULL, -EPERM},
                 {"--oom-score-adj=-1000", NULL, -EPERM},
                 {"image", NULL, -EINVAL},
                 {"--label 'a", NULL, -EINVAL},
                 {"--labels x", NULL, -EPERM}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(strv_done) struct strv v = {0};
        int r = parsed(table[i].text, table[i].allowed, &v);

        if (r != MIN_OF(table[i].n, 0) || (r == 0 && (int)v.len != table[i].n))
            fail_msg("'%s': %d, %zu words", table[i].text, r, v.len);
    }
}

/* What is taken for gVisor has no Landlock and fewer limits. */
static void test_flags_that_mean_something(void **state UNUSED) {
    static const struct {
        const char *text;
        bool runsc, limit;
    } table[] = {{"--runtime=runsc", true, false},
                 {"--runtime '/usr/bin/runsc'", true, false},
                 {"--runtime=runc --runtime io.containerd.runsc.v1", true, false},
                 {"--runtime=runc --label=x=runsc", false, false},
                 {"--runtime=runsc --runtime=runc", false, false},
                 {"--runtime=/opt/runsc/runc", false, false},
                 {"--name=--runtime-runsc", false, false},
                 {"--ulimit nofile=1:2", false, false},
                 {"--pids-limit=-1", false, true},
                 {"--cpus 1 -m 4g", false, true},
                 {"--cgroups=disabled", false, true}};

    assert_false(container_flags_runsc(NULL));
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(strv_done) struct strv v = {0};

        assert_int_equal(parsed(table[i].text, NULL, &v), 0);
        if (container_flags_runsc(table[i].text) != table[i].runsc || container_flags_limit(&v) != table[i].limit)
            fail_msg("'%s'", table[i].text);
    }
}

static void test_troubles(void **state UNUSED) {
    static const struct {
        const char *said, *what;
    } table[] = {
        {"docker: Cannot connect to the Docker daemon at unix:///x.\nSee 'docker run --help'.\n", "does not run"},
        {"docker: permission denied while trying to connect to the Docker daemon socket", "may not talk"},
        {"Error: bad: image not known", "not there"},
        {"docker: Error response from daemon: write /x: no space left on device.", "no space left"},
        {"something\x1b[31m else\n", "something\\x1b[31m else"},
        {"", "no message"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct err err = {0};

        assert_int_equal(container_trouble(&container_docker, table[i].said, -EIO, &err), -EIO);
        if (!strstr(err.msg, table[i].what))
            fail_msg("'%s': %s", table[i].said, err.msg);
    }
}

static void write_text(const char *path, const char *text) {
    CLEANUP(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, 0644) == 0);
}

static void root_name(const char *part, char ret[static 32]) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;

    assert_true(container_root_take(&c, part));
    assert_true(container_root_take(&c, part)); /* once */
    assert_int_equal(c.root_parts.len, 1);
    assert_int_equal(container_root_name(&c, ret), 0);
}

/* A part of /etc is in the image, which has another name once it changes. */
static void test_parts_of_the_root(void **state UNUSED) {
    CLEANUP(container_plan_done) struct container_plan c = CONTAINER_PLAN_INIT;
    CLEANUP(buf_done) struct buf tar = BUF_INIT(1024 * 1024);
    char dir[] = "/tmp/bawn-parts.XXXXXX", file[64], link[64], before[32], after[32], target[200] = "";

    assert_non_null(mkdtemp(dir));
    chmod(dir, 0755);
    snprintf(file, sizeof file, "%s/file", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    write_text(file, "old content");
    assert_int_equal(symlink("file", link), 0);
    root_name(dir, before);
    assert_true(container_root_take(&c, dir));
    assert_int_equal(container_root_tar(&c, &tar), 0);
    assert_non_null(memmem(tar.data, tar.len, "old content", 11));
    assert_int_equal(tar.len % 512, 0);
    write_text(file, "new content");
    root_name(dir, after);
    assert_string_not_equal(before, after);
    memset(target, 'x', sizeof target - 1); /* longer than a header has room for */
    assert_true(unlink(link) == 0 && symlink(target, link) == 0);
    root_name(dir, before);
    assert_string_not_equal(before, after);
    buf_clear(&tar);
    assert_int_equal(container_root_tar(&c, &tar), 0);
    assert_non_null(memmem(tar.data, tar.len, target, sizeof target));
    chmod(file, 0600); /* what not everyone may read is mounted, as it was */
    assert_false(container_root_take(&(struct container_plan)CONTAINER_PLAN_INIT, dir));
    unlink(file);
    unlink(link);
    rmdir(dir);
}

/* A failure inside is a message of its own, which the user sees. */
static void test_what_failed_inside(void **state UNUSED) {
    struct container_box b = {.kind = &container_docker, .pid = -1, .pidfd = -1, .messages = -1, .said = BUF_INIT(100)};
    struct init_msg msg = {.type = INIT_MSG_FAILED, .value = ENOSPC, .text = "write '/home/u/x': No space left on device"};
    struct sandbox sb = SANDBOX_INIT;
    struct err err = {0};
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    sb.control = pair[0];
    assert_int_equal(sock_send(pair[1], &msg, sizeof msg, NULL, 0), 0);
    assert_int_equal(container_listeners(&b, &sb, &err), -ENOSPC);
    assert_non_null(strstr(err.msg, "write '/home/u/x': No space left on device"));
    close(pair[1]);
}

/* A limit ends the wait for something that does not come; nothing runs that would have to be ended. */
static void test_a_start_has_a_limit(void **state UNUSED) {
    struct container_box b = {.kind = &container_docker,
                              .pid = -1,
                              .pidfd = -1,
                              .messages = -1,
                              .limit_ms = 1,
                              .said = BUF_INIT(100),
                              .folder = CONTAINER_FOLDER_INIT};
    struct err err = {0};
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    assert_int_equal(container_await(&b, pair[0], &err), -ETIMEDOUT);
    assert_non_null(strstr(err.msg, "did not start within 1 s"));
    assert_true(b.folder.stays);
    assert_int_equal(sock_send(pair[1], "x", 1, NULL, 0), 0);
    assert_int_equal(container_await(&b, pair[0], &err), 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_files_of_the_image),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_folders_above_a_mount),
        cmocka_unit_test(test_an_image_has_its_own_system),
        cmocka_unit_test(test_what_a_container_cannot_have_is_refused),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_cut),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_paths_are_quoted),
        cmocka_unit_test(test_root_image),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_flags_that_mean_something),
        cmocka_unit_test(test_troubles),
        cmocka_unit_test(test_parts_of_the_root),
        cmocka_unit_test(test_what_failed_inside),
        cmocka_unit_test(test_a_start_has_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
