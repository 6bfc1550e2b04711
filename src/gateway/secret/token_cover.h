/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens in answers of hosts where users log in (OAuth), found by what comes before them, not by path or type of the answer: "access_token", "idToken",
 * "device_code", ... and a value behind it, which is covered with as many '*'. No token of the user's own comes that way: logins are outside
 * (flow_token.c). What is found here was asked for by the sandbox, past the login that the user knows of.
 *
 *     {"access_token" : "abc..."}   access_token=abc...&x=1   <input name="id_token" value="abc...">   <access_token>abc...   {\"refresh_token\":\"abc...
 *
 * What is held back (fewer than TOKEN_COVER_MIN bytes of a value) depends on names and punctuation only: no clock tells anything about a value.
 */
#pragma once

#include "base/buf.h"

enum {
    TOKEN_COVER_MIN = 8,  /* shorter ones are no tokens: null, true, "bearer" */
    TOKEN_COVER_GAP = 128 /* bytes between a name and its value, white space not counted */
};

enum token_cover_mode {
    TOKEN_COVER_ANY,    /* where logins are: a name and anything that assigns */
    TOKEN_COVER_MEMBERS /* where the API is: members of JSON, not what is written in its strings (programs that a model writes) */
};

/* Zeroed memory and a mode are a new one. */
struct token_cover {
    enum token_cover_mode mode;
    bool codes; /* "code=", too: in redirects */
    bool any;   /* something was covered */

    char word[64]; /* the end of the word so far: small letters and digits */
    size_t n_word;
    bool quoted, in_value, assigned, covering;
    unsigned expect; /* MEMBERS: what has to come next */
    size_t gap, n_held;
    uint8_t held[TOKEN_COVER_MIN];
};

/* Puts as many bytes into out as came in, but for those that are held back; at the end all. */
void token_cover_feed(struct token_cover *c, const uint8_t *data, size_t len, bool end, struct buf *out);
/* A header's field in place, its name being what may announce a token. True: something was covered. */
bool token_cover_field(const char *name, size_t name_len, char *value, size_t len);
