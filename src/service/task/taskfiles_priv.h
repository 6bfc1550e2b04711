/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of bawn-task that work on a workspace. */
#pragma once

struct err;

/* PATH 0|1 LIMIT AFTER: FileList of spec/openapi.yaml on stdout; 1: also what is below. AFTER "": from the beginning. */
int taskfiles_list(char **args, struct err *err);

/* taskexpose.c: SANDBOX PORT; stdin: the listener */
int taskfiles_expose(char **args, struct err *err);

/* taskwatch.c, taskusage.c */
int taskfiles_watch(char **args, struct err *err);
int taskfiles_usage(char **args, struct err *err);

/* tasksource.c: BAWN; stdin: the request */
int taskfiles_source(char **args, struct err *err);

/* taskforget.c: [PROGRAM ARG...], which it becomes afterwards */
int taskfiles_forget(char **args, struct err *err);

/* taskitems.c: HOW LIMIT PROGRAM ARG... */
int taskfiles_items(char **args, struct err *err);
