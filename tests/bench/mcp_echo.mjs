// The baseline of the MCP bench: the same tool in the official TypeScript SDK, stateless, with JSON answers. Arguments: PORT
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

createServer(async (req, res) => {
    if (req.method !== 'POST') { res.writeHead(200, { 'Content-Length': 2 }).end('ok'); return; }
    const server = new McpServer({ name: 'echo', version: '1' });
    server.registerTool('probe_echo', { inputSchema: { text: z.string() } }, async ({ text }) => ({ content: [{ type: 'text', text }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    res.on('close', () => { transport.close(); server.close(); });
    await server.connect(transport);
    await transport.handleRequest(req, res);
}).listen(Number(process.argv[2]), '127.0.0.1');
