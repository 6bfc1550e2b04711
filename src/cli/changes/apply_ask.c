/* SPDX-License-Identifier: Apache-2.0 */
/* Asks about the changes of one class. */
#include "cli/changes/apply_ask.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"
#include "review/report/escape.h"

enum { ASK_SHOWN = 5, ASK_TEXT_MAX = 1024 * 1024 };

const char *const apply_class_words[CHANGES_CLASSES] = {
    [CHANGES_HIGH] = "of high risk",     [CHANGES_DEPENDENCIES] = "in folders of dependencies",
    [CHANGES_MEDIUM] = "of medium risk", [CHANGES_LOW] = "of low risk",
    [CHANGES_NONE] = "without risk",
};

/* Files that stand for themselves are named; of a folder of dependencies it is enough to say how many. */
static void add_names(struct buf *b, const struct changes_question *q) {
    size_t shown = 0, alone = 0;

    for (size_t i = 0; i < q->n; i++) {
        if (*q->v[i]->folder && q->class != CHANGES_HIGH)
            continue;
        alone++;
        if (shown == ASK_SHOWN)
            continue;
        buf_adds(b, "  ");
        escape_text(b, q->v[i]->path);
        buf_addc(b, '\n');
        shown++;
    }
    if (alone > shown)
        buf_addf(b, "  and %zu more\n", alone - shown);
}

/* They come folder by folder. */
static void add_folders(struct buf *b, const struct changes_question *q) {
    for (size_t i = 0, end; q->class != CHANGES_HIGH && i < q->n; i = end) {
        size_t high = 0;

        for (end = i + 1; end < q->n && str_eq(q->v[end]->folder, q->v[i]->folder); end++)
            ;
        if (!*q->v[i]->folder)
            continue;
        for (size_t k = i; k < end; k++)
            high += q->v[k]->high;
        buf_addf(b, "  %zu in ", end - i);
        escape_text(b, q->v[i]->folder);
        buf_addf(b, "/, %zu of high risk, but usual after an install\n", high);
    }
}

enum changes_answer apply_ask(const struct changes_question *q, void *arg UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(ASK_TEXT_MAX);
    char answer[16];

    buf_addf(&b, "%zu %s %s:\n", q->n, q->n == 1 ? "change" : "changes", apply_class_words[q->class]);
    add_names(&b, q);
    add_folders(&b, q);
    buf_adds(&b, "Apply? [y: yes, n: leave in the run, q: quit, nothing is done] ");
    fputs(buf_str(&b), stderr);
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin) || answer[0] == 'q' || answer[0] == 'Q')
        return CHANGES_STOP;
    return answer[0] == 'y' || answer[0] == 'Y' ? CHANGES_TAKE : CHANGES_LEAVE;
}
