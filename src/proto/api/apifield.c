/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of requests: bytes in, texts out, and the check of each by the table. */
#include "proto/api/apifield.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "base/vec.h"
#include "proto/cursor.h"

enum { FIELD_HEAD = sizeof(uint16_t) + sizeof(uint32_t) };

void api_fields_done(struct api_fields *f) {
    buf_done(&f->text);
    free(f->v);
    f->v = NULL;
    f->n = 0;
}

static int add_value(struct api_fields *f, const struct api_value *v, const char *text, size_t len) {
    struct api_value mine = *v;

    if (f->n >= API_FIELDS_MAX || len > API_FIELDS_BYTES_MAX)
        return -E2BIG;
    mine.at = f->text.len;
    buf_add(&f->text, text, len);
    buf_addc(&f->text, 0);
    if (!buf_ok(&f->text))
        return -E2BIG;
    return VEC_ADD(f->v, f->n, mine);
}

int api_fields_add(struct api_fields *f, unsigned field, const char *text, size_t len) {
    return add_value(f, &(struct api_value){.field = (uint16_t)field, .len = (uint32_t)len}, text, len);
}

int api_fields_adds(struct api_fields *f, unsigned field, const char *text) {
    return api_fields_add(f, field, text, strlen(text));
}

int api_fields_add_number(struct api_fields *f, unsigned field, uint64_t n) {
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return api_fields_adds(f, field, text);
}

int api_fields_add_pair(struct api_fields *f, unsigned field, const char *key, const char *text, size_t len) {
    CLEANUP(buf_done) struct buf both = BUF_INIT(API_FIELDS_BYTES_MAX);
    size_t key_len = strlen(key);
    struct api_value v = {.field = (uint16_t)field, .len = (uint32_t)len, .key_len = (uint32_t)key_len, .is_pair = true};

    buf_add(&both, key, key_len + 1);
    buf_add(&both, text, len);
    return buf_ok(&both) ? add_value(f, &v, both.data, both.len) : -E2BIG;
}

static size_t value_size(const struct api_value *v) {
    return v->len + (v->is_pair ? v->key_len + 1 : 0);
}

/* By insertion: the builder adds fields nearly in order, and arrays stay as they are. */
static void sort_values(struct api_fields *f) {
    for (size_t i = 1; i < f->n; i++)
        for (size_t j = i; j > 0 && f->v[j - 1].field > f->v[j].field; j--) {
            struct api_value v = f->v[j];

            f->v[j] = f->v[j - 1];
            f->v[j - 1] = v;
        }
}

int api_fields_write(struct api_fields *f, struct buf *b) {
    sort_values(f);
    for (size_t i = 0; i < f->n; i++) {
        uint32_t len = (uint32_t)value_size(&f->v[i]);

        buf_add(b, &f->v[i].field, sizeof f->v[i].field);
        buf_add(b, &len, sizeof len);
        buf_add(b, f->text.data + f->v[i].at, len);
    }
    return buf_ok(b) ? 0 : -E2BIG;
}

int api_fields_read(struct api_fields *f, const void *data, size_t len) {
    struct cursor c = {data, len};
    unsigned before = 0;

    if (len > API_FIELDS_BYTES_MAX)
        return -EBADMSG;
    while (c.left) {
        const char *text;
        uint16_t field;
        uint32_t n;
        int r;

        if (cursor_take(&c, &field, sizeof field) < 0 || cursor_take(&c, &n, sizeof n) < 0 || field == 0 || field < before)
            return -EBADMSG;
        text = cursor_skip(&c, n);
        if (!text)
            return -EBADMSG;
        r = api_fields_add(f, field, text, n);
        if (r < 0)
            return r == -E2BIG ? -EBADMSG : r;
        before = field;
    }
    return 0;
}

/* What bawn-front adds by itself. */
static const struct api_check own[] = {
    {API_FIELD_BEARER, .type = API_TYPE_STRING, .check = API_CHECK_PRINTABLE, .max = API_BEARER_MAX, .max_items = 1},
    {API_FIELD_SESSION, .type = API_TYPE_STRING, .check = API_CHECK_PRINTABLE, .max = API_BEARER_MAX, .max_items = 1},
    {API_FIELD_CSRF, .type = API_TYPE_STRING, .check = API_CHECK_PRINTABLE, .max = API_BEARER_MAX, .max_items = 1},
    {API_FIELD_REQUEST_ID, .type = API_TYPE_STRING, .check = API_CHECK_NAME, .max = API_REQUEST_ID_MAX, .max_items = 1},
    {API_FIELD_STREAM, .type = API_TYPE_BOOLEAN, .max_items = 1},
};

/* A row of the operation comes first: "stream" is also a part of a path. */
static const struct api_check *find_check(const struct api_route *r, unsigned field) {
    const struct api_check *c = api_route_check(r, field);

    for (size_t i = 0; !c && i < ARRAY_LEN(own); i++)
        if (own[i].field == field)
            c = &own[i];
    return c;
}

static const char *check_value(struct api_fields *f, struct api_value *v, const struct api_check *c) {
    const char *text = f->text.data + v->at;
    size_t len = value_size(v);

    if (c->shape == API_SHAPE_MAP) {
        const char *end = memchr(text, 0, len);

        if (!end || !api_check_key(c, text, (size_t)(end - text)))
            return "has a key that is not valid";
        v->is_pair = true;
        v->key_len = (uint32_t)(end - text);
        v->len = (uint32_t)(len - v->key_len - 1);
        text = end + 1;
    }
    return api_check_text(c, text, v->len) ? NULL : "is not valid";
}

/* A member is required if its object is there, that is, if another member of it is. */
static bool object_is_there(const struct api_fields *f, const struct api_check *c) {
    const char *dot = strrchr(c->name, '.');

    for (size_t i = 0; dot && i < f->n; i++) {
        const char *name = api_field_names[f->v[i].field];

        if (strncmp(name, c->name, (size_t)(dot - c->name) + 1) == 0)
            return true;
    }
    return !dot;
}

static int check_missing(const struct api_fields *f, const struct api_route *r, struct api_fault *ret) {
    for (size_t i = 0; i < r->schema->n; i++) {
        const struct api_check *c = &r->schema->v[i];
        size_t n = api_field_count(f, c->field);

        /* An array without items, which may be enough, has no field. */
        if ((n == 0 && c->required && c->shape == API_SHAPE_ONE && object_is_there(f, c)) ||
            (n < c->min_items && (n || c->required))) {
            *ret = (struct api_fault){c->field, "is missing"};
            return -EINVAL;
        }
    }
    return 0;
}

int api_fields_check(struct api_fields *f, const struct api_route *r, struct api_fault *ret) {
    size_t same = 0;

    for (size_t i = 0; i < f->n; i++) {
        struct api_value *v = &f->v[i];
        const struct api_check *c = v->field < API_FIELDS ? find_check(r, v->field) : NULL;
        const char *problem = c ? check_value(f, v, c) : "is not a field of this operation";

        same = i && f->v[i - 1].field == v->field ? same + 1 : 1;
        if (!problem && same > c->max_items)
            problem = "has too many items";
        if (problem) {
            *ret = (struct api_fault){c ? v->field : 0, problem};
            return -EINVAL;
        }
    }
    return check_missing(f, r, ret);
}

static const struct api_value *find_value(const struct api_fields *f, unsigned field, size_t i) {
    size_t low = 0, high = f->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (f->v[mid].field < field)
            low = mid + 1;
        else
            high = mid;
    }
    return i < f->n - low && f->v[low + i].field == field ? &f->v[low + i] : NULL;
}

const char *api_field_bytes(const struct api_fields *f, unsigned field, size_t i, size_t *ret_len) {
    const struct api_value *v = find_value(f, field, i);

    if (!v)
        return NULL;
    if (ret_len)
        *ret_len = v->len;
    return f->text.data + v->at + (v->is_pair ? v->key_len + 1 : 0);
}

const char *api_field_get(const struct api_fields *f, unsigned field, size_t i) {
    return api_field_bytes(f, field, i, NULL);
}

const char *api_field_key(const struct api_fields *f, unsigned field, size_t i) {
    const struct api_value *v = find_value(f, field, i);

    return v && v->is_pair ? f->text.data + v->at : NULL;
}

size_t api_field_count(const struct api_fields *f, unsigned field) {
    size_t n = 0;

    while (find_value(f, field, n))
        n++;
    return n;
}

bool api_field_bool(const struct api_fields *f, unsigned field, bool otherwise) {
    const char *text = api_field_get(f, field, 0);

    return text ? text[0] == '1' : otherwise;
}

uint64_t api_field_number(const struct api_fields *f, unsigned field, uint64_t otherwise) {
    const char *text = api_field_get(f, field, 0);
    uint64_t n;

    return text && parse_u64(text, 0, UINT64_MAX, &n, NULL) == 0 ? n : otherwise;
}
