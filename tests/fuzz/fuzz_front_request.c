/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says: target, a NUL, the operation for a body (by its first byte), and the body. What comes out must pass bawnd's check. */
#include "service/front/front_json.h"
#include "service/front/front_range.h"
#include "service/front/front_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *no_header(void *arg, const char *name) {
    (void)arg;
    return name[0] == 'L' ? "17" : NULL;
}

static void check_fault(const struct front_fault *f) {
    if (f->status < 400 || f->status > 499 || (unsigned)f->code >= API_PROBLEMS || strlen(f->detail) >= FAULT_DETAIL_MAX)
        BUG("a fault that is none");
}

/* bawnd must agree about every field that the front lets through. */
static void check_fields(struct api_fields *f, const struct api_route *r, bool whole) {
    CLEANUP(api_fields_done) struct api_fields again = API_FIELDS_INIT;
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(API_FIELDS_BYTES_MAX);
    struct api_fault fault = {0};

    if (api_fields_write(f, &bytes) < 0)
        return;
    if (api_fields_read(&again, bytes.data, bytes.len) < 0)
        BUG("fields that cannot be read");
    if (api_fields_check(&again, r, &fault) < 0 && (whole || strcmp(fault.problem, "is missing") != 0))
        BUG("fields that bawnd refuses");
}

static void take_target(const char *text) {
    struct uri u = {0};

    if (uri_parse(text, &u) < 0)
        return;
    for (int method = -1; method < API_METHODS; method++) {
        CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
        struct route_match m = route_find(&u, method);
        struct front_fault fault = {0};
        int r;

        if (m.route && !(m.methods & 1u << method))
            BUG("a route without its method");
        if (!m.route)
            continue;
        r = route_fields(m.route, &u, no_header, NULL, &f, &fault);
        if (r == 0)
            check_fields(&f, m.route, m.route->body != API_BODY_JSON);
        else if (fault.status)
            check_fault(&fault);
    }
    uri_done(&u);
}

static void take_body(unsigned op, const char *data, size_t len) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    const struct api_route *r = api_route_of(1 + op % (API_OPS - 1));
    struct front_fault fault = {0};
    int error = front_json_fields(data, len, r, &f, &fault);

    if (error == 0)
        check_fields(&f, r, false);
    else if (fault.status)
        check_fault(&fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    uint64_t first, len;
    size_t n;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    n = strlen(text);
    take_target(text);
    if (n >= 6 && range_parse(text, 1000, &first, &len) == 1 && (first >= 1000 || len == 0 || first + len > 1000))
        BUG("a part that is not there");
    if (n + 2 <= size)
        take_body((unsigned char)text[n + 1], text + n + 2, size - n - 2);
    free(text);
    return 0;
}
