/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers into the files of an agent's home. */
#include "ops/agent/agent_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/file.h"
#include "supervisor/credential/credentials.h"
#include "workspace/copy/place.h"

static const char BLANKS[] = " \t\r\n";
enum { ANSWER_FILE_MAX = 4 * 1024 * 1024, KEY_END = 20 /* so much of a key is written down by Claude Code */ };

/* What is at the path in the folder; NULL: it is of another one. */
static const char *path_in_home(const char *path, const char *home) {
    size_t n = strlen(home);

    return strncmp(path, home, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static int open_home(const char *folder, struct err *err) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? err_sys(err, -errno, "open '%s'", folder) : fd;
}

/* expect: what is there now; if something else is, that stays. */
static int put_file(int home, const char *path, const char *content, const struct manifest_stamp *expect, struct err *err) {
    CLEANUP(closep) int fd = memfd_create("bawn-agent-file", MFD_CLOEXEC);
    const struct place_meta meta = {.mode = 0600};
    int r = fd < 0 ? -errno : fd_write_all(fd, content, strlen(content));

    if (r < 0)
        return err_sys(err, r, "write '%s'", path);
    r = place_file(home, path, fd, &meta, expect, err);
    return r == -ESTALE ? 0 : r;
}

int agent_answer_files(const struct agent *a, const char *home, const char *folder, bool replace, struct err *err) {
    const struct manifest_stamp nothing = {0};
    CLEANUP(closep) int fd = open_home(folder, err);
    int r = MIN_OF(fd, 0);

    for (size_t i = 0; r == 0 && i + 1 < a->files.len; i += 2) {
        const char *path = path_in_home(a->files.v[i], home);

        r = path ? put_file(fd, path, a->files.v[i + 1], replace ? NULL : &nothing, err) : 0;
    }
    return r;
}

/* -- the key ------------------------------------------------------------------------------------------------------------ */

/* Behind the first `"name": c` of the text, blanks aside; NULL: there is none. */
static const char *find_opening(const char *text, const char *name, size_t len, char c) {
    CLEANUP(freep) char *quoted = str_dupf("\"%.*s\"", (int)len, name);
    const char *at = quoted ? strstr(text, quoted) : NULL;

    if (!at)
        return NULL;
    at += strlen(quoted);
    at += strspn(at, BLANKS);
    if (*at++ != ':')
        return NULL;
    at += strspn(at, BLANKS);
    return *at == c ? at + 1 : NULL;
}

/* `text` with more behind `at`, where a list or an object has just begun. */
static char *insert_first(const char *text, const char *at, const char *more) {
    const char *next = at + strspn(at, BLANKS);

    return str_dupf("%.*s%s%s%s", (int)(at - text), text, more, *next == ']' || *next == '}' ? "" : ", ", at);
}

static const char *last_part(const char *path) {
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

/* The file with the answer in it, malloc'ed; NULL: it has one, or is not as expected. It was written inside, so it is not parsed: the answer is put
 * behind the bracket that follows the list's name, and what comes of that is between the agent and its own file. */
static char *add_answer(const struct agent *a, const char *text, const char *end) {
    const char *name = a->answer_yes, *dot = strchrnul(name, '.'), *list = *dot ? dot + 1 : "", *at;
    CLEANUP(freep) char *value = str_dupf("\"%s\"", end), *object = NULL;
    size_t len = strlen(text);

    if (!value || !*list || strstr(text, end))
        return NULL;
    object = str_dupf("\"%.*s\": {\"%s\": [%s], \"%s\": []}", (int)(dot - name), name, list, value, last_part(a->answer_no));
    if (!object || len == 0)
        return object ? str_dupf("{%s}\n", object) : NULL;
    at = find_opening(text, name, (size_t)(dot - name), '{');
    if (at)
        at = find_opening(at, list, strlen(list), '[');
    if (at)
        return insert_first(text, at, value);
    while (len && strchr(BLANKS, text[len - 1]))
        len--;
    at = text + strspn(text, BLANKS);
    return *at == '{' && text[len - 1] == '}' && !memmem(text, len, name, (size_t)(dot - name))
               ? insert_first(text, at + 1, object)
               : NULL;
}

static int answer_in_file(const struct agent *a, int home, const char *path, const char *end, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(ANSWER_FILE_MAX);
    CLEANUP(closep) int fd = place_read(home, path);
    CLEANUP(freep) char *answered = NULL;
    struct manifest_stamp was = {0};

    if (fd < 0 && fd != -ENOENT)
        return 0;
    if (fd >= 0 && (manifest_stamp_fd(fd, &was) < 0 || file_read_fd(fd, 0, &text) < 0))
        return 0;
    answered = memchr(buf_str(&text), 0, text.len) ? NULL : add_answer(a, buf_str(&text), end);
    return answered ? put_file(home, path, answered, &was, err) : 0;
}

int agent_answer_key(const struct agent *a, const char *home, const char *folder, const struct settings *s,
                     const struct host_facts *facts, struct err *err) {
    const char *path = a->answer_file ? path_in_home(a->answer_file, home) : NULL;
    CLEANUP(freep) char *placeholder = NULL;
    CLEANUP(closep) int fd = -1;
    size_t n;
    int r = path ? credentials_variable(s, facts, a->answer_env, &placeholder, err) : 0;

    if (r < 0 || !placeholder)
        return r;
    fd = open_home(folder, err);
    n = strlen(placeholder);
    return fd < 0 ? fd : answer_in_file(a, fd, path, placeholder + (n > KEY_END ? n - KEY_END : 0), err);
}
