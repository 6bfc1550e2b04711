/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a setup, and puts it among the files of a preset. */
#include "ops/agent/agent_setup.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonfile.h"
#include "base/str.h"
#include "os/file.h"

enum { SKILL_HEAD_MAX = 200 };

void agent_setup_done(struct agent_setup *s) {
    free(s->instructions);
    strv_done(&s->skills);
    json_decref(s->servers);
    *s = (struct agent_setup){0};
}

/* -- reading ------------------------------------------------------------------------------------------------------------------ */

/* Of a skill or server: it becomes a name of a folder, and of a table. */
static int check_name(const struct jsonwalk *w, const char *name, struct err *err) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

    return len > 0 && len <= 64 && name[len] == 0 && name[0] != '.' && name[0] != '-'
               ? 0
               : jsonwalk_fail_key(w, err, "a name has letters, digits and .-_, at most 64");
}

/* Control characters have no place in a variable or argument, and would end a line of a file that we write. */
static int check_line(const struct jsonwalk *w, const json_t *v, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a string", err);
    if (json_string_length(v) != strlen(json_string_value(v)) || json_string_length(v) > SETUP_TEXT_MAX)
        return jsonwalk_fail(w, err, "is too long, or has a NUL");
    for (const unsigned char *p = (const unsigned char *)json_string_value(v); *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            return jsonwalk_fail(w, err, "has a control character");
    return 0;
}

static int check_text(const struct jsonwalk *w, const json_t *v, struct err *err) {
    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a string", err);
    if (json_string_length(v) > SETUP_TEXT_MAX)
        return jsonwalk_fail(w, err, "has more than %d bytes", SETUP_TEXT_MAX);
    return json_string_length(v) == strlen(json_string_value(v)) ? 0 : jsonwalk_fail(w, err, "has a NUL");
}

static int read_instructions(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    int r = check_text(w, v, err);

    return r < 0 ? r : str_set(slot, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

static int read_skill(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    int r = check_name(w, jsonwalk_key_of(w), err);

    r = r < 0 ? r : check_text(w, v, err);
    return r < 0 ? r : strv_add(list, jsonwalk_key_of(w)) < 0 || strv_add(list, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

static int read_skills(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    if (json_object_size(v) > SETUP_SKILLS_MAX)
        return jsonwalk_fail(w, err, "has more than %d", SETUP_SKILLS_MAX);
    return jsonwalk_each(w, v, read_skill, list, err);
}

static int read_word(struct jsonwalk *w, json_t *v, void *arg UNUSED, struct err *err) {
    return check_line(w, v, err);
}

static int read_command(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (json_is_array(v) && json_array_size(v) == 0)
        return jsonwalk_fail(w, err, "is empty");
    return jsonwalk_elements(w, v, SETUP_WORDS_MAX, read_word, arg, err);
}

static int read_variable(struct jsonwalk *w, json_t *v, void *arg UNUSED, struct err *err) {
    const char *name = jsonwalk_key_of(w);
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    return len && !name[len] ? check_line(w, v, err) : jsonwalk_fail_key(w, err, "'%s' is no name of a variable", name);
}

static int read_variables(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return jsonwalk_each(w, v, read_variable, arg, err);
}

static int read_server(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"command", read_command, 0}, {"url", read_word, 0}, {"env", read_variables, 0}};
    int r = check_name(w, jsonwalk_key_of(w), err);

    r = r < 0 ? r : jsonwalk_members(w, v, keys, ARRAY_LEN(keys), arg, err);
    if (r == 0 && !json_object_get(v, "command") == !json_object_get(v, "url"))
        return jsonwalk_fail(w, err, "needs a \"command\" or a \"url\"");
    return r;
}

static int read_servers(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    int r = json_object_size(v) > SETUP_SERVERS_MAX ? jsonwalk_fail(w, err, "has more than %d", SETUP_SERVERS_MAX)
                                                    : jsonwalk_each(w, v, read_server, NULL, err);

    if (r == 0)
        *(json_t **)slot = json_incref(v);
    return r;
}

int agent_setup_read(const char *path, struct agent_setup *ret, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"instructions", read_instructions, offsetof(struct agent_setup, instructions)},
                                               {"skills", read_skills, offsetof(struct agent_setup, skills)},
                                               {"mcp_servers", read_servers, offsetof(struct agent_setup, servers)}};
    CLEANUP(agent_setup_done) struct agent_setup s = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(SETUP_FILE_MAX);
    CLEANUP(jsonfile_done) struct jsonfile f = {0};
    struct jsonwalk w = {.file = &f};
    int r = file_read(path, FILE_FOLLOW, &text);

    if (r < 0)
        return file_err(err, r, path, SETUP_FILE_MAX);
    r = jsonfile_parse(path, buf_str(&text), text.len, SETUP_FILE_MAX, &f, err);
    r = r < 0 ? r : jsonwalk_members(&w, f.root, keys, ARRAY_LEN(keys), &s, err);
    if (r < 0)
        return r;
    sha256_hex(buf_str(&text), text.len, s.hash);
    *ret = TAKE(s, (struct agent_setup){0});
    return 0;
}

/* -- into the preset ---------------------------------------------------------------------------------------------------------- */

/* The content of a file of the preset; NULL: it has none of this path. */
static char **find_content(const struct agent *a, const char *path) {
    for (size_t i = 0; i + 1 < a->files.len; i += 2)
        if (str_eq(a->files.v[i], path))
            return &a->files.v[i + 1];
    return NULL;
}

/* Takes content. */
static int set_file(struct agent *a, const char *path, char *content, struct err *err) {
    char **old = find_content(a, path);

    if (!content)
        return err_oom(err);
    if (old) {
        free(*old);
        *old = content;
        return 0;
    }
    if (strv_add(&a->files, path) < 0) {
        free(content);
        return err_oom(err);
    }
    return strv_add_take(&a->files, content) < 0 ? err_oom(err) : 0;
}

static int no_place(const struct agent *a, const char *what, struct err *err) {
    return err_usage(err, "the preset of the agent '%s' does not say where its %s are", a->name, what);
}

/* Behind what Bawn says of the place. */
static int add_instructions(const struct agent_setup *s, struct agent *a, struct err *err) {
    char **old = a->instructions ? find_content(a, a->instructions) : NULL;

    if (!a->instructions)
        return no_place(a, "instructions", err);
    return set_file(a, a->instructions, str_dupf("%s\n%s\n", old ? *old : "", s->instructions), err);
}

/* Agents find a skill by the head of its file; a text without one gets its first line as the description. */
static char *skill_text(const char *name, const char *text) {
    const char *line = text + strspn(text, "# \t\r\n");
    int len = (int)MIN_OF(strcspn(line, "\r\n"), (size_t)SKILL_HEAD_MAX);
    CLEANUP(json_decrefp) json_t *quoted = NULL;
    CLEANUP(freep) char *description = NULL;

    if (str_starts(text, "---\n"))
        return strdup(text);
    while (len > 0 && ((unsigned char)line[len] & 0xc0) == 0x80)
        len--; /* not within a character */
    quoted = json_stringn(line, (size_t)len);
    description = quoted ? json_dumps(quoted, JSON_ENCODE_ANY) : NULL;
    return description ? str_dupf("---\nname: %s\ndescription: %s\n---\n\n%s\n", name, description, text) : NULL;
}

static int add_skills(const struct agent_setup *s, struct agent *a, struct err *err) {
    int r = a->skills ? 0 : no_place(a, "skills", err);

    for (size_t i = 0; r == 0 && i + 1 < s->skills.len; i += 2) {
        CLEANUP(freep) char *path = str_dupf("%s/%s/SKILL.md", a->skills, s->skills.v[i]);

        r = path ? set_file(a, path, skill_text(s->skills.v[i], s->skills.v[i + 1]), err) : err_oom(err);
    }
    return r;
}

static int add_servers(const struct agent_setup *s, struct agent *a, struct err *err) {
    CLEANUP(freep) char *content = NULL;
    char **old = a->mcp_file ? find_content(a, a->mcp_file) : NULL;
    int r = a->mcp_file ? setup_render_servers(a->mcp_form, s->servers, old ? *old : NULL, &content, err)
                        : no_place(a, "MCP servers", err);

    return r < 0 ? r : set_file(a, a->mcp_file, TAKE_PTR(content), err);
}

int agent_setup_add(const struct agent_setup *s, struct agent *a, struct err *err) {
    int r = s->instructions ? add_instructions(s, a, err) : 0;

    r = r < 0 || s->skills.len == 0 ? r : add_skills(s, a, err);
    return r < 0 || json_object_size(s->servers) == 0 ? r : add_servers(s, a, err);
}
