// A conversation with the TypeScript SDK, of either era of the protocol. It
// reads orders from standard input, one a line, the first of which is {url,
// token, era}, and says on standard output what happened, one a line: {ready,
// session}, {changed}, and for an order of some id {id, progress} and in the
// end {id, result} or {id, error}.
import * as readline from "node:readline";

const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const orders = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { url, token, era } = JSON.parse((await orders.next()).value);

const options = {
  listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => say({ changed: true }) } },
};
const transportOptions = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
let client, transport, callTool;
if (era === "2026-07-28") {
  const sdk = await import("@modelcontextprotocol/client");
  client = new sdk.Client({ name: "conformance-ts", version: "2" }, { ...options, versionNegotiation: { mode: "auto" } });
  transport = new sdk.StreamableHTTPClientTransport(new URL(url), transportOptions);
  callTool = (call, more) => client.callTool(call, more);
} else {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  client = new Client({ name: "conformance-ts", version: "1" }, options);
  transport = new StreamableHTTPClientTransport(new URL(url), transportOptions);
  callTool = (call, more) => client.callTool(call, undefined, more);
}
await client.connect(transport);
say({ ready: true, session: transport.sessionId ?? "" });

const aborts = new Map();
const work = {
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: ({ id, name, arguments: args }) => {
    const abort = new AbortController();
    aborts.set(id, abort);
    const onprogress = (progress) => say({ id, progress });
    return callTool({ name, arguments: args }, { onprogress, signal: abort.signal, resetTimeoutOnProgress: true });
  },
  abort: async ({ of }) => aborts.get(of).abort(),
  end: async () => {
    if (transport.sessionId) await transport.terminateSession();
    await client.close();
  },
};
for await (const line of orders) {
  const order = JSON.parse(line);
  work[order.do](order).then(
    (result) => say({ id: order.id, result: result ?? null }),
    (error) => say({ id: order.id, error: String(error) }),
  );
}
