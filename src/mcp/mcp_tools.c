/* SPDX-License-Identifier: Apache-2.0 */
/* The tools: their names, what models read about them, and their schemas. */
#include "mcp/mcp_priv.h"

#define OBJECT(properties, required) \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "],\"additionalProperties\":false}"
#define TEXT(name, what) "\"" name "\":{\"type\":\"string\",\"description\":\"" what "\"}"
#define NUMBER(name, least, most, what) \
    "\"" name "\":{\"type\":\"integer\",\"minimum\":" least ",\"maximum\":" most ",\"description\":\"" what "\"}"
#define COUNT(name, what) "\"" name "\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"" what "\"}"
#define FLAG(name, what) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" what "\"}"
#define LIST(name, what) "\"" name "\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"" what "\"}"
#define PATH TEXT("path", "relative to the project's folder, or absolute inside the sandbox")
#define HINTS(reads, destroys, same, world) \
    "{\"readOnlyHint\":" reads ",\"destructiveHint\":" destroys ",\"idempotentHint\":" same ",\"openWorldHint\":" world "}"

/* clang-format off */
const struct mcp_tool mcp_tools[] = {
    {"exec", "Run a command",
     "Runs a command in the sandbox and waits for it. Give command for /bin/sh -c, or argv to run a program without a shell. Output beyond "
     "max_output bytes of each stream is cut, and its size is in the answer.",
     OBJECT(TEXT("command", "for /bin/sh -c") "," LIST("argv", "a program and its arguments, without a shell") ","
            TEXT("cwd", "where it runs (default: the project's folder)") "," TEXT("stdin", "its standard input") ","
            NUMBER("timeout", "1", "604800", "seconds until it is ended, with exit status 124 (default: none)") ","
            NUMBER("max_output", "0", "1048576", "bytes of each stream that you get (default: 65536)"), ""),
     OBJECT("\"exit_status\":{\"type\":\"integer\"},\"signal\":{\"type\":\"integer\"}," FLAG("timed_out", "timeout was over") ","
            TEXT("stdout", "") "," TEXT("stderr", "") "," COUNT("stdout_cut", "bytes left out") "," COUNT("stderr_cut", "bytes left out") ","
            LIST("limits_hit", "limits of the sandbox") "," COUNT("duration_ms", ""),
            "\"exit_status\",\"signal\",\"timed_out\",\"stdout\",\"stderr\",\"stdout_cut\",\"stderr_cut\",\"limits_hit\",\"duration_ms\""),
     HINTS("false", "true", "false", "true"), mcp_tool_exec},
    {"read_file", "Read a file", "Lines of a text file in the sandbox, 2000 from the first on unless the call says otherwise.",
     OBJECT(PATH "," NUMBER("offset", "1", "1000000", "the first line (default: 1)") ","
            NUMBER("limit", "1", "1000000", "how many lines (default: 2000)"), "\"path\""),
     OBJECT(TEXT("path", "") "," TEXT("content", "") "," COUNT("offset", "the first line") "," COUNT("cut", "bytes left out"),
            "\"path\",\"content\",\"offset\",\"cut\""),
     HINTS("true", "false", "true", "false"), mcp_tool_read},
    {"write_file", "Write a file", "Writes a text file in the sandbox, in place of what it had; folders above it are made.",
     OBJECT(PATH "," TEXT("content", "all of the file"), "\"path\",\"content\""),
     OBJECT(TEXT("path", "") "," COUNT("bytes", ""), "\"path\",\"bytes\""), HINTS("false", "true", "true", "false"), mcp_tool_write},
    {"edit", "Edit a file", "Replaces old_text, which must be in the file exactly once, or with all any number of times, by new_text.",
     OBJECT(PATH "," TEXT("old_text", "exactly as it is in the file") "," TEXT("new_text", "") "," FLAG("all", "every place (default: false)"),
            "\"path\",\"old_text\",\"new_text\""),
     OBJECT(TEXT("path", "") "," COUNT("bytes", "of the file now") "," COUNT("replaced", "how often"), "\"path\",\"bytes\",\"replaced\""),
     HINTS("false", "true", "false", "false"), mcp_tool_edit},
    {"list_files", "List a folder", "Names in a folder of the sandbox, folders first.",
     OBJECT(PATH "," FLAG("recursive", "also what is below its folders (default: false)"), ""),
     OBJECT(TEXT("path", "") ",\"entries\":{\"type\":\"array\",\"items\":" OBJECT(TEXT("name", "") ","
            "\"kind\":{\"type\":\"string\",\"enum\":[\"folder\",\"file\",\"link\",\"other\"]}", "\"name\",\"kind\"") "}," FLAG("cut", "there is more"),
            "\"path\",\"entries\",\"cut\""),
     HINTS("true", "false", "true", "false"), mcp_tool_list},
    {"diff", "Show the changes", "What the sandbox changed of the project since it was started, as a patch.",
     OBJECT(LIST("paths", "only these, in .gitignore's syntax"), ""),
     OBJECT(FLAG("changed", "") "," TEXT("patch", ""), "\"changed\",\"patch\""), HINTS("true", "false", "true", "false"), mcp_tool_diff},
    {"review", "Review the changes", "What the sandbox changed that the host might execute, obey or be fooled by, the riskiest first.",
     OBJECT(LIST("paths", "only these, in .gitignore's syntax"), ""),
     OBJECT(FLAG("changed", "") "," FLAG("risky", "") ",\"report\":{\"type\":\"object\"}", "\"changed\",\"risky\",\"report\""),
     HINTS("true", "false", "true", "false"), mcp_tool_review},
    {"expose_port", "Reach a port of the sandbox", "Where a server that listens on this port inside can be reached on this machine.",
     OBJECT(NUMBER("port", "1", "65535", "inside the sandbox"), "\"port\""),
     OBJECT(NUMBER("port", "1", "65535", "") "," TEXT("address", "on this machine"), "\"port\",\"address\""),
     HINTS("true", "false", "true", "false"), mcp_tool_expose},
    {"request_access", "Ask a human for more",
     "Proposes a network rule (kind network, value HOST or HOST:PORT), a path of the host (kind path) or a package (kind package), with the "
     "reason. A human decides, now or never: it waits until they answer or the time is over, which counts as no.",
     OBJECT("\"kind\":{\"type\":\"string\",\"enum\":[\"network\",\"path\",\"package\"]}," TEXT("value", "what you want") ","
            TEXT("reason", "why, for the human"), "\"kind\",\"value\",\"reason\""),
     OBJECT(FLAG("granted", "") "," TEXT("how", "once, session, always or deny") "," TEXT("reason", "what the human said") ","
            TEXT("note", "what has to be done for it to take effect"), "\"granted\",\"how\",\"reason\",\"note\""),
     HINTS("false", "false", "false", "true"), mcp_tool_request},
};
/* clang-format on */
const size_t n_mcp_tools = sizeof mcp_tools / sizeof mcp_tools[0];
