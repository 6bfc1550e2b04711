/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that a review shows as one entry. A name alone is no proof: a folder with such a name and nothing of what its tool
 * leaves there is listed file by file. The first row that matches counts.
 */
#include "review/fold/fold.h"

#define NPM_LOCKS "package-lock.json|npm-shrinkwrap.json|yarn.lock|pnpm-lock.yaml|bun.lock"
#define PYTHON_LOCKS "uv.lock|poetry.lock|pdm.lock|Pipfile.lock|pylock.toml|requirements.lock|requirements.txt"
/* What virtualenv, venv and uv make; anything else in such a folder is work of a user. */
#define VENV_INSIDE "bin|lib|lib64|include|share|etc|man|Scripts|Lib|Include|pyvenv.cfg|.gitignore|.lock|CACHEDIR.TAG"

const struct fold_kind fold_kinds[] = {
    {
        .name = "npm",
        .what = "npm packages",
        .folder = "node_modules",
        .proof = {"../package.json"},
        .reason = "npm, yarn or pnpm puts it there by the lockfile, and 'npm ci' makes it anew",
        .min = 8,
        .reader = FOLD_MANIFEST,
        .file = "package.json",
        .locks = NPM_LOCKS,
        .commands = ".bin",
    },
    {
        .name = "bower",
        .what = "bower packages",
        .folder = "bower_components",
        .proof = {"../bower.json"},
        .reason = "bower puts it there by bower.json",
        .min = 8,
        .reader = FOLD_MANIFEST,
        .file = ".bower.json",
    },
    {
        .name = "yarn-cache",
        .what = "archives of yarn",
        .folder = ".yarn/cache|.yarn/unplugged",
        .proof = {"../../package.json"},
        .reason = "yarn puts archives there by yarn.lock, which has their hashes",
        .min = 8,
    },
    {
        .name = "venv",
        .what = "python packages",
        .folder = "*venv*|env|virtualenv|.virtualenv|.tox/*|.nox/*",
        .proof = {"pyvenv.cfg", "bin|Scripts|lib|Lib"},
        .inside = VENV_INSIDE,
        .reason = "pip or uv puts it there, and a new environment is made from the lockfile",
        .min = 8,
        .reader = FOLD_PYTHON,
        .locks = PYTHON_LOCKS,
        .commands = "bin",
    },
    {
        .name = "go-vendor",
        .what = "go modules",
        .folder = "vendor",
        .proof = {"../go.mod", "modules.txt"},
        .reason = "'go mod vendor' copies it by go.mod and go.sum",
        .min = 8,
        .reader = FOLD_LIST,
        .file = "modules.txt",
        .locks = "go.sum",
    },
    {
        .name = "composer",
        .what = "composer packages",
        .folder = "vendor",
        .proof = {"../composer.json", "composer/installed.json"},
        .reason = "composer puts it there by composer.lock",
        .min = 8,
        .reader = FOLD_LIST,
        .file = "composer/installed.json",
        .locks = "composer.lock",
        .commands = "bin",
    },
    {
        .name = "bundler",
        .what = "ruby gems",
        .folder = "vendor/bundle",
        .proof = {"../../Gemfile", "ruby"},
        .inside = "ruby",
        .reason = "bundler puts it there by Gemfile.lock",
        .min = 8,
    },
    {
        .name = "cargo-vendor",
        .what = "crates",
        .folder = "vendor",
        .proof = {"../Cargo.toml"},
        .reason = "'cargo vendor' copies it by Cargo.lock",
        .min = 8,
        .reader = FOLD_MANIFEST,
        .file = "Cargo.toml",
        .marker = ".cargo-checksum.json",
        .locks = "Cargo.lock",
    },
    {
        .name = "cargo-target",
        .what = "build output of cargo",
        .folder = "target",
        .proof = {"../Cargo.toml", "CACHEDIR.TAG|.rustc_info.json"},
        .reason = "cargo builds it; it is made anew by 'cargo clean' and a build, and run without one",
        .min = 8,
    },
    {
        .name = "pods",
        .what = "pods",
        .folder = "Pods",
        .proof = {"../Podfile", "Manifest.lock"},
        .reason = "CocoaPods puts it there by Podfile.lock",
        .min = 8,
    },
    {
        .name = "git-objects",
        .what = "git objects",
        .folder = ".git/objects|.git/modules/**/objects",
        .proof = {"../HEAD"},
        .reason = "an object does nothing until a ref, a log or the index leads to it, and is judged there",
        .min = 3,
        .strict = true,
    },
    {0},
};

const char *const fold_lock_names[] = {
    [FOLD_LOCK_NONE] = "none",       [FOLD_LOCK_AGREES] = "agrees", [FOLD_LOCK_PARTLY] = "partly",
    [FOLD_LOCK_DIFFERS] = "differs", [FOLD_LOCK_UNREAD] = "unread",
};
