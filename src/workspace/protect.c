#include "workspace/protect.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "workspace/ignore.h"

/* `NAME` and then `!NAME/`: a folder is fine, and judged by what is in it; a file or a link of that name is not, because a link
 * could lead to a folder in which everything may be written (ATTACKS 3). */
const char protect_defaults[] =
    "# What a command in a sandbox may not write, because programs on the host run or obey it. Same syntax as\n"
    "# .gitignore; the last pattern that matches decides.\n"
    "\n"
    "# git: hooks and configuration of this repository, its submodules and worktrees, and of repositories in subfolders.\n"
    "# A .git that is a file leads git to a folder of its choice, commondir to a configuration of its choice. Attributes\n"
    "# that git diff does not show switch on filters. Sparse checkout and submodules are configuration, too.\n"
    ".git\n"
    "!.git/\n"
    "**/.git/hooks\n"
    "**/.git/config\n"
    "**/.git/config.worktree\n"
    "**/.git/commondir\n"
    "**/.git/gitdir\n"
    "**/.git/info\n"
    "!**/.git/info/\n"
    "**/.git/info/attributes\n"
    "**/.git/modules\n"
    "!**/.git/modules/\n"
    "**/.git/modules/**/hooks\n"
    "**/.git/modules/**/config\n"
    "**/.git/modules/**/config.worktree\n"
    "**/.git/modules/**/commondir\n"
    "**/.git/modules/**/gitdir\n"
    "**/.git/modules/**/info/attributes\n"
    "**/.git/worktrees\n"
    "!**/.git/worktrees/\n"
    "**/.git/worktrees/*/config\n"
    "**/.git/worktrees/*/config.worktree\n"
    "**/.git/worktrees/*/commondir\n"
    "**/.git/worktrees/*/gitdir\n"
    "**/.git/worktrees/*/hooks\n"
    ".husky\n"
    "\n"
    "# Editors that run tasks, language servers or settings of the folder they open\n"
    ".vscode\n"
    "!.vscode/\n"
    "**/.vscode/tasks.json\n"
    "**/.vscode/launch.json\n"
    "**/.vscode/settings.json\n"
    "**/.vscode/mcp.json\n"
    "**/.vscode/extensions.json\n"
    "*.code-workspace\n"
    ".idea\n"
    "*.run.xml\n"
    ".fleet\n"
    ".zed\n"
    ".helix\n"
    ".exrc\n"
    ".nvimrc\n"
    ".nvim.lua\n"
    ".dir-locals.el\n"
    ".dir-locals-2.el\n"
    "*.sublime-project\n"
    ".devcontainer\n"
    ".devcontainer.json\n"
    "\n"
    "# Read by the shell when somebody enters the folder\n"
    ".envrc\n"
    ".mise\n"
    ".mise.toml\n"
    ".mise.*.toml\n"
    "mise.toml\n"
    "mise.*.toml\n"
    ".config\n"
    "!.config/\n"
    "**/.config/mise\n"
    "**/.config/mise.toml\n"
    ".rtx.toml\n"
    ".rvmrc\n"
    ".autoenv\n"
    ".autoenv.zsh\n"
    "\n"
    "# Agents: hooks, permissions, MCP servers, commands. What only instructs them (rules, AGENTS.md) is left to review\n"
    ".mcp.json\n"
    ".claude\n"
    "!.claude/\n"
    "**/.claude/settings*.json\n"
    "**/.claude/hooks\n"
    "**/.claude/plugins\n"
    "**/.claude/skills\n"
    "**/.claude/commands\n"
    "**/.claude/agents\n"
    ".cursor\n"
    "!.cursor/\n"
    "**/.cursor/*\n"
    "!**/.cursor/rules/\n"
    ".windsurf\n"
    "!.windsurf/\n"
    "**/.windsurf/*\n"
    "!**/.windsurf/rules/\n"
    ".codex\n"
    ".gemini\n"
    ".qwen\n"
    ".opencode\n"
    "opencode.json\n"
    "opencode.jsonc\n"
    ".continue\n"
    ".continuerc.json\n"
    ".aider*.yml\n"
    ".crush.json\n"
    "crush.json\n"
    ".amazonq\n"
    ".amp\n"
    ".factory\n"
    ".copilot\n"
    ".github\n"
    "!.github/\n"
    "**/.github/hooks\n"
    "**/.github/copilot\n"
    ".roo\n"
    "!.roo/\n"
    "**/.roo/mcp.json\n"
    ".kilocode\n"
    "!.kilocode/\n"
    "**/.kilocode/mcp.json\n"
    ".trae\n"
    "!.trae/\n"
    "**/.trae/mcp.json\n"
    ".kiro\n"
    "!.kiro/\n"
    "**/.kiro/hooks\n"
    "**/.kiro/settings\n"
    ".clinerules\n"
    "!.clinerules/\n"
    "**/.clinerules/hooks\n"
    "\n"
    "# Bawn itself\n"
    ".bawn\n"
    ".sandboxignore\n";

enum { LINES_MAX = IGNORE_FILE_MAX };

/* A name can hold what would mean something else in a pattern, or end its line: '?' stands for that and protects a bit more. */
static void add_quoted(struct buf *b, const char *path) {
    buf_addc(b, '/');
    for (const char *p = path; *p; p++) {
        if (strchr("*?[\\", *p))
            buf_addc(b, '\\');
        buf_addc(b, (unsigned char)*p <= ' ' ? '?' : *p);
    }
}

int protect_add_path(struct strv *lines, const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(LINES_MAX);

    if (path[0] == 0 || path[0] == '/' || str_eq(path, "."))
        return err_set(err, -EINVAL, "git is told to look for hooks or configuration in '%s', which cannot be write-protected",
                       path);
    add_quoted(&line, path);
    return buf_ok(&line) && strv_add(lines, buf_str(&line)) == 0 ? 0 : err_oom(err);
}

static int add_lines(struct ignore *ig, const char *origin, const struct strv *lines, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(LINES_MAX);

    for (size_t i = 0; i < lines->len; i++) {
        buf_adds(&text, lines->v[i]);
        buf_addc(&text, '\n');
    }
    if (!buf_ok(&text))
        return err_set(err, -EFBIG, "the list of protected paths is longer than %d bytes", LINES_MAX);
    return ignore_add_file(ig, "", origin, buf_str(&text), text.len, err);
}

int protect_rules(const struct strv *extra, const char *hooks_path, struct ignore **ret, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    CLEANUP(strv_done) struct strv hooks = {0};
    int r;

    if (!ig)
        return err_oom(err);
    r = ignore_add_file(ig, "", "(built-in)", protect_defaults, strlen(protect_defaults), err);
    if (r >= 0 && hooks_path)
        r = protect_add_path(&hooks, hooks_path, err);
    r = r < 0 ? r : add_lines(ig, "core.hooksPath", &hooks, err);
    if (r >= 0 && extra)
        r = add_lines(ig, "workspace.protect", extra, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(ig);
    return 0;
}
