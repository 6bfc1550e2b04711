/* SPDX-License-Identifier: Apache-2.0 */
/* A broker between a gate and an ssh-agent that this test plays: what is signed, and what is not (ATTACKS 60, 76). */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "broker/broker.h"
#include "broker/serve.h"
#include "broker/ssh/ssh_choice.h"
#include "os/fd.h"
#include "os/sock.h"
#include "ssh_scene.h"

static const char rules_text[] = "{\"rules\":[{\"action\":\"allow\",\"host\":[\"git.example\"],\"ports\":[22,2222]},"
                                 "{\"action\":\"ask\",\"host\":\"ask.example\"},"
                                 "{\"action\":\"allow\",\"host\":\"web.example\",\"methods\":[\"GET\"]}]}";

struct scene {
    struct broker b;
    int gate, supervisor, agent; /* our ends */
    struct ssh_pair host, user, other;
    struct buf known;
    uint8_t session[32];
    struct broker_msg last;
    uint32_t ids;
    const char *guess; /* of the gate */
    uint32_t guess_port;
    uint8_t got[BROKER_MESSAGE_MAX]; /* answers that were not taken yet */
    size_t got_at, got_len;
};

/* "name key\n" */
static void scene_know(struct scene *s, const char *line_start, const struct ssh_pair *key) {
    char text[4096];

    EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)key->blob.data, (int)key->blob.len);
    buf_addf(&s->known, "%s %s %s\n", line_start, key->type, text);
    s->b.config.known_hosts = s->known.data;
}

static struct scene *scene_new(void) {
    struct scene *s = calloc(1, sizeof *s);
    struct rules rules = {0};
    int gate[2], supervisor[2];

    assert_int_equal(sock_pair(gate), 0);
    assert_int_equal(sock_pair(supervisor), 0);
    assert_int_equal(broker_init(&s->b, &(struct ca){0}, gate[0], supervisor[0]), 0);
    s->gate = gate[1];
    s->supervisor = supervisor[1];
    s->agent = -1;
    policy_done(&s->b.policy);
    assert_int_equal(policy_init(&s->b.policy, NET_LIST, false, NULL), 0);
    assert_int_equal(rules_read("rules", rules_text, strlen(rules_text), &rules, NULL), 0);
    policy_set_layer(&s->b.policy, LAYER_USER, &rules, false);
    s->b.configured = true;
    s->b.config.ssh = true;
    s->host = pair_ed25519();
    s->user = pair_ed25519();
    s->other = pair_ed25519();
    s->known = (struct buf)BUF_INIT(SCENE_BYTES);
    memset(s->session, 7, sizeof s->session);
    return s;
}

static void scene_free(struct scene *s) {
    s->b.config.known_hosts = s->b.config.ssh_keys = NULL; /* the test's */
    broker_done(&s->b);
    closep(&s->gate);
    closep(&s->supervisor);
    closep(&s->agent);
    pair_done(&s->host);
    pair_done(&s->user);
    pair_done(&s->other);
    buf_done(&s->known);
    free(s);
}

static bool is_readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return fd >= 0 && poll(&p, 1, 0) > 0;
}

static void put_identity(struct buf *b, const struct ssh_pair *p, const char *comment) {
    ssh_put_string(b, p->blob.data, p->blob.len);
    put_text(b, comment);
}

/* The agent has two keys and a certificate, and signs everything. */
static void agent_answer(struct scene *s, const uint8_t *msg, size_t len) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(SCENE_BYTES), framed = BUF_INIT(SCENE_BYTES), sig = BUF_INIT(SCENE_BYTES);
    struct ssh_agent_request q;

    assert_int_equal(ssh_agent_parse(msg, len, &q), 0);
    if (q.type == SSH_AGENTC_REQUEST_IDENTITIES) {
        buf_addc(&body, SSH_AGENT_IDENTITIES_ANSWER);
        ssh_put_u32(&body, 3);
        put_identity(&body, &s->user, "me@home");
        put_identity(&body, &s->other, "work");
        ssh_put_string(&body, "\0\0\0\40ssh-ed25519-cert-v01@openssh.com", 36);
        put_text(&body, "certificate");
    } else {
        pair_sign(ssh_same(q.sign.key, bytes_of(&s->user.blob)) ? &s->user : &s->other, q.sign.data, &sig);
        buf_addc(&body, SSH_AGENT_SIGN_RESPONSE);
        ssh_put_string(&body, sig.data, sig.len);
    }
    ssh_put_string(&framed, body.data, body.len);
    assert_int_equal(fd_write_all(s->agent, framed.data, framed.len), 0);
}

static void supervisor_turn(struct scene *s) {
    struct broker_msg m, answer = {.type = BROKER_MSG_AGENT};
    int fds[2];

    assert_int_equal(sock_recv(s->supervisor, &m, sizeof m, NULL, NULL), sizeof m);
    if (m.type == BROKER_MSG_USED)
        s->last = m;
    if (m.type != BROKER_MSG_WANT_AGENT)
        return;
    closep(&s->agent);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    s->agent = fds[0];
    assert_int_equal(sock_send(s->supervisor, &answer, sizeof answer, &fds[1], 1), 0);
    close(fds[1]);
}

static void agent_turn(struct scene *s) {
    uint8_t msg[SCENE_BYTES];
    ssize_t n = fd_read_some(s->agent, msg, sizeof msg);

    if (n > 0) {
        assert_int_equal(ssh_agent_frame(msg, (size_t)n), n);
        agent_answer(s, msg + 4, (size_t)n - 4);
    }
}

/* Everybody in turn, until the gate has its answer. */
static int scene_ask(struct scene *s, uint32_t type, const void *data, size_t len, struct buf *out) {
    struct {
        struct broker_request req;
        uint8_t data[SCENE_BYTES];
    } *q = calloc(1, sizeof *q);
    struct {
        struct broker_answer a;
        uint8_t data[BROKER_DATA_MAX];
    } *a = calloc(1, sizeof *a);
    struct err err = {0};
    int status;

    q->req = (struct broker_request){.type = type, .id = ++s->ids, .len = (uint32_t)len, .port = s->guess_port};
    if (s->guess)
        memcpy(q->req.host, s->guess, strlen(s->guess));
    if (len)
        memcpy(q->data, data, len);
    s->last = (struct broker_msg){0};
    assert_int_equal(sock_send(s->gate, q, sizeof q->req + len, NULL, 0), 0);
    while (!is_readable(s->gate)) {
        assert_int_equal(serve_round(&s->b, &err), 0);
        while (is_readable(s->supervisor))
            supervisor_turn(s);
        if (is_readable(s->agent))
            agent_turn(s);
    }
    assert_true(sock_recv(s->gate, a, sizeof *a, NULL, NULL) >= (long)sizeof a->a);
    assert_int_equal(a->a.id, s->ids);
    while (is_readable(s->supervisor))
        supervisor_turn(s);
    status = a->a.status;
    if (out)
        buf_add(out, a->data, a->a.len);
    free(q);
    free(a);
    return status;
}

static int scene_sign(struct scene *s, const struct buf *bind, const struct ssh_pair *key, const struct buf *data,
                      struct buf *out) {
    CLEANUP(buf_done) struct buf sign = BUF_INIT(SCENE_BYTES);
    uint8_t bytes[SCENE_BYTES];
    struct broker_part parts[2];
    long n;

    ssh_put_string(&sign, key->blob.data, key->blob.len);
    ssh_put_string(&sign, data->data, data->len);
    ssh_put_u32(&sign, 0);
    parts[0] = (struct broker_part){bind ? bind->data : NULL, bind ? bind->len : 0};
    parts[1] = (struct broker_part){sign.data, sign.len};
    n = broker_parts_write(parts, 2, bytes, sizeof bytes);
    assert_true(n > 0);
    return scene_ask(s, BROKER_SSH_SIGN, bytes, (size_t)n, out);
}

static struct buf make_bind(const struct scene *s, const struct ssh_pair *host, bool forwarding) {
    CLEANUP(buf_done) struct buf sig = BUF_INIT(SCENE_BYTES);
    struct buf b = BUF_INIT(SCENE_BYTES);

    pair_sign(host, (struct ssh_bytes){s->session, sizeof s->session}, &sig);
    ssh_put_string(&b, host->blob.data, host->blob.len);
    ssh_put_string(&b, s->session, sizeof s->session);
    ssh_put_string(&b, sig.data, sig.len);
    buf_addc(&b, forwarding);
    return b;
}

/* host NULL: the kind that does not name the host. */
static struct buf make_login(const struct scene *s, const struct ssh_pair *key, const struct ssh_pair *host) {
    struct buf b = BUF_INIT(SCENE_BYTES);

    ssh_put_string(&b, s->session, sizeof s->session);
    buf_addc(&b, 50);
    put_text(&b, "git");
    put_text(&b, "ssh-connection");
    put_text(&b, host ? "publickey-hostbound-v00@openssh.com" : "publickey");
    buf_addc(&b, 1);
    put_text(&b, key->type);
    ssh_put_string(&b, key->blob.data, key->blob.len);
    if (host)
        ssh_put_string(&b, host->blob.data, host->blob.len);
    return b;
}

static struct buf make_sshsig(const char *purpose) {
    struct buf b = BUF_INIT(SCENE_BYTES);

    buf_adds(&b, "SSHSIG");
    put_text(&b, purpose);
    put_text(&b, "");
    put_text(&b, "sha256");
    put_text(&b, "01234567890123456789012345678901");
    return b;
}

/* A login in the session of `host`, for user's key; the log's words are compared by a piece of them. */
static void check_login(struct scene *s, const struct ssh_pair *host, int status, const char *word) {
    CLEANUP(buf_done) struct buf bind = make_bind(s, host, false), login = make_login(s, &s->user, NULL);
    CLEANUP(buf_done) struct buf bound = make_login(s, &s->user, host);

    assert_int_equal(scene_sign(s, &bind, &s->user, &login, NULL), status);
    assert_non_null(strstr(s->last.text, word));
    assert_int_equal(s->last.value, status);
    assert_int_equal(scene_sign(s, &bind, &s->user, &bound, NULL), status);
}

static void test_list_has_chosen_keys_only(void **state) {
    static const char *const chosen[] = {"", "me@home", "work\nme@home\n", "nobody", NULL};
    static const uint32_t counts[] = {2, 1, 2, 0, 1};
    struct scene *s = scene_new();
    char fingerprint[SSH_FINGERPRINT_SIZE];

    ssh_fingerprint(bytes_of(&s->other.blob), fingerprint);
    for (size_t i = 0; i < ARRAY_LEN(chosen); i++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(SCENE_BYTES);
        struct ssh_identities list;
        struct ssh_identity id;

        s->b.config.ssh_keys = (char *)(chosen[i] ? chosen[i] : fingerprint);
        assert_int_equal(scene_ask(s, BROKER_SSH_KEYS, NULL, 0, &out), 0);
        assert_int_equal(ssh_identities_begin((const uint8_t *)out.data, out.len, &list), 0);
        assert_int_equal(list.left, counts[i]);
        if (list.left == 1) {
            assert_int_equal(ssh_identities_next(&list, &id), 1);
            assert_true(ssh_same(id.key, bytes_of(chosen[i] ? &s->user.blob : &s->other.blob)));
        }
    }
    s->b.config.ssh = false;
    assert_int_equal(scene_ask(s, BROKER_SSH_KEYS, NULL, 0, NULL), -EACCES);
    scene_free(s);
}

static void test_login_is_signed(void **state) {
    struct scene *s = scene_new();
    CLEANUP(buf_done) struct buf out = BUF_INIT(SCENE_BYTES), wanted = BUF_INIT(SCENE_BYTES);
    CLEANUP(buf_done) struct buf bind = make_bind(s, &s->host, false), login = make_login(s, &s->user, &s->host);
    char fingerprint[SSH_FINGERPRINT_SIZE];
    struct ssh_reader r;

    scene_know(s, "git.example", &s->host);
    assert_int_equal(scene_sign(s, &bind, &s->user, &login, &out), 0);
    r = ssh_reader_of(out.data, out.len);
    assert_int_equal(ssh_get_u8(&r), SSH_AGENT_SIGN_RESPONSE);
    pair_sign(&s->user, bytes_of(&login), &wanted); /* ed25519 always signs the same way */
    assert_true(ssh_same(ssh_get_string(&r), bytes_of(&wanted)));
    ssh_fingerprint(bytes_of(&s->user.blob), fingerprint);
    assert_int_equal(s->last.index, UINT32_MAX);
    assert_string_equal(s->last.text, fingerprint);
    assert_string_equal(s->last.host, "git.example");
    assert_string_equal(s->last.method, "login");
    assert_int_equal(s->last.port, 22);
    scene_free(s);
}

static void test_login_by_host(void **state) {
    static const struct {
        const char *line;
        int status;
        const char *word;
    } rows[] = {
        {"git.example", 0, "SHA256:"},
        {"x.example,git.example", 0, "SHA256:"},
        {"[git.example]:2222", 0, "SHA256:"},
        {"[git.example]:443", -EACCES, "policy does not allow"},
        {"evil.example", -EACCES, "policy does not allow"},
        {"ask.example", -EACCES, "policy does not allow"},
        {"web.example", -EACCES, "policy does not allow"},
        {"*.example", 0, "SHA256:"},
        {"*.example,!git.example", -EACCES, "policy does not allow"},
        {"@cert-authority git.example", -EACCES, "not in known_hosts"},
        {"@revoked git.example", -EACCES, "revoked"},
        {"|1|Dc/UlTyuqE+mGBVApaqNTAc0mmg=|eQW2qLH2vKHx77l4t/DnPeydFwk=", -EACCES, "hashed"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct scene *s = scene_new();

        scene_know(s, rows[i].line, &s->host);
        check_login(s, &s->host, rows[i].status, rows[i].word);
        check_login(s, &s->other, -EACCES, "not in known_hosts"); /* another host */
        scene_free(s);
    }
}

static void test_login_with_a_hashed_name(void **state) {
    static const char *const rules_of[] = {
        "{\"rules\":[{\"action\":\"allow\",\"host\":\"git.example.com\"}]}",
        "{\"groups\":{\"@ours\":[\"git.example.com\"]},\"rules\":[{\"action\":\"allow\",\"host\":\"@ours\"}]}",
        "{\"rules\":[{\"action\":\"deny\",\"host\":\"git.example.com\"}]}",
    };

    for (size_t i = 0; i < ARRAY_LEN(rules_of); i++) {
        struct scene *s = scene_new();
        struct rules rules = {0};

        assert_int_equal(rules_read("rules", rules_of[i], strlen(rules_of[i]), &rules, NULL), 0);
        policy_set_layer(&s->b.policy, LAYER_USER, &rules, false);
        scene_know(s, "|1|Dc/UlTyuqE+mGBVApaqNTAc0mmg=|eQW2qLH2vKHx77l4t/DnPeydFwk=", &s->host);
        check_login(s, &s->host, i < 2 ? 0 : -EACCES, i < 2 ? "SHA256:" : "policy does not allow");
        scene_free(s);
    }
}

/* Nobody but the gate knows the name: it is believed if known_hosts has the key under it, and policy counts as always. */
static void test_login_with_a_guess(void **state) {
    static const struct {
        const char *guess;
        uint32_t port;
        enum net_mode mode;
        int status;
    } rows[] = {
        {"git.example.com", 22, NET_FULL, 0},
        {"GIT.example.com.", 22, NET_FULL, 0},
        {"git.example.org", 22, NET_FULL, -EACCES},
        {"git.example.com", 2222, NET_FULL, -EACCES},
        {"git.example.com", 65536 + 22, NET_FULL, -EACCES},
        {"git.example.com", 22, NET_LIST, -EACCES},
        {"git.example", 22, NET_LIST, -EACCES},
        {NULL, 0, NET_FULL, -EACCES},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct scene *s = scene_new();

        s->b.policy.mode = rows[i].mode;
        s->guess = rows[i].guess;
        s->guess_port = rows[i].port;
        scene_know(s, "|1|Dc/UlTyuqE+mGBVApaqNTAc0mmg=|eQW2qLH2vKHx77l4t/DnPeydFwk=", &s->host);
        check_login(s, &s->host, rows[i].status, "SHA256:");
        scene_free(s);
    }
}

static void check_refused(struct scene *s, const struct buf *bind, const struct ssh_pair *key, const struct buf *data,
                          const char *word) {
    assert_int_equal(scene_sign(s, bind, key, data, NULL), -EACCES);
    if (!strstr(s->last.text, word))
        fail_msg("'%s' has no '%s'", s->last.text, word);
    assert_int_equal(s->last.value, -EACCES);
    assert_int_equal(s->agent, -1); /* nobody was asked */
}

static void test_what_is_never_signed(void **state) {
    struct scene *s = scene_new();
    CLEANUP(buf_done) struct buf bind = make_bind(s, &s->host, false), forwarded = make_bind(s, &s->host, true);
    CLEANUP(buf_done) struct buf login = make_login(s, &s->user, NULL), other_host = make_login(s, &s->user, &s->other);
    CLEANUP(buf_done) struct buf file = make_sshsig("file"), commit = make_sshsig("git"), lie = make_bind(s, &s->other, false);
    CLEANUP(buf_done) struct buf replayed = BUF_INIT(SCENE_BYTES), text = BUF_INIT(64);
    const size_t hole = 4 + s->host.blob.len;

    scene_know(s, "git.example", &s->host);
    buf_adds(&text, "challenge");
    check_refused(s, NULL, &s->user, &login, "does not say to which host");
    check_refused(s, &forwarded, &s->user, &login, "forwarded");
    check_refused(s, &forwarded, &s->user, &commit, "forwarded");
    check_refused(s, &bind, &s->user, &other_host, "another host");
    check_refused(s, &bind, &s->other, &login, "another key");
    check_refused(s, &bind, &s->user, &file, "only git's");
    check_refused(s, &bind, &s->user, &text, "neither a login nor a commit");
    memcpy(lie.data + 4, s->host.blob.data, s->host.blob.len); /* the host's key, signed by somebody else */
    check_refused(s, &lie, &s->user, &login, "did not sign");
    /* A bind of an older session: the id in it is changed to that of the login, or is left as it was. */
    s->session[0] ^= 1;
    replayed = make_bind(s, &s->host, false);
    check_refused(s, &replayed, &s->user, &login, "another session");
    replayed.data[hole + 4] ^= 1;
    check_refused(s, &replayed, &s->user, &login, "did not sign");
    bind.len--;
    check_refused(s, &bind, &s->user, &login, "cannot be read");
    s->b.config.ssh = false;
    bind.len++;
    check_refused(s, &bind, &s->user, &commit, "off");
    scene_free(s);
}

static void test_only_chosen_keys_sign(void **state) {
    struct scene *s = scene_new();
    CLEANUP(buf_done) struct buf commit = make_sshsig("git");

    s->b.config.ssh_keys = (char *)"work";
    assert_int_equal(scene_sign(s, NULL, &s->other, &commit, NULL), 0);
    assert_string_equal(s->last.method, "commit");
    assert_string_equal(s->last.host, "");
    assert_int_equal(scene_sign(s, NULL, &s->user, &commit, NULL), -EACCES);
    assert_non_null(strstr(s->last.text, "not one of the chosen"));
    assert_int_equal(scene_sign(s, NULL, &s->host, &commit, NULL), -EACCES); /* the agent does not have it */
    scene_free(s);
}

static void test_agent_dies_between(void **state) {
    struct scene *s = scene_new();
    CLEANUP(buf_done) struct buf commit = make_sshsig("git");

    assert_int_equal(scene_sign(s, NULL, &s->user, &commit, NULL), 0);
    closep(&s->agent);
    assert_int_equal(scene_sign(s, NULL, &s->user, &commit, NULL), 0);
    assert_true(s->agent >= 0);
    scene_free(s);
}

static void send_request(struct scene *s, uint32_t type) {
    struct broker_request req = {.type = type, .id = ++s->ids};

    assert_int_equal(sock_send(s->gate, &req, sizeof req, NULL, 0), 0);
    assert_int_equal(serve_round(&s->b, NULL), 0);
}

/* The next answer; one message may have several. */
static int take_status(struct scene *s) {
    struct broker_answer a;

    if (s->got_at == s->got_len) {
        long n;

        broker_flush(&s->b);
        n = sock_recv(s->gate, s->got, sizeof s->got, NULL, NULL);
        assert_true(n > 0);
        s->got_len = (size_t)n;
        s->got_at = 0;
    }
    assert_true(s->got_len - s->got_at >= sizeof a);
    memcpy(&a, s->got + s->got_at, sizeof a);
    assert_int_equal(a.len, 0);
    s->got_at += sizeof a;
    return a.status;
}

/* Everything that is no answer, each on a connection of its own. */
static void test_agent_that_lies(void **state) {
    static const struct {
        const char *bytes;
        size_t len;
    } lies[] = {{"\0\0\0\0", 4},
                {"\377\377\377\377", 4},
                {"\0\0\0\1\5", 5},
                {"\0\0\0\5\14\377\377\377\377", 9},
                {"\0\0\0\5\14\0\0\0\1", 9},
                {"\0\0\0\5\14\0\0\0\0x", 10},
                {NULL, 0}};

    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        struct scene *s = scene_new();
        uint8_t request[64];

        send_request(s, BROKER_SSH_KEYS);
        supervisor_turn(s);
        assert_int_equal(serve_round(&s->b, NULL), 0); /* the connection */
        assert_int_equal(serve_round(&s->b, NULL), 0); /* the request */
        assert_int_equal(fd_read_some(s->agent, request, sizeof request), 5);
        if (lies[i].len)
            assert_int_equal(fd_write_all(s->agent, lies[i].bytes, lies[i].len), 0);
        else
            closep(&s->agent);
        assert_int_equal(serve_round(&s->b, NULL), 0);
        assert_true(take_status(s) < 0);
        scene_free(s);
    }
}

/* A silent agent: others are served meanwhile, and when the time is over all who wait are told. */
static void test_agent_that_hangs(void **state) {
    struct scene *s = scene_new();
    struct broker_msg none = {.type = BROKER_MSG_AGENT, .value = ENOENT};

    send_request(s, BROKER_SSH_KEYS);
    supervisor_turn(s);
    assert_int_equal(serve_round(&s->b, NULL), 0);
    send_request(s, BROKER_SSH_KEYS);
    send_request(s, BROKER_LEAF);
    while (!is_readable(s->gate))
        assert_int_equal(serve_round(&s->b, NULL), 0);
    assert_int_equal(take_status(s), -ENOENT); /* there is no CA, but there is an answer */
    assert_true(ssh_timeout_ms(&s->b) > 0 && ssh_timeout_ms(&s->b) <= BROKER_SSH_TIMEOUT_MS);
    closep(&s->agent);
    assert_int_equal(serve_round(&s->b, NULL), 0); /* the first one ends with its connection */
    assert_int_equal(take_status(s), -ENOKEY);
    assert_int_equal(sock_send(s->supervisor, &none, sizeof none, NULL, 0), 0);
    assert_int_equal(serve_round(&s->b, NULL), 0); /* there is no agent any more */
    assert_int_equal(take_status(s), -ENOKEY);
    assert_int_equal(ssh_timeout_ms(&s->b), -1);
    scene_free(s);
}

static void test_too_many_wait(void **state) {
    struct scene *s = scene_new();
    unsigned n = 0;

    do {
        assert_true(++n < 100000);
        send_request(s, BROKER_SSH_KEYS);
    } while (!is_readable(s->gate));
    assert_int_equal(take_status(s), -EBUSY);
    assert_true(n > 128); /* more than clients of a gate */
    s->b.config.ssh = false;
    ssh_configured(&s->b);
    while (--n)
        assert_int_equal(take_status(s), -EACCES);
    scene_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_has_chosen_keys_only),
        cmocka_unit_test(test_login_is_signed),
        cmocka_unit_test(test_login_by_host),
        cmocka_unit_test(test_login_with_a_hashed_name),
        cmocka_unit_test(test_login_with_a_guess),
        cmocka_unit_test(test_what_is_never_signed),
        cmocka_unit_test(test_only_chosen_keys_sign),
        cmocka_unit_test(test_agent_dies_between),
        cmocka_unit_test(test_agent_that_lies),
        cmocka_unit_test(test_agent_that_hangs),
        cmocka_unit_test(test_too_many_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
