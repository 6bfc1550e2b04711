// SPDX-License-Identifier: Apache-2.0
// The official client of the Model Context Protocol against `bawn mcp`: node mcp_sdk.mjs FOLDER-OF-NODE_MODULES BAWN [URL TOKEN]. With a URL it speaks
// streamable HTTP with a server that runs. Prints what it saw as JSON.
import { pathToFileURL } from "node:url";

const [modules, bawn, url, token] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${modules}/node_modules/@modelcontextprotocol/sdk/dist/esm/${name}`).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "bawn-test", version: "1.0.0" });
const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
    : new StdioClientTransport({ command: bawn, args: ["mcp"], env: process.env });
await client.connect(transport);
const seen = { server: client.getServerVersion(), tools: (await client.listTools()).tools.map((tool) => tool.name) };
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;

seen.exec = await call("exec", { command: "echo hello; exit 3" });
seen.written = await call("write_file", { path: "made.txt", content: "one\ntwo\n" });
seen.edited = await call("edit", { path: "made.txt", old_text: "two", new_text: "2" });
seen.read = await call("read_file", { path: "made.txt" });
seen.listed = await call("list_files", {});
seen.failed = (await client.callTool({ name: "read_file", arguments: { path: "missing" } })).isError;
try {
    await client.callTool({ name: "exec", arguments: { command: 7 } });
} catch (error) {
    seen.code = error.code;
}
let progress = 0;
await client.callTool({ name: "exec", arguments: { command: "for i in 1 2 3; do echo $i; sleep 0.7; done" } }, undefined, { onprogress: () => progress++ });
seen.progress = progress;
const stop = new AbortController();
const long = client.callTool({ name: "exec", arguments: { command: "echo begun > begun; sleep 7654" } }, undefined, { signal: stop.signal });
while (!(await call("list_files", {})).entries.some((entry) => entry.name === "begun"));
stop.abort("enough");
seen.cancelled = await long.then(() => "answered", () => "cancelled");
seen.after = (await call("exec", { command: "for i in $(seq 100); do ps ax | grep -q '[s]leep 7654' || break; sleep 0.1; done; ps ax | grep -c '[s]leep 7654'" })).stdout;
if (url) {
    seen.session = transport.sessionId;
    await transport.terminateSession();
}
await client.close();
console.log(JSON.stringify(seen));
