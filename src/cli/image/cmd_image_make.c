/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn image from-host` and `bawn image build`. */
#include "base/err.h"
#include "cli/verb.h"
#include "ops/image/image_make.h"
#include "supervisor/session/progress_bar.h"

struct host_line {
    struct image_host_request host;
};

static const struct opt host_opts[] = {
    {0, 't', "tag", "NAME", "what it is called (default: localhost/bawn/host:latest)", NULL,
     OPT_TO_TEXT(struct host_line, host.name)},
    {0, 0, "to", "PLACE", "where it goes (default: store, for 'bawn run --image')", "store|docker|podman",
     OPT_TO_ENUM(struct host_line, host.place, image_place_names)},
};

static int run_from_host(struct verb_call *c, struct err *err) {
    CLEANUP(image_pulled_done) struct image_pulled made = {0};
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("making the image");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    struct host_line q = {.host = {.name = "localhost/bawn/host:latest", .progress = &progress}};
    int r = verb_parse(c, &q, c->argc, err);

    bar.of_bytes = true;
    q.host.paths = c->argv + 1;
    q.host.n = r < 0 ? 0 : (size_t)r;
    r = r < 0 ? r : image_from_host(&q.host, &made, err);
    if (r == 0)
        buf_addf(&c->out, "%s\n", made.name);
    return r;
}

const struct verb verb_image_from_host = {
    .name = "image from-host",
    .summary = "make an image of this machine's own programs",
    .synopsis = "[options] [PATH...]",
    .description =
        "Makes an image of what a sandbox without one has inside: /usr, /opt, and the parts of /etc that hold no secrets. It goes into the store, or to "
        "Docker or Podman, and needs no registry. With PATHs it has these instead. All files belong to root; what you may not read is left out.\n\n"
        "    bawn image from-host --to docker\n"
        "    bawn image from-host -t tools /usr/local /usr/bin/busybox",
    VERB_OPTS(host_opts),
    .run = run_from_host,
};

static const struct opt build_opts[] = {
    {0, 't', "tag", "NAME", "what it is called (default: localhost/bawn/RECIPE:latest)", NULL,
     OPT_TO_TEXT(struct image_build_request, name)},
    {0, 0, "with", "ENGINE", "build with this one (default: the first that is there)", "podman|docker",
     OPT_TO_WORD(struct image_build_request, engine)},
};

static int run_build(struct verb_call *c, struct err *err) {
    CLEANUP(image_pulled_done) struct image_pulled made = {0};
    struct image_build_request q = {0};
    int r = verb_parse(c, &q, 1, err);

    if (r == 0)
        r = err_usage(err, "which recipe? minimal, python, node, full, or a folder with a Containerfile");
    q.recipe = c->argv[1];
    r = r < 0 ? r : image_build(&q, &made, err);
    if (r == 0)
        buf_addf(&c->out, "%s\n", made.name);
    return r;
}

const struct verb verb_image_build = {
    .name = "image build",
    .summary = "build an image from a recipe with Podman or Docker",
    .synopsis = "[options] minimal|python|node|full|DIR",
    .description =
        "Builds one of Bawn's recipes, or the Containerfile of a folder, and puts the result into the store. Podman or Docker builds it, with your rights "
        "and its own network: a recipe of strangers is not for this.\n\n"
        "    bawn image build python\n"
        "    bawn run --image localhost/bawn/python -- python3 --version",
    VERB_OPTS(build_opts),
    .run = run_build,
};
