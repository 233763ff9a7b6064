// An agent made of the TypeScript SDK. It reads {url, token, calls: [{name,
// arguments}]} from standard input, lists the tools, makes the calls, and
// prints {tools, calls: [{name, result, error, progress}]}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { text } from "node:stream/consumers";

const { url, token, calls } = JSON.parse(await text(process.stdin));
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const client = new Client({ name: "conformance-ts", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

const tools = [];
for (let cursor; ; ) {
  const page = await client.listTools(cursor ? { cursor } : {});
  tools.push(...page.tools);
  cursor = page.nextCursor;
  if (!cursor) break;
}

const made = [];
for (const call of calls) {
  const progress = [];
  const onprogress = (p) => progress.push(p);
  try {
    const result = await client.callTool(call, undefined, { onprogress, resetTimeoutOnProgress: true });
    made.push({ name: call.name, result, progress });
  } catch (error) {
    made.push({ name: call.name, error: String(error), progress });
  }
}
console.log(JSON.stringify({ tools, calls: made }));
await client.close();
