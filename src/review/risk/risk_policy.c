/* SPDX-License-Identifier: Apache-2.0 */
/* .sandboxignore: which patterns are gone, and which show what was hidden. */
#include "base/str.h"
#include "review/risk/risk_rule.h"

static bool is_rule(const struct text_line *l) {
    return *l->s != '#' && l->len > 0;
}

static int report(struct risk_case *c, const struct text_line *lines, int n, bool gone) {
    char shown[RISK_SHOWN_MAX + 4];
    int rules = 0;

    for (int i = 0; i < n; i++) {
        CLEANUP(freep) char *text = strndup(lines[i].s, lines[i].len);
        bool shows = lines[i].s[0] == '!';

        if (!is_rule(&lines[i]))
            continue;
        rules++;
        if (!text)
            c->failed = true;
        else if (gone)
            risk_add(c, c->rule->class, shows ? RISK_LOW : RISK_HIGH, 0, "the pattern '%s' was removed: %s",
                     risk_shown(text, shown),
                     shows ? "what it showed may be hidden now" : "what it hid is shown to the next run");
        else
            risk_add(c, c->rule->class, shows ? RISK_HIGH : RISK_LOW, lines[i].number, "the pattern '%s' was added: %s",
                     risk_shown(text, shown), shows ? "it shows what others hide" : "it hides more");
    }
    return rules;
}

void risk_inspect_policy(struct risk_case *c) {
    CLEANUP(freep) struct text_line *fresh = NULL;
    CLEANUP(freep) struct text_line *gone = NULL;
    int n_fresh = risk_new_lines(&c->old_, &c->new_, &fresh), n_gone = risk_new_lines(&c->new_, &c->old_, &gone);
    struct text_line l = {0};
    int rules = 0;

    if (n_fresh < 0 || n_gone < 0) {
        risk_unread(c, 0, "it has too many lines");
        return;
    }
    if (!c->old_.there)
        risk_add(c, c->rule->class, RISK_HIGH, 0, "%s, and it is new: its patterns take the place of the built-in ones",
                 c->rule->reason);
    else if (!c->old_.whole)
        risk_add(c, c->rule->class, RISK_HIGH, 0, "%s, and its old version was not stored: patterns may be gone",
                 c->rule->reason);
    rules = report(c, gone, n_gone, true) + report(c, fresh, n_fresh, false);
    if (rules == 0 && c->old_.there && risk_first_change(&c->old_, &c->new_, &l) && is_rule(&l))
        risk_add(c, c->rule->class, RISK_HIGH, l.number, "%s, and the order of its patterns changed from line %u on",
                 c->rule->reason, l.number);
}
