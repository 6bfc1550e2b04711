/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The man page. Everything that comes from a table goes through text(), which leaves nothing in it that roff
 * would take for a command.
 */
#include "base/err.h"
#include "base/str.h"
#include "cli/help/manual.h"

struct roff_entry {
    const char *term, *text;
};

static const struct roff_entry environment[] = {
    {"BAWN_SANDBOX", "false runs without a sandbox, true demands one, the name of an engine chooses it"},
    {"BAWN_PROFILE", "the profile to use when --profile is not given"},
    {"BAWN_SANDBOX_IMAGE", "the image to use in place of this machine's programs"},
    {"BAWN_PASSPHRASE_FILE",
     "a file, by its absolute path and readable only by you, with the passphrase of the encrypted file of "
     "secrets"},
    {"BAWN_OPEN", "the program that opens the pages on which programs inside want you to log in (default: xdg-open); none: "
                  "their addresses are only shown"},
    {"BAWN_SH_SANDBOX",
     "the sandbox of bawn-sh, which takes the arguments of /bin/sh and runs it in the sandbox of the folder it is "
     "called in (default: that of the nearest folder above that has one)"},
    {"NO_COLOR", "any value turns colours off; there are none anyway when the output is not a terminal"},
    {"XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR", "where configuration, state and sockets are"},
};

static const struct roff_entry statuses[] = {
    {"64", "bad option or bad configuration; nothing was started"},
    {"124", "the command was ended because its time was up (--timeout)"},
    {"125", "Bawn itself could not do what was asked, for example enforce a promise that was demanded"},
    {"126", "the command exists but cannot be executed"},
    {"127", "the command was not found"},
    {"128+N", "the command was ended by signal N"},
    {"other", "the exit status of the command"},
};

static const struct roff_entry files[] = {
    {"$XDG_CONFIG_HOME/bawn/config.json", "the user's configuration (~/.config/bawn/config.json)"},
    {"$XDG_CONFIG_HOME/bawn/profiles/NAME.json", "the user's own profiles"},
    {".bawn/config.json", "the project's configuration; until it is trusted it can only narrow what is allowed"},
    {"/etc/bawn/policy.json", "the organisation's policy, a floor that nothing else loosens"},
    {"$XDG_STATE_HOME/bawn", "what outlives a run (~/.local/state/bawn)"},
    {"$XDG_STATE_HOME/bawn/sandboxes/NAME", "a persistent sandbox: its home, logs and checkpoints"},
    {"$XDG_STATE_HOME/bawn/audit", "the audit log"},
    {"$XDG_RUNTIME_DIR/bawn", "sockets of supervisors, of persistent sandboxes and of the pool"},
};

static const struct roff_entry examples[] = {
    {"bawn run -- npm test", "one command in a sandbox"},
    {"bawn run --profile tight --network none -- make", "with a tighter profile and no network"},
    {"bawn run --dry-run -- make", "only show what would be done"},
    {"bawn start web && bawn exec web -- npm ci", "a sandbox that stays, and a command in it"},
    {"bawn doctor", "what this machine can guarantee"},
};

/* Characters that roff reads as something else, and how to get the plain ones (man(7) of Debian: - is a hyphen). */
static const char *escape_of(char c) {
    static const char plain[] = "\\-'`^~\"";
    static const char *const escaped[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti", "\\(dq"};
    const char *found = c ? strchr(plain, c) : NULL;

    return found ? escaped[found - plain] : NULL;
}

static uint32_t utf8_decode(const char *s, size_t len) {
    uint32_t c = (unsigned char)s[0] & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

static void text(struct buf *b, const char *s, size_t len) {
    bool line_start = !b->len || b->data[b->len - 1] == '\n';

    for (size_t i = 0, step; i < len; i += step) {
        const char *escape = escape_of(s[i]);

        step = str_utf8_len(s + i);
        if (line_start && (s[i] == '.' || s[i] == '\''))
            buf_adds(b, "\\&");
        if (step > 1)
            buf_addf(b, "\\[u%04X]", utf8_decode(s + i, step));
        else if (escape)
            buf_adds(b, escape);
        else
            buf_addc(b, s[i]);
        step = MAX_OF(step, (size_t)1);
        line_start = s[i] == '\n';
    }
}

static void texts(struct buf *b, const char *s) {
    text(b, s, strlen(s));
}

static void line(struct buf *b, const char *request, const char *s) {
    buf_adds(b, request);
    texts(b, s);
    buf_addc(b, '\n');
}

static void entries(struct buf *b, const char *title, const struct roff_entry *e, size_t n) {
    line(b, ".SH ", title);
    for (size_t i = 0; i < n; i++) {
        buf_adds(b, ".TP\n");
        line(b, ".B ", e[i].term);
        texts(b, e[i].text);
        buf_addc(b, '\n');
    }
}

static void describe_roff(struct buf *b, const char *description) {
    struct manual_paragraph p = {.next = description};

    while (manual_next_paragraph(&p)) {
        buf_adds(b, p.verbatim ? ".PP\n.nf\n" : ".PP\n");
        text(b, p.text, p.len);
        buf_adds(b, p.verbatim ? "\n.fi\n" : "\n");
    }
}

static void option(struct buf *b, const struct opt *o) {
    buf_adds(b, ".TP\n");
    if (o->letter)
        buf_addf(b, "\\fB\\-%c\\fR%s", o->letter, o->name ? ", " : "");
    if (o->name) {
        buf_adds(b, "\\fB\\-\\-");
        texts(b, o->name);
        buf_adds(b, "\\fR");
    }
    if (o->arg) {
        buf_adds(b, o->arg[0] == '[' ? "\\fI" : " \\fI");
        texts(b, o->arg);
        buf_adds(b, "\\fR");
    }
    buf_addc(b, '\n');
    texts(b, o->help);
    buf_addc(b, '\n');
}

static void command(struct buf *b, const struct verb *v) {
    line(b, ".SS bawn ", v->name);
    buf_adds(b, ".B bawn ");
    texts(b, v->name);
    buf_addc(b, '\n');
    if (v->synopsis && *v->synopsis) {
        texts(b, v->synopsis);
        buf_addc(b, '\n');
    }
    line(b, ".PP\n", v->summary);
    if (v->description)
        describe_roff(b, v->description);
    for (size_t i = 0; i < v->n_opts; i++)
        option(b, &v->opts[i]);
}

void manual_roff(const struct manual *m, struct buf *b) {
    buf_adds(b, ".TH BAWN 1 \"\" \"bawn " BAWN_VERSION "\" \"User Commands\"\n");
    buf_adds(b, ".SH NAME\nbawn \\- a sandbox for AI coding agents\n");
    buf_adds(b, ".SH SYNOPSIS\n.B bawn\n.I COMMAND\n[options] ...\n");
    buf_adds(b, ".SH DESCRIPTION\nBawn runs an agent, or one command that an agent wrote, inside a sandbox that starts in\n"
                "milliseconds, can be thrown away, and lets out only what policy allows. A promise that cannot be enforced\n"
                "stops the run.\n");
    buf_adds(b, ".SH COMMANDS\nEvery command knows \\fB\\-h\\fR, \\fB\\-\\-help\\fR.\n");
    for (size_t i = 0; i < m->n; i++)
        command(b, m->verbs[i]);
    entries(b, "ENVIRONMENT", environment, ARRAY_LEN(environment));
    entries(b, "EXIT STATUS", statuses, ARRAY_LEN(statuses));
    entries(b, "FILES", files, ARRAY_LEN(files));
    entries(b, "EXAMPLES", examples, ARRAY_LEN(examples));
}
