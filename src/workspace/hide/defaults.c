/* SPDX-License-Identifier: Apache-2.0 */
/* The table of default rules. */
#include "workspace/hide/defaults.h"

#include "workspace/hide/ignore.h"

const struct ignore_default ignore_defaults[] = {
    {"# What a sandbox must not see. Same syntax as .gitignore; the last pattern that matches decides. A file in a", {0}},
    {"# subfolder adds rules for that folder. Commit this file and review changes to it: `!pattern` shows a file to", {0}},
    {"# every agent. `bawn init --check` compares it with the recommended set.", {0}},
    {"", {0}},
    {"# Environment files; templates without values are shown", {0}},
    {".env", {".env", "web/.env"}},
    {".env.*", {".env.local", ".env.production", "web/.env.staging"}},
    {"!.env.example", {0}},
    {"!.env.sample", {0}},
    {"!.env.template", {0}},
    {".envrc", {".envrc", "web/.envrc"}},
    {"", {0}},
    {"# Private keys, certificates that come with one, key stores", {0}},
    {"*.pem", {"server.pem", "certs/server.pem"}},
    {"*.key", {"server.key", "certs/server.key"}},
    {"*.p12", {"client.p12", "certs/client.p12"}},
    {"*.pfx", {"client.pfx", "certs/client.pfx"}},
    {"*.keystore", {"release.keystore", "android/release.keystore"}},
    {"*.jks", {"release.jks", "android/release.jks"}},
    {"*.ppk", {"host.ppk", "deploy/host.ppk"}},
    {"id_rsa*", {"id_rsa", "deploy/id_rsa", "id_rsa_backup"}},
    {"id_dsa*", {"id_dsa", "deploy/id_dsa"}},
    {"id_ecdsa*", {"id_ecdsa", "deploy/id_ecdsa"}},
    {"id_ed25519*", {"id_ed25519", "deploy/id_ed25519"}},
    {".ssh/", {".ssh/config"}},
    {".gnupg/", {".gnupg/secring.gpg"}},
    {"", {0}},
    {"# Clouds and clusters", {0}},
    {".aws/", {".aws/credentials", "deploy/.aws/credentials"}},
    {".gcp/", {".gcp/token", "deploy/.gcp/token"}},
    {".azure/", {".azure/accessTokens", "deploy/.azure/accessTokens"}},
    {".kube/", {".kube/config", "deploy/.kube/config"}},
    {"credentials.json", {"credentials.json", "api/credentials.json"}},
    {"service-account*.json", {"service-account.json", "service-account-prod.json", "api/service-account.json"}},
    {"*.kubeconfig", {"prod.kubeconfig", "deploy/prod.kubeconfig"}},
    {"kubeconfig", {"kubeconfig", "deploy/kubeconfig"}},
    {"terraform.tfstate*", {"terraform.tfstate", "terraform.tfstate.backup", "infra/terraform.tfstate"}},
    {"", {0}},
    {"# Tools that keep a password or token in a file. An .npmrc without a token may be shown again: !/.npmrc", {0}},
    {".netrc", {".netrc", "ci/.netrc"}},
    {".npmrc", {".npmrc", "web/.npmrc"}},
    {".pypirc", {".pypirc", "ci/.pypirc"}},
    {".pgpass", {".pgpass"}},
    {".htpasswd", {".htpasswd", "web/.htpasswd"}},
    {".git-credentials", {".git-credentials", "ci/.git-credentials"}},
    {".vault-token", {".vault-token"}},
    {"**/.docker/config.json", {".docker/config.json", "ci/.docker/config.json"}},
};
const size_t n_ignore_defaults = ARRAY_LEN(ignore_defaults);

void defaults_text(struct buf *b) {
    for (size_t i = 0; i < n_ignore_defaults; i++) {
        buf_adds(b, ignore_defaults[i].line);
        buf_addc(b, '\n');
    }
}

int defaults_add(struct ignore *ig, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(DEFAULTS_TEXT_MAX);

    defaults_text(&b);
    if (!buf_ok(&b))
        return err_oom(err);
    return ignore_add_file(ig, "", DEFAULTS_ORIGIN, b.data, b.len, err);
}
