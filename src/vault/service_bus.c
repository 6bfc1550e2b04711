/* SPDX-License-Identifier: Apache-2.0 */
/* The Secret Service by sd-bus. */
#include <errno.h>
#include <systemd/sd-bus.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "vault/service.h"
#include "vault/vault.h"

static const char service_name[] = "org.freedesktop.secrets", service_path[] = "/org/freedesktop/secrets";
static const char service_interface[] = "org.freedesktop.Secret.Service", item_interface[] = "org.freedesktop.Secret.Item";
static const char collection_interface[] = "org.freedesktop.Secret.Collection";
static const char *const attribute[SERVICE_WHATS] = {[SERVICE_NAME] = "name", [SERVICE_STORE] = "store"};

enum { OBJECT_MAX = 256 };

struct service {
    sd_bus *bus;
    uint64_t end_us;
    char session[OBJECT_MAX];
};

/* No flush: every call has had its answer, and a flush waits 90 s for a bus that says nothing. */
static void service_close(struct service *s) {
    s->bus = sd_bus_close_unref(s->bus);
}

static int too_slow(struct err *err) {
    return err_set(err, -ETIMEDOUT, "the Secret Service did not answer within %d s", VAULT_DBUS_TIMEOUT_MS / 1000);
}

static int locked_keyring(struct err *err) {
    return err_set(
        err, -ENOKEY,
        "the keyring of the Secret Service is locked: unlock it (log in to the desktop, or open its password manager)");
}

/* Names of D-Bus errors are from a fixed set; their texts are the service's, and not shown: they may hold anything. */
static int bus_failure(int r, const sd_bus_error *e, const char *what, struct err *err) {
    if (r == -ETIMEDOUT || sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) || sd_bus_error_has_name(e, SD_BUS_ERROR_TIMEOUT))
        return too_slow(err);
    if (sd_bus_error_has_name(e, "org.freedesktop.Secret.Error.IsLocked"))
        return locked_keyring(err);
    if (sd_bus_error_has_name(e, SD_BUS_ERROR_SERVICE_UNKNOWN) || sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER))
        return err_set(err, -ENOKEY, "there is no Secret Service on the session bus");
    return err_set(err, -ENOKEY, "the Secret Service cannot %s: %s", what, e->name ? e->name : strerror(-r));
}

/* sd-bus itself waits up to 90 s for a bus that accepts and says nothing. */
static int wait_ready(struct service *s, struct err *err) {
    int r;

    while ((r = sd_bus_is_ready(s->bus)) == 0) {
        uint64_t now = clock_us();

        if (now >= s->end_us)
            return too_slow(err);
        r = sd_bus_process(s->bus, NULL);
        if (r == 0)
            r = sd_bus_wait(s->bus, s->end_us - now);
        if (r < 0 && r != -EINTR)
            break;
    }
    return r < 0 ? err_set(err, -ENOKEY, "connect to the session bus: %s", strerror(-r)) : 0;
}

static int call(struct service *s, sd_bus_message *m, const char *what, sd_bus_message **ret, struct err *err) {
    CLEANUP(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    uint64_t now = clock_us();
    int r = now < s->end_us ? sd_bus_call(s->bus, m, s->end_us - now, &e, ret) : -ETIMEDOUT;

    return r < 0 ? bus_failure(r, &e, what, err) : 0;
}

static int not_composed(int r, struct err *err) {
    return err_sys(err, r, "compose a message");
}

static int start_call(struct service *s, const char *path, const char *interface, const char *method, sd_bus_message **ret,
                      struct err *err) {
    int r = sd_bus_message_new_method_call(s->bus, ret, service_name, path, interface, method);

    return r < 0 ? not_composed(r, err) : 0;
}

struct service_method {
    const char *interface, *name;
    const char *what; /* it does, for messages */
};

/* types: of the arguments that follow. */
static int ask_service(struct service *s, const char *path, const struct service_method *method, sd_bus_message **ret,
                       struct err *err, const char *types, ...) {
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *m = NULL;
    int r = start_call(s, path, method->interface, method->name, &m, err);
    va_list args;

    if (r < 0)
        return r;
    va_start(args, types);
    r = sd_bus_message_appendv(m, types, args);
    va_end(args);
    return r < 0 ? not_composed(r, err) : call(s, m, method->what, ret, err);
}

static int copy_object(char out[static OBJECT_MAX], const char *path, struct err *err) {
    if (snprintf(out, OBJECT_MAX, "%s", path) >= OBJECT_MAX)
        return err_set(err, -ENOKEY, "the Secret Service has a name that is too long");
    return 0;
}

static int not_understood(int r, struct err *err) {
    return err_sys(err, r == -ENXIO ? -EBADMSG : r, "the Secret Service's answer is not understood");
}

static int open_session(struct service *s, struct err *err) {
    static const struct service_method method = {service_interface, "OpenSession", "open a session"};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    const char *path;
    int r = ask_service(s, service_path, &method, &reply, err, "sv", "plain", "s", "");

    if (r < 0)
        return r;
    r = sd_bus_message_skip(reply, "v");
    r = r < 0 ? r : sd_bus_message_read(reply, "o", &path);
    return r < 0 ? not_understood(r, err) : copy_object(s->session, path, err);
}

static int service_open(struct service *s, struct err *err) {
    int r = sd_bus_open_user(&s->bus);

    if (r < 0)
        return err_set(err, -ENOKEY, "there is no session bus, so no Secret Service: %s", strerror(-r));
    s->end_us = clock_us() + (uint64_t)VAULT_DBUS_TIMEOUT_MS * 1000;
    r = wait_ready(s, err);
    return r < 0 ? r : open_session(s, err);
}

/* The first path of an array; -ENOENT if it is empty. */
static int first_path(sd_bus_message *m, char out[static OBJECT_MAX], struct err *err) {
    const char *path = NULL, *other;
    int r = sd_bus_message_enter_container(m, 'a', "o"), found;

    if (r < 0)
        return not_understood(r, err);
    found = sd_bus_message_read(m, "o", &path);
    while (found > 0 && (r = sd_bus_message_read(m, "o", &other)) > 0)
        continue;
    if (found < 0 || r < 0 || (r = sd_bus_message_exit_container(m)) < 0)
        return not_understood(found < 0 ? found : r, err);
    return found == 0 ? -ENOENT : copy_object(out, path, err);
}

static int search_items(struct service *s, enum service_what what, const char *id, char unlocked[static OBJECT_MAX],
                        char locked[static OBJECT_MAX], struct err *err) {
    static const struct service_method method = {service_interface, "SearchItems", "search"};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    int r = ask_service(s, service_path, &method, &reply, err, "a{ss}", 2, "application", "bawn", attribute[what], id);

    r = r < 0 ? r : first_path(reply, unlocked, err);
    if (r != -ENOENT)
        return r;
    unlocked[0] = 0;
    return first_path(reply, locked, err);
}

/* Only what opens without a question to the user: some services unlock by themselves. */
static int unlock_item(struct service *s, const char *path, struct err *err) {
    static const struct service_method method = {service_interface, "Unlock", "unlock the keyring"};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    char opened[OBJECT_MAX];
    int r = ask_service(s, service_path, &method, &reply, err, "ao", 1, path);

    r = r < 0 ? r : first_path(reply, opened, err);
    return r == -ENOENT ? locked_keyring(err) : r;
}

static int find_item(struct service *s, enum service_what what, const char *id, char ret[static OBJECT_MAX], struct err *err) {
    char unlocked[OBJECT_MAX], locked[OBJECT_MAX];
    int r = search_items(s, what, id, unlocked, locked, err);

    if (r == 0 && !unlocked[0])
        r = unlock_item(s, locked, err);
    if (r < 0)
        return r;
    memcpy(ret, unlocked[0] ? unlocked : locked, OBJECT_MAX);
    return 0;
}

static int read_secret(sd_bus_message *m, struct secret *ret, struct err *err) {
    const void *parameters, *value;
    size_t n, len;
    int r = sd_bus_message_enter_container(m, 'r', "oayays");

    r = r < 0 ? r : sd_bus_message_skip(m, "o");
    r = r < 0 ? r : sd_bus_message_read_array(m, 'y', &parameters, &n);
    r = r < 0 ? r : sd_bus_message_read_array(m, 'y', &value, &len);
    if (r < 0)
        return not_understood(r, err);
    if (secret_set(ret, value, len) < 0)
        return err_set(err, -E2BIG, "the value in the Secret Service has more than %zu bytes", ret->cap);
    return 0;
}

int service_get(enum service_what what, const char *id, struct secret *ret, struct err *err) {
    static const struct service_method method = {item_interface, "GetSecret", "give the value"};
    CLEANUP(service_close) struct service s = {0};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    char item[OBJECT_MAX];
    int r = service_open(&s, err);

    r = r < 0 ? r : find_item(&s, what, id, item, err);
    r = r < 0 ? r : ask_service(&s, item, &method, &reply, err, "o", s.session);
    if (r < 0)
        return r;
    sd_bus_message_sensitive(reply); /* zeroed when it goes */
    return read_secret(reply, ret, err);
}

static int default_collection(struct service *s, char ret[static OBJECT_MAX], struct err *err) {
    static const struct service_method method = {service_interface, "ReadAlias", "name its default keyring"};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    const char *path;
    int r = ask_service(s, service_path, &method, &reply, err, "s", "default");

    if (r < 0)
        return r;
    r = sd_bus_message_read(reply, "o", &path);
    if (r < 0)
        return not_understood(r, err);
    if (str_eq(path, "/"))
        return err_set(err, -ENOKEY, "the Secret Service has no default keyring: make one");
    return copy_object(ret, path, err);
}

static int append_item(sd_bus_message *m, const struct service *s, enum service_what what, const char *id, const char *label,
                       const struct secret *value) {
    int r =
        sd_bus_message_append(m, "a{sv}", 2, "org.freedesktop.Secret.Item.Label", "s", label,
                              "org.freedesktop.Secret.Item.Attributes", "a{ss}", 2, "application", "bawn", attribute[what], id);

    if (r < 0 || (r = sd_bus_message_open_container(m, 'r', "oayays")) < 0 ||
        (r = sd_bus_message_append(m, "o", s->session)) < 0 || (r = sd_bus_message_append_array(m, 'y', "", 0)) < 0 ||
        (r = sd_bus_message_append_array(m, 'y', value->p, value->len)) < 0 ||
        (r = sd_bus_message_append(m, "s", "text/plain")) < 0 || (r = sd_bus_message_close_container(m)) < 0)
        return r;
    return sd_bus_message_append(m, "b", 1); /* replace */
}

/* An answer whose last word is a prompt: a question to the user, which we do not start. */
static int no_prompt(sd_bus_message *reply, bool item_first, struct err *err) {
    const char *prompt;
    int r = item_first ? sd_bus_message_skip(reply, "o") : 0;

    r = r < 0 ? r : sd_bus_message_read(reply, "o", &prompt);
    if (r < 0)
        return not_understood(r, err);
    return str_eq(prompt, "/") ? 0 : locked_keyring(err);
}

int service_put(enum service_what what, const char *id, const char *label, const struct secret *value, struct err *err) {
    CLEANUP(service_close) struct service s = {0};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *m = NULL, *reply = NULL;
    char collection[OBJECT_MAX];
    int r = service_open(&s, err);

    r = r < 0 ? r : default_collection(&s, collection, err);
    r = r < 0 ? r : start_call(&s, collection, collection_interface, "CreateItem", &m, err);
    if (r < 0)
        return r;
    sd_bus_message_sensitive(m);
    r = append_item(m, &s, what, id, label, value);
    r = r < 0 ? not_composed(r, err) : call(&s, m, "store the value", &reply, err);
    return r < 0 ? r : no_prompt(reply, true, err);
}

int service_rm(enum service_what what, const char *id, struct err *err) {
    static const struct service_method method = {item_interface, "Delete", "remove the value"};
    CLEANUP(service_close) struct service s = {0};
    CLEANUP(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    char item[OBJECT_MAX];
    int r = service_open(&s, err);

    r = r < 0 ? r : find_item(&s, what, id, item, err);
    r = r < 0 ? r : ask_service(&s, item, &method, &reply, err, "");
    return r < 0 ? r : no_prompt(reply, false, err);
}
